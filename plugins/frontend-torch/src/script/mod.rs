//! TorchScript: the printed code and the objects that it works on.

mod annotation;
mod calls;
pub(crate) mod debug;
mod definition;
mod expression;
mod flow;
pub(crate) mod import;
mod kept;
mod lexer;
pub(crate) mod library;
mod loaded;
mod method;
mod objects;
pub(crate) mod parse;
mod places;
pub(crate) mod run;
mod statement;
mod states;
#[cfg(test)]
mod tests;
mod writes;
