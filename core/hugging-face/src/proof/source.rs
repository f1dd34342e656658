//! Weights as the bytes of the checkpoint say them, a row at a time.

use super::forms::{Form, form};
use crate::raw::{Find, Raw};
use bytes::Bytes;

/// What is computed plainly, or why it is not.
pub(crate) type Plain<T> = Result<T, String>;

/// Elements of a token, of a head, or of a row of weights.
pub(super) type Row = Vec<f64>;

/// A tensor by its rows.
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether rows are inputs, and not outputs.
    pub(super) rows_are_inputs: bool,
    elements: Elements,
}

enum Elements {
    Stored(Form, Bytes),
    Packed(Box<dyn Rows>),
}

/// What rows are computed from.
pub(super) trait Rows {
    /// Reads row `i`.
    fn row(&self, i: usize, into: &mut [f64]);
}

impl Matrix {
    /// The tensor `name`, if it is there. A vector is one row.
    pub(super) fn find(find: &Find<'_>, name: &str) -> Plain<Option<Matrix>> {
        let Some(Raw { kind, dims, bytes }) = find(name) else { return Ok(None) };
        let form = form(&kind).ok_or_else(|| format!("`{name}` has elements of type {kind}"))?;
        let bytes = bytes.ok_or_else(|| format!("`{name}` does not lie row by row in its file"))?;
        // Beside no elements, other sizes may be of any size.
        if dims.contains(&0) {
            return Err(format!("`{name}` has no elements"));
        }
        let columns = dims.last().copied().unwrap_or(1);
        let rows = dims.iter().rev().skip(1).product();
        let of_row = columns / form.elements * form.bytes;
        let is_whole = columns.is_multiple_of(form.elements);
        match is_whole && bytes.len() == rows * of_row {
            true => {
                let elements = Elements::Stored(form, bytes);
                Ok(Some(Matrix { rows, columns, rows_are_inputs: false, elements }))
            }
            false => Err(format!("`{name}` has another number of bytes than its sizes say")),
        }
    }

    /// One of so many matrices that lie one behind the other.
    pub(super) fn one_of(self, i: usize, count: usize) -> Option<Matrix> {
        if count == 0 || i >= count || !self.rows.is_multiple_of(count) {
            return None;
        }
        let Elements::Stored(form, bytes) = self.elements else { return None };
        let size = bytes.len() / count;
        let elements = Elements::Stored(form, bytes.slice(i * size..(i + 1) * size));
        Some(Matrix { rows: self.rows / count, elements, ..self })
    }

    /// One that words stand for.
    pub(super) fn packed(
        [rows, columns]: [usize; 2],
        rows_are_inputs: bool,
        words: impl Rows + 'static,
    ) -> Matrix {
        let elements = Elements::Packed(Box::new(words));
        Matrix { rows, columns, rows_are_inputs, elements }
    }

    /// Reads row `i`.
    pub(super) fn row(&self, i: usize, into: &mut [f64]) {
        match &self.elements {
            Elements::Stored(form, bytes) => {
                let width = self.columns / form.elements * form.bytes;
                (form.read)(&bytes[i * width..(i + 1) * width], into);
            }
            Elements::Packed(words) => words.row(i, into),
        }
    }

    /// All elements.
    pub(super) fn all(&self) -> Row {
        let mut all = vec![0.0; self.rows * self.columns];
        for (i, row) in all.chunks_exact_mut(self.columns.max(1)).enumerate() {
            self.row(i, row);
        }
        all
    }

    /// Inputs and outputs.
    pub(super) fn sizes(&self) -> [usize; 2] {
        match self.rows_are_inputs {
            true => [self.rows, self.columns],
            false => [self.columns, self.rows],
        }
    }

    /// What the weights make of each token, which has as many elements as they have inputs.
    pub(super) fn times(&self, x: &[Row]) -> Vec<Row> {
        match self.rows_are_inputs {
            true => self.sums(x),
            false => self.products(x),
        }
    }

    /// `W x` of each token, for weights with a row for each output.
    fn products(&self, x: &[Row]) -> Vec<Row> {
        let mut all = vec![vec![0.0; self.rows]; x.len()];
        let mut row = vec![0.0; self.columns];
        for i in 0..self.rows {
            self.row(i, &mut row);
            for (y, x) in all.iter_mut().zip(x) {
                y[i] = dot(&row, x);
            }
        }
        all
    }

    /// `x W` of each token, for weights with a row for each input.
    fn sums(&self, x: &[Row]) -> Vec<Row> {
        let mut all = vec![vec![0.0; self.columns]; x.len()];
        let mut row = vec![0.0; self.columns];
        for i in 0..self.rows {
            self.row(i, &mut row);
            for (y, x) in all.iter_mut().zip(x) {
                y.iter_mut().zip(&row).for_each(|(y, w)| *y += w * x[i]);
            }
        }
        all
    }
}

/// Written out, so that builds for size do several products at once, too.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, last_a), (b, last_b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let rest: f64 = last_a.iter().zip(last_b).map(|(a, b)| a * b).sum();
    let mut s = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        s = [
            s[0] + a[0] * b[0],
            s[1] + a[1] * b[1],
            s[2] + a[2] * b[2],
            s[3] + a[3] * b[3],
            s[4] + a[4] * b[4],
            s[5] + a[5] * b[5],
            s[6] + a[6] * b[6],
            s[7] + a[7] * b[7],
        ];
    }
    s.iter().sum::<f64>() + rest
}
