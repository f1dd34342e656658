//! What follows a convolution element by element and can be done to each part of the result while
//! it is still in the cache. The arithmetic is that of the operators' own kernels, which use it too.

use crate::call::Call;
use crate::fault::Outcome;
use crate::item::Item;
use crate::norm::{Affine, affine};
use crate::num::{Num, slice};
use onnxd_ir::{DataType, Tensor};

/// One operator applied to the elements of an output channel.
pub(crate) enum Step {
    /// BatchNormalization: one entry per channel.
    Affine(Vec<Affine<f32>>),
    /// Relu.
    Relu,
    /// Clip.
    Clip(Limits<f32>),
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

/// Whether the operator can be a step; its first input is what it follows.
pub(crate) fn may_follow(op: &str) -> bool {
    matches!(op, "BatchNormalization" | "Clip" | "Relu")
}

impl Step {
    /// The step that a node stands for, where `call` has all of its inputs but the first. `None` if
    /// it must be computed on its own.
    pub(crate) fn of(call: &Call, channels: usize) -> Option<Step> {
        match call.node.op.as_str() {
            "Relu" => Some(Step::Relu),
            "Clip" => Limits::of(call).ok().map(Step::Clip),
            "BatchNormalization" if !call.trains().ok()? => {
                let floats = |x: &Tensor| x.dtype() == DataType::Float;
                let all = (1..5).all(|i| call.opt(i).is_some_and(floats));
                all.then(|| affine(call, channels).ok().map(Step::Affine)).flatten()
            }
            _ => None,
        }
    }

    /// Applies the step to elements of one channel.
    pub(crate) fn apply(&self, channel: usize, run: &mut [f32]) {
        match self {
            Step::Affine(channels) => {
                let affine = channels[channel];
                run.iter_mut().for_each(|v| *v = affine.apply(*v));
            }
            Step::Relu => run.iter_mut().for_each(|v| *v = v.larger(0.0)),
            Step::Clip(Limits { low: Some(low), high: Some(high) }) => {
                run.iter_mut().for_each(|v| {
                    let above = if *v < *low { *low } else { *v };
                    *v = if above > *high { *high } else { above };
                });
            }
            Step::Clip(limits) => run.iter_mut().for_each(|v| *v = limits.clip(*v)),
        }
    }
}

/// The tensors among the inputs of a node that follows, whose first is not computed yet.
pub(crate) fn others(inputs: impl Iterator<Item = Option<Item>>) -> Vec<Option<Tensor>> {
    inputs.map(|x| x.and_then(|x| x.tensor().cloned())).collect()
}
