//! Tensors as files have them, for those who read bytes by themselves.

use bytes::Bytes;

/// A tensor as it is stored: the name of its elements' type, and its sizes with the outermost axis first.
pub(crate) struct Raw {
    pub(crate) kind: String,
    pub(crate) dims: Vec<usize>,
    /// Its elements row by row, if they lie so.
    pub(crate) bytes: Option<Bytes>,
}

/// The tensors of a checkpoint by the names that they have there.
pub(crate) type Find<'a> = dyn Fn(&str) -> Option<Raw> + 'a;
