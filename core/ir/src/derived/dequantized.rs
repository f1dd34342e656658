//! What `DequantizeLinear` makes of integers of 4 or 8 bits with a scale for each block along an axis.

use super::{Derivation, refused};
use crate::{DataType, Tensor, TensorError};
use std::borrow::Cow;
use std::ops::Range;

/// Sizes of blocks along an axis.
#[derive(Clone, Copy)]
struct Blocks {
    /// Elements along the axis, and behind it.
    size: usize,
    inner: usize,
    block: usize,
}

impl Blocks {
    fn of(dims: &[usize], axis: usize, block: usize) -> Blocks {
        Blocks { size: dims[axis], inner: dims[axis + 1..].iter().product(), block }
    }

    /// The run of elements from `at` on that have scales one after the other, or the same: the first of these, how
    /// many elements, and whether each has its own.
    fn run(self, at: usize) -> (usize, usize, bool) {
        let Blocks { size, inner, block } = self;
        let count = size.div_ceil(block);
        let (outer, k, within) = (at / inner / size, at / inner % size, at % inner);
        let first = (outer * count + k / block) * inner + within;
        if inner > 1 {
            return (first, inner - within, true);
        }
        (first, size.min((k / block + 1) * block) - k, false)
    }
}

impl Tensor {
    /// `(x - zero) * scale` in `float`, as `DequantizeLinear` computes it, with a scale and a zero point for every
    /// `block` elements along `axis`.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; for elements that are no integers of 4 or 8 bits, scales that are not `float`, or
    /// sizes that do not fit.
    pub fn dequantized(
        &self,
        scale: &Tensor,
        zero: Option<&Tensor>,
        (axis, block): (usize, usize),
    ) -> Result<Tensor, TensorError> {
        let sources = [Some(self), Some(scale), zero].into_iter().flatten().cloned().collect();
        let from = Derivation::Dequantized { sources, axis, block };
        Tensor::derived(DataType::Float, self.dims(), from)
    }
}

/// Whether the operands fit each other.
pub(super) fn check(
    sources: &[Tensor],
    (dtype, dims): (DataType, &[usize]),
    (axis, block): (usize, usize),
) -> Result<(), TensorError> {
    let [x, scale, zero @ ..] = sources else { return refused("no integers and scales") };
    let is_integer = |t: &Tensor| {
        use DataType::{Int4, Int8, Uint4, Uint8};
        matches!(t.dtype(), Int4 | Int8 | Uint4 | Uint8)
    };
    let mut few = dims.to_vec();
    let Some(size) = few.get_mut(axis).filter(|_| block > 0) else {
        return refused(format!("blocks of {block} along axis {axis} of {x:?}"));
    };
    *size = size.div_ceil(block);
    let fits = dtype == DataType::Float
        && scale.dtype() == DataType::Float
        && is_integer(x)
        && x.dims() == dims
        && scale.dims() == few
        && zero.iter().all(|zero| is_integer(zero) && zero.dims() == few)
        && zero.len() < 2;
    if fits { Ok(()) } else { refused(format!("{x:?} with {scale:?} and {zero:?} as {dtype}")) }
}

/// Computes the elements from `at` on.
pub(super) fn fill(
    sources: &[Tensor],
    (dims, axis, block): (&[usize], usize, usize),
    mut at: usize,
    out: &mut [u8],
) {
    let [x, scale, zero @ ..] = sources else { return };
    let blocks = Blocks::of(dims, axis, block);
    let codes = integers(x, at..at + out.len() / 4);
    let Some(behind) = codes.len().checked_sub(1) else { return };
    let ((start, run, each), (last, rest, _)) = (blocks.run(at), blocks.run(at + behind));
    let (first, end) = match each {
        true if codes.len() <= run => (start, start + codes.len()),
        // Runs come back to the same scales, row by row of a block.
        true => (start / blocks.inner * blocks.inner, last + rest),
        false => (start, last + 1),
    };
    let scales = scale.part(first..end);
    let scales = scales.as_chunks::<4>().0;
    let zeros = zero.first().map(|zero| integers(zero, first..end));
    let mut left = &codes[..];
    let mut out = out.as_chunks_mut::<4>().0;
    while !left.is_empty() {
        let (own, run, each) = blocks.run(at);
        let run = run.min(left.len());
        let (now, later) = left.split_at(run);
        let (to, rest) = out.split_at_mut(run);
        let own = own - first;
        let steps = |i: usize| {
            let i = own + if each { i } else { 0 };
            (f32::from_le_bytes(scales[i]), zeros.as_ref().map_or(0, |zeros| zeros[i]))
        };
        let real = |q: i16, (scale, zero): (f32, i16)| (f32::from(q - zero) * scale).to_le_bytes();
        if each {
            to.iter_mut().zip(now).enumerate().for_each(|(i, (to, q))| *to = real(*q, steps(i)));
        } else {
            let step = steps(0);
            to.iter_mut().zip(now).for_each(|(to, q)| *to = real(*q, step));
        }
        (left, out, at) = (later, rest, at + run);
    }
}

