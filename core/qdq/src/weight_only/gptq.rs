//! What samples say about the inputs of a product, and how errors of some weights are made up for
//! by others (GPTQ, <https://arxiv.org/abs/2210.17323>).
//!
//! With inputs `X`, the outputs of a row of weights `w` change by `d H d'` in the sum of squares if
//! the weights change by `d`, where `H = X' X`. If weight `j` is rounded with the error `e`, those
//! after it change best by `-e / U[j,j] * U[j,j+1..]`, where `inverse(H) = U' U` and `U` is upper
//! triangular.

use onnxd_ir::Tensor;
use onnxd_quant::Statistic;
use rayon::prelude::*;

/// Share of the mean of the diagonal that is added to it.
const DAMPING: f64 = 0.01;

/// Rows that one task works on.
const PART: usize = 64;

/// Samples that are added at a time.
const SAMPLES: usize = 512;

/// Sums of the products of all pairs of inputs, over samples.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    k: usize,
    /// `[k, k]`, of which the upper triangle counts; empty until something was seen.
    sums: Vec<f64>,
}

impl Pairs {
    /// For rows of `k` inputs.
    pub(super) fn new(k: usize) -> Pairs {
        Pairs { k, sums: Vec::new() }
    }

    /// Whether no finite sample was seen.
    pub(super) fn is_empty(&self) -> bool {
        !self.sums.iter().any(|x| *x > 0.0) || !self.sums.iter().all(|x| x.is_finite())
    }

    /// The sum of squares of what rows of `k` differences make of the samples.
    pub(super) fn energy(&self, rows: &(dyn Fn(usize) -> Vec<f32> + Sync), n: usize) -> f64 {
        let part = |first: usize| -> f64 {
            let rows: Vec<Vec<f32>> = (first..n.min(first + PART)).map(rows).collect();
            let mut sum = vec![0.0; rows.len()];
            for (i, pairs) in self.sums.chunks(self.k).enumerate() {
                for (sum, row) in sum.iter_mut().zip(&rows) {
                    let x = f64::from(row[i]);
                    *sum += x * (2.0 * dot32(&pairs[i..], &row[i..]) - pairs[i] * x);
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
        if self.sums.is_empty() {
            self.sums = vec![0.0; k * k];
        }
        let mut pending: Vec<f64> = Vec::new();
        onnxd_quant::blocks(tensor, |_, block| {
            pending.extend_from_slice(block);
            let whole = pending.len() / k;
            if whole >= SAMPLES {
                add(&mut self.sums, &pending[..whole * k], k);
                pending.drain(..whole * k);
            }
        });
        add(&mut self.sums, &pending, k);
    }

    fn merge(&mut self, later: &Self) {
        match self.sums.is_empty() {
            true => self.sums.clone_from(&later.sums),
            false => self.sums.iter_mut().zip(&later.sums).for_each(|(a, b)| *a += b),
        }
    }
}

/// Adds the upper triangle of `x' x` for rows of `k` numbers.
fn add(sums: &mut [f64], x: &[f64], k: usize) {
    sums.par_chunks_mut(k).enumerate().with_min_len(PART).for_each(|(i, sums)| {
        let sums = &mut sums[i..];
        // Four rows at a time, so that the sums are read and written less often.
        let mut fours = x.chunks_exact(4 * k);
        for rows in &mut fours {
            let ([a, b], [c, d]) = ([0, k], [2 * k, 3 * k]);
            let factors = [a, b, c, d].map(|row| rows[row + i]);
            let [a, b, c, d] = [a, b, c, d].map(|row| &rows[row + i..row + k]);
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += (factors[0] * a[j] + factors[1] * b[j])
                    + (factors[2] * c[j] + factors[3] * d[j]);
            }
        }
        for row in fours.remainder().chunks_exact(k) {
            sums.iter_mut().zip(&row[i..]).for_each(|(sum, x)| *sum += row[i] * x);
        }
    });
}

/// `U` of the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Inverse {
    k: usize,
    values: Vec<f32>,
}

impl Inverse {
    /// `None` if the sums have no inverse even when damped.
    pub(super) fn of(pairs: &Pairs) -> Option<Inverse> {
        let k = pairs.k;
        let diagonal = |i: usize| pairs.sums[i * k + i];
        let damping = DAMPING * (0..k).map(diagonal).sum::<f64>() / k as f64;
        // With the order reversed, inverse(H) = U' U follows from H = L L': U is L's inverse.
        let mut l = vec![0.0; k * k];
        for (i, row) in l.chunks_mut(k).enumerate() {
            for (j, x) in row.iter_mut().enumerate().take(i + 1) {
                *x = pairs.sums[(k - 1 - i) * k + (k - 1 - j)];
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

    /// Row `i` from its diagonal on.
    pub(super) fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.k + i..(i + 1) * self.k]
    }
}

/// The lower triangle becomes `L` of `L L'`, column by column.
fn factor(a: &mut [f64], k: usize) -> Option<()> {
    for j in 0..k {
        let (above, below) = a.split_at_mut((j + 1) * k);
        let row = &mut above[j * k..];
        let square = row[j] - dot(&row[..j], &row[..j]);
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        let root = square.sqrt();
        row[j] = root;
        let row = &*row;
        below.par_chunks_mut(k).with_min_len(64).for_each(|other| {
            other[j] = (other[j] - dot(&other[..j], &row[..j])) / root;
        });
    }
    Some(())
}

/// The inverse of a lower triangle; row `c` of the result is its column `c`.
fn inverse(l: &[f64], k: usize) -> Vec<f64> {
    let mut columns = vec![0.0; k * k];
    columns.par_chunks_mut(k).enumerate().for_each(|(c, column)| {
        column[c] = 1.0 / l[c * k + c];
        for i in c + 1..k {
            let row = &l[i * k..];
            column[i] = -dot(&row[c..i], &column[c..i]) / row[i];
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

fn dot32(a: &[f64], b: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * f64::from(*b));
    let rest: f64 = rest.sum();
    for (a, b) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += a[i] * f64::from(b[i]);
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_one() {
        let k = 13;
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
        assert!((pairs.sums[3 * k + 7] - f64::from(by_hand)).abs() < 1e-4);
        let u = Inverse::of(&pairs).unwrap();
        let damping = DAMPING * (0..k).map(|i| pairs.sums[i * k + i]).sum::<f64>() / k as f64;
        // U' U H is the identity.
        let at = |i: usize, j: usize| f64::from(u.values[i * k + j]);
        for i in 0..k {
            for j in 0..k {
                let inverse = |i: usize, l: usize| (0..k).map(|m| at(m, i) * at(m, l)).sum::<f64>();
                let sum = |l: usize| pairs.sums[l.min(j) * k + l.max(j)];
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
        let u = Inverse::of(&pairs).unwrap();
        assert!(u.values.iter().all(|x| x.is_finite()));
        pairs.see(&Tensor::from_vec([1, 3], vec![f32::NAN, 0.0, 1.0]));
        assert!(pairs.is_empty());
    }
}
