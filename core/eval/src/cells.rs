//! Elements that are only moved: every element type as an opaque cell, so that layout operators
//! have one kernel.

use crate::fault::{Fault, Outcome};
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

/// A cell of one width.
pub(crate) trait CellWidth: Clone + Default + PartialEq + Send + Sync + 'static {
    /// What layout operators fill with where the node names no value: zero or the empty string.
    fn blank() -> Self;
    /// The elements of a tensor of that width.
    fn load(x: &Tensor) -> Cow<'_, [Self]>;
    /// A tensor of type `dtype`.
    fn store(dtype: DataType, dims: Vec<usize>, cells: Vec<Self>) -> Outcome<Tensor>;
}

macro_rules! pod_cells {
    ($($t:ty),*) => { $(impl CellWidth for $t {
        fn blank() -> $t { 0 }
        fn load(x: &Tensor) -> Cow<'_, [$t]> {
            x.as_pods()
        }
        fn store(dtype: DataType, dims: Vec<usize>, cells: Vec<$t>) -> Outcome<Tensor> {
            Ok(Tensor::new(dtype, dims, Bytes::from_owner(Owned(cells)))?)
        }
    })* };
}

pod_cells!(u8, u16, u32, u64, u128);

struct Owned<T>(Vec<T>);

impl<T: bytemuck::Pod> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl CellWidth for Bytes {
    fn blank() -> Bytes {
        Bytes::new()
    }
    fn load(x: &Tensor) -> Cow<'_, [Bytes]> {
        Cow::Borrowed(x.as_strings().unwrap_or_default())
    }
    fn store(_: DataType, dims: Vec<usize>, cells: Vec<Bytes>) -> Outcome<Tensor> {
        Ok(Tensor::strings(dims, cells)?)
    }
}

/// An element of 2 or 4 bits, unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Packed(pub(crate) u8);

impl CellWidth for Packed {
    fn blank() -> Packed {
        Packed(0)
    }
    fn load(x: &Tensor) -> Cow<'_, [Packed]> {
        let bits = x.dtype().bits();
        let per_byte = 8 / bits;
        let mask = (1u8 << bits) - 1;
        let bytes = x.bytes();
        let at = |i: usize| (bytes[i / per_byte] >> (bits * (i % per_byte))) & mask;
        Cow::Owned((0..x.len()).map(|i| Packed(at(i))).collect())
    }
    fn store(dtype: DataType, dims: Vec<usize>, cells: Vec<Packed>) -> Outcome<Tensor> {
        let bits = dtype.bits();
        let mask = (1u8 << bits) - 1;
        let byte = |chunk: &[Packed]| {
            chunk.iter().enumerate().fold(0u8, |b, (i, c)| b | (c.0 & mask) << (bits * i))
        };
        let bytes: Vec<u8> = cells.chunks(8 / bits).map(byte).collect();
        Ok(Tensor::new(dtype, dims, Bytes::from(bytes))?)
    }
}

/// Evaluates the body with `$t` as the cell type of an element type.
macro_rules! celled {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cells::celled!(@of $dtype, $t => $body; 0 => bytes::Bytes, 2 | 4 => $crate::cells::Packed,
            8 => u8, 16 => u16, 32 => u32, 64 => u64, _ => u128)
    };
    (@of $dtype:expr, $t:ident => $body:expr; $($bits:pat => $cell:ty),*) => {
        match onnxd_ir::DataType::bits($dtype) { $($bits => { type $t = $cell; $body })* }
    };
}
pub(crate) use celled;

/// In a table of source coordinates: no source, take the fill value.
pub(crate) const OUTSIDE: usize = usize::MAX;

/// `out[i, j, ..] = x[tables[0][i], tables[1][j], ..]`, the value of `fill` where a coordinate is
/// [`OUTSIDE`].
pub(crate) fn take(x: &Tensor, tables: &[Vec<usize>], fill: Option<&Tensor>) -> Outcome<Tensor> {
    let dims: Vec<usize> = tables.iter().map(Vec::len).collect();
    let total = crate::dims::count(&dims).ok_or_else(|| Fault::memory("the size overflows"))?;
    celled!(x.dtype(), T => {
        let cells = <T as CellWidth>::load(x);
        let fill = fill.and_then(|f| <T as CellWidth>::load(f).first().cloned());
        let mut out = Vec::with_capacity(total);
        if total > 0 {
            let blank = fill.unwrap_or_else(<T as CellWidth>::blank);
            take_axis(&cells, x.dims(), tables, &blank, &mut out);
        }
        <T as CellWidth>::store(x.dtype(), dims, out)
    })
}

fn take_axis<T: CellWidth>(
    cells: &[T],
    dims: &[usize],
    tables: &[Vec<usize>],
    fill: &T,
    out: &mut Vec<T>,
) {
    let ([size, rest @ ..], [table, tables @ ..]) = (dims, tables) else {
        out.extend_from_slice(&cells[..1]);
        return;
    };
    let is_whole =
        |t: &Vec<usize>, d: usize| t.len() == d && t.iter().enumerate().all(|(i, s)| i == *s);
    let inner: usize = rest.iter().product();
    let inner_out: usize = tables.iter().map(Vec::len).product();
    if is_whole(table, *size) && tables.iter().zip(rest).all(|(t, d)| is_whole(t, *d)) {
        out.extend_from_slice(cells);
        return;
    }
    let whole = tables.iter().zip(rest).all(|(t, d)| is_whole(t, *d));
    for source in table {
        if *source == OUTSIDE {
            out.extend(std::iter::repeat_n(fill, inner_out).cloned());
        } else if whole {
            out.extend_from_slice(&cells[source * inner..(source + 1) * inner]);
        } else {
            take_axis(&cells[source * inner..(source + 1) * inner], rest, tables, fill, out);
        }
    }
}

