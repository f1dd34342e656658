//! Slices of a tensor in another order, as quantization by importance stores the inputs of a layer.

use super::{Derivation, refused};
use crate::{DataType, Tensor, TensorError};

impl Tensor {
    /// The slices along an axis that `indices`, a vector of int64, names.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if a slice that is named is not there.
    pub fn taken(&self, indices: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
        let mut dims = self.dims().to_vec();
        if let Some(size) = dims.get_mut(axis) {
            *size = indices.len();
        }
        let sources = [self.clone(), indices.held()];
        Tensor::derived(self.dtype(), dims, Derivation::Taken { sources, axis })
    }
}

pub(super) fn check(
    source: &Tensor,
    indices: &Tensor,
    axis: usize,
    (dtype, dims): (DataType, &[usize]),
) -> Result<(), TensorError> {
    let say = || format!("slices {indices:?} along axis {axis} of {source:?} as {dtype}{dims:?}");
    let is_list = indices.dtype() == DataType::Int64 && indices.derivation().is_none();
    let same = |a: usize| a == axis || source.dims()[a] == dims[a];
    let fits = is_list
        && source.dtype() == dtype
        && source.rank() == dims.len()
        && dims.get(axis) == Some(&indices.len())
        && indices.rank() == 1
        && (0..dims.len()).all(same);
    if !fits {
        return refused(say());
    }
    let size = source.dims()[axis] as i64;
    match indices.as_pods::<i64>().iter().find(|i| !(0..size).contains(*i)) {
        Some(beyond) => refused(format!("slice {beyond} of {size} along axis {axis}")),
        None => Ok(()),
    }
}

/// Elements of a slice from which on it is read by itself.
const RUN: usize = 64;

/// Computes elements from `first` on. Along the axis the source has `size` slices, with `inner` elements of each.
pub(super) fn fill(
    source: &Tensor,
    indices: &[i64],
    (size, inner): (usize, usize),
    mut first: usize,
    mut out: &mut [u8],
) {
    let bytes = source.dtype().bits() / 8;
    // Of short slices, and if most are taken, all are read at once.
    if inner < RUN && size <= 2 * indices.len() {
        let row = indices.len() * inner;
        let last = first + out.len() / bytes;
        let rows = first / row..last.div_ceil(row);
        let held = source.part(rows.start * size * inner..rows.end * size * inner);
        let skipped = first - rows.start * row;
        match (inner, bytes) {
            (1, 1) => take(held.chunks_exact(size), indices, skipped, out.iter_mut()),
            _ => {
                let slices = held.chunks_exact(inner * bytes);
                let slices: Vec<&[u8]> = slices.collect();
                for (i, to) in (skipped..).zip(out.chunks_exact_mut(bytes)) {
                    let slice = i / row * size + indices[i % row / inner] as usize;
                    to.copy_from_slice(&slices[slice][i % inner * bytes..][..bytes]);
                }
            }
        }
        return;
    }
    while !out.is_empty() {
        let (outer, at) = (first / inner / indices.len(), first / inner % indices.len());
        let within = first % inner;
        let count = (inner - within).min(out.len() / bytes);
        // Indices were checked.
        let from = (outer * size + indices[at] as usize) * inner + within;
        let (now, later) = out.split_at_mut(count * bytes);
        now.copy_from_slice(&source.part(from..from + count));
        out = later;
        first += count;
    }
}

/// Single bytes of rows, but for the first ones.
fn take<'a>(
    rows: impl Iterator<Item = &'a [u8]>,
    indices: &[i64],
    skipped: usize,
    out: impl Iterator<Item = &'a mut u8>,
) {
    let all = rows.flat_map(|row| indices.iter().map(|i| row[*i as usize]));
    out.zip(all.skip(skipped)).for_each(|(to, from)| *to = from);
}

#[cfg(test)]
mod tests {
    use crate::{DataType, Derivation, Tensor};

    #[test]
    fn slices_come_in_any_order() {
        let x = Tensor::from_vec([2, 3, 4], (0..24i32).collect());
        for (axis, indices) in
            [(0, vec![1i64, 0, 1]), (1, vec![2, 2, 0, 1]), (2, vec![3, 0]), (1, vec![1])]
        {
            let taken = x.taken(&Tensor::vector(indices.clone()), axis).unwrap();
            assert!(taken.derivation().is_some());
            let mut wanted = vec![];
            let size = |a: usize| if a == axis { indices.len() } else { x.dims()[a] };
            let at = |a: usize, i: usize| if a == axis { indices[i] as usize } else { i };
            for i in 0..size(0) {
                for j in 0..size(1) {
                    let row =
                        (0..size(2)).map(|k| (at(0, i) * 12 + at(1, j) * 4 + at(2, k)) as i32);
                    wanted.extend(row);
                }
            }
            assert_eq!(taken.as_slice::<i32>().unwrap().as_ref(), wanted, "{axis} {indices:?}");
            assert_eq!(taken.part(1..taken.len() - 1)[..], taken.bytes()[4..taken.byte_len() - 4]);
            let turned = taken.permuted(&[2, 0, 1]).unwrap();
            assert_eq!(turned, taken.held().permuted(&[2, 0, 1]).unwrap());
        }
        assert!(x.taken(&Tensor::vector(Vec::<i64>::new()), 1).unwrap().is_empty());
        // Long slices, and few of many.
        let x = Tensor::from_vec([3, 100], (0..300i32).collect());
        let rows = x.taken(&Tensor::vector(vec![2i64, 0]), 0).unwrap();
        assert_eq!(rows.part(98..102)[..4], 298i32.to_le_bytes());
        assert_eq!(rows.to_i64s().unwrap(), (200..300).chain(0..100).collect::<Vec<_>>());
        let few = x.taken(&Tensor::vector(vec![99i64, 7]), 1).unwrap();
        assert_eq!(few.to_i64s().unwrap(), [99, 7, 199, 107, 299, 207]);
    }

    #[test]
    fn slices_that_are_not_there_are_refused() {
        let x = Tensor::from_vec([2, 3], (0..6i32).collect());
        let list = |indices: &[i64]| Tensor::vector(indices.to_vec());
        let square = Tensor::from_vec([1, 1], vec![0i64]);
        for (indices, axis) in [
            (list(&[3]), 1),
            (list(&[-1]), 0),
            (list(&[0]), 2),
            (list(&[i64::MIN]), 0),
            (square, 0),
            (Tensor::vector(vec![0i32]), 0),
        ] {
            assert!(x.taken(&indices, axis).is_err(), "{indices:?} {axis}");
        }
        let derived = list(&[0, 1, 2]).sliced(&[(2, 3, -1)]).unwrap();
        let sources = [x.clone(), derived];
        let from = Derivation::Taken { sources, axis: 1 };
        assert!(Tensor::derived(DataType::Int32, [2, 3], from).is_err(), "indices are read often");
        let sources = [x, list(&[0, 1])];
        let from = Derivation::Taken { sources, axis: 1 };
        assert!(Tensor::derived(DataType::Int32, [2, 3], from.clone()).is_err());
        assert!(Tensor::derived(DataType::Float, [2, 2], from).is_err());
    }
}
