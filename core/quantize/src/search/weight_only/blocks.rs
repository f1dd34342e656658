//! Weights in blocks along the axis that a weighted operator sums over, each block with its own scale.

use super::range::range;
use crate::observe::hessian::Inverse;
use crate::range::weights::Rule;
use onnxd_ir::DataType;
use rayon::prelude::*;
use std::ops::Range;

/// Rows that are quantized together, so that what they share is read once.
const TOGETHER: usize = 16;

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
        let alike = vec![1.0; if settings.matters.is_some() { 0 } else { k }];
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
        let rows = made.integers.par_chunks_mut(TOGETHER * k);
        let scales = made.scales.par_chunks_mut(TOGETHER * count);
        let zeros = made.zeros.par_chunks_mut(TOGETHER * count);
        let weights = weights.par_chunks(TOGETHER * k);
        rows.zip(scales).zip(zeros).zip(weights).for_each(|(((q, s), z), w)| {
            let mut w = w.to_vec();
            for b in 0..count {
                let columns = b * block..k.min((b + 1) * block);
                for (row, w) in w.chunks(k).enumerate() {
                    let columns = columns.clone();
                    let scale = range(&w[columns.clone()], &matters[columns], rule, settings.dtype);
                    s[row * count + b] = scale.scale as f32;
                    z[row * count + b] = (scale.zero_point + offset(rule)) as u8;
                }
                for first in columns.clone().step_by(BATCH) {
                    let batch = first..columns.end.min(first + BATCH);
                    let mut factors = [0f32; TOGETHER * BATCH];
                    for column in batch.clone() {
                        let later = settings.later.map(|known| known.row(column));
                        for (row, w) in w.chunks_mut(k).enumerate() {
                            let (scale, zero) = (s[row * count + b], z[row * count + b]);
                            let integer = nearest(w[column], scale, zero, rule);
                            q[row * k + column] = integer;
                            if let Some(later) = later {
                                let error = w[column] - real(integer, scale, zero);
                                let factor = error / later[0];
                                factors[row * BATCH + column - first] = factor;
                                spread(&mut w[column + 1..batch.end], &later[1..], factor);
                            }
                        }
                    }
                    if let Some(later) = settings.later {
                        propagate_errors(&mut w, k, later, batch, &factors);
                    }
                }
            }
        });
        made
    }

    /// Blocks of a row.
    pub(crate) fn count(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Row `n` as the reals that it stands for.
    pub(crate) fn row(&self, n: usize) -> impl Iterator<Item = f32> + '_ {
        let count = self.count();
        (0..self.k).map(move |k| {
            let at = n * count + k / self.block;
            real(self.integers[n * self.k + k], self.scales[at], self.zeros[at])
        })
    }

    /// Whether zero is the middle of the integers everywhere, which need not be written.
    pub(crate) fn is_centered(&self) -> bool {
        let middle = 1u8 << (self.rule.levels.dtype.bits() - 1);
        self.zeros.iter().all(|z| *z == middle)
    }
}

/// How far integers of a type are moved up to be unsigned.
pub(crate) fn offset(rule: Rule) -> i64 {
    let dtype = rule.levels.dtype;
    let signed = matches!(dtype, DataType::Int8 | DataType::Int4 | DataType::Int2);
    if signed { 1 << (dtype.bits() - 1) } else { 0 }
}

fn nearest(x: f32, scale: f32, zero: u8, rule: Rule) -> u8 {
    let (lo, hi) = (rule.levels.min + offset(rule), rule.levels.max + offset(rule));
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
