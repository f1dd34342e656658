//! What a pickle refers to outside of itself, and how much its calls may copy.

use crate::problem::over_limit;
use crate::storage::{Storages, StoredTensor};
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::DataType;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Values that calls copy out of containers. A container can be given to many calls.
const COPIES_MAX: usize = 1 << 21;
/// Bytes of text that count as one of them.
const TEXT_BYTES: usize = 32;

/// What a pickle refers to.
#[derive(Debug, Default)]
pub struct Context<'a> {
    /// Where tensors have their elements. Without it no tensor is made, and storages are noted only.
    pub storages: Option<&'a Storages<'a>>,
    /// The tensors that `build_tensor_from_id` counts.
    pub table: &'a [Rc<StoredTensor>],
    /// Whether integers of one byte have a sign, as in files of torch 1.1.
    pub signed: bool,
    /// Storages by key, with the type and number of their elements.
    pub seen: RefCell<BTreeMap<String, (DataType, usize)>>,
    /// How many values calls have copied.
    pub copied: Cell<usize>,
}

impl Context<'_> {
    /// Counts values before they are copied.
    pub(super) fn copies(&self, count: usize) -> Result<(), Diagnostic> {
        self.copied.set(self.copied.get().saturating_add(count));
        match self.copied.get() <= COPIES_MAX {
            true => Ok(()),
            false => Err(over_limit(format!("the pickle copies more than {COPIES_MAX} values"))),
        }
    }

    /// Counts text before it is copied.
    pub(super) fn copies_text(&self, text: &str) -> Result<(), Diagnostic> {
        self.copies(text.len() / TEXT_BYTES + 1)
    }
}
