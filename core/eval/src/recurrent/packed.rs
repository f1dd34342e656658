//! Products of a few rows with the same weights again and again: the state of each step with the recurrence weights.
//! These are packed once, in the order in which they are read.

use crate::gemm::{GemmSizes, Matrix, PARALLEL_MIN, Product, multiply_into};
use crate::parallel::{ColumnBlock, for_each_block, products, threads};
use std::array::from_fn;

/// Columns of the product that are computed together.
const COLUMNS: usize = 32;
/// Rows that are.
const ROWS: usize = 4;
/// With as many rows a product that packs its factors each time takes less.
const MANY: usize = 24;

/// Weights of `n` rows of length `k`, which stand for the columns of a right factor.
pub(super) struct Packed<'a, T> {
    weights: &'a [T],
    k: usize,
    n: usize,
    /// For each block of columns one row after the other; empty where there are many rows to come.
    blocks: Vec<T>,
}

impl<'a, T: Product> Packed<'a, T> {
    /// For products with `m` rows.
    pub(super) fn pack(weights: &'a [T], (m, k, n): (usize, usize, usize)) -> Packed<'a, T> {
        let mut blocks = vec![];
        if m < MANY && k > 0 {
            blocks = vec![T::default(); n.div_ceil(COLUMNS) * COLUMNS * k];
            for (j, row) in weights.chunks(k).take(n).enumerate() {
                let block = &mut blocks[j / COLUMNS * COLUMNS * k..];
                let column = block.iter_mut().skip(j % COLUMNS).step_by(COLUMNS);
                column.zip(row).for_each(|(to, v)| *to = *v);
            }
        }
        Packed { weights, k, n, blocks }
    }

    /// Columns of a product.
    pub(super) fn columns(&self) -> usize {
        self.n
    }

    /// `y = x * weights'` for the rows of `x`.
    pub(super) fn multiply(&self, x: &[T], y: &mut [T]) {
        let (k, n) = (self.k, self.n);
        let m = x.len() / k.max(1);
        if self.blocks.is_empty() || m >= MANY {
            let (x, weights) = (Matrix::new(x, k), Matrix::transposed(self.weights, k));
            return multiply_into(GemmSizes { m, k, n }, x, weights, y, n);
        }
        let alone = m.saturating_mul(n).saturating_mul(k) < PARALLEL_MIN;
        let tasks = if alone { 1 } else { threads() };
        let columns = n.div_ceil(tasks).next_multiple_of(COLUMNS);
        for_each_block(&mut y[..m * n], (m, n), columns, &|_, first, mut part| {
            self.some_columns(x, first, &mut part);
        });
    }

    /// Columns of the product from `first` on, which begins a block.
    fn some_columns(&self, x: &[T], first: usize, y: &mut ColumnBlock<T>) {
        let (m, n) = y.sizes();
        let row_of = |i: usize| &x[i * self.k..(i + 1) * self.k];
        let blocks = self.blocks[first * self.k..].chunks(COLUMNS * self.k);
        for (block, at) in blocks.zip((0..n).step_by(COLUMNS)) {
            let end = n.min(at + COLUMNS);
            let mut row = 0;
            while row < m {
                let mut sums = [[T::default(); COLUMNS]; ROWS];
                let count = if m - row < ROWS { 1 } else { ROWS };
                match count {
                    1 => add_one(block, row_of(row), &mut sums[0]),
                    _ => add_several(block, from_fn(|i| row_of(row + i)), &mut sums),
                }
                for (i, sums) in sums.iter().enumerate().take(count) {
                    y.row(row + i)[at..end].copy_from_slice(&sums[..end - at]);
                }
                row += count;
            }
        }
    }
}

products! {
    fn add_one<T: Product>(block: &[T], x: &[T], sums: &mut [T; COLUMNS]) {
        let mut own = *sums;
        for (w, x) in block.as_chunks::<COLUMNS>().0.iter().zip(x) {
            for j in 0..COLUMNS {
                own[j] = S::add(own[j], *x, w[j]);
            }
        }
        *sums = own;
    }
}

/// Columns whose sums for several rows fit into registers.
const HALF: usize = COLUMNS / 2;

products! {
    /// The halves of the columns one after the other, so that weights are read once for all rows.
    fn add_several<T: Product>(block: &[T], x: [&[T]; ROWS], sums: &mut [[T; COLUMNS]; ROWS]) {
        let weights = block.as_chunks::<COLUMNS>().0;
        let x = x.map(|x| &x[..weights.len()]);
        for first in [0, HALF] {
            let mut own = [[T::default(); HALF]; ROWS];
            for (k, w) in weights.iter().enumerate() {
                let w = &w[first..first + HALF];
                for i in 0..ROWS {
                    for j in 0..HALF {
                        own[i][j] = S::add(own[i][j], x[i][k], w[j]);
                    }
                }
            }
            for i in 0..ROWS {
                sums[i][first..first + HALF].copy_from_slice(&own[i]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_the_definition() {
        for (m, k, n) in [(1, 3, 1), (2, 5, 31), (3, 4, 33), (9, 1, 70), (24, 3, 40), (4, 64, 4200)]
        {
            let fill =
                |count: usize, by: usize| (0..count).map(move |i| (i * by % 11) as f32 - 5.0);
            let (x, w): (Vec<_>, Vec<_>) = (fill(m * k, 7).collect(), fill(n * k, 5).collect());
            let mut y = vec![f32::NAN; m * n];
            Packed::pack(&w, (m, k, n)).multiply(&x, &mut y);
            for (at, y) in y.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum: f32 = (0..k).map(|l| x[i * k + l] * w[j * k + l]).sum();
                assert_eq!(*y, sum, "{m} {k} {n}: {i} {j}");
            }
        }
    }
}
