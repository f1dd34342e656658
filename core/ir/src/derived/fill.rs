//! Computes the elements of derived tensors, a block at a time.

use super::{Derivation, Derived, dequantized, table, taken};
use crate::blocks;
use crate::convert::convert;
use crate::gather::{ElementSource, gather};
use crate::{DataType, Tensor};
use std::borrow::Cow;
use std::ops::Range;

/// Bytes that are computed at a time: views across their source want many rows at once.
const BLOCK_BYTES: usize = 1 << 20;
/// The same where elements keep their order: these stay in the cache of a core.
const IN_ORDER_BYTES: usize = 1 << 16;
/// Elements that are compared before many are computed.
const FEW: usize = 64;
/// Elements that are scaled at a time, if they are held.
const SCALED: usize = 4096;

impl Tensor {
    /// Calls `f` with the bytes of the elements, in blocks; of a tensor that is held, with all at once.
    ///
    /// # Errors
    /// What `f` says.
    pub fn in_blocks<E>(&self, mut f: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let Some(derived) = self.derived_data() else { return f(&self.bytes()) };
        let block = if derived.keeps_order() { IN_ORDER_BYTES } else { BLOCK_BYTES };
        let mut room = vec![0; self.byte_len().min(block)];
        for first in (0..self.byte_len()).step_by(block) {
            let count = room.len().min(self.byte_len() - first);
            derived.fill(first * 8 / self.dtype().bits(), &mut room[..count]);
            f(&room[..count])?;
        }
        Ok(())
    }

    /// Writes the bytes of all elements to `out`; what is computed on the way stays small.
    ///
    /// # Panics
    /// If `out` has not their length.
    pub fn copy_into(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.byte_len(), "room for all elements");
        let mut done = 0;
        let copied: Result<(), std::convert::Infallible> = self.in_blocks(|block| {
            out[done..done + block.len()].copy_from_slice(block);
            done += block.len();
            Ok(())
        });
        let Ok(()) = copied;
    }

    /// Whether the bytes of two tensors of one length are equal: because equal ones are derived alike, or block by
    /// block.
    pub(crate) fn equals(&self, other: &Tensor) -> bool {
        if let (Some(own), Some(others)) = (self.derived_data(), other.derived_data())
            && own.is_alike(others)
        {
            return true;
        }
        let size = (self.dtype().bits() / 8).max(1);
        let (len, block, few) = (self.byte_len(), BLOCK_BYTES / size * size, FEW * size);
        let few = few.min(len);
        let parts = (few..len).step_by(block).map(|at| at..len.min(at + block));
        // The first few mostly tell other weights.
        let mut parts = std::iter::once(0..few).chain(parts);
        parts.all(|part| self.bytes_at(part.clone()) == other.bytes_at(part))
    }

    /// The bytes of the elements at these places in row-major order.
    ///
    /// # Panics
    /// If the elements are no whole bytes, or there are not so many.
    pub fn part(&self, elements: Range<usize>) -> Cow<'_, [u8]> {
        let size = self.dtype().bits() / 8;
        assert!(size > 0, "elements of whole bytes");
        self.bytes_at(elements.start * size..elements.end * size)
    }

    /// Some of the bytes of [`Tensor::bytes`].
    ///
    /// # Panics
    /// If there are not so many.
    pub fn bytes_at(&self, bytes: Range<usize>) -> Cow<'_, [u8]> {
        match self.derived_data() {
            None => Cow::Borrowed(&self.held_bytes()[bytes]),
            Some(derived) => {
                // Whole elements are computed.
                let size = (self.dtype().bits() / 8).max(1);
                let (before, first) = (bytes.start % size, bytes.start / size * size);
                let mut room = vec![0; (bytes.end - first).next_multiple_of(size)];
                derived.fill(first * 8 / self.dtype().bits(), &mut room);
                room.truncate(before + bytes.len());
                room.drain(..before);
                Cow::Owned(room)
            }
        }
    }
}

impl ElementSource for Tensor {
    fn size(&self) -> usize {
        self.dtype().bits() / 8
    }

    fn run(&self, first: usize, len: usize) -> Cow<'_, [u8]> {
        self.part(first..first + len)
    }
}

