//! What samples say about the inputs of a weighted operator, and how errors of some weights are made up for
//! by others (GPTQ, <https://arxiv.org/abs/2210.17323>): for weights alone in blocks, and for the
//! rounding of weights that is learned.
//!
//! With inputs `X`, the outputs of a row of weights `w` change by `d H d'` in the sum of squares if
//! the weights change by `d`, where `H = X' X`. If weight `j` is rounded with the error `e`, those
//! after it change best by `-e / U[j,j] * U[j,j+1..]`, where `inverse(H) = U' U` and `U` is upper
//! triangular.

use crate::observe::Statistic;
use onnxd_eval::{Columns, add_products};
use onnxd_ir::Tensor;
use rayon::prelude::*;

/// Share of the mean of the diagonal that is added to it at least.
pub(crate) const DAMPING: f64 = 0.01;

/// Rows that one task works on.
const PART: usize = 64;

/// Samples that are added at a time.
const SAMPLES: usize = 512;

/// Sums of the products of all pairs of inputs, over samples.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    k: usize,
    /// Each holds the sums of [`PART`] inputs with the first of them and all later ones; none until
    /// something was seen.
    parts: Vec<Vec<f32>>,
}

impl Pairs {
    /// For rows of `k` inputs.
    pub(crate) fn new(k: usize) -> Pairs {
        Pairs { k, parts: Vec::new() }
    }

    /// Bytes that are taken for `k` inputs; too many for what no memory holds.
    pub(crate) fn bytes(k: usize) -> usize {
        let half = k.checked_add(PART).and_then(|more| k.checked_mul(more)).map(|n| n / 2);
        half.and_then(|n| n.checked_mul(size_of::<f32>())).unwrap_or(usize::MAX)
    }

    /// Whether no finite sample was seen.
    pub(crate) fn is_empty(&self) -> bool {
        let all = || self.parts.iter().flatten();
        !all().any(|x| *x > 0.0) || !all().all(|x| x.is_finite())
    }

    /// Of input `i` with itself and all later ones.
    fn row(&self, i: usize) -> &[f32] {
        let width = self.k - i / PART * PART;
        let row = &self.parts[i / PART][i % PART * width..][..width];
        &row[i % PART..]
    }

    /// Of two inputs.
    fn sum(&self, i: usize, j: usize) -> f64 {
        f64::from(self.row(i.min(j))[i.abs_diff(j)])
    }

    /// Takes in whole rows.
    pub(crate) fn add(&mut self, rows: &[f32]) {
        let k = self.k;
        if self.parts.is_empty() {
            let part = |first: usize| vec![0f32; PART.min(k - first) * (k - first)];
            self.parts = (0..k).step_by(PART).map(part).collect();
        }
        self.parts.par_iter_mut().enumerate().for_each(|(part, sums)| {
            let (first, width) = (part * PART, k);
            let left = Columns { rows, width, columns: first..k.min(first + PART) };
            add_products(sums, &left, &Columns { rows, width, columns: first..k });
        });
    }

    /// Takes `count` times the products of these means away: what is left is about the mean.
    pub(crate) fn center(&mut self, means: &[f64], count: f64) {
        for (part, sums) in self.parts.iter_mut().enumerate() {
            let first = part * PART;
            for (row, mean) in sums.chunks_mut(self.k - first).zip(&means[first..]) {
                let others = row.iter_mut().zip(&means[first..]);
                others.for_each(|(sum, other)| *sum -= (count * mean * other) as f32);
            }
        }
    }

    /// What [`Inverse`] is the inverse of.
    pub(crate) fn damped(&self, share: f64) -> Vec<f32> {
        let (k, damping) = (self.k, self.damping(share));
        let mut all = vec![0f32; k * k];
        all.par_chunks_mut(k).enumerate().with_min_len(PART).for_each(|(i, row)| {
            row[i..].copy_from_slice(self.row(i));
            for (j, x) in row.iter_mut().enumerate().take(i) {
                *x = self.row(j)[i - j];
            }
            row[i] = (self.sum(i, i) + damping) as f32;
        });
        all
    }

