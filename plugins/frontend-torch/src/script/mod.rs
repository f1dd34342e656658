//! TorchScript: the printed code and the objects that it works on.

pub(crate) mod ast;
pub(crate) mod debug;
mod definition;
mod expression;
mod lexer;
pub(crate) mod library;
pub(crate) mod parse;
mod statement;
#[cfg(test)]
mod tests;
pub(crate) mod types;