impl Derived {
    /// Whether both are derived in the same way from what is equal. Others may be equal, too.
    fn is_alike(&self, other: &Derived) -> bool {
        use Derivation::{Blocks, Cast, Concat, Dequantized, Lookup, Scaled, Strided, Taken};
        let (sources, others) = (self.from.sources(), other.from.sources());
        let same_way = match (&self.from, &other.from) {
            (
                Strided { offset, strides, .. },
                Strided { offset: other_offset, strides: other_strides, .. },
            ) => (offset, strides) == (other_offset, other_strides),
            (Cast { .. }, Cast { .. }) | (Lookup { .. }, Lookup { .. }) => true,
            (Concat { axis, .. }, Concat { axis: other, .. })
            | (Scaled { axis, .. }, Scaled { axis: other, .. })
            | (Taken { axis, .. }, Taken { axis: other, .. }) => axis == other,
            (Blocks { format, part, .. }, Blocks { format: other, part: other_part, .. }) => {
                (format, part) == (other, other_part)
            }
            (
                Dequantized { axis, block, .. },
                Dequantized { axis: other, block: other_block, .. },
            ) => (axis, block) == (other, other_block),
            _ => false,
        };
        let sizes = (&self.dims, self.dtype) == (&other.dims, other.dtype);
        sizes && same_way && sources == others
    }

    /// Whether the elements are computed one after the other from held ones.
    fn keeps_order(&self) -> bool {
        let held = self.from.sources().iter().all(|source| source.derived_data().is_none());
        let is_in_order = matches!(
            self.from,
            Derivation::Cast { .. }
                | Derivation::Scaled { .. }
                | Derivation::Lookup { .. }
                | Derivation::Blocks { .. }
                | Derivation::Dequantized { .. }
        );
        held && is_in_order
    }

    /// Computes the elements from `first` on, as many as `out` has room for.
    pub(super) fn fill(&self, first: usize, out: &mut [u8]) {
        let size = self.dtype.bits() / 8;
        match &self.from {
            Derivation::Strided { source, offset, strides } => {
                self.look(source, (*offset, strides), first, out);
            }
            Derivation::Cast { source } => {
                let from = source.dtype();
                let block = BLOCK_BYTES / (from.bits() / 8);
                for (i, out) in out.chunks_mut(block * size).enumerate() {
                    let first = first + i * block;
                    convert(from, &source.part(first..first + out.len() / size), self.dtype, out);
                }
            }
            Derivation::Concat { parts, axis } => self.join(parts, *axis, first, out),
            Derivation::Scaled { sources: [source, gain], axis } => {
                let inner = self.dims[axis + 1..].iter().product();
                self.scale(source, (&gain.as_pods(), inner), first, out);
            }
            Derivation::Lookup { sources: [codes, table] } => {
                let all: usize = self.dims.iter().product();
                let count = (out.len() * 8 / self.dtype.bits()).min(all - first);
                table::fill(codes, table, first..first + count, out);
            }
            Derivation::Taken { sources: [source, indices], axis } => {
                let dims = (source.dims()[*axis], self.dims[axis + 1..].iter().product());
                taken::fill(source, &indices.as_pods(), dims, first, out);
            }
            Derivation::Blocks { source, format, part } => {
                blocks::fill(source, (*format, *part), first, out);
            }
            Derivation::Dequantized { sources, axis, block } => {
                dequantized::fill(sources, (&self.dims, *axis, *block), first, out);
            }
        }
    }

    fn look(
        &self,
        source: &Tensor,
        (offset, strides): (usize, &[isize]),
        first: usize,
        out: &mut [u8],
    ) {
        let size = self.dtype.bits() / 8;
        let boxes = Boxes { dims: &self.dims, at: first, end: first + out.len() / size };
        for FillBlock { at, axis, count } in boxes {
            let (mut rest, mut base) = (at, offset);
            for (dim, stride) in self.dims.iter().zip(strides).rev() {
                base = base.wrapping_add_signed(stride.wrapping_mul((rest % dim) as isize));
                rest /= dim;
            }
            let mut dims = self.dims[axis..].to_vec();
            dims[0] = count;
            let count = dims.iter().product::<usize>();
            let out = &mut out[(at - first) * size..][..count * size];
            // Of a derived source, elements that lie together are computed together.
            let (low, high) = reach(&dims, &strides[axis..], base);
            match source.derived_data() {
                Some(_) if high - low < 2 * count => {
                    let together = ComputedRun { bytes: &source.part(low..high + 1), size };
                    gather(&together, &dims, &strides[axis..], base - low, out);
                }
                _ => gather(source, &dims, &strides[axis..], base, out),
            }
        }
    }

