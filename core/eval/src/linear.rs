//! Matrix products.

use crate::call::{KernelCall, KernelRow, one, raw, row};
use crate::cells::expanded;
use crate::dims::{broadcast, broadcast_strides, for_each_index};
use crate::exact;
use crate::fault::{Fault, Outcome};
use crate::gemm::{
    ALIGNED, GemmSizes, Matrix, Product, multiplied_rows, multiply_add, multiply_into,
};
use crate::num::{Num, slice, typed};
use crate::parallel::for_each_chunk;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] =
    &[row("Gemm", gemm), row("MatMul", matmul), raw("MatMulInteger", matmul_integer)];

/// [`typed!`] for the element types that products are defined on.
macro_rules! product {
    ($dtype:expr, $t:ident => $body:expr) => {
        typed!($dtype, $t => $body;
            Float f32, Double f64, Int32 i32, Uint32 u32, Int64 i64, Uint64 u64)
    };
}

/// `alpha * A' * B' + beta * C`, where A' and B' may be transposed.
fn gemm(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = (call.x(0)?, call.x(1)?);
    let (flip_a, flip_b) = (call.flag("transA", false)?, call.flag("transB", false)?);
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let shape = |x: &Tensor, flip: bool| match (x.dims(), flip) {
        ([m, n], false) | ([n, m], true) => Ok((*m, *n)),
        _ => Err(Fault::invalid(format!("{x:?} is not a matrix"))),
    };
    let ((m, k), (k_b, n)) = (shape(a, flip_a)?, shape(b, flip_b)?);
    refuse!(k != k_b || a.dtype() != b.dtype() => "{a:?} and {b:?} cannot be multiplied");
    let dims = vec![m, n];
    call.room_like(a, &dims)?;
    product!(a.dtype(), T => {
        let s = GemmSizes { m, k, n };
        let a = call.slice::<T>(0)?;
        let a = if flip_a { Matrix::transposed(&a, m) } else { Matrix::new(&a, k) };
        let mut y = if b.derivation().is_some() {
            columns_at_a_time(s, a, (b, flip_b))?
        } else {
            let b = slice::<T>(b)?;
            let b = if flip_b { Matrix::transposed(&b, k) } else { Matrix::new(&b, n) };
            let mut y = vec![T::default(); m * n];
            multiply_add(s, a, b, &mut y, n);
            y
        };
        if alpha != 1.0 {
            y.iter_mut().for_each(|v| *v = scaled(*v, alpha));
        }
        if let Some(c) = call.opt(2) {
            let c = gemm_bias(c, &dims)?;
            let c = slice::<T>(&c)?;
            y.iter_mut().zip(c.iter()).for_each(|(v, c)| *v = v.plus(scaled(*c, beta)));
        }
        one(Tensor::from_vec(dims, y))
    })
}

pub(crate) fn gemm_bias(c: &Tensor, dims: &[usize]) -> Outcome<Tensor> {
    refuse!(broadcast(c.dims(), dims)? != dims || c.rank() > 2 => "{c:?} does not broadcast to the product {dims:?}");
    expanded(c, dims)
}

/// Floats scale in their own type, integers through `f64`.
fn scaled<T: Num>(x: T, by: f32) -> T {
    if by == 1.0 {
        x
    } else if T::INTEGER {
        T::from_f64(x.to_f64() * f64::from(by))
    } else {
        x.times(T::from_f64(f64::from(by)))
    }
}

fn matmul(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b) = (call.x(0)?, call.x(1)?);
    refuse!(a.dtype() != b.dtype() => "{a:?} and {b:?} differ in element type");
    product!(a.dtype(), T => one(multiplied::<T>(call, a, b)?))
}

