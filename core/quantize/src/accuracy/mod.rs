//! How near a quantized model is to the float model, value by value, on samples.

mod agreement;
mod base;
mod classes;
mod compare;
mod first_pass;
mod prompts;
mod quality;
mod samples;
mod score;

pub use agreement::{
    Agreement, Pair, ReferenceOutputs, agreements, each_agreement, references, selected,
};
pub use base::Base;
pub use classes::{classes, top1};
pub(crate) use compare::{COMPARED_MAX, KEPT_MAX, layers, outputs};
pub use compare::{float_outputs, layers_db, output_names, outputs_db, score};
pub use first_pass::FirstPass;
pub(crate) use quality::random_samples;
pub use quality::{Held, cover, measure};
pub use samples::{SampleSet, default_samples};
pub use score::Score;

use crate::observe::Feeds;
use onnxd_diagnostics::Diagnostics;

/// Samples, from the beginning each time.
pub type Samples<'s> = &'s dyn Fn() -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 's>;
