//! Matrix products of every element type: floats through `matrixmultiply`, integers exactly.

use crate::num::Num;
use crate::parallel::{ColumnBlock, for_each_block, for_each_chunk, threads, vectorized};
use crate::steps::ElementStep;
use std::cell::Cell;
use std::mem::MaybeUninit;

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

    /// The part that begins `n` elements on.
    fn skip(self, n: usize) -> Matrix<'a, T> {
        Matrix { data: &self.data[n..], ..self }
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
pub(crate) struct GemmSizes {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// An element type that matrices can be multiplied over.
pub(crate) trait Product: Num {
    /// Applies what follows a product to elements of the result from index `at` on. Only `f32` is ever followed.
    fn follow(steps: &[ElementStep], at: usize, run: &mut [Self]) {
        let _ = (steps, at, run);
    }

    /// Memory for intermediate results: that of an earlier one, where the type keeps it.
    fn scratch() -> Vec<Self> {
        Vec::new()
    }

    /// Gives memory back to [`Product::scratch`].
    fn keep(memory: Vec<Self>) {
        drop(memory);
    }

    /// `c = a * b`, or `c += a * b`, where `c` has rows `stride` elements apart.
    ///
    /// # Safety
    /// All three lie within their memory: `a` and `b` as [`Matrix::holds`] says, and `c` with `s.m` rows
    /// of `s.n` elements that do not overlap. Nothing else touches the elements of `c`, which hold
    /// something if the product is added. Those of `c` hold something afterwards.
    unsafe fn product(s: GemmSizes, a: Matrix<Self>, b: Matrix<Self>, to: To<Self>) {
        for i in 0..s.m {
            let row = to.start.wrapping_add(i * to.stride);
            if !to.adds {
                // SAFETY: row `i` of `c` has `n` elements within its memory, which is ours alone, as the
                // caller promises.
                (0..s.n).for_each(|j| unsafe { row.add(j).write(Self::default()) });
            }
            // SAFETY: the same row, whose elements hold something: zeros from just now, or what the
            // caller promises where the product is added.
            let row = unsafe { std::slice::from_raw_parts_mut(row, s.n) };
            for k in 0..s.k {
                let factor = a.data[i * a.rows + k * a.columns];
                if factor == Self::default() {
                    continue;
                }
                let b = Matrix { data: &b.data[k * b.rows..], ..b };
                for (j, y) in row.iter_mut().enumerate() {
                    *y = y.plus(factor.times(b.data[j * b.columns]));
                }
            }
        }
    }
}

/// Where a product goes.
#[derive(Clone, Copy)]
pub(crate) struct To<T> {
    start: *mut T,
    /// Distance of two rows.
    stride: usize,
    /// Whether it is added to what is there.
    adds: bool,
}

/// Some columns of rows of `width` elements.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    /// The rows, one after the other.
    pub rows: &'a [f32],
    /// Elements of a row.
    pub width: usize,
    /// Which columns.
    pub columns: std::ops::Range<usize>,
}

/// Adds to `sums`, for all pairs of a left and a right column, their product summed over the rows.
///
/// # Panics
/// If columns are not within the rows, or `sums` is too small.
pub fn add_products(sums: &mut [f32], left: &Columns, right: &Columns) {
    let (m, n) = (left.columns.len(), right.columns.len());
    let count = |c: &Columns| c.rows.len() / c.width.max(1);
    let sizes = GemmSizes { m, k: count(left).min(count(right)), n };
    if m == 0 || n == 0 || sizes.k == 0 {
        return;
    }
    let a = Matrix::transposed(left.rows, left.width).skip(left.columns.start);
    let b = Matrix::new(right.rows, right.width).skip(right.columns.start);
    multiply_add(sizes, a, b, sums, n);
}

/// `c += a * b`, where `c` has rows `stride` elements apart. The longer side of the product is
/// shared out over the threads.
///
/// # Panics
/// If a matrix does not lie within its memory.
pub(crate) fn multiply_add<T: Product>(
    s: GemmSizes,
    a: Matrix<T>,
    b: Matrix<T>,
    c: &mut [T],
    stride: usize,
) {
    let (start, len) = (c.as_mut_ptr().cast(), c.len());
    // SAFETY: the same memory, borrowed exclusively, which may be seen as one that holds nothing as long
    // as only elements are written. `multiply` writes whole elements or leaves them.
    let c = unsafe { std::slice::from_raw_parts_mut(start, len) };
    multiply(s, a, b, (c, stride), true);
}