/// The product over the two innermost axes; the others broadcast. A vector stands for a row or a
/// column.
pub(crate) fn multiplied<T: Product>(call: &KernelCall, a: &Tensor, b: &Tensor) -> Outcome<Tensor> {
    let misfit = || Fault::invalid(format!("{a:?} and {b:?} cannot be multiplied"));
    let (batch_a, m, k) = match a.dims() {
        [] => return Err(misfit()),
        [k] => (&[][..], 1, *k),
        [batch @ .., m, k] => (batch, *m, *k),
    };
    let (batch_b, k_b, n) = match b.dims() {
        [] => return Err(misfit()),
        [k] => (&[][..], *k, 1),
        [batch @ .., k, n] => (batch, *k, *n),
    };
    refuse!(k != k_b || a.dtype() != b.dtype() => misfit());
    let batch = broadcast(batch_a, batch_b)?;
    let mut dims = batch.clone();
    dims.extend((a.rank() > 1).then_some(m));
    dims.extend((b.rank() > 1).then_some(n));
    let total = call.room(T::DTYPE, &dims)?;
    let x = slice::<T>(a)?;
    let s = GemmSizes { m, k, n };
    if batch_b.iter().all(|d| *d == 1) && batch == batch_a {
        // One right side for all: a single tall product.
        let s = GemmSizes { m: m * batch.iter().product::<usize>(), ..s };
        let y = if b.derivation().is_some() {
            columns_at_a_time(s, Matrix::new(&x, k), (&b.reshaped([k, n])?, false))?
        } else {
            multiplied_rows(s, &x, &b.bytes())
        };
        return Ok(Tensor::from_vec(dims, y));
    }
    let (w, mut y) = (slice::<T>(b)?, vec![T::default(); total]);
    let starts = |own: &[usize], area: usize| {
        let steps = broadcast_strides(own, &batch);
        let mut starts = Vec::new();
        for_each_index(&batch, |i| {
            starts.push(i.iter().zip(&steps).map(|(i, s)| i * s).sum::<usize>() * area);
        });
        starts
    };
    let (from_a, from_b) = (starts(batch_a, m * k), starts(batch_b, k * n));
    if total > 0 && k > 0 {
        for_each_chunk(&mut y, m * n, &|i, y| {
            let (x, w) = (&x[from_a[i]..], &w[from_b[i]..]);
            multiply_add(s, Matrix::new(x, k), Matrix::new(w, n), y, n);
        });
    }
    Ok(Tensor::from_vec(dims, y))
}

/// Bytes of the right factor that are computed at a time.
const COLUMNS_BYTES: usize = 8 << 20;

/// `a * b`, where `b` is derived and may be transposed. It is never in memory as a whole.
fn columns_at_a_time<T: Product>(
    s: GemmSizes,
    a: Matrix<T>,
    (b, flip): (&Tensor, bool),
) -> Outcome<Vec<T>> {
    let mut y = vec![T::default(); s.m * s.n];
    let columns = COLUMNS_BYTES / (s.k.max(1) * size_of::<T>());
    let columns = columns.max(1).next_multiple_of(ALIGNED);
    // Of the deepest derivations there are no slices.
    let held = b.sliced(&[(0, 1, 1), (0, 1, 1)]).is_err();
    let held = held.then(|| b.held());
    let b = held.as_ref().unwrap_or(b);
    for first in (0..s.n).step_by(columns) {
        let n = columns.min(s.n - first);
        let (all, some) = ((0, s.k, 1), (first, n, 1));
        let part = b.sliced(&if flip { [some, all] } else { [all, some] })?;
        let part = slice::<T>(&part)?.into_owned();
        let b = if flip { Matrix::transposed(&part, s.k) } else { Matrix::new(&part, n) };
        let mut block = vec![T::default(); s.m * n];
        multiply_into(GemmSizes { n, ..s }, a, b, &mut block, n);
        for (y, block) in y.chunks_mut(s.n).zip(block.chunks(n)) {
            y[first..first + n].copy_from_slice(block);
        }
    }
    Ok(y)
}

