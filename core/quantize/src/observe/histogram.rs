//! A histogram whose range grows with the values and which loses nothing by it.
//!
//! All bins have the width `2^e`, and their borders are the multiples of it: bin `k` holds the
//! values from `k * 2^e` up to, but not including, `(k + 1) * 2^e`. There are as many bins below
//! zero as above. When a value lies outside, `e` grows until it fits, and each bin goes into the
//! one of twice the width that contains it. Because borders of wide bins are borders of narrow
//! ones, the counts are exactly those that the wide bins would have had from the beginning. `e` is
//! the smallest number for which all values fit, so that neither the order of the values nor the
//! way in which parts were merged makes a difference. Of the bins of the side that reaches
//! farther, more than half are in use.

use crate::observe::SavedHistogram;

/// Most bins on one side of zero.
pub const BINS_MAX: usize = 1 << 20;

/// Narrower bins have no exact width.
const EXPONENT_MIN: i32 = -1022;

/// Counts of values in bins of equal width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Bins on each side of zero, a power of two.
    half: usize,
    /// Width of a bin, as a power of two.
    exponent: i32,
    /// Bins below zero, the one beside zero first; empty if there are no such values.
    negative: Vec<u64>,
    /// Bins from zero up.
    positive: Vec<u64>,
}

/// One bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The smallest value that it may hold.
    pub from: f64,
    /// What its values stay below.
    pub to: f64,
    /// Values in it.
    pub count: u64,
}

impl Histogram {
    /// Without values. The number of bins on each side of zero is rounded up to a power of two.
    #[must_use]
    pub fn new(bins: usize) -> Histogram {
        let half = bins.clamp(2, BINS_MAX).next_power_of_two();
        Histogram { half, exponent: EXPONENT_MIN, negative: vec![], positive: vec![] }
    }

    /// Takes in finite values.
    pub fn see(&mut self, values: &[f64]) {
        let (mut min, mut max) = (0f64, 0f64);
        for x in values {
            (min, max) = (min.min(*x), max.max(*x));
        }
        self.grow(self.needed(max).max(self.needed(min)));
        for (side, used) in [(&mut self.negative, min < 0.0), (&mut self.positive, max >= 0.0)] {
            if side.is_empty() && used && !values.is_empty() {
                side.resize(self.half, 0);
            }
        }
        let per_width = 2f64.powi(-self.exponent);
        for x in values {
            // Both products are exact: the other factor is a power of two.
            let place = x * per_width;
            if *x < 0.0 {
                self.negative[(-place).ceil() as usize - 1] += 1;
            } else {
                self.positive[place as usize] += 1;
            }
        }
    }

    /// Takes in what another one of as many bins saw; one of another number of bins is brought to
    /// the smaller number first.
    pub fn merge(&mut self, other: &Histogram) {
        let mut other = other.clone();
        let half = self.half.min(other.half);
        for one in [&mut *self, &mut other] {
            while one.half > half {
                one.grow(one.exponent + 1);
                one.half /= 2;
                one.negative.truncate(one.half);
                one.positive.truncate(one.half);
            }
        }
        self.grow(other.exponent);
        other.grow(self.exponent);
        for (to, from) in
            [(&mut self.negative, other.negative), (&mut self.positive, other.positive)]
        {
            if to.is_empty() {
                *to = from;
            } else {
                to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
            }
        }
    }