/// A copy whose element at coordinates `i` is the source's element at `offset + sum(i * strides)`.
pub(crate) fn strided(x: &Tensor, dims: &[usize], strides: &[usize]) -> Outcome<Tensor> {
    celled!(x.dtype(), T => {
        let out = strided_cells::<T>(&<T as CellWidth>::load(x), dims, strides);
        <T as CellWidth>::store(x.dtype(), dims.to_vec(), out)
    })
}

/// As [`strided`] over elements already at hand.
pub(crate) fn strided_cells<T: Clone>(cells: &[T], dims: &[usize], strides: &[usize]) -> Vec<T> {
    let mut out = Vec::with_capacity(dims.iter().product());
    let Some((last, outer)) = dims.split_last() else {
        return cells[..1].to_vec();
    };
    let step = strides[outer.len()];
    crate::dims::for_each_index(outer, |index| {
        let start: usize = index.iter().zip(strides).map(|(i, s)| i * s).sum();
        match (*last, step) {
            (0, _) => {}
            (n, 1) => out.extend_from_slice(&cells[start..start + n]),
            (n, _) => out.extend((0..n).map(|i| cells[start + i * step].clone())),
        }
    });
    out
}

/// The axes of `x` in the order `perm`.
pub(crate) fn transposed(x: &Tensor, perm: &[usize]) -> Outcome<Tensor> {
    let own = crate::dims::strides(x.dims());
    let dims: Vec<usize> = perm.iter().map(|a| x.dims()[*a]).collect();
    if perm.iter().enumerate().all(|(i, a)| i == *a) {
        return Ok(x.clone());
    }
    let strides: Vec<usize> = perm.iter().map(|a| own[*a]).collect();
    strided(x, &dims, &strides)
}

/// `x` repeated to the sizes `dims`, to which it broadcasts.
pub(crate) fn expanded(x: &Tensor, dims: &[usize]) -> Outcome<Tensor> {
    if x.dims() == dims {
        return Ok(x.clone());
    }
    strided(x, dims, &crate::dims::broadcast_strides(x.dims(), dims))
}

/// Tensors of one type joined along `axis`; their other sizes are equal.
pub(crate) fn joined(parts: &[&Tensor], axis: usize) -> Outcome<Tensor> {
    let first = parts[0];
    let mut dims = first.dims().to_vec();
    dims[axis] = 0;
    for part in parts {
        let same = |i: usize| i == axis || part.dims()[i] == first.dims()[i];
        refuse!(part.dtype() != first.dtype() || part.rank() != dims.len() || !(0..dims.len()).all(same) =>
            "{part:?} cannot be joined with {first:?} along axis {axis}");
        dims[axis] = dims[axis]
            .checked_add(part.dims()[axis])
            .ok_or_else(|| Fault::memory("the size overflows"))?;
    }
    let total = crate::dims::count(&dims).ok_or_else(|| Fault::memory("the size overflows"))?;
    let outer: usize = dims[..axis].iter().product();
    celled!(first.dtype(), T => {
        let loaded: Vec<_> = parts.iter().map(|p| <T as CellWidth>::load(p)).collect();
        let mut out = Vec::with_capacity(total);
        for i in 0..if total == 0 { 0 } else { outer } {
            for cells in &loaded {
                let run = cells.len() / outer;
                out.extend_from_slice(&cells[i * run..(i + 1) * run]);
            }
        }
        <T as CellWidth>::store(first.dtype(), dims, out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_survive() {
        let x = Tensor::new(DataType::Int4, vec![3], Bytes::from_static(&[0x8f, 0x07])).unwrap();
        let y = take(&x, &[vec![2, 0, OUTSIDE, 1]], None).unwrap();
        assert_eq!(y.to_i64s().unwrap(), [7, -1, 0, -8]);
    }

    #[test]
    fn transposition_of_strings() {
        let words = ["a", "b", "c", "d", "e", "f"].map(Bytes::from).to_vec();
        let x = Tensor::strings(vec![2, 3], words).unwrap();
        let y = transposed(&x, &[1, 0]).unwrap();
        assert_eq!(y.dims(), [3, 2]);
        assert_eq!(y.as_strings().unwrap().concat(), b"adbecf");
    }

    #[test]
    fn joining_along_an_inner_axis() {
        let a = Tensor::from_vec(vec![2, 1], vec![1i32, 2]);
        let b = Tensor::from_vec(vec![2, 2], vec![3i32, 4, 5, 6]);
        assert_eq!(joined(&[&a, &b], 1).unwrap().to_i64s().unwrap(), [1, 3, 4, 2, 5, 6]);
        assert!(joined(&[&a, &b], 0).is_err());
    }
}
