//! Tensors made from sizes and few values.

use super::layout::size_list;
use crate::call::{KernelCall, integers, one};
use crate::cells::{CellWidth, celled};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, numeric, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, SparseTensor, Tensor};

/// A tensor whose every element is that of `value`.
fn filled(call: &KernelCall, sizes: Vec<usize>, value: &Tensor) -> Outcome<Tensor> {
    let count = call.room_like(value, &sizes)?;
    celled!(value.dtype(), T => {
        let cells = <T as CellWidth>::load(value);
        let [cell] = cells.as_ref() else {
            return Err(Fault::invalid(format!("{value:?} is not a single value")));
        };
        <T as CellWidth>::store(value.dtype(), sizes, vec![cell.clone(); count])
    })
}

pub(super) fn constant_of_shape(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let zero = Tensor::scalar(0f32);
    one(filled(call, size_list(call, 0)?, call.tensor("value")?.unwrap_or(&zero))?)
}

/// Ones on diagonal `k` of a matrix like the input.
pub(super) fn eye_like(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let [rows, columns] = x.dims() else {
        return Err(Fault::invalid(format!("{x:?} is not a matrix")));
    };
    let dtype = super::cast::dtype_attr(call, "dtype")?.unwrap_or(x.dtype());
    let k = call.int("k", 0)?;
    call.room(dtype, x.dims())?;
    call.room(DataType::Uint8, x.dims())?;
    let mut bits = vec![0u8; x.len()];
    for row in 0..*rows {
        let column = usize::try_from((row as i64).saturating_add(k)).unwrap_or(usize::MAX);
        if column < *columns {
            bits[row * columns + column] = 1;
        }
    }
    one(super::cast(&Tensor::from_vec(x.dims(), bits), dtype)?)
}

/// `start, start + delta, ...` to before `limit`.
pub(super) fn range(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let dtype = call.x(0)?.dtype();
    numeric!(dtype, T => {
        let value = |i: usize| -> Outcome<T> {
            let x = call.slice::<T>(i)?;
            x.first().copied().filter(|_| x.len() == 1).ok_or_else(|| {
                Fault::invalid(format!("input {i} is not a single number"))
            })
        };
        let (start, limit, delta) = (value(0)?, value(1)?, value(2)?);
        refuse!(delta == T::default() => "a delta of zero leads nowhere");
        let count = ((limit.to_f64() - start.to_f64()) / delta.to_f64()).ceil().max(0.0);
        refuse!(count.is_nan() || count > 9e15 => Fault::memory(format!("the range has {count} elements")));
        let count = call.room(dtype, &[count as usize])?;
        let at = |i: usize| match T::INTEGER {
            true => start.plus(delta.times(T::from_f64(i as f64))),
            false => T::from_f64(start.to_f64() + i as f64 * delta.to_f64()),
        };
        one(Tensor::vector((0..count).map(at).collect()))
    })
}

/// A new axis with the on-value at each index; indices outside give only off-values.
pub(super) fn one_hot(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (indices, values) = (call.x(0)?, call.x(2)?);
    let depth = match call.x(1)?.to_reals() {
        Some(depth) if depth.values.len() == 1 => dims::size(depth.values[0] as i64)?,
        _ => return Err(Fault::invalid("the depth is not a single number")),
    };
    let axis = dims::axis(call.int("axis", -1)?, indices.rank() + 1)?;
    let mut sizes = indices.dims().to_vec();
    sizes.insert(axis, depth);
    let total = call.room_like(values, &sizes)?;
    let places = super::cast(indices, DataType::Int64)?;
    let places = integers(&places)?;
    let inner: usize = indices.dims()[axis..].iter().product();
    celled!(values.dtype(), T => {
        let cells = <T as CellWidth>::load(values);
        let [off, on] = cells.as_ref() else {
            return Err(Fault::invalid(format!("{values:?} is not a pair of off and on")));
        };
        let mut out = vec![off.clone(); total];
        for (i, place) in places.iter().enumerate() {
            if let Ok(k) = dims::index(*place, depth) {
                out[(i / inner.max(1) * depth + k) * inner + i % inner.max(1)] = on.clone();
            }
        }
        one(<T as CellWidth>::store(values.dtype(), sizes, out)?)
    })
}

/// The dense tensor that a sparse one stands for.
pub(crate) fn densified(sparse: &SparseTensor, bytes_max: usize) -> Outcome<Tensor> {
    let (values, indices) = (&sparse.values, &sparse.indices);
    let count = dims::count(&sparse.dims);
    let bytes = count.and_then(|n| values.dtype().byte_len(n));
    let (Some(count), Some(_)) = (count, bytes.filter(|b| *b <= bytes_max)) else {
        return Err(Fault::memory(format!("a dense tensor of shape {:?}", sparse.dims)));
    };
    let flat: Vec<usize> = match indices.dims() {
        [_] => {
            slice::<i64>(indices)?.iter().map(|i| dims::index(*i, count)).collect::<Outcome<_>>()?
        }
        [_, rank] if *rank == sparse.dims.len() => super::gather::tuples(indices, &sparse.dims, 0)?,
        _ => return Err(Fault::invalid(format!("sparse indices {indices:?}"))),
    };
    refuse!(flat.len() != values.len() => "sparse values and indices differ in number");
    celled!(values.dtype(), T => {
        let mut out = vec![<T as CellWidth>::blank(); count];
        let cells = <T as CellWidth>::load(values);
        flat.iter().zip(cells.iter()).for_each(|(i, c)| out[*i] = c.clone());
        <T as CellWidth>::store(values.dtype(), sparse.dims.clone(), out)
    })
}