    /// What each row of weights makes of the inputs, summed with every input over the samples.
    pub(crate) fn times(&self, rows: &[&[f32]]) -> Vec<Vec<f64>> {
        let mut found = vec![vec![0.0; self.k]; rows.len()];
        for i in 0..self.k {
            let sums = self.row(i);
            for (found, row) in found.iter_mut().zip(rows) {
                let x = f64::from(row[i]);
                found[i] += dot32(sums, &row[i..]);
                let later = found[i + 1..].iter_mut().zip(&sums[1..]);
                later.for_each(|(to, sum)| *to += x * f64::from(*sum));
            }
        }
        found
    }

    /// The sum of the squares of each input; empty until something was seen.
    pub(crate) fn squares(&self) -> Vec<f64> {
        let seen = if self.parts.is_empty() { 0 } else { self.k };
        (0..seen).map(|i| self.sum(i, i)).collect()
    }

    fn damping(&self, share: f64) -> f64 {
        share * self.squares().iter().sum::<f64>() / self.k as f64
    }

    /// The sum of squares of what rows of `k` differences make of the samples.
    pub(crate) fn energy(&self, rows: &(dyn Fn(usize) -> Vec<f32> + Sync), n: usize) -> f64 {
        let part = |first: usize| -> f64 {
            let rows: Vec<Vec<f32>> = (first..n.min(first + PART)).map(rows).collect();
            let mut sum = vec![0.0; rows.len()];
            for i in 0..self.k {
                let pairs = self.row(i);
                for (sum, row) in sum.iter_mut().zip(&rows) {
                    let x = f64::from(row[i]);
                    *sum += x * (2.0 * dot32(pairs, &row[i..]) - f64::from(pairs[0]) * x);
                }
            }
            sum.iter().sum()
        };
        // Added in order, so that the result does not depend on the number of threads.
        let parts: Vec<f64> =
            (0..n.div_ceil(PART)).into_par_iter().map(|i| part(i * PART)).collect();
        parts.iter().sum()
    }
}

impl Statistic for Pairs {
    fn see(&mut self, tensor: &Tensor) {
        let k = self.k;
        if tensor.dims().last() != Some(&k) || k == 0 {
            return;
        }
        let mut pending: Vec<f32> = Vec::new();
        crate::observe::blocks(tensor, |_, block| {
            pending.extend(block.iter().map(|x| *x as f32));
            let whole = pending.len() / k;
            if whole >= SAMPLES {
                self.add(&pending[..whole * k]);
                pending.drain(..whole * k);
            }
        });
        self.add(&pending);
    }

    fn merge(&mut self, later: &Self) {
        match self.parts.is_empty() {
            true => self.parts.clone_from(&later.parts),
            false => {
                let both = self.parts.iter_mut().flatten().zip(later.parts.iter().flatten());
                both.for_each(|(a, b)| *a += b);
            }
        }
    }
}

/// `U` of the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Inverse {
    k: usize,
    values: Vec<f32>,
}

impl Inverse {
    /// With this share of the mean of the diagonal added to it; `None` if there is none even so.
    pub(crate) fn from_pairs(pairs: &Pairs, share: f64) -> Option<Inverse> {
        let k = pairs.k;
        let damping = pairs.damping(share);
        // With the order reversed, inverse(H) = U' U follows from H = L L': U is L's inverse.
        let mut l = vec![0.0; k * k];
        for (i, row) in l.chunks_mut(k).enumerate() {
            for (j, x) in row.iter_mut().enumerate().take(i + 1) {
                *x = pairs.sum(k - 1 - i, k - 1 - j);
            }
            row[i] += damping;
        }
        factor(&mut l, k)?;
        let columns = inverse(&l, k);
        drop(l);
        let mut values = vec![0f32; k * k];
        values.par_chunks_mut(k).enumerate().for_each(|(i, row)| {
            for (j, x) in row.iter_mut().enumerate().skip(i) {
                *x = columns[(k - 1 - j) * k + (k - 1 - i)] as f32;
            }
        });
        let fine = (0..k).all(|i| values[i * k + i] > 0.0) && values.iter().all(|x| x.is_finite());
        fine.then_some(Inverse { k, values })
    }

    /// For inputs that are divided by these factors.
    pub(crate) fn divided(&self, factors: &[f64]) -> Inverse {
        let mut values = self.values.clone();
        for row in values.chunks_mut(self.k) {
            row.iter_mut().zip(factors).for_each(|(x, f)| *x = (f64::from(*x) * f) as f32);
        }
        Inverse { k: self.k, values }
    }

    /// Row `i` from its diagonal on.
    pub(crate) fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.k + i..(i + 1) * self.k]
    }
}

