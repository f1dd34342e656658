//! Functions of numbers of 64 bits by those that runtimes have for them.

use super::log1p;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{Double, Float};
use onnxd_plugin_sdk::lower::Lowered;
use std::f64::consts::LN_2;

/// From here on the root of `x * x + 1` is `x`.
const LARGE: f64 = 1e9;

/// The angle in 32 bits, and what it lacks: that is so small that it is its own tangent.
pub(super) fn atan(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let near = b.cast(b.atan(b.cast(x, Float)?)?, Double)?;
    // Infinity times a cosine would say nothing more.
    let x = b.clip(x).min(-1e300).max(1e300).one()?;
    let (sine, cosine) = (b.sin(near)?, b.cos(near)?);
    let less = b.div(b.sub(b.mul(x, cosine)?, sine)?, b.add(cosine, b.mul(x, sine)?)?)?;
    b.add(near, less)
}

pub(super) fn asin(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let other = b.sqrt(b.mul(b.sub(1.0, x)?, b.add(x, 1.0)?)?)?;
    atan(b, b.div(x, other)?)
}

pub(super) fn acos(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let half = atan(b, b.sqrt(b.div(b.sub(1.0, x)?, b.add(x, 1.0)?)?)?)?;
    b.mul(half, 2.0)
}

pub(super) fn asinh(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let size = b.abs(x)?;
    let square = b.mul(size, size)?;
    let root = b.sqrt(b.add(square, 1.0)?)?;
    let near = log1p(b, b.add(size, b.div(square, b.add(root, 1.0)?)?)?)?;
    b.mul(b.sign(x)?, far_or(b, size, near)?)
}

pub(super) fn acosh(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let less = b.sub(x, 1.0)?;
    let root = b.sqrt(b.mul(less, b.add(x, 1.0)?)?)?;
    far_or(b, x, log1p(b, b.add(less, root)?)?)
}

pub(super) fn atanh(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let size = b.abs(x)?;
    let double = log1p(b, b.div(b.mul(size, 2.0)?, b.sub(1.0, size)?)?)?;
    b.mul(b.mul(b.sign(x)?, double)?, 0.5)
}

/// `near`, and the logarithm of `2 * x` for a large `x`.
fn far_or(b: &GraphBuilder, x: Var, near: Var) -> Lowered<Var> {
    b.where_(b.greater(x, LARGE)?, b.add(b.log(x)?, LN_2)?, near)
}
