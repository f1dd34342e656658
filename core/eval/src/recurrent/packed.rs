//! Products of a few rows with the same weights again and again: the state of each step with the recurrence weights.
//! These are packed once, in the order in which they are read.

use crate::gemm::{Matrix, PARALLEL_MIN, Product, Sizes, multiply_into};
use crate::parallel::{Block, for_each_block, threads, vectorized};

/// Columns of the product that are computed together.
const COLUMNS: usize = 32;
/// Rows that are.
const ROWS: usize = 2;
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
    pub(super) fn of(weights: &'a [T], (m, k, n): (usize, usize, usize)) -> Packed<'a, T> {
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
            return multiply_into(Sizes { m, k, n }, x, weights, y, n);
        }
        let alone = m.saturating_mul(n).saturating_mul(k) < PARALLEL_MIN;
        let tasks = if alone { 1 } else { threads() };
        let columns = n.div_ceil(tasks).next_multiple_of(COLUMNS);
        for_each_block(&mut y[..m * n], (m, n), columns, &|_, first, mut part| {
            self.some_columns(x, first, &mut part);
        });
    }

    /// Columns of the product from `first` on, which begins a block.
    fn some_columns(&self, x: &[T], first: usize, y: &mut Block<T>) {
        let (m, n) = y.sizes();
        let blocks = self.blocks[first * self.k..].chunks(COLUMNS * self.k);
        for (block, at) in blocks.zip((0..n).step_by(COLUMNS)) {
            let end = n.min(at + COLUMNS);
            for row in (0..m).step_by(ROWS) {
                let x = &x[row * self.k..];
                let mut sums = [[T::default(); COLUMNS]; ROWS];
                match row + 1 < m {
                    true => add_two(block, x.split_at(self.k), &mut sums),
                    false => add_one(block, &x[..self.k], &mut sums[0]),
                }
                for (i, sums) in sums.iter().enumerate().take(m - row) {
                    y.row(row + i)[at..end].copy_from_slice(&sums[..end - at]);
                }
            }
        }
    }
}

vectorized! {
    fn add_one<T: Product>(block: &[T], x: &[T], sums: &mut [T; COLUMNS]) {
        let mut own = *sums;
        for (w, x) in block.as_chunks::<COLUMNS>().0.iter().zip(x) {
            own.iter_mut().zip(w).for_each(|(sum, w)| *sum = sum.plus(x.times(*w)));
        }
        *sums = own;
    }
}

vectorized! {
    fn add_two<T: Product>(block: &[T], x: (&[T], &[T]), sums: &mut [[T; COLUMNS]; ROWS]) {
        let [mut first, mut second] = *sums;
        for (w, (a, b)) in block.as_chunks::<COLUMNS>().0.iter().zip(x.0.iter().zip(x.1)) {
            for j in 0..COLUMNS {
                first[j] = first[j].plus(a.times(w[j]));
                second[j] = second[j].plus(b.times(w[j]));
            }
        }
        *sums = [first, second];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_the_definition() {
        for (m, k, n) in [(1, 3, 1), (2, 5, 31), (3, 4, 33), (5, 1, 70), (24, 3, 40), (4, 64, 4200)]
        {
            let fill =
                |count: usize, by: usize| (0..count).map(move |i| (i * by % 11) as f32 - 5.0);
            let (x, w): (Vec<_>, Vec<_>) = (fill(m * k, 7).collect(), fill(n * k, 5).collect());
            let mut y = vec![f32::NAN; m * n];
            Packed::of(&w, (m, k, n)).multiply(&x, &mut y);
            for (at, y) in y.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let sum: f32 = (0..k).map(|l| x[i * k + l] * w[j * k + l]).sum();
                assert_eq!(*y, sum, "{m} {k} {n}: {i} {j}");
            }
        }
    }
}
