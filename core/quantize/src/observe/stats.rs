//! The usual statistics of one value of a network.

use crate::observe::observer::Statistic;
use crate::observe::values::blocks;
use crate::observe::{ChannelMeans, Channels, Extremes, Histogram, MeanExtremes, Moments};
use crate::observe::{MovingExtremes, SavedTensor};
use onnxd_ir::Tensor;

/// Which statistics are kept beside those that cost next to nothing.
#[derive(Clone, Copy, Debug)]
pub struct StatisticParts {
    /// Weight of a new tensor in moving averages.
    pub moving_c: f64,
    /// Tensors whose extremes are taken together in means.
    pub group: u64,
    /// Axis of the channels whose extremes are kept.
    pub channel_axis: Option<i64>,
    /// Axis of the channels whose means are kept.
    pub means_axis: Option<i64>,
    /// Bins of a histogram on each side of zero.
    pub bins: Option<usize>,
    /// Mean and moments.
    pub moments: bool,
}

impl Default for StatisticParts {
    fn default() -> Self {
        StatisticParts {
            moving_c: 0.01,
            group: 1,
            channel_axis: None,
            means_axis: None,
            bins: None,
            moments: true,
        }
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
    /// Means of the extremes of groups of tensors.
    pub mean: MeanExtremes,
    /// Mean and moments; of no values where they are not wanted.
    pub moments: Moments,
    /// Extremes of channels.
    pub channels: Option<Channels>,
    /// Means of channels; floats of 64 and 16 bits are left out.
    pub means: Option<ChannelMeans>,
    /// Counts in bins.
    pub histogram: Option<Histogram>,
    with_moments: bool,
}

impl Stats {
    /// Without values.
    #[must_use]
    pub fn new(parts: &StatisticParts) -> Stats {
        Stats {
            tensors: 0,
            elements: 0,
            zeros: 0,
            nans: 0,
            infinities: 0,
            extremes: Extremes::default(),
            moving: MovingExtremes::new(parts.moving_c),
            mean: MeanExtremes::new(parts.group),
            moments: Moments::default(),
            channels: parts.channel_axis.map(Channels::new),
            means: parts.means_axis.map(ChannelMeans::new),
            histogram: parts.bins.map(Histogram::new),
            with_moments: parts.moments,
        }
    }

    /// What ranges follow from, in the form of a file.
    #[must_use]
    pub fn saved(&self, name: &str) -> SavedTensor {
        SavedTensor {
            name: name.to_owned(),
            range: self.extremes.range(),
            histogram: self.histogram.as_ref().and_then(Histogram::saved),
            average: self.mean.range(),
            zeros: self.zeros,
            not_finite: self.nans + self.infinities,
            channels: Vec::new(),
            means: self.means.as_ref().map(ChannelMeans::known).unwrap_or_default(),
        }
    }

    /// What [`Stats::saved`] made a file of; `None` if no values can have made it.
    #[must_use]
    pub fn restored(saved: &SavedTensor) -> Option<Stats> {
        let (min, max) = saved.range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        let histogram = saved.histogram.as_ref().map(Histogram::restored);
        let parts = StatisticParts { moments: false, ..StatisticParts::default() };
        let seen = saved.range.is_some() || saved.not_finite > 0;
        Some(Stats {
            tensors: u64::from(seen),
            zeros: saved.zeros,
            infinities: saved.not_finite,
            extremes: Extremes { min, max },
            mean: MeanExtremes::of(saved.average),
            means: (!saved.means.is_empty()).then(|| ChannelMeans::from_means(&saved.means)),
            histogram: match histogram {
                Some(histogram) => Some(histogram?),
                None => None,
            },
            ..Stats::new(&parts)
        })
    }

    /// The largest magnitude of each channel, if channels are told apart.
    #[must_use]
    pub fn channel_abs_max(&self) -> Option<Vec<f64>> {
        let channels = self.channels.as_ref()?;
        Some(channels.extremes.iter().map(Extremes::abs_max).collect())
    }

    /// Whether a float tensor need not be widened for what is kept of it.
    fn is_light(&self) -> bool {
        self.channels.is_none() && self.histogram.is_none() && !self.with_moments
    }

    /// Extremes and counts of finite floats; `None` if there are others.
    fn see_floats(&mut self, values: &[f32]) -> Option<Extremes> {
        let mut all = Extremes::default();
        let zeros = all.see_floats(values)?;
        self.elements += values.len() as u64;
        self.zeros += zeros;
        Some(all)
    }
}

impl Statistic for Stats {
    const PARTS: bool = true;

    fn part(mut self) -> Stats {
        self.mean = MeanExtremes::part();
        self
    }

    fn see(&mut self, tensor: &Tensor) {
        if let Some(means) = &mut self.means {
            means.see(tensor);
        }
        if let Some(floats) = tensor.as_slice::<f32>().filter(|_| self.is_light())
            && let Some(own) = self.see_floats(&floats)
        {
            self.tensors += 1;
            self.extremes.merge(&own);
            self.moving.see(&own);
            self.mean.see(&own);
            return;
        }
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
            if self.with_moments {
                self.moments.see(&finite);
            }
            if let Some(histogram) = &mut self.histogram {
                histogram.see(&finite);
            }
        });
        if seen.is_some() {
            self.tensors += 1;
            self.extremes.merge(&own);
            self.moving.see(&own);
            self.mean.see(&own);
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
        self.mean.merge(&later.mean);
        self.moments.merge(&later.moments);
        if let (Some(a), Some(b)) = (&mut self.channels, &later.channels) {
            a.merge(b);
        }
        if let (Some(a), Some(b)) = (&mut self.means, &later.means) {
            a.merge(b);
        }
        if let (Some(a), Some(b)) = (&mut self.histogram, &later.histogram) {
            a.merge(b);
        }
    }
}
