//! Matrix products of every element type: floats through `matrixmultiply`, integers exactly.

use crate::num::Num;

/// A matrix in memory: element (i, j) lies at `start + i * rows + j * columns`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    /// Distance of two rows.
    pub(crate) rows: usize,
    /// Distance of two columns.
    pub(crate) columns: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Row-major with rows of `width` elements.
    pub(crate) fn new(data: &'a [T], width: usize) -> Matrix<'a, T> {
        Matrix { data, rows: width, columns: 1 }
    }

    /// The transpose of a row-major matrix with rows of `width` elements.
    pub(crate) fn transposed(data: &'a [T], width: usize) -> Matrix<'a, T> {
        Matrix { data, rows: 1, columns: width }
    }

    /// Whether a matrix of `m` times `n` elements lies within its memory.
    fn holds(&self, m: usize, n: usize) -> bool {
        last(m, n, self.rows, self.columns).is_some_and(|last| last < self.data.len())
    }
}

fn last(m: usize, n: usize, rows: usize, columns: usize) -> Option<usize> {
    let down = m.checked_sub(1)?.checked_mul(rows)?;
    down.checked_add(n.checked_sub(1)?.checked_mul(columns)?)
}

/// Sizes of a product: `[m, k] * [k, n]`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// An element type that matrices can be multiplied over.
pub(crate) trait Product: Num {
    /// `c += a * b`, where `c` has rows `stride` elements apart.
    ///
    /// # Panics
    /// If a matrix does not lie within its memory.
    fn multiply_add(s: Sizes, a: Matrix<Self>, b: Matrix<Self>, c: &mut [Self], stride: usize) {
        if !checked(s, &a, &b, c, stride) {
            return;
        }
        for i in 0..s.m {
            let row = &mut c[i * stride..i * stride + s.n];
            for k in 0..s.k {
                let factor = a.data[i * a.rows + k * a.columns];
                if factor == Self::default() {
                    continue;
                }
                let b = Matrix { data: &b.data[k * b.rows..], ..b };
                if b.columns == 1 {
                    for (y, x) in row.iter_mut().zip(b.data) {
                        *y = y.plus(factor.times(*x));
                    }
                } else {
                    for (j, y) in row.iter_mut().enumerate() {
                        *y = y.plus(factor.times(b.data[j * b.columns]));
                    }
                }
            }
        }
    }
}

/// Whether there is anything to compute.
///
/// # Panics
/// If a matrix does not lie within its memory.
fn checked<T>(s: Sizes, a: &Matrix<T>, b: &Matrix<T>, c: &[T], stride: usize) -> bool {
    if s.m == 0 || s.k == 0 || s.n == 0 {
        return false;
    }
    assert!(a.holds(s.m, s.k) && b.holds(s.k, s.n), "factors lie within their memory");
    assert!(s.m == 1 || stride >= s.n, "rows of the product do not overlap");
    assert!(last(s.m, s.n, stride, 1).is_some_and(|l| l < c.len()), "the product has room");
    true
}

macro_rules! floats {
    ($($t:ident $gemm:ident),*) => { $(impl Product for $t {
        fn multiply_add(s: Sizes, a: Matrix<$t>, b: Matrix<$t>, c: &mut [$t], stride: usize) {
            if !checked(s, &a, &b, c, stride) {
                return;
            }
            let signed = |n: usize| isize::try_from(n).expect("strides lie within memory");
            // SAFETY: `checked` has shown that all three matrices lie within their slices and that
            // the rows of `c` do not overlap; `c` is borrowed exclusively.
            unsafe {
                matrixmultiply::$gemm(
                    s.m, s.k, s.n, 1.0,
                    a.data.as_ptr(), signed(a.rows), signed(a.columns),
                    b.data.as_ptr(), signed(b.rows), signed(b.columns),
                    1.0, c.as_mut_ptr(), signed(stride), 1,
                );
            }
        }
    })* };
}

floats!(f32 sgemm, f64 dgemm);

impl Product for i32 {}
impl Product for u32 {}
impl Product for i64 {}
impl Product for u64 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_and_accumulation() {
        let a = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let b = [1f32, 0.0, 0.0, 1.0, 1.0, 1.0];
        let s = Sizes { m: 2, k: 3, n: 2 };
        let mut c = [10f32, 10.0, 0.0, 10.0, 10.0];
        f32::multiply_add(s, Matrix::new(&a, 3), Matrix::new(&b, 2), &mut c, 3);
        assert_eq!(c, [14.0, 15.0, 0.0, 20.0, 21.0]);
        let (a, b) = (a.map(|x| x as i32), b.map(|x| x as i32));
        let mut c = [0i32; 4];
        i32::multiply_add(s, Matrix::new(&a, 3), Matrix::new(&b, 2), &mut c, 2);
        assert_eq!(c, [4, 5, 10, 11]);
        let mut c = [0i32; 9];
        let s = Sizes { m: 3, k: 2, n: 3 };
        i32::multiply_add(s, Matrix::transposed(&a, 3), Matrix::transposed(&b, 2), &mut c, 3);
        assert_eq!(c, [1, 4, 5, 2, 5, 7, 3, 6, 9]);
    }

    #[test]
    #[should_panic(expected = "within their memory")]
    fn a_matrix_too_small_is_refused() {
        let s = Sizes { m: 2, k: 2, n: 2 };
        f32::multiply_add(
            s,
            Matrix::new(&[1.0; 3], 2),
            Matrix::new(&[1.0; 4], 2),
            &mut [0.0; 4],
            2,
        );
    }
}
