//! What is kept of the rows that a weighted operator reads: the same memory for ten samples as for a million.

use super::solve::{Task, WeightRow, solve};
use crate::observe::hessian::{DAMPING, Inverse, Pairs};
use onnxd_eval::{Columns, add_products};
use rayon::prelude::*;

/// Rows of weights that are worked on together, so that what they share is read once.
const TOGETHER: usize = 16;

/// Inputs above which no inverse is made: the work grows with the third power.
const INVERTED_MAX: usize = 2304;

/// Damping for as many rows as inputs: the fewer rows were seen, the more other directions matter
/// that no sample showed.
const UNKNOWN: f64 = 1.0;

/// Sums over rows of `k` inputs and the `n` outputs wanted of them.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    k: usize,
    pairs: Pairs,
    /// `[n, k]`: of outputs by inputs; nothing where only the layer's own errors count.
    cross: Vec<f32>,
    inputs: Vec<f64>,
    outputs: Vec<f64>,
    count: f64,
    /// What is added to each output of the whole product, or to all.
    bias: Vec<f64>,
}

impl Sums {
    /// Outputs are looked at if errors that came `before` count.
    pub(crate) fn new(n: usize, k: usize, before: bool) -> Sums {
        Sums {
            k,
            pairs: Pairs::new(k),
            cross: vec![0.0; if before { n * k } else { 0 }],
            inputs: vec![0.0; k],
            outputs: vec![0.0; n],
            count: 0.0,
            bias: Vec::new(),
        }
    }

    /// What the weighted operator that is seen next adds to its outputs.
    pub(crate) fn biased(&mut self, bias: &[f64]) {
        self.bias = bias.to_vec();
    }

    /// Takes in rows; the outputs are those from `first` on.
    pub(crate) fn add(&mut self, x: &[f32], y: &[f32], first: usize) {
        self.pairs.add(x);
        sum_rows(&mut self.inputs, x);
        self.count += (x.len() / self.k) as f64;
        if self.cross.is_empty() {
            return;
        }
        let n = self.outputs.len();
        let mut y = y.to_vec();
        if let Some(last) = self.bias.len().checked_sub(1) {
            let of = |r: usize| self.bias[(first + r).min(last)] as f32;
            y.chunks_mut(n).for_each(|y| y.iter_mut().enumerate().for_each(|(r, y)| *y -= of(r)));
        }
        let left = Columns { rows: &y, width: n, columns: 0..n };
        let right = Columns { rows: x, width: self.k, columns: 0..self.k };
        add_products(&mut self.cross, &left, &right);
        sum_rows(&mut self.outputs, &y);
    }

    /// Leaves what is about the means, where a bias takes up the rest.
    fn center(&mut self) {
        let mean = |sums: &[f64]| sums.iter().map(|s| s / self.count).collect::<Vec<f64>>();
        let means = mean(&self.inputs);
        self.pairs.center(&means, self.count);
        for (row, sum) in self.cross.chunks_mut(self.k).zip(&self.outputs) {
            row.iter_mut().zip(&means).for_each(|(to, mean)| *to -= (sum * mean) as f32);
        }
    }

    /// The integers of rows with the least error of the outputs; errors that came `before`, in the
    /// inputs, are made up for or do not count. `None` if nothing is known.
    pub(crate) fn integers(
        mut self,
        rows: &[WeightRow],
        centered: bool,
        before: bool,
    ) -> Option<Vec<Vec<i64>>> {
        if self.pairs.is_empty() {
            return None;
        }
        if centered {
            self.center();
        }
        if self.pairs.is_empty() || self.cross.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let share = DAMPING + UNKNOWN * self.k as f64 / self.count;
        let inverse =
            (self.k <= INVERTED_MAX).then(|| Inverse::from_pairs(&self.pairs, share)).flatten();
        let gram = self.pairs.damped(share);
        let parts = rows.par_chunks(TOGETHER).enumerate();
        let found = parts.flat_map_iter(|(part, rows)| {
            let first = part * TOGETHER * self.k;
            let slopes = match before {
                true => self.slopes(rows, &self.cross[first..first + rows.len() * self.k]),
                false => vec![vec![0.0; self.k]; rows.len()],
            };
            let tasks = rows.iter().zip(slopes).map(|(row, slope)| Task::new(row, slope));
            solve(&tasks.collect::<Vec<_>>(), &gram, inverse.as_ref())
        });
        Some(found.collect())
    }

    /// What is missing in the outputs of rows, summed with the inputs.
    fn slopes(&self, rows: &[WeightRow], cross: &[f32]) -> Vec<Vec<f32>> {
        let weights: Vec<&[f32]> = rows.iter().map(|row| row.values.as_slice()).collect();
        let made = self.pairs.times(&weights);
        let slope = |(cross, made): (&[f32], Vec<f64>)| -> Vec<f32> {
            cross.iter().zip(made).map(|(c, m)| (f64::from(*c) - m) as f32).collect()
        };
        cross.chunks(self.k).zip(made).map(slope).collect()
    }
}

/// Adds rows to sums, one for each column.
fn sum_rows(sums: &mut [f64], rows: &[f32]) {
    for row in rows.chunks(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
}
