//! Lowering a framework's operators: tables of functions, and the driver that applies them.
//!
//! A front-end reads its file into a sequence of operators and hands each to a [`Driver`], which finds
//! the row of a [`Table`], takes the arguments that the row names, and lets its function add nodes with the graph
//! builder:
//!
//! ```ignore
//! fn clip(b: &Lower, x: Var, min: f64, max: Option<f64>) -> Lowered<Var> {
//!     b.clip(x).min(min).max(max.unwrap_or(6.0)).one()
//! }
//!
//! let table = rows! { Table::new(); "clip" => clip(x, min, max); };
//! ```
//!
//! Functions with many arguments take them as a struct that [`arguments!`] declares.
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

pub use arguments::{Argument, ArgumentReader, Parameter, Rest, WrongArgument};
pub use driver::{Driver, Fallback, Finished, Lower, Lowering};
pub use missing::Missing;
pub use model::{documented, model};
#[cfg(feature = "pass")]
pub use pass::pass;
pub use table::{LowerWith, Results, Table};
pub use value::Value;

/// What a lowering gives, or why it cannot.
pub type Lowered<T> = Result<T, onnxd_diagnostics::Diagnostic>;