/// 8-bit integers minus their zero point; the zero point is a scalar or has one element per row or
/// column.
pub(crate) fn centered(x: &Tensor, zero: Option<&Tensor>, per_row: bool) -> Outcome<Tensor> {
    let wide: Vec<i32> = match x.dtype() {
        DataType::Int8 => x.bytes().iter().map(|b| i32::from(b.cast_signed())).collect(),
        DataType::Uint8 => x.bytes().iter().map(|b| i32::from(*b)).collect(),
        _ => return Err(Fault::invalid(format!("{x:?} where 8-bit integers are needed"))),
    };
    let wide = Tensor::from_vec(x.dims(), wide);
    let Some(zero) = zero else { return Ok(wide) };
    refuse!(zero.dtype() != x.dtype() => "zero point {zero:?} does not fit {x:?}");
    let column = per_row && zero.rank() == 1 && zero.len() != 1;
    let zero = if column { zero.reshaped([zero.len(), 1])? } else { zero.clone() };
    let zero = if zero.len() == 1 { zero.reshaped([])? } else { zero };
    refuse!(broadcast(zero.dims(), x.dims())? != x.dims() => "zero point {zero:?} does not fit {x:?}");
    let zeros: Vec<i32> = crate::call::integers(&zero)?.into_iter().map(|v| v as i32).collect();
    let values = crate::elementwise::pairs(
        x.dims(),
        (&slice::<i32>(&wide)?, x.dims()),
        (&zeros, zero.dims()),
        |x, z| x - z,
    );
    Ok(Tensor::from_vec(x.dims(), values))
}

/// The matrix product of centered integers, modulo 2^32.
pub(crate) fn integer_product(call: &KernelCall, a: &Tensor, b: &Tensor) -> Outcome<Tensor> {
    let depth = a.dims().last().copied().unwrap_or(1);
    let sums = match exact::as_floats(depth, a, b)? {
        [a, b] if a.dtype() == DataType::Float => multiplied::<f32>(call, &a, &b)?,
        [a, b] => multiplied::<f64>(call, &a, &b)?,
    };
    exact::integers(&sums)
}

fn matmul_integer(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let a = centered(call.x(0)?, call.opt(2), true)?;
    let b = centered(call.x(1)?, call.opt(3), false)?;
    one(integer_product(call, &a, &b)?)
}

#[cfg(test)]
mod tests {
    use crate::testing::{reals, run, try_run};
    use onnxd_ir::{Attr, Tensor};
    use proptest::prelude::*;

