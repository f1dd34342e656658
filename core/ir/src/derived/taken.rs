//! Slices of a tensor in another order, as quantization by importance stores the inputs of a layer.

use super::{Derivation, refused};
use crate::gather::ElementSource;
use crate::{DataType, Tensor, TensorError};
use std::borrow::Cow;

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

/// To read a slice by itself takes as long as to read so many elements one after the other.
const RUN: usize = 64;

/// Computes elements from `first` on. Along the axis the source has `size` slices, with `inner` elements of each.
/// What is read is in proportion to `out`, however few elements of a row are asked for.
pub(super) fn fill(
    source: &dyn ElementSource,
    indices: &[i64],
    (size, inner): (usize, usize),
    mut first: usize,
    mut out: &mut [u8],
) {
    let (bytes, row) = (source.size(), indices.len() * inner);
    while !out.is_empty() {
        let (rows, at, left) = (first / row, first % row, out.len() / bytes);
        let whole = if at == 0 { left / row } else { 0 };
        let slices = Slices { source, first: rows * size, inner };
        let count = if whole > 0 && slices.are_together(size, indices.len()) {
            slices.of_rows((whole, size), indices, &mut out[..whole * row * bytes]);
            whole * row
        } else {
            let count = (row - at).min(left);
            slices.of_row(indices, at, &mut out[..count * bytes]);
            count
        };
        out = &mut out[count * bytes..];
        first += count;
    }
}

/// Slices of a row of the source, which begins with slice `first` of all.
struct Slices<'a> {
    source: &'a dyn ElementSource,
    first: usize,
    inner: usize,
}

impl Slices<'_> {
    /// Whether so many slices that follow each other are read at once, of which `taken` are taken.
    fn are_together(&self, count: usize, taken: usize) -> bool {
        self.inner < RUN && count * self.inner <= RUN * taken
    }

    /// The bytes of `count` slices from `from` on.
    fn run(&self, from: usize, count: usize) -> Cow<'_, [u8]> {
        self.source.run((self.first + from) * self.inner, count * self.inner)
    }

    /// Takes slices of whole rows, with `size` slices each. Indices were checked.
    fn of_rows(&self, (rows, size): (usize, usize), indices: &[i64], out: &mut [u8]) {
        let bytes = self.inner * self.source.size();
        let held = self.run(0, rows * size);
        let rows = held.chunks_exact(size * bytes);
        if bytes == 1 {
            let all = rows.flat_map(|row| indices.iter().map(|i| row[*i as usize]));
            out.iter_mut().zip(all).for_each(|(to, from)| *to = from);
            return;
        }
        for (row, out) in rows.zip(out.chunks_exact_mut(indices.len() * bytes)) {
            for (i, to) in indices.iter().zip(out.chunks_exact_mut(bytes)) {
                to.copy_from_slice(&row[*i as usize * bytes..][..bytes]);
            }
        }
    }

    /// Takes elements of one row, from the element `at` on.
    fn of_row(&self, indices: &[i64], mut at: usize, mut out: &mut [u8]) {
        let (bytes, inner) = (self.source.size(), self.inner);
        let end = at + out.len() / bytes;
        let asked = &indices[at / inner..end.div_ceil(inner)];
        let low = asked.iter().min().map_or(0, |low| *low as usize);
        let high = asked.iter().max().map_or(0, |high| *high as usize);
        let together = self.are_together(high + 1 - low, asked.len());
        let held = together.then(|| self.run(low, high + 1 - low));
        while !out.is_empty() {
            let (slice, within) = (indices[at / inner] as usize, at % inner);
            let count = (inner - within).min(out.len() / bytes);
            let (now, later) = out.split_at_mut(count * bytes);
            match &held {
                Some(held) => {
                    let from = ((slice - low) * inner + within) * bytes;
                    now.copy_from_slice(&held[from..][..now.len()]);
                }
                None => {
                    let from = (self.first + slice) * inner + within;
                    now.copy_from_slice(&self.source.run(from, count));
                }
            }
            out = later;
            at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fill;
    use crate::gather::ElementSource;
    use crate::{DataType, Derivation, Tensor};
    use std::borrow::Cow;
    use std::cell::Cell;

    /// Counts what is read: elements one after the other, and as many for each time that something is.
    struct Counted {
        elements: Vec<u8>,
        read: Cell<usize>,
    }

    impl ElementSource for Counted {
        fn size(&self) -> usize {
            1
        }

        fn run(&self, first: usize, len: usize) -> Cow<'_, [u8]> {
            self.read.set(self.read.get() + len.max(super::RUN));
            Cow::Borrowed(&self.elements[first..first + len])
        }
    }

    /// Elements are asked for in parts of this size, as the writer and views across the source do.
    #[test]
    fn what_is_read_grows_with_what_is_asked_for() {
        for (outer, size, inner) in [(3, 4096, 1), (1, 4096, 8), (2, 1024, 5), (5, 40, 100)] {
            // An order without runs: its steps share no factor with the size.
            let indices: Vec<i64> = (0..size).map(|i| (i * 1237 + 11) % size).collect();
            let size = size as usize;
            let all = outer * size * inner;
            let elements: Vec<u8> = (0..all).map(|i| (i % 251) as u8).collect();
            let source = Counted { elements: elements.clone(), read: Cell::new(0) };
            for part in [1, 7, 64, 300, 5000, all] {
                source.read.set(0);
                let mut taken = vec![0; all];
                for (at, out) in taken.chunks_mut(part).enumerate() {
                    fill(&source, &indices, (size, inner), at * part, out);
                }
                let from = |i: usize| {
                    let (row, at) = (i / (size * inner), i / inner % size);
                    (row * size + indices[at] as usize) * inner + i % inner
                };
                assert!((0..all).all(|i| taken[i] == elements[from(i)]), "{size} {inner} {part}");
                // Whole rows are read once, parts of them at most as slices by themselves.
                let parts = all.div_ceil(part);
                let slices = all / inner + 2 * parts;
                let most = if part == all { all } else { super::RUN * slices + all };
                assert!(source.read.get() <= most, "{size} {inner} {part}: {}", source.read.get());
            }
        }
    }

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
