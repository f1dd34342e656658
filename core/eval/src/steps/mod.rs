//! What follows an operator element by element and can be done to each part of the result while it is still in the
//! cache. The arithmetic is that of the operators' own kernels, which use it too.

mod pairs;

use crate::fault::Outcome;
use crate::num::{Num, slice};
use crate::parallel::copied_parts;
use crate::vector;
use onnxd_ir::Tensor;

pub(crate) use pairs::{Named, Other, Pair};

/// One operator applied to elements of a result.
pub(crate) enum ElementStep {
    /// BatchNormalization: one entry per channel, each for so many elements.
    Affine(Vec<AffineStep<f32>>, usize),
    /// Relu.
    Relu,
    /// Clip.
    Clip(Limits<f32>),
    /// A smooth function of one element.
    Map(vector::InPlace),
    /// A function of two elements, of which the other is known.
    Pair(Pair, Other),
}

/// `(x - mean) * gain + shift`.
#[derive(Clone, Copy)]
pub(crate) struct AffineStep<T> {
    pub(crate) mean: T,
    pub(crate) gain: T,
    pub(crate) shift: T,
}

impl<T: Num> AffineStep<T> {
    pub(crate) fn apply(self, v: T) -> T {
        v.minus(self.mean).times(self.gain).plus(self.shift)
    }
}

/// The limits of Clip; the upper one wins where they cross.
#[derive(Clone, Copy)]
pub(crate) struct Limits<T> {
    pub(crate) low: Option<T>,
    pub(crate) high: Option<T>,
}

impl<T: Num> Limits<T> {
    /// NaN stays.
    pub(crate) fn clip(self, v: T) -> T {
        let above = self.low.map_or(v, |low| if v < low { low } else { v });
        self.high.map_or(above, |high| if above > high { high } else { above })
    }
}

impl ElementStep {
    /// Applies the step to elements of a result from index `at` on.
    pub(crate) fn apply(&self, at: usize, run: &mut [f32]) {
        match self {
            ElementStep::Affine(channels, area) => for_each_piece(at, run, *area, |i, run| {
                let affine = channels[i % channels.len()];
                run.iter_mut().for_each(|v| *v = affine.apply(*v));
            }),
            ElementStep::Relu => vector::rectify(run),
            ElementStep::Clip(Limits { low: Some(low), high: Some(high) }) => {
                vector::clip(*low, *high, run);
            }
            ElementStep::Clip(limits) => run.iter_mut().for_each(|v| *v = limits.clip(*v)),
            ElementStep::Map(kernel) => kernel(run),
            ElementStep::Pair(pair, other) => other.apply(*pair, at, run),
        }
    }
}

/// Calls `f` for the parts of a run from index `at` on that belong to one piece of `size` elements, with its number.
fn for_each_piece(at: usize, run: &mut [f32], size: usize, mut f: impl FnMut(usize, &mut [f32])) {
    let (mut at, mut rest) = (at, run);
    while !rest.is_empty() {
        let own = (size - at % size).min(rest.len());
        let (piece, behind) = rest.split_at_mut(own);
        f(at / size, piece);
        (at, rest) = (at + own, behind);
    }
}

/// The result of several steps one after the other.
pub(crate) fn applied(x: &Tensor, steps: &[ElementStep]) -> Outcome<Tensor> {
    let cost = vector::COST * steps.len();
    let y = copied_parts(&slice::<f32>(x)?, 1, cost, &|first, part| {
        steps.iter().for_each(|step| step.apply(first, part));
    });
    Ok(Tensor::from_vec(x.dims(), y))
}
