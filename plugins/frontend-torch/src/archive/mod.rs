//! What a file is, its members, the objects and tensors in it.

pub(crate) mod pickle;
pub(crate) mod storage;
