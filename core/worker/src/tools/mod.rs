//! What the command line does with models without a job: check, print, evaluate, compare.

pub mod arrays;
mod check;
mod compare;
mod evaluate;
mod print;

pub use check::check;
pub use compare::{Comparison, compare};
pub use evaluate::{Evaluated, Timed, bench, evaluate};
pub use print::{Summary, print, summary};
