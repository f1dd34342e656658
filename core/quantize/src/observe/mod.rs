//! Statistics of the values of a network while it runs on samples. They take the same memory for
//! ten samples as for a million, and two of them that saw halves of the samples can be merged.

mod extremes;
pub(crate) mod hessian;
mod histogram;
mod means;
mod moments;
mod observer;
mod saved;
mod stats;
pub(crate) mod values;

pub use extremes::{Channels, Extremes, MeanExtremes, MovingExtremes};
pub use histogram::{BINS_MAX, Bin, Histogram};
pub use means::ChannelMeans;
pub use moments::Moments;
pub use observer::{Feeds, Limits, Statistic, WantedValues, observe, observe_more};
pub use saved::{Saved, SavedChoice, SavedHistogram, SavedTensor, unusable};
pub use stats::{StatisticParts, Stats};
pub use values::blocks;