/// The same, or `c = a * b`, after which all of `c` that the product covers holds something.
fn multiply<T: Product>(
    s: GemmSizes,
    a: Matrix<T>,
    b: Matrix<T>,
    (c, stride): (&mut [MaybeUninit<T>], usize),
    adds: bool,
) {
    // From here on every product lies within its memory.
    if !checked(s, &a, &b, c, stride) {
        return;
    }
    let to = |c: *mut MaybeUninit<T>| To { start: c.cast(), stride, adds };
    let small = s.m.saturating_mul(s.n).saturating_mul(s.k) < PARALLEL_MIN;
    let threads = if small { 1 } else { threads() };
    if s.n < s.m {
        let part = s.m.div_ceil(threads).next_multiple_of(ALIGNED);
        let rows = |i: usize, c: &mut [MaybeUninit<T>]| {
            let m = part.min(s.m - i * part);
            let a = a.skip(i * part * a.rows);
            // SAFETY: `checked` has shown that the whole product lies within its memory, so that `m` rows
            // of it do. These rows of `c` are this task's alone. What is added to holds something, as
            // `multiply_add` gives such memory, and `multiplied_rows` adds from the second panel on.
            unsafe { T::product(GemmSizes { m, ..s }, a, b, to(c.as_mut_ptr())) };
        };
        let used = (s.m - 1) * stride + s.n;
        match part >= s.m {
            true => rows(0, c),
            false => for_each_chunk(&mut c[..used], part * stride, &rows),
        }
        return;
    }
    let part = s.n.div_ceil(threads).next_multiple_of(ALIGNED);
    if part >= s.n || stride != s.n {
        // SAFETY: `checked` has shown that the product lies within its memory. `c` is borrowed exclusively,
        // and holds something where it is added to, as above.
        unsafe { T::product(s, a, b, to(c.as_mut_ptr())) };
        return;
    }
    for_each_block(&mut c[..s.m * s.n], (s.m, s.n), part, &|_, first, mut block| {
        let ((_, n), (c, _)) = (block.sizes(), block.parts());
        // SAFETY: `checked` has shown that the whole product lies within its memory, so that `n` columns
        // from `first` on do. The block is this task's alone, and holds something where it is added to, as
        // above.
        unsafe { T::product(GemmSizes { n, ..s }, a, b.skip(first * b.columns), to(c)) };
    });
}

/// `c = a * b`, where `c` has rows `stride` elements apart.
///
/// # Panics
/// If a matrix does not lie within its memory.
pub(crate) fn multiply_into<T: Product>(
    s: GemmSizes,
    a: Matrix<T>,
    b: Matrix<T>,
    c: &mut [T],
    stride: usize,
) {
    let (start, len) = (c.as_mut_ptr().cast(), c.len());
    // SAFETY: as in `multiply_add`.
    let c = unsafe { std::slice::from_raw_parts_mut(start, len) };
    multiply(s, a, b, (c, stride), false);
}

/// Rows of a panel: as many as products take at a time.
const PANEL: usize = 256;

/// `a * b` of row-major matrices without gaps. Where the numbers of `b` lie at odd places, as in
/// files that are mapped, they are copied a panel at a time, which is in the cache when it is read.
///
/// # Panics
/// If a matrix does not lie within its memory.
pub(crate) fn multiplied_rows<T: Product>(s: GemmSizes, a: &[T], b: &[u8]) -> Vec<T> {
    assert_eq!(b.len(), s.k * s.n * size_of::<T>(), "all of the right factor");
    if s.k == 0 {
        return vec![T::default(); s.m * s.n];
    }
    let mut product = Vec::with_capacity(s.m * s.n);
    let c = &mut product.spare_capacity_mut()[..s.m * s.n];
    let a = Matrix::new(a, s.k);
    if let Ok(b) = bytemuck::try_cast_slice(b) {
        multiply(s, a, Matrix::new(b, s.n), (c, s.n), false);
    } else {
        let mut panel = T::scratch();
        for (i, bytes) in b.chunks(PANEL * s.n.max(1) * size_of::<T>()).enumerate() {
            // All of it is overwritten.
            panel.resize(bytes.len() / size_of::<T>(), T::default());
            bytemuck::cast_slice_mut(&mut panel).copy_from_slice(bytes);
            let k = panel.len() / s.n.max(1);
            let b = Matrix::new(&panel, s.n);
            multiply(GemmSizes { k, ..s }, a.skip(i * PANEL), b, (c, s.n), i > 0);
        }
        T::keep(panel);
    }
    // SAFETY: the product has rows and columns of one size without gaps, and `multiply` has written
    // all of it; without any, there is nothing to write.
    unsafe { product.set_len(s.m * s.n) };
    product
}

