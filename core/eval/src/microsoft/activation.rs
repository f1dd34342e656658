//! Smooth activations, with a bias in front of some.

use super::first;
use crate::call::{KernelCall, one};
use crate::fault::Outcome;
use onnxd_ir::{Attr, Tensor};

pub(super) fn gelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    one(first(call, "Gelu", &[], &[Some(call.x(0)?)])?)
}

pub(super) fn bias_gelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let sum = first(call, "Add", &[], &[Some(call.x(0)?), Some(call.x(1)?)])?;
    one(first(call, "Gelu", &[], &[Some(&sum)])?)
}

/// Through the hyperbolic tangent.
pub(super) fn fast_gelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = match call.opt(1) {
        Some(bias) => first(call, "Add", &[], &[Some(call.x(0)?), Some(bias)])?,
        None => call.x(0)?.clone(),
    };
    let attrs = [("approximate", Attr::Str("tanh".into()))];
    one(first(call, "Gelu", &attrs, &[Some(&x)])?)
}

pub(super) fn quick_gelu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let attrs = [("alpha", Attr::Float(call.float("alpha", 1.702)?))];
    one(first(call, "Swish", &attrs, &[Some(call.x(0)?)])?)
}
