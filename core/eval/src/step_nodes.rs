//! Which operators can be steps behind another one, and the step that a node stands for.

use crate::activation::{gelu_kernel, limits};
use crate::call::KernelCall;
use crate::math::fixed_power;
use crate::norm::affine;
use crate::steps::{ElementStep, Named, Other, Pair};
use crate::vector;
use onnxd_ir::{DataType, Tensor};

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

/// The step that a node stands for, where `call` has all of its inputs but the one at `position`, which is a
/// result of these sizes. `None` if it must be computed on its own.
pub(crate) fn step_of(call: &KernelCall, position: usize, dims: &[usize]) -> Option<ElementStep> {
    let op = call.node.op.as_str();
    if let Some(pair) = Pair::of(op, position) {
        let other = (call.opset >= 7).then(|| call.opt(1 - position)).flatten()?;
        return Other::from_operand(other, dims).map(|other| ElementStep::Pair(pair, other));
    }
    if position != 0 {
        return None;
    }
    match op {
        "Relu" => Some(ElementStep::Relu),
        "Clip" => limits(call).ok().map(ElementStep::Clip),
        "Gelu" => gelu_kernel(call).ok().map(|(_, kernel)| ElementStep::Map(kernel)),
        "Pow" => {
            let exponent = call.opt(1).filter(|e| e.dtype() == DataType::Float)?;
            fixed_power(dims.len(), exponent).ok()?.map(ElementStep::Map)
        }
        "BatchNormalization" if !call.trains().ok()? => {
            let floats = |x: &Tensor| x.dtype() == DataType::Float;
            let all = (1..5).all(|i| call.opt(i).is_some_and(floats));
            let [_, channels, inner @ ..] = dims else { return None };
            let steps = all.then(|| affine(call, *channels).ok()).flatten()?;
            Some(ElementStep::Affine(steps, inner.iter().product()))
        }
        _ => map(op).map(ElementStep::Map),
    }
}
