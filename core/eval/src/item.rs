//! What a value of a graph holds while it runs: a tensor, a sequence of tensors, or the empty
//! optional. An optional that has an element is that element.

use crate::fault::{Fault, Outcome};
use onnxd_ir::Tensor;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Tensor(Tensor),
    Sequence(Arc<Vec<Tensor>>),
    /// The optional without an element.
    Empty,
}

impl Item {
    pub(crate) fn sequence(list: Vec<Tensor>) -> Item {
        Item::Sequence(Arc::new(list))
    }

    /// The tensor, if it is one.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Item::Tensor(x) => Some(x),
            _ => None,
        }
    }

    /// The tensor that it must be.
    pub(crate) fn into_tensor(self) -> Outcome<Tensor> {
        let kind = self.kind();
        match self {
            Item::Tensor(x) => Ok(x),
            _ => Err(Fault::invalid(format!("{kind} where a tensor is needed"))),
        }
    }

    /// In words, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Item::Tensor(_) => "a tensor",
            Item::Sequence(_) => "a sequence",
            Item::Empty => "an empty optional",
        }
    }

    /// Bytes it takes; tensors without elements also take some in a sequence.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Item::Tensor(x) => x.byte_len(),
            Item::Sequence(list) => list.iter().map(|x| x.byte_len() + size_of::<Tensor>()).sum(),
            Item::Empty => 0,
        }
    }
}

/// Items that must all be tensors.
pub(crate) fn tensors(items: Vec<Item>) -> Outcome<Vec<Tensor>> {
    items.into_iter().map(Item::into_tensor).collect()
}

/// Tensors as items.
pub(crate) fn items(tensors: Vec<Tensor>) -> Vec<Item> {
    tensors.into_iter().map(Item::Tensor).collect()
}