/// Integers of 4 or 8 bits at these places.
fn integers(t: &Tensor, places: Range<usize>) -> Vec<i16> {
    let bits = t.dtype().bits();
    let per_byte = 8 / bits;
    let bytes: Cow<[u8]> = t.bytes_at(places.start / per_byte..places.end.div_ceil(per_byte));
    let is_signed = matches!(t.dtype(), DataType::Int4 | DataType::Int8);
    if bits == 8 {
        let one = |b: &u8| if is_signed { i16::from(b.cast_signed()) } else { i16::from(*b) };
        return bytes.iter().map(one).collect();
    }
    let middle = if is_signed { 8 } else { 0 };
    let one = |q: u8| i16::from(q ^ middle) - i16::from(middle);
    let codes = bytes.iter().flat_map(|b| [one(b & 15), one(b >> 4)]);
    codes.skip(places.start % 2).take(places.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any part of the result is what the formula gives, element by element.
        #[test]
        fn parts_are_as_the_formula_says(
            dims in prop::collection::vec(1usize..7, 1..4), axis in 0usize..3, block in 1usize..5, seed: u64,
            dtype in prop::sample::select(vec![
                DataType::Int4, DataType::Uint4, DataType::Int8, DataType::Uint8,
            ]),
            has_zero: bool, cut in (0usize..400, 0usize..400),
        ) {
            let axis = axis % dims.len();
            let mut few = dims.clone();
            few[axis] = dims[axis].div_ceil(block);
            let (count, groups) = (dims.iter().product::<usize>(), few.iter().product::<usize>());
            let mut state = seed;
            let mut byte = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            let mut of = |len: usize, dims: &[usize]| {
                let bytes: Vec<u8> = (0..dtype.byte_len(len).unwrap()).map(|_| byte()).collect();
                Tensor::new(dtype, dims.to_vec(), bytes.into()).unwrap()
            };
            let (x, zero) = (of(count, &dims), of(groups, &few));
            let scales: Vec<f32> = (0..groups).map(|i| 0.5 + i as f32).collect();
            let scale = Tensor::from_vec(few.clone(), scales.clone());
            let made = x.dequantized(&scale, has_zero.then_some(&zero), (axis, block)).unwrap();
            let (codes, zeros) = (x.to_i64s().unwrap(), zero.to_i64s().unwrap());
            let inner: usize = dims[axis + 1..].iter().product();
            let wanted = |i: usize| {
                let (outer, k) = (i / inner / dims[axis], i / inner % dims[axis]);
                let at = (outer * few[axis] + k / block) * inner + i % inner;
                (codes[i] - if has_zero { zeros[at] } else { 0 }) as f32 * scales[at]
            };
            let (from, to) = (cut.0.min(cut.1) % count, cut.0.max(cut.1) % (count + 1));
            let part = made.part(from..from.max(to));
            let found = part.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            for (i, found) in found.enumerate() {
                prop_assert_eq!(found, wanted(from + i));
            }
        }
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        let x = Tensor::from_vec([4, 6], vec![1i8; 24]);
        let scale = |dims: [usize; 2]| Tensor::from_vec(dims, vec![1f32; dims[0] * dims[1]]);
        assert!(x.dequantized(&scale([2, 6]), None, (0, 2)).is_ok());
        for (dims, at) in [([2, 6], (1, 2)), ([2, 6], (0, 4)), ([4, 6], (2, 1)), ([4, 6], (0, 0))] {
            assert!(x.dequantized(&scale(dims), None, at).is_err(), "{dims:?} {at:?}");
        }
        let zero = Tensor::from_vec([2, 6], vec![1f32; 12]);
        assert!(x.dequantized(&scale([2, 6]), Some(&zero), (0, 2)).is_err());
    }
}
