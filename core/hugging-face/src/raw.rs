//! Tensors as files have them, for those who read bytes by themselves.

use bytes::Bytes;

/// A tensor as it is stored: the name of its elements' type, its sizes with the outermost axis first, and its bytes.
pub(crate) struct Raw {
    pub(crate) kind: String,
    pub(crate) dims: Vec<usize>,
    pub(crate) bytes: Bytes,
}

/// The tensors of a checkpoint by the names that they have there.
pub(crate) type Find<'a> = dyn Fn(&str) -> Option<Raw> + 'a;
