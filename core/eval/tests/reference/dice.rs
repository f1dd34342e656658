//! Random choices that shrink: a case is made from a list of numbers of which smaller ones mean
//! simpler choices, so that proptest finds the smallest failing case by shrinking the numbers.

use crate::nd::from_reals;
use onnxd_ir::{DataType, Tensor};

/// Where a case takes its choices from; an exhausted list goes on with the simplest choice.
#[derive(Debug)]
pub struct Dice {
    choices: std::vec::IntoIter<u16>,
    seed: u64,
}

impl Dice {
    pub fn new(choices: Vec<u16>, seed: u32) -> Dice {
        Dice { choices: choices.into_iter(), seed: u64::from(seed) }
    }

    /// A number below `n`, of which 0 is the simplest.
    pub fn below(&mut self, n: usize) -> usize {
        (usize::from(self.choices.next().unwrap_or(0)) * n) >> 16
    }

    /// A number from `low` to `high`; the one nearest to zero is the simplest.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        let mut all: Vec<i64> = (low..=high).collect();
        all.sort_by_key(|x| x.abs());
        all[self.below(all.len())]
    }

    /// Whether to do what makes the case more complicated.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    /// As `coin`, once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of the list, the first of which is the simplest.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A size from 1 to `max`, seldom 0.
    pub fn size(&mut self, max: usize) -> usize {
        if self.once_in(30) { 0 } else { 1 + self.below(max) }
    }

    /// Sizes of `rank` axes.
    pub fn dims(&mut self, rank: usize, max: usize) -> Vec<usize> {
        (0..rank).map(|_| self.size(max)).collect()
    }

    /// Sizes of up to `rank` axes.
    pub fn shape(&mut self, rank: usize, max: usize) -> Vec<usize> {
        let rank = self.below(rank + 1);
        self.dims(rank, max)
    }

    /// An axis of a tensor of `rank` axes: its index, and one of its two spellings.
    pub fn axis(&mut self, rank: usize) -> (usize, i64) {
        let axis = self.below(rank);
        (axis, if self.coin() { axis as i64 - rank as i64 } else { axis as i64 })
    }

    /// Some distinct axes in any order, as indices and as spelt.
    pub fn axes(&mut self, rank: usize) -> (Vec<usize>, Vec<i64>) {
        let order = self.order(rank);
        let some = order.into_iter().filter(|_| self.coin()).collect::<Vec<usize>>();
        let spelt = some.iter().map(|a| *a as i64 - if self.coin() { rank as i64 } else { 0 });
        let spelt = spelt.collect();
        (some, spelt)
    }

    /// A permutation of `0..n`.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..n).collect();
        (0..n).map(|_| rest.remove(self.below(rest.len()))).collect()
    }

    /// A number of the value stream, which is not shrunk.
    pub fn noise(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Small values that every type represents: multiples of 1/8 up to 4 for floats, integers up
    /// to 100 for the others.
    pub fn tensor(&mut self, dtype: DataType, dims: &[usize]) -> Tensor {
        match dtype {
            DataType::Bool => self.within(dtype, dims, 0.0, 1.0),
            t if t.is_float() => self.within(dtype, dims, -4.0, 4.0),
            t if is_unsigned(t) => self.within(dtype, dims, 0.0, 100.0),
            _ => self.within(dtype, dims, -100.0, 100.0),
        }
    }

    /// Values from `low` to `high`, multiples of 1/8 for floats and of 1 for integers.
    pub fn within(&mut self, dtype: DataType, dims: &[usize], low: f64, high: f64) -> Tensor {
        let step = if dtype.is_float() { 0.125 } else { 1.0 };
        let steps = ((high - low) / step) as u64 + 1;
        let n = dims.iter().product();
        let values = (0..n).map(|_| low + step * (self.noise() % steps) as f64).collect();
        from_reals(dtype, dims, values)
    }

    /// Any bits at all (for strings, short words).
    pub fn bits(&mut self, dtype: DataType, dims: &[usize]) -> Tensor {
        let n: usize = dims.iter().product();
        let codes: Vec<u128> = (0..n)
            .map(|_| match dtype {
                DataType::Bool => u128::from(self.noise() % 2),
                DataType::String => u128::from(self.noise() % 1000),
                _ => u128::from(self.noise()) << 64 | u128::from(self.noise()),
            })
            .collect();
        crate::nd::from_codes(dtype, dims, &codes)
    }

    /// Whole numbers below `n`.
    pub fn whole(&mut self, count: usize, low: i64, high: i64) -> Vec<i64> {
        let span = (high - low + 1) as u64;
        (0..count).map(|_| low + (self.noise() % span) as i64).collect()
    }
}

pub fn is_unsigned(t: DataType) -> bool {
    use DataType::*;
    matches!(t, Uint8 | Uint16 | Uint32 | Uint64 | Bool)
}