/// Columns of a triangle that are found together, so that what they read stays near.
const PANEL: usize = 32;

/// The lower triangle becomes `L` of `L L'`.
fn factor(a: &mut [f64], k: usize) -> Option<()> {
    for first in (0..k).step_by(PANEL) {
        let last = k.min(first + PANEL);
        for j in first..last {
            let (above, row) = a[first * k..].split_at_mut((j - first) * k);
            for (i, other) in (first..j).zip(above.chunks(k)) {
                row[i] = (row[i] - dot(&other[..i], &row[..i])) / other[i];
            }
            let square = row[j] - dot(&row[..j], &row[..j]);
            if square.is_nan() || square <= 0.0 {
                return None;
            }
            row[j] = square.sqrt();
        }
        let (above, below) = a.split_at_mut(last * k);
        let panel = &above[first * k..];
        below.par_chunks_mut(k).with_min_len(16).for_each(|row| {
            for (j, other) in (first..last).zip(panel.chunks(k)) {
                row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
            }
        });
    }
    Some(())
}

/// The inverse of a lower triangle; row `c` of the result is its column `c`.
fn inverse(l: &[f64], k: usize) -> Vec<f64> {
    let mut columns = vec![0.0; k * k];
    columns.par_chunks_mut(PANEL * k).enumerate().for_each(|(panel, columns)| {
        let first = panel * PANEL;
        for i in first..k {
            let row = &l[i * k..];
            for (c, column) in (first..=i).zip(columns.chunks_mut(k)) {
                column[i] = match i == c {
                    true => 1.0 / row[i],
                    false => -dot(&row[c..i], &column[c..i]) / row[i],
                };
            }
        }
    });
    columns
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    rest + sums.iter().sum::<f64>()
}

fn dot32(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| f64::from(a * b));
    let rest: f64 = rest.sum();
    for (a, b) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += f64::from(a[i]) * f64::from(b[i]);
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_one() {
        // More than one panel.
        let k = 45;
        let mut seed = 1u64;
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let x: Vec<f32> = (0..k * 40).map(|_| next()).collect();
        let mut pairs = Pairs::new(k);
        pairs.see(&Tensor::from_vec([20, 2, k], x.clone()));
        let by_hand: f32 = x.chunks(k).map(|row| row[3] * row[7]).sum();
        assert!((pairs.sum(3, 7) - f64::from(by_hand)).abs() < 1e-4);
        let u = Inverse::from_pairs(&pairs, DAMPING).unwrap();
        let damping = DAMPING * (0..k).map(|i| pairs.sum(i, i)).sum::<f64>() / k as f64;
        // U' U H is the identity.
        let at = |i: usize, j: usize| f64::from(u.values[i * k + j]);
        for i in 0..k {
            for j in 0..k {
                let inverse = |i: usize, l: usize| (0..k).map(|m| at(m, i) * at(m, l)).sum::<f64>();
                let sum = |l: usize| pairs.sum(l, j);
                let h = |l: usize| sum(l) + if l == j { damping } else { 0.0 };
                let found: f64 = (0..k).map(|l| inverse(i, l) * h(l)).sum();
                assert!((found - f64::from(u8::from(i == j))).abs() < 1e-4, "{i} {j} {found}");
            }
        }
        let rows = |n: usize| x[n * k..(n + 1) * k].to_vec();
        let outputs = |row: &[f32]| -> f64 {
            let one = |x: &[f32]| x.iter().zip(row).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            x.chunks(k).map(|x| one(x).powi(2)).sum()
        };
        let expected: f64 = (0..3).map(|n| outputs(&rows(n))).sum();
        assert!((pairs.energy(&rows, 3) / expected - 1.0).abs() < 1e-5);
    }

    #[test]
    fn inputs_that_are_never_used_do_not_matter() {
        let mut pairs = Pairs::new(3);
        assert!(pairs.is_empty());
        pairs.see(&Tensor::from_vec([2, 3], vec![1f32, 0.0, 1.0, 2.0, 0.0, 2.0]));
        assert!(!pairs.is_empty());
        let u = Inverse::from_pairs(&pairs, DAMPING).unwrap();
        assert!(u.values.iter().all(|x| x.is_finite()));
        pairs.see(&Tensor::from_vec([1, 3], vec![f32::NAN, 0.0, 1.0]));
        assert!(pairs.is_empty());
    }
}
