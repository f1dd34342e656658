//! Weights in blocks along the axis that a weighted operator sums over, each block with its own scale.

use super::power::Power;
use super::range::{LANES, Lanes, Scales, ranges};
use crate::observe::hessian::Inverse;
use crate::range::vectors::ROUND;
use crate::range::weights::Rule;
use onnxd_eval::vectorized;
use onnxd_ir::DataType;
use rayon::prelude::*;
use std::ops::Range;

/// Columns whose errors are taken out of those after them at once.
const BATCH: usize = 32;

/// Columns that errors are taken out of at a time.
const NEAR: usize = 64;

/// How weights are quantized.
#[derive(Clone, Copy)]
pub(crate) struct BlockSettings<'a> {
    /// Weights that share a scale.
    pub(crate) block: usize,
    pub(crate) rule: Rule,
    /// The type of the scales.
    pub(crate) dtype: DataType,
    /// How much the squared error of each weight of a row counts; `None` for all alike.
    pub(crate) matters: Option<&'a [f32]>,
    /// Who makes up for the error of a weight (GPTQ).
    pub(crate) later: Option<&'a Inverse>,
}

impl BlockSettings<'_> {
    /// What weights matter where all count alike.
    pub(crate) fn alike(&self, k: usize) -> Vec<f32> {
        vec![1.0; if self.matters.is_some() { 0 } else { k }]
    }
}

/// `n` rows of `k` weights as unsigned integers; the last block of a row may be shorter.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) block: usize,
    pub(crate) rule: Rule,
    /// `[n, k]`, moved up so that the lowest integer of the type is 0.
    pub(crate) integers: Vec<u8>,
    /// `[n, blocks]`
    pub(crate) scales: Vec<f32>,
    /// `[n, blocks]`, moved up likewise.
    pub(crate) zeros: Vec<u8>,
}

impl Blocks {
    /// Each weight becomes the nearest integer, or one that makes up for the errors of those before
    /// it.
    pub(crate) fn quantize(
        weights: &[f32],
        (n, k): (usize, usize),
        settings: &BlockSettings,
    ) -> Blocks {
        let (block, rule) = (settings.block, settings.rule);
        let alike = settings.alike(k);
        let matters = settings.matters.unwrap_or(&alike);
        let count = k.div_ceil(block);
        let mut made = Blocks {
            n,
            k,
            block,
            rule,
            integers: vec![0; n * k],
            scales: vec![1.0; n * count],
            zeros: vec![0; n * count],
        };
        let rows = made.integers.par_chunks_mut(LANES * k);
        let scales = made.scales.par_chunks_mut(LANES * count);
        let zeros = made.zeros.par_chunks_mut(LANES * count);
        let weights = weights.par_chunks(LANES * k);
        rows.zip(scales).zip(zeros).zip(weights).for_each(|(((q, s), z), w)| {
            let mut columns = vec![[0; LANES]; k];
            group(w.to_vec(), k, (settings, matters), (&mut columns, z), s);
            for (row, q) in q.chunks_mut(k).enumerate() {
                row_of(&columns, row, q);
            }
        });
        made
    }

    /// Blocks of a row.
    pub(crate) fn count(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// What the errors come to.
    pub(crate) fn power(&self, weights: &[f32]) -> Power {
        let rows = weights.chunks(self.k).enumerate();
        let each = rows.flat_map(|(n, row)| row.iter().zip(self.row(n)));
        each.fold(Power::default(), |power, (w, q)| {
            let [w, e] = [*w, w - q].map(|x| f64::from(x) * f64::from(x));
            power.and(Power { signal: w, noise: e })
        })
    }

    /// Row `n` as the reals that it stands for.
    pub(crate) fn row(&self, n: usize) -> impl Iterator<Item = f32> + '_ {
        let count = self.count();
        (0..self.k).map(move |k| {
            let at = n * count + k / self.block;
            real(self.integers[n * self.k + k], self.scales[at], self.zeros[at])
        })
    }
}

/// At most [`LANES`] rows of weights as integers, column by column, as zero points and scales, row by row; and what
/// their errors come to.
pub(crate) fn group(
    mut w: Vec<f32>,
    k: usize,
    (settings, matters): (&BlockSettings, &[f32]),
    (q, z): (&mut [Lanes<u8>], &mut [u8]),
    s: &mut [f32],
) -> Power {
    let (block, rule) = (settings.block, settings.rule);
    let count = k.div_ceil(block);
    let mut power = Power::default();
    let mut side_by_side = vec![[0f32; LANES]; block.min(k)];
    for b in 0..count {
        let columns = b * block..k.min((b + 1) * block);
        let blocks = &mut side_by_side[..columns.len()];
        put_side_by_side(blocks, &w, (k, columns.start));
        let (found, of_blocks) = ranges(blocks, &matters[columns.clone()], rule, settings.dtype);
        power = power.and(of_blocks);
        for row in 0..w.len() / k {
            s[row * count + b] = found.scale[row] as f32;
            z[row * count + b] = (found.zero[row] as i64 + offset(rule)) as u8;
        }
        match settings.later {
            None => rounded(&mut q[columns], blocks, &found, rule),
            Some(later) => compensated(&mut w, (k, b, columns), (later, rule), (&mut *q, &*z), s),
        }
    }
    power
}