    #[test]
    fn gemm_of_all_forms() {
        let a = Tensor::from_vec(vec![3, 2], vec![1f32, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let b = Tensor::from_vec(vec![3, 1], vec![1f32, 1.0, 2.0]);
        let c = Tensor::vector(vec![10f32]);
        let attrs =
            [("transA", Attr::Int(1)), ("alpha", Attr::Float(0.5)), ("beta", Attr::Float(2.0))];
        let y = run("Gemm", 13, &attrs, &[&a, &b, &c]);
        assert_eq!((y.dims(), reals(&y)), (&[2usize, 1][..], vec![24.5, 30.5]));
        assert!(try_run("Gemm", 13, &[], &[&a, &b]).is_err());
    }

    #[test]
    fn vectors_and_batches() {
        let v = Tensor::vector(vec![1f32, 2.0]);
        let m = Tensor::from_vec(vec![2, 2, 1], vec![1f32, 2.0, 3.0, 4.0]);
        let y = run("MatMul", 13, &[], &[&v, &m]);
        assert_eq!((y.dims(), reals(&y)), (&[2usize, 1][..], vec![5.0, 11.0]));
        let dot = run("MatMul", 13, &[], &[&v, &v]);
        assert_eq!((dot.rank(), reals(&dot)), (0, vec![5.0]));
        let empty = Tensor::from_vec(vec![2, 0], Vec::<f32>::new());
        let none = Tensor::from_vec(vec![0, 3], Vec::<f32>::new());
        assert_eq!(reals(&run("MatMul", 13, &[], &[&empty, &none])), [0.0; 6]);
    }

    #[test]
    fn integers_with_zero_points() {
        let a = Tensor::from_vec(vec![2, 2], vec![255u8, 0, 1, 2]);
        let b = Tensor::from_vec(vec![2, 2], vec![-128i8, 127, 1, -1]);
        let za = Tensor::vector(vec![10u8, 1]);
        let zb = Tensor::vector(vec![-128i8, 127]);
        let y = run("MatMulInteger", 10, &[], &[&a, &b, &za, &zb]);
        assert_eq!(y.to_i64s().unwrap(), [-1290, 1280, 129, -128]);
    }

    /// Rows that are longer than what is computed at a time, and a derivation that has no slices any more.
    #[test]
    fn long_and_deep_factors_are_multiplied() {
        let k = super::COLUMNS_BYTES / 4 + 5;
        let x = Tensor::from_vec(vec![1, k], vec![1f32; k]);
        let b = Tensor::from_vec(vec![k, 2], vec![0.5f64; 2 * k]);
        let b = b.cast(onnxd_ir::DataType::Float).unwrap();
        assert_eq!(reals(&run("MatMul", 13, &[], &[&x, &b])), [0.5 * k as f64; 2]);
        let mut deep = Tensor::from_vec(vec![3, 2], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        while let Ok(deeper) = deep.scaled(1, &[1.0, 1.0]) {
            deep = deeper;
        }
        let x = Tensor::from_vec(vec![1, 3], vec![1f32; 3]);
        assert_eq!(reals(&run("MatMul", 13, &[], &[&x, &deep])), [9.0, 12.0]);
    }

    /// A matrix that lies at odd places, as in a file, gives what it gives elsewhere.
    #[test]
    fn matrices_lie_anywhere() {
        let (m, k, n) = (3, 600, 5);
        let fill = |n: usize| (0..n).map(|i| (i * 7 % 11) as f32 - 5.3).collect::<Vec<_>>();
        let (a, b) = (Tensor::from_vec(vec![m, k], fill(m * k)), fill(k * n));
        let mut bytes = vec![0u8; 4 * k * n + 8];
        let gap = 1 + bytes.as_ptr().align_offset(4);
        bytes[gap..][..4 * k * n].copy_from_slice(bytemuck::cast_slice(&b));
        let odd = bytes::Bytes::from(bytes).slice(gap..gap + 4 * k * n);
        let odd = Tensor::new(onnxd_ir::DataType::Float, vec![k, n], odd).unwrap();
        let wanted = run("MatMul", 13, &[], &[&a, &Tensor::from_vec(vec![k, n], b)]);
        assert_eq!(reals(&run("MatMul", 13, &[], &[&a, &odd])), reals(&wanted));
    }

    proptest! {
        #[test]
        fn products_equal_the_definition(
            m in 1usize..70, k in 1usize..40, n in 1usize..40, batch in 1usize..3,
        ) {
            let fill = |n: usize| (0..n).map(|i| (i * 7 % 11) as f32 - 5.0).collect::<Vec<_>>();
            let (a, b) = (fill(batch * m * k), fill(batch * k * n));
            let mut expected = Vec::new();
            for i in 0..batch * m * n {
                let (z, i, j) = (i / (m * n), i / n % m, i % n);
                let term = |l| f64::from(a[(z * m + i) * k + l] * b[(z * k + l) * n + j]);
                expected.push((0..k).map(term).sum::<f64>());
            }
            let int = |v: &[f32]| v.iter().map(|x| *x as i32).collect::<Vec<_>>();
            let (ia, ib) = (int(&a), int(&b));
            let (left, right) = ([batch, m, k], [batch, k, n]);
            let (a, b) = (Tensor::from_vec(left, a), Tensor::from_vec(right, b));
            let y = run("MatMul", 13, &[], &[&a, &b]);
            prop_assert_eq!(reals(&y), expected.clone());
            let (a, b) = (Tensor::from_vec(left, ia), Tensor::from_vec(right, ib));
            let y = run("MatMul", 13, &[], &[&a, &b]);
            prop_assert_eq!(reals(&y), expected);
        }
    }
}