/// `block += a * b`, on one thread; `k` is the length of the rows of `a`.
///
/// # Panics
/// If a matrix does not lie within its memory.
pub(crate) fn add_to_block<T: Product>(
    k: usize,
    a: Matrix<T>,
    b: Matrix<T>,
    block: &mut ColumnBlock<T>,
) {
    let (m, n) = block.sizes();
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    assert!(a.holds(m, k) && b.holds(k, n), "factors lie within their memory");
    let (c, stride) = block.parts();
    let to = To { start: c, stride, adds: true };
    // SAFETY: both factors have just been checked. The block is borrowed exclusively, has `m` rows of `n`
    // elements `stride` apart, and holds something, as a `ColumnBlock` of `T` does.
    unsafe { T::product(GemmSizes { m, k, n }, a, b, to) };
}

/// Multiplications below which one thread does the work alone.
pub(crate) const PARALLEL_MIN: usize = 1 << 20;
/// Rows or columns of a task are a multiple of this, for the sake of the products' inner loops.
pub(crate) const ALIGNED: usize = 16;

/// Whether there is anything to compute.
///
/// # Panics
/// If a matrix does not lie within its memory.
fn checked<T, C>(s: GemmSizes, a: &Matrix<T>, b: &Matrix<T>, c: &[C], stride: usize) -> bool {
    if s.m == 0 || s.k == 0 || s.n == 0 {
        return false;
    }
    assert!(a.holds(s.m, s.k) && b.holds(s.k, s.n), "factors lie within their memory");
    assert!(s.m == 1 || stride >= s.n, "rows of the product do not overlap");
    assert!(last(s.m, s.n, stride, 1).is_some_and(|l| l < c.len()), "the product has room");
    true
}

macro_rules! floats {
    ($($t:ident $gemm:ident { $($item:item)* }),*) => { $(impl Product for $t {
        $($item)*
        unsafe fn product(s: GemmSizes, a: Matrix<$t>, b: Matrix<$t>, to: To<$t>) {
            if s.m.min(s.n) == 1 {
                // SAFETY: the caller promises what `vector_product` asks; a size has just been seen to be 1.
                return unsafe { vector_product(s, a, b, to) };
            }
            let signed = |n: usize| isize::try_from(n).expect("strides lie within memory");
            let (ra, ca, rb, cb) = (a.rows, a.columns, b.rows, b.columns);
            let [ra, ca, rb, cb, rc] = [ra, ca, rb, cb, to.stride].map(signed);
            // With a zero, the library does not read what is there.
            let (a, b, c, old) = (a.data.as_ptr(), b.data.as_ptr(), to.start, to.adds.into());
            // The library packs its left factor in blocks that fit a core's own cache, so the longer
            // side goes left: `a * b` is the transpose of `b' * a'`.
            // SAFETY: the library reads and writes the elements that sizes and strides say, in either order
            // of the factors. They lie within their memory, and those of `c` are ours alone, as the caller
            // promises.
            unsafe {
                if s.n > s.m {
                    matrixmultiply::$gemm(
                        s.n, s.k, s.m, 1.0, b, cb, rb, a, ca, ra, old, c, 1, rc,
                    );
                } else {
                    matrixmultiply::$gemm(
                        s.m, s.k, s.n, 1.0, a, ra, ca, b, rb, cb, old, c, rc, 1,
                    );
                }
            }
        }
    })* };
}

floats!(
    f32 sgemm {
        fn follow(steps: &[ElementStep], at: usize, run: &mut [f32]) {
            steps.iter().for_each(|step| step.apply(at, run));
        }

        fn scratch() -> Vec<f32> {
            SCRATCH.take()
        }

        fn keep(memory: Vec<f32>) {
            if memory.capacity() <= SCRATCH_MAX {
                SCRATCH.set(memory);
            }
        }
    },
    f64 dgemm {}
);