/// A row of what lies column by column.
pub(crate) fn row_of(columns: &[Lanes<u8>], row: usize, to: &mut [u8]) {
    to.iter_mut().zip(columns).for_each(|(to, column)| *to = column[row]);
}

vectorized! {
    /// The elements of rows of `k` from a column on: one of each row at a time, and zeros where there is none.
    fn put_side_by_side(columns: &mut [Lanes<f32>], w: &[f32], from: (usize, usize)) {
        let (k, first) = from;
        if w.len() < LANES * k {
            columns.fill([0.0; LANES]);
        }
        for (row, w) in w.chunks(k).take(LANES).enumerate() {
            columns.iter_mut().zip(&w[first..]).for_each(|(column, w)| column[row] = *w);
        }
    }
}

/// The integers of a block of columns, whose errors later columns make up for.
fn compensated(
    w: &mut [f32],
    (k, block, columns): (usize, usize, Range<usize>),
    (later, rule): (&Inverse, Rule),
    (q, z): (&mut [Lanes<u8>], &[u8]),
    s: &[f32],
) {
    let count = s.len() / (w.len() / k).max(1);
    for first in columns.clone().step_by(BATCH) {
        let batch = first..columns.end.min(first + BATCH);
        let mut factors = [0f32; LANES * BATCH];
        for column in batch.clone() {
            let shares = later.row(column);
            for (row, w) in w.chunks_mut(k).enumerate() {
                let (scale, zero) = (s[row * count + block], z[row * count + block]);
                let integer = nearest(w[column], scale, zero, rule);
                q[column][row] = integer;
                let factor = (w[column] - real(integer, scale, zero)) / shares[0];
                factors[row * BATCH + column - first] = factor;
                spread(&mut w[column + 1..batch.end], &shares[1..], factor);
            }
        }
        propagate_errors(w, k, later, batch, &factors);
    }
}

vectorized! {
    /// The nearest integers of blocks side by side, moved up to be unsigned. The blocks are used up.
    fn rounded(q: &mut [Lanes<u8>], columns: &mut [Lanes<f32>], scales: &Scales, rule: Rule) {
        let (levels, moved) = (rule.levels, offset(rule) as f32);
        let mut inverse = [0f32; LANES];
        let (mut low, mut high, mut zero) = (inverse, inverse, inverse);
        for i in 0..LANES {
            let none = scales.zero[i] as f32;
            inverse[i] = 1.0 / scales.scale[i] as f32;
            (low[i], high[i]) = (levels.min as f32 - none, levels.max as f32 - none);
            zero[i] = ROUND + none + moved;
        }
        for x in &mut *columns {
            for i in 0..LANES {
                let steps = x[i] * inverse[i];
                let steps = if steps > low[i] { steps } else { low[i] };
                let steps = if steps < high[i] { steps } else { high[i] };
                x[i] = steps + zero[i];
            }
        }
        // The integer then stands in the lowest bits.
        let all = q.as_flattened_mut().iter_mut().zip(columns.as_flattened());
        all.for_each(|(q, x)| *q = x.to_bits() as u8);
    }
}

/// The least and the greatest integer, moved up to be unsigned.
fn limits(rule: Rule) -> [u8; 2] {
    [rule.levels.min, rule.levels.max].map(|limit| (limit + offset(rule)) as u8)
}

/// How far integers of a type are moved up to be unsigned.
pub(crate) fn offset(rule: Rule) -> i64 {
    let dtype = rule.levels.dtype;
    let signed = matches!(dtype, DataType::Int8 | DataType::Int4 | DataType::Int2);
    if signed { 1 << (dtype.bits() - 1) } else { 0 }
}

fn nearest(x: f32, scale: f32, zero: u8, rule: Rule) -> u8 {
    let [lo, hi] = limits(rule).map(i64::from);
    let q = (x / scale).round_ties_even() as i64;
    q.saturating_add(i64::from(zero)).clamp(lo, hi) as u8
}

fn real(q: u8, scale: f32, zero: u8) -> f32 {
    (f32::from(q) - f32::from(zero)) * scale
}

/// Takes shares of an error out of the weights after it.
fn spread(weights: &mut [f32], shares: &[f32], factor: f32) {
    for (w, share) in weights.iter_mut().zip(shares) {
        *w -= factor * share;
    }
}

/// Takes the errors of some columns out of all columns after them: few columns at a time, so that
/// what rows share stays near. Each weight loses the shares in the order of the columns.
fn propagate_errors(
    weights: &mut [f32],
    k: usize,
    later: &Inverse,
    batch: Range<usize>,
    factors: &[f32],
) {
    for first in (batch.end..k).step_by(NEAR) {
        let near = first..k.min(first + NEAR);
        for (w, factors) in weights.chunks_mut(k).zip(factors.chunks(BATCH)) {
            let w = &mut w[near.clone()];
            for (column, factor) in batch.clone().zip(factors) {
                spread(w, &later.row(column)[first - column..], *factor);
            }
        }
    }
}
