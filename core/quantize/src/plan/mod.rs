//! What is asked for, and which values and operators therefore are quantized.

pub(crate) mod checks;
pub(crate) mod opt_in;
pub mod params;
pub(crate) mod planner;
pub(crate) mod propagation;
pub(crate) mod request;

pub use checks::Unmatched;
pub use planner::{QuantizePlan, Quantized, plan};
pub use propagation::Propagation;
pub use request::{Overrides, QuantizeRequest, Remedies, Settings};