    fn scale(&self, source: &Tensor, (gain, inner): (&[f64], usize), first: usize, out: &mut [u8]) {
        let size = self.dtype.bits() / 8;
        let mut place = first;
        let held = source.derived_data().is_none();
        let count = if held { SCALED } else { BLOCK_BYTES / size };
        // A block at a time, in which runs have one factor each.
        for out in out.chunks_mut(count * size) {
            let bytes = source.part(place..place + out.len() / size);
            let mut done = 0;
            while done < out.len() {
                let run = (inner - place % inner).min((out.len() - done) / size);
                let gain = gain[place / inner % gain.len()];
                let range = done..done + run * size;
                multiply(self.dtype, &bytes[range.clone()], gain, &mut out[range]);
                done += run * size;
                place += run;
            }
        }
    }

    fn join(&self, parts: &[Tensor], axis: usize, mut first: usize, mut out: &mut [u8]) {
        let size = self.dtype.bits() / 8;
        let inner: usize = self.dims[axis + 1..].iter().product();
        let row = self.dims[axis] * inner;
        while !out.is_empty() {
            let (outer, at) = (first / row, first % row);
            let part = self.ends.partition_point(|end| *end * inner <= at);
            let begin = if part == 0 { 0 } else { self.ends[part - 1] * inner };
            let len = self.ends[part] * inner - begin;
            let count = (begin + len - at).min(out.len() / size);
            let from = outer * len + at - begin;
            let (now, later) = out.split_at_mut(count * size);
            match parts[part].derived_data() {
                Some(derived) => derived.fill(from, now),
                None => now.copy_from_slice(&parts[part].part(from..from + count)),
            }
            out = later;
            first += count;
        }
    }
}

/// Elements that follow each other, in memory.
struct ComputedRun<'b> {
    bytes: &'b [u8],
    size: usize,
}

impl ElementSource for ComputedRun<'_> {
    fn size(&self) -> usize {
        self.size
    }

    fn run(&self, first: usize, len: usize) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes[first * self.size..][..len * self.size])
    }
}

/// The first and the last element that a view comes to. All of them lie in its source, as was checked.
fn reach(dims: &[usize], strides: &[isize], base: usize) -> (usize, usize) {
    let far = dims.iter().zip(strides).map(|(dim, stride)| stride.wrapping_mul(*dim as isize - 1));
    far.fold((base, base), |(low, high), far| match far < 0 {
        true => (low.wrapping_add_signed(far), high),
        false => (low, high.wrapping_add_signed(far)),
    })
}

/// Multiplies elements of a float type in `f64`, and rounds them.
fn multiply(dtype: DataType, source: &[u8], gain: f64, out: &mut [u8]) {
    if dtype == DataType::Float {
        for (x, y) in source.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
            *y = ((f64::from(f32::from_le_bytes(*x)) * gain) as f32).to_le_bytes();
        }
        return;
    }
    let mut wide = [0f64; 256];
    let size = dtype.bits() / 8;
    for (x, y) in source.chunks(wide.len() * size).zip(out.chunks_mut(wide.len() * size)) {
        let wide = &mut wide[..x.len() / size];
        convert(dtype, x, DataType::Double, bytemuck::cast_slice_mut(wide));
        wide.iter_mut().for_each(|x| *x *= gain);
        convert(DataType::Double, bytemuck::cast_slice(wide), dtype, y);
    }
}

/// A range of elements in row-major order, as blocks of whole inner axes.
struct Boxes<'d> {
    dims: &'d [usize],
    at: usize,
    end: usize,
}

/// `count` coordinates of `axis` with all that is inside of them, from the element `at` on.
struct FillBlock {
    at: usize,
    axis: usize,
    count: usize,
}

impl Iterator for Boxes<'_> {
    type Item = FillBlock;

    fn next(&mut self) -> Option<FillBlock> {
        let (at, left) = (self.at, self.end - self.at);
        if left == 0 {
            return None;
        }
        let mut inner = 1;
        let mut block = FillBlock { at, axis: self.dims.len() - 1, count: 1 };
        for (axis, dim) in self.dims.iter().enumerate().rev() {
            if !at.is_multiple_of(inner) || left < inner {
                break;
            }
            let count = (dim - at / inner % dim).min(left / inner);
            block = FillBlock { at, axis, count };
            self.at = at + count * inner;
            inner *= dim;
        }
        Some(block)
    }
}
