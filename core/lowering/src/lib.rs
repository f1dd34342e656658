//! Lowering a framework's operators: tables of functions, and the driver that applies them.
//!
//! A front-end reads its file into a sequence of operators and hands each to a [`Driver`], which finds
//! the row of a [`Table`], takes the arguments out into the function's own struct, and lets it add
//! nodes with the graph builder:
//!
//! ```ignore
//! arguments! {
//!     /// `clip(Tensor x, float min, float max=6)`
//!     struct Clip { x: Var, min: f64, max: f64 = 6.0 }
//! }
//!
//! fn clip(b: &Lower, a: Clip) -> Lowered<Var> {
//!     b.clip(a.x).min(a.min).max(a.max).one()
//! }
//!
//! let table = Table::new().row("clip", clip);
//! ```
//!
//! An operator that cannot be lowered leaves a hole ([`Value::Hole`]). What reads it is still looked
//! at, but says nothing of its own; so [`Driver::finish`] reports everything that is missing at once,
//! each operator with its number of places and the first of them.
//!
//! A plugin may lower single operators for all front-ends: the SDK's `lowering!` makes a pass of such a table.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]
#![warn(missing_docs)]

mod arguments;
mod driver;
pub mod flow;
mod foreign;
mod missing;
mod model;
#[cfg(feature = "pass")]
mod pass;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use arguments::{Argument, Arguments, Reader, WrongArgument};
pub use driver::{Driver, Fallback, Finished, Lower, Lowering};
pub use missing::Missing;
pub use model::{documented, model};
#[cfg(feature = "pass")]
pub use pass::pass;
pub use table::{Results, Table};
pub use value::Value;

/// What a lowering gives, or why it cannot.
pub type Lowered<T> = Result<T, onnxd_diagnostics::Diagnostic>;
