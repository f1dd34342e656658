//! Layer normalization of a sum.

use super::{first, standard};
use crate::call::{KernelCall, one};
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Tensor};

/// `input + skip + bias?`, in the shape of the input.
fn skipped(call: &KernelCall, bias: usize) -> Outcome<Tensor> {
    let (x, skip) = (call.x(0)?, call.x(1)?);
    let mut sum = first(call, "Add", &[], &[Some(x), Some(skip)])?;
    if let Some(bias) = call.opt(bias) {
        sum = first(call, "Add", &[], &[Some(&sum), Some(bias)])?;
    }
    refuse!(sum.dims() != x.dims() => "{skip:?} does not fit {x:?}");
    Ok(sum)
}

fn epsilon(call: &KernelCall) -> Outcome<[(&'static str, Attr); 1]> {
    Ok([("epsilon", Attr::Float(call.float("epsilon", 1e-12)?))])
}

/// `input, skip, gamma, beta?, bias?` -> the result, mean, inverse deviation, and the sum itself.
pub(super) fn skip_layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let sum = skipped(call, 4)?;
    let inputs = [Some(&sum), Some(call.x(2)?), call.opt(3)];
    let mut outputs = standard(call, "LayerNormalization", &epsilon(call)?, &inputs, 3)?;
    outputs.push(sum);
    Ok(outputs)
}

/// `input, skip, gamma, bias?`, as above without a mean.
pub(super) fn skip_simplified_layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    refuse!(call.wants(1) || call.wants(2) => Fault::unsupported("mean and deviation are not computed"));
    let sum = skipped(call, 3)?;
    let inputs = [Some(&sum), Some(call.x(2)?)];
    let y = first(call, "RMSNormalization", &epsilon(call)?, &inputs)?;
    Ok(vec![y.clone(), y.clone(), y, sum])
}

pub(super) fn simplified_layer_normalization(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let attrs = [
        ("axis", Attr::Int(call.int("axis", -1)?)),
        ("epsilon", Attr::Float(call.float("epsilon", 1e-5)?)),
    ];
    one(first(call, "RMSNormalization", &attrs, &[Some(call.x(0)?), Some(call.x(1)?)])?)
}
