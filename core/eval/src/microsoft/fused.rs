//! Operators of the standard with what follows them.

use super::{attributes, first};
use crate::call::{KernelCall, one};
use crate::cells::transposed;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Tensor};

/// Applies the activation that the attribute names, if it names one.
fn activated(call: &KernelCall, x: Tensor, parameters: &[(&str, f32)]) -> Outcome<Tensor> {
    let name = call.string("activation", "")?;
    let known = ["", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Sigmoid"];
    let known = [&known[..], &["Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Celu"]].concat();
    refuse!(!known.contains(&name) => Fault::unsupported(format!("the activation `{name}` is not computed")));
    let attrs: Vec<_> = parameters.iter().map(|(n, v)| (*n, Attr::Float(*v))).collect();
    if name.is_empty() { Ok(x) } else { first(call, name, &attrs, &[Some(&x)]) }
}

/// `activation(Conv(X, W, B?) + Z?)`.
pub(super) fn fused_conv(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let inputs = [Some(call.x(0)?), Some(call.x(1)?), call.opt(2)];
    let mut y = first(call, "Conv", &attributes(call), &inputs)?;
    if let Some(z) = call.opt(3) {
        y = first(call, "Add", &[], &[Some(&y), Some(z)])?;
    }
    let given = call.floats("activation_params")?.unwrap_or_default();
    let names =
        if call.string("activation", "")? == "Clip" { ["min", "max"] } else { ["alpha", "beta"] };
    let parameters: Vec<(&str, f32)> = names.into_iter().zip(given.iter().copied()).collect();
    one(activated(call, y, &parameters)?)
}

/// `activation(Gemm(A, B, C?))`.
pub(super) fn fused_gemm(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let inputs = [Some(call.x(0)?), Some(call.x(1)?), call.opt(2)];
    let y = first(call, "Gemm", &attributes(call), &inputs)?;
    let mut parameters = Vec::new();
    for name in ["alpha", "beta", "gamma"] {
        let given = call.float_opt(&format!("activation_{name}"))?;
        parameters.extend(given.map(|value| (name, value)));
    }
    one(activated(call, y, &parameters)?)
}

/// A factor whose first axis may stand behind the other outer ones, and whose last two may be
/// swapped; vectors stay.
fn factor(x: &Tensor, batch: bool, flip: bool) -> Outcome<Tensor> {
    let rank = x.rank();
    if rank < 2 {
        return Ok(x.clone());
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    if batch {
        perm[..rank - 1].rotate_left(1);
    }
    if flip {
        perm.swap(rank - 2, rank - 1);
    }
    transposed(x, &perm)
}

/// `alpha * A' * B'`.
pub(super) fn fused_matmul(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let a = factor(call.x(0)?, call.flag("transBatchA", false)?, call.flag("transA", false)?)?;
    let b = factor(call.x(1)?, call.flag("transBatchB", false)?, call.flag("transB", false)?)?;
    let y = first(call, "MatMul", &[], &[Some(&a), Some(&b)])?;
    let alpha = call.float("alpha", 1.0)?;
    if alpha == 1.0 {
        return one(y);
    }
    let alpha = crate::shape::cast(&Tensor::scalar(alpha), y.dtype())?;
    one(first(call, "Mul", &[], &[Some(&y), Some(&alpha)])?)
}