    /// The smallest exponent with which `x` fits.
    fn needed(&self, x: f64) -> i32 {
        let bits = x.abs().to_bits();
        let (power, rest) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1));
        // The last bin below zero has its border.
        let reaches = if x < 0.0 && rest == 0 { power } else { power + 1 };
        (reaches - self.half.trailing_zeros() as i32).max(EXPONENT_MIN)
    }

    fn grow(&mut self, exponent: i32) {
        let by = exponent - self.exponent;
        if by <= 0 {
            return;
        }
        self.exponent = exponent;
        for side in [&mut self.negative, &mut self.positive] {
            for i in 1..side.len() {
                let count = std::mem::take(&mut side[i]);
                side[if by < 64 { i >> by } else { 0 }] += count;
            }
        }
    }

    /// Width of the bins.
    #[must_use]
    pub fn width(&self) -> f64 {
        2f64.powi(self.exponent)
    }

    /// Bins on each side of zero.
    #[must_use]
    pub fn half(&self) -> usize {
        self.half
    }

    /// Counts below zero, the bin beside zero first; empty if there are none.
    #[must_use]
    pub fn negative(&self) -> &[u64] {
        &self.negative
    }

    /// Counts from zero up; empty before the first value.
    #[must_use]
    pub fn positive(&self) -> &[u64] {
        &self.positive
    }

    /// Values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.negative.iter().chain(&self.positive).sum()
    }

    /// All bins from the lowest value to the highest, empty ones among them too.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        let width = self.width();
        let bin = move |k: i64, count: u64| Bin {
            from: k as f64 * width,
            to: (k + 1) as f64 * width,
            count,
        };
        let below = self.negative.iter().enumerate().rev();
        let below = below.map(move |(i, n)| bin(-1 - i as i64, *n));
        below.chain(self.positive.iter().enumerate().map(move |(i, n)| bin(i as i64, *n)))
    }

    /// Counts by magnitude, from zero up: what calibrators of symmetric ranges read.
    #[must_use]
    pub fn magnitudes(&self) -> Vec<u64> {
        let at = |side: &[u64], i: usize| side.get(i).copied().unwrap_or(0);
        (0..self.half).map(|i| at(&self.negative, i) + at(&self.positive, i)).collect()
    }

    /// The counts in the form of a file; `None` without values.
    pub(crate) fn saved(&self) -> Option<SavedHistogram> {
        let width = self.width();
        let reach = |side: &[u64]| side.len() as f64 * width;
        let (low, high) = (-reach(&self.negative), reach(&self.positive));
        let counts = self.negative.iter().rev().chain(&self.positive).copied().collect();
        (!self.positive.is_empty()).then_some(SavedHistogram { low, high, width, counts })
    }

    /// What [`Histogram::saved`] made a file of; `None` if no values can have made it.
    pub(crate) fn restored(saved: &SavedHistogram) -> Option<Histogram> {
        let SavedHistogram { low, width, counts, .. } = saved;
        let exponent = (width.to_bits() >> 52) as i32 - 1023;
        let below = (-low / width) as usize;
        let (negative, positive) = counts.split_at_checked(below)?;
        let half = positive.len();
        let sound = half.is_power_of_two()
            && (2..=BINS_MAX).contains(&half)
            && (below == 0 || below == half)
            && exponent >= EXPONENT_MIN
            && *width == 2f64.powi(exponent)
            && *low == -(below as f64 * width);
        sound.then(|| Histogram {
            half,
            exponent,
            negative: negative.iter().rev().copied().collect(),
            positive: positive.to_vec(),
        })
    }

    /// The counts in at most `most` intervals of equal width, from the lowest value to the highest:
    /// where the first begins, where the last ends, and the counts; `None` without values.
    #[must_use]
    pub fn coarse(&self, most: usize) -> Option<(f64, f64, Vec<u64>)> {
        let bins: Vec<Bin> = self.bins().collect();
        let first = bins.iter().position(|bin| bin.count > 0)?;
        let last = bins.iter().rposition(|bin| bin.count > 0)?;
        let each = (last + 1 - first).div_ceil(most.max(1));
        let counts: Vec<u64> = bins[first..=last]
            .chunks(each)
            .map(|bins| bins.iter().map(|bin| bin.count).sum())
            .collect();
        let low = bins[first].from;
        let high = low + (counts.len() * each) as f64 * self.width();
        Some((low, high, counts))
    }
}
