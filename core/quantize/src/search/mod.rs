//! What makes integers more accurate.

mod adaround;
mod adaround_weights;
mod bias_correction;
mod bias_from_means;
pub(crate) mod channel_scales;
mod cross_validation;
mod dynamic_search;
mod equalize;
mod float_fallback;
mod folds;
mod progress;
mod remedies;
mod saved_calibration;
mod smooth_quant;
mod static_scores;
mod static_search;
mod static_trials;
mod trial;
mod weight_only;

pub use adaround::{AdaRoundOptions, Rounding, adaround};
pub use adaround_weights::AdaRoundWeights;
pub use bias_correction::correct_biases;
pub use bias_from_means::correct_biases_from_means;
pub use dynamic_search::search_dynamic;
pub use equalize::equalized;
pub use smooth_quant::{SmoothableActivation, expected, magnitudes, sites, smoothed};
pub use static_search::search_static;
pub use weight_only::{Data, WeightMethods, mixed_precision, quantize_weights};
