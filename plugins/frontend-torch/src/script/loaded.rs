//! What of an archive is loaded, and the names of its parts.

use crate::archive::pickle::Object;
use crate::archive::storage::StorageView;
use crate::machine::{Instance, Item};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What was loaded already, so that what is shared stays shared.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) objects: RefCell<HashMap<*const Object, Rc<Instance>>>,
    pub(super) containers: RefCell<HashMap<*const u8, Item>>,
    pub(super) tensors: RefCell<HashMap<StorageView, Item>>,
}

/// The name of a part of what is at `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}
