//! TorchScript: the printed code and the objects that it works on.

pub(crate) mod ast;
mod definition;
mod expression;
mod lexer;
pub(crate) mod parse;
mod statement;
pub(crate) mod types;
