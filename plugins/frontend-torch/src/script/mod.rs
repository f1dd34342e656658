//! TorchScript: the printed code and the objects that it works on.

pub(crate) mod ast;
pub(crate) mod types;
