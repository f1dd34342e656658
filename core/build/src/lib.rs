//! Building graphs: [`GraphBuilder`] adds nodes so that a lowering reads like its formula.
//!
//! ```ignore
//! let mean = b.reduce_mean(x).axes(&axes).one()?;
//! let d = b.sub(x, mean)?;
//! let variance = b.reduce_mean(b.mul(d, d)?).axes(&axes).one()?;
//! b.div(d, b.sqrt(b.add(variance, 1e-5)?)?)
//! ```
//!
//! Each node is checked against the operator table when it is added: counts, attributes, types and
//! shapes. What contradicts is an error at once, with the layer that the node was built for. The
//! builder knows the version of the operators, so one call gives the right form in each of them:
//! `axes` above is an attribute before opset 18 and an input since. Shape arithmetic whose result is
//! known becomes a constant, and operands of different element types are cast as NumPy does.
//!
//! A graph that exists is changed by the same builder (`edit.rs`): [`GraphBuilder::stand_in`] builds
//! what computes what a node did, [`GraphBuilder::replace`] lets what was built do so,
//! [`GraphBuilder::detach`] puts nodes behind one, and [`GraphBuilder::restate`] moves attributes and
//! inputs to where another version takes them.
//!
//! `operators` has a method for each operator of the standard, by families; `tests/generated.rs` writes
//! it from the operator table.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

mod builder;
mod call;
mod checked;
mod control;
mod draft;
mod edit;
mod fold;
mod function;
mod macros;
mod modes;
mod names;
mod node_names;
mod operand;
mod operators;
mod promote;
mod result;
#[cfg(test)]
mod tests;

pub use builder::{GraphBuilder, Var};
pub use call::Call;
pub use control::{Suspended, Turn};
pub use operand::Operand;
pub use operators::{ml_op as ml, op};
pub use promote::promoted;
pub use result::Result;
