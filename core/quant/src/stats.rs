//! The usual statistics of one value of a network.

use crate::observer::Statistic;
use crate::values::blocks;
use crate::{Channels, Extremes, Histogram, Moments, MovingExtremes};
use onnxd_ir::Tensor;

/// Which statistics are kept beside those that cost next to nothing.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Weight of a new tensor in moving averages.
    pub moving_c: f64,
    /// Axis of the channels whose extremes are kept.
    pub channel_axis: Option<i64>,
    /// Bins of a histogram on each side of zero.
    pub bins: Option<usize>,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { moving_c: 0.01, channel_axis: None, bins: None }
    }
}

/// Statistics of a value over all tensors that it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Tensors seen; in a loop, one for each iteration.
    pub tensors: u64,
    /// Elements seen.
    pub elements: u64,
    /// Elements that are zero.
    pub zeros: u64,
    /// Elements that are no number. All that follows leaves them out.
    pub nans: u64,
    /// Elements that are infinite. All that follows leaves them out.
    pub infinities: u64,
    /// Over all tensors.
    pub extremes: Extremes,
    /// Averages of the extremes of tensors.
    pub moving: MovingExtremes,
    /// Mean and moments.
    pub moments: Moments,
    /// Extremes of channels.
    pub channels: Option<Channels>,
    /// Counts in bins.
    pub histogram: Option<Histogram>,
}

impl Stats {
    /// Without values.
    #[must_use]
    pub fn new(parts: &Parts) -> Stats {
        Stats {
            tensors: 0,
            elements: 0,
            zeros: 0,
            nans: 0,
            infinities: 0,
            extremes: Extremes::default(),
            moving: MovingExtremes::new(parts.moving_c),
            moments: Moments::default(),
            channels: parts.channel_axis.map(Channels::new),
            histogram: parts.bins.map(Histogram::new),
        }
    }
}

impl Statistic for Stats {
    fn see(&mut self, tensor: &Tensor) {
        let mut own = Extremes::default();
        let mut finite = Vec::new();
        let seen = blocks(tensor, |begin, block| {
            self.elements += block.len() as u64;
            if let Some(channels) = &mut self.channels {
                channels.see(tensor.dims(), begin, block);
            }
            finite.clear();
            finite.extend(block.iter().copied().filter(|x| x.is_finite()));
            let nans = block.iter().filter(|x| x.is_nan()).count();
            self.nans += nans as u64;
            self.infinities += (block.len() - finite.len() - nans) as u64;
            self.zeros += finite.iter().filter(|x| **x == 0.0).count() as u64;
            own.see(&finite);
            self.moments.see(&finite);
            if let Some(histogram) = &mut self.histogram {
                histogram.see(&finite);
            }
        });
        if seen.is_some() {
            self.tensors += 1;
            self.extremes.merge(&own);
            self.moving.see(&own);
        }
    }

    fn merge(&mut self, later: &Self) {
        self.tensors += later.tensors;
        self.elements += later.elements;
        self.zeros += later.zeros;
        self.nans += later.nans;
        self.infinities += later.infinities;
        self.extremes.merge(&later.extremes);
        self.moving.merge(&later.moving);
        self.moments.merge(&later.moments);
        if let (Some(a), Some(b)) = (&mut self.channels, &later.channels) {
            a.merge(b);
        }
        if let (Some(a), Some(b)) = (&mut self.histogram, &later.histogram) {
            a.merge(b);
        }
    }
}
