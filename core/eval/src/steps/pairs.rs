//! Functions of two elements, of which one belongs to a result that is at hand.

use super::for_each_piece;
use crate::parallel::vectorized;
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

/// Replaces each element by a function of it and of the other.
pub(crate) type Pair = fn(&mut [f32], &[f32]);

pub(crate) trait Named: Sized {
    /// The function of an operator whose input at `position` is replaced.
    fn of(op: &str, position: usize) -> Option<Self>;
}

macro_rules! pairs {
    ($($name:ident $x:ident, $y:ident => $value:expr;)*) => { $(
        vectorized! {
            fn $name(run: &mut [f32], other: &[f32]) {
                for ($x, $y) in run.iter_mut().zip(other) {
                    let to = $x;
                    let ($x, $y) = (*to, *$y);
                    *to = $value;
                }
            }
        }
    )* };
}

pairs! {
    sum x, y => x + y;
    difference x, y => x - y;
    difference_from x, y => y - x;
    product x, y => x * y;
    quotient x, y => x / y;
    quotient_of x, y => y / x;
}

impl Named for Pair {
    fn of(op: &str, position: usize) -> Option<Pair> {
        Some(match (op, position) {
            ("Add", _) => sum,
            ("Sub", 0) => difference,
            ("Sub", _) => difference_from,
            ("Mul", _) => product,
            ("Div", 0) => quotient,
            ("Div", _) => quotient_of,
            _ => return None,
        })
    }
}

/// An operand that broadcasts to a result.
pub(crate) struct Other {
    values: Tensor,
    /// Elements of the result that each of its elements stands for; behind the last one the first follows again.
    each: usize,
}

/// Elements that are computed at once where the other is the same for all.
const BLOCK: usize = 64;

impl Other {
    /// `None` if it does not repeat as a whole, or is no operand of a result of these sizes.
    pub(crate) fn from_operand(x: &Tensor, dims: &[usize]) -> Option<Other> {
        let before = dims.len().checked_sub(x.rank())?;
        if x.dtype() != DataType::Float || x.is_empty() {
            return None;
        }
        // Ones, the sizes of the result, and ones again.
        let size = |axis: usize| axis.checked_sub(before).map_or(1, |axis| x.dims()[axis]);
        let differs = |axis: &usize| size(*axis) != 1;
        let first = (0..dims.len()).find(differs).unwrap_or(dims.len());
        let end = (0..dims.len()).rev().find(differs).map_or(first, |last| last + 1);
        if (first..end).any(|axis| size(axis) != dims[axis]) {
            return None;
        }
        let values = match x.as_slice::<f32>()? {
            Cow::Borrowed(_) => x.clone(),
            Cow::Owned(copy) => Tensor::from_vec(x.dims(), copy),
        };
        Some(Other { values, each: dims[end..].iter().product() })
    }

    pub(super) fn apply(&self, pair: Pair, at: usize, run: &mut [f32]) {
        let Some(values) = self.values.as_slice::<f32>() else { return };
        let count = values.len();
        let with_one = |value: f32, run: &mut [f32]| {
            let block = [value; BLOCK];
            run.chunks_mut(BLOCK).for_each(|run| pair(run, &block));
        };
        match (count, self.each) {
            (1, _) => with_one(values[0], run),
            (_, 1) => {
                let mut start = at % count;
                for_each_piece(at, run, count, |_, run| {
                    pair(run, &values[start..]);
                    start = 0;
                });
            }
            (_, each) => for_each_piece(at, run, each, |i, run| with_one(values[i % count], run)),
        }
    }
}