/// Elements of memory that each thread keeps at most.
const SCRATCH_MAX: usize = 1 << 21;

thread_local! {
    /// Taken while it is in use, as a thread may begin another task while it waits for one. Fresh
    /// memory would be cleared by the system each time.
    static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// A product with a vector reads its matrix once, which takes longer than the arithmetic.
///
/// # Safety
/// As [`Product::product`]; `m` or `n` is one.
unsafe fn vector_product<T: Product>(s: GemmSizes, a: Matrix<T>, b: Matrix<T>, to: To<T>) {
    // The vector is put to the left: `a * b` is the transpose of `b' * a'`.
    let flipped = |x: Matrix<'_, T>| (x.rows, x.columns);
    let (n, (vector, step), matrix, (columns, rows), gap) = if s.m == 1 {
        (s.n, (a.data, a.columns), b.data, (b.columns, b.rows), 1)
    } else {
        (s.m, (b.data, b.rows), a.data, flipped(a), to.stride)
    };
    let vector: Vec<T> = vector.iter().step_by(step.max(1)).take(s.k).copied().collect();
    let mut sums = vec![T::default(); n];
    if rows == 1 {
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = dot(&vector, &matrix[j * columns..][..s.k]);
        }
    } else if columns == 1 {
        for (k, factor) in vector.iter().enumerate() {
            add_scaled(&mut sums, *factor, &matrix[k * rows..][..n]);
        }
    } else {
        for (j, sum) in sums.iter_mut().enumerate() {
            let column = matrix[j * columns..].iter().step_by(rows);
            *sum = vector.iter().zip(column).fold(T::default(), |y, (v, x)| y.plus(v.times(*x)));
        }
    }
    for (j, sum) in sums.iter().enumerate() {
        // SAFETY: `c` has `n` elements `gap` apart, in its one row or column. They lie within its memory,
        // which is ours alone, and hold something where they are read, as the caller promises.
        unsafe {
            let y = to.start.add(j * gap);
            y.write(if to.adds { y.read().plus(*sum) } else { *sum });
        }
    }
}

vectorized! {
    fn dot<T: Product>(a: &[T], b: &[T]) -> T {
        let mut lanes = [T::default(); 32];
        let (a, a_rest) = a.as_chunks::<32>();
        let (b, b_rest) = b.as_chunks::<32>();
        for (a, b) in a.iter().zip(b) {
            for ((y, a), b) in lanes.iter_mut().zip(a).zip(b) {
                *y = y.plus(a.times(*b));
            }
        }
        let rest = a_rest.iter().zip(b_rest).fold(T::default(), |y, (a, b)| y.plus(a.times(*b)));
        lanes.iter().fold(rest, |y, lane| y.plus(*lane))
    }
}

vectorized! {
    fn add_scaled<T: Product>(y: &mut [T], factor: T, x: &[T]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = y.plus(factor.times(*x)));
    }
}

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
        let s = GemmSizes { m: 2, k: 3, n: 2 };
        let mut c = [10f32, 10.0, 0.0, 10.0, 10.0];
        multiply_add(s, Matrix::new(&a, 3), Matrix::new(&b, 2), &mut c, 3);
        assert_eq!(c, [14.0, 15.0, 0.0, 20.0, 21.0]);
        let (a, b) = (a.map(|x| x as i32), b.map(|x| x as i32));
        let mut c = [0i32; 4];
        multiply_add(s, Matrix::new(&a, 3), Matrix::new(&b, 2), &mut c, 2);
        assert_eq!(c, [4, 5, 10, 11]);
        let mut c = [0i32; 9];
        let s = GemmSizes { m: 3, k: 2, n: 3 };
        multiply_add(s, Matrix::transposed(&a, 3), Matrix::transposed(&b, 2), &mut c, 3);
        assert_eq!(c, [1, 4, 5, 2, 5, 7, 3, 6, 9]);
    }

    #[test]
    #[should_panic(expected = "within their memory")]
    fn a_matrix_too_small_is_refused() {
        let s = GemmSizes { m: 2, k: 2, n: 2 };
        multiply_add(s, Matrix::new(&[1.0; 3], 2), Matrix::new(&[1.0; 4], 2), &mut [0.0; 4], 2);
    }
}
