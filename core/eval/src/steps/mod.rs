//! What follows an operator element by element and can be done to each part of the result while it is still in the
//! cache. The arithmetic is that of the operators' own kernels, which use it too.

mod pairs;

use crate::activation::gelu_kernel;
use crate::call::Call;
use crate::fault::Outcome;
use crate::math::fixed_power;
use crate::norm::{Affine, affine};
use crate::num::{Num, slice};
use crate::parallel::copied_parts;
use crate::vector;
use onnxd_ir::{DataType, Tensor};
use pairs::{Named, Other, Pair};

/// One operator applied to elements of a result.
pub(crate) enum Step {
    /// BatchNormalization: one entry per channel, each for so many elements.
    Affine(Vec<Affine<f32>>, usize),
    /// Relu.
    Relu,
    /// Clip.
    Clip(Limits<f32>),
    /// A smooth function of one element.
    Map(vector::InPlace),
    /// A function of two elements, of which the other is known.
    Pair(Pair, Other),
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

    /// The limits moved from attributes to inputs in opset 11.
    pub(crate) fn of(call: &Call) -> Outcome<Limits<T>> {
        let limit = |name: &str, i: usize| -> Outcome<Option<T>> {
            if let Some(value) = call.float_opt(name)? {
                return Ok(Some(T::from_f64(f64::from(value))));
            }
            let Some(limit) = call.opt(i) else { return Ok(None) };
            match slice::<T>(limit)?.as_ref() {
                [value] => Ok(Some(*value)),
                _ => Err(crate::fault::Fault::invalid(format!("limit {limit:?} is not a scalar"))),
            }
        };
        Ok(Limits { low: limit("min", 1)?, high: limit("max", 2)? })
    }
}

/// Whether the operator can be a step.
pub(crate) fn may_follow(op: &str) -> bool {
    matches!(op, "BatchNormalization" | "Clip" | "Relu") || Pair::of(op, 0).is_some() || maps(op)
}

/// Whether it may be one at all, for most attributes and inputs.
fn maps(op: &str) -> bool {
    matches!(op, "Gelu" | "Pow") || map(op).is_some()
}

/// Functions without parameters.
fn map(op: &str) -> Option<vector::InPlace> {
    Some(match op {
        "Erf" => vector::erfs,
        "Exp" => vector::exps,
        "HardSwish" => vector::hard_swishes,
        "Mish" => vector::mishes,
        "Sigmoid" => vector::sigmoids,
        "Softplus" => vector::softpluses,
        "Sqrt" => vector::square_roots,
        "Tanh" => vector::tanhs,
        _ => return None,
    })
}

impl Step {
    /// The step that a node stands for, where `call` has all of its inputs but the one at `position`, which is a
    /// result of these sizes. `None` if it must be computed on its own.
    pub(crate) fn of(call: &Call, position: usize, dims: &[usize]) -> Option<Step> {
        let op = call.node.op.as_str();
        if let Some(pair) = Pair::of(op, position) {
            let other = (call.opset >= 7).then(|| call.opt(1 - position)).flatten()?;
            return Other::of(other, dims).map(|other| Step::Pair(pair, other));
        }
        if position != 0 {
            return None;
        }
        match op {
            "Relu" => Some(Step::Relu),
            "Clip" => Limits::of(call).ok().map(Step::Clip),
            "Gelu" => gelu_kernel(call).ok().map(|(_, kernel)| Step::Map(kernel)),
            "Pow" => {
                let exponent = call.opt(1).filter(|e| e.dtype() == DataType::Float)?;
                fixed_power(dims.len(), exponent).ok()?.map(Step::Map)
            }
            "BatchNormalization" if !call.trains().ok()? => {
                let floats = |x: &Tensor| x.dtype() == DataType::Float;
                let all = (1..5).all(|i| call.opt(i).is_some_and(floats));
                let [_, channels, inner @ ..] = dims else { return None };
                let steps = all.then(|| affine(call, *channels).ok()).flatten()?;
                Some(Step::Affine(steps, inner.iter().product()))
            }
            _ => map(op).map(Step::Map),
        }
    }

    /// Applies the step to elements of a result from index `at` on.
    pub(crate) fn apply(&self, at: usize, run: &mut [f32]) {
        match self {
            Step::Affine(channels, area) => for_each_piece(at, run, *area, |i, run| {
                let affine = channels[i % channels.len()];
                run.iter_mut().for_each(|v| *v = affine.apply(*v));
            }),
            Step::Relu => vector::rectify(run),
            Step::Clip(Limits { low: Some(low), high: Some(high) }) => {
                vector::clip(*low, *high, run);
            }
            Step::Clip(limits) => run.iter_mut().for_each(|v| *v = limits.clip(*v)),
            Step::Map(kernel) => kernel(run),
            Step::Pair(pair, other) => other.apply(*pair, at, run),
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
pub(crate) fn applied(x: &Tensor, steps: &[Step]) -> Outcome<Tensor> {
    let cost = vector::COST * steps.len();
    let y = copied_parts(&slice::<f32>(x)?, 1, cost, &|first, part| {
        steps.iter().for_each(|step| step.apply(first, part));
    });
    Ok(Tensor::from_vec(x.dims(), y))
}
