//! What the command line does with models without a job: check, print, evaluate, compare.

mod check;
mod compare;
mod evaluate;
mod observe;
mod print;
mod running;

pub use check::check;
pub use compare::{Compared, Comparison, compare};
pub use evaluate::{Evaluated, Task, Timed, bench, evaluate};
pub use observe::{Observation, observe};
pub use onnxd_arrays as arrays;
pub use onnxd_quantize::observe::{BINS_MAX, Stats};
pub use print::{Summary, Typed, print, summary, types};
pub use running::{EngineAvailability, EngineName, ModelRunOptions, Optimization, engines};
