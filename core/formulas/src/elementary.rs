//! Elementary functions whose plain formula rounds away what is asked for, or that runtimes do not have for all types.

use crate::{dtype_of, number};
use onnxd_build::{GraphBuilder, Result, Var};
use onnxd_ir::DataType::{Bfloat16, Double, Float, Float16};
use std::f64::consts::{LN_2, PI};

/// From here on the root of `x * x + 1` is `x`.
const LARGE: f64 = 1e9;

/// Whether numbers are infinite. Before opset 20, `IsInf` takes no floats of 16 bits.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn is_infinite(b: &GraphBuilder, x: Var) -> Result<Var> {
    let half = matches!(dtype_of(b, x)?, Float16 | Bfloat16);
    let asked = if half && b.opset() < 20 { b.cast(x, Float)? } else { x };
    b.is_inf(asked).one()
}

/// `log(1 + x)`, exact for small numbers: `1 + x` is rounded, and the quotient takes the rounding back.
///
/// # Errors
/// Those of [`is_infinite`].
pub fn log1p(b: &GraphBuilder, x: Var) -> Result<Var> {
    let sum = b.add(x, 1.0)?;
    let corrected = b.mul(b.log(sum)?, b.div(x, b.sub(sum, 1.0)?)?)?;
    // Where the sum is one, the logarithm is the number; where it is infinite, it is itself.
    let result = b.where_(b.equal(sum, 1.0)?, x, corrected)?;
    b.where_(is_infinite(b, sum)?, sum, result)
}

/// `exp(x) - 1`, exact for small numbers.
///
/// # Errors
/// Those of the builder.
pub fn expm1(b: &GraphBuilder, x: Var) -> Result<Var> {
    let power = b.exp(x)?;
    let less = b.sub(power, 1.0)?;
    let corrected = b.mul(less, b.div(x, b.log(power)?)?)?;
    // Near zero the rounding is taken back; elsewhere the difference is exact enough.
    let near = b.and(b.less(b.abs(x)?, 0.5)?, b.not(b.equal(power, 1.0)?)?)?;
    let result = b.where_(near, corrected, less)?;
    b.where_(b.equal(power, 1.0)?, x, result)
}

/// Whether numbers have 64 bits, for which runtimes lack the functions below.
fn is_double(b: &GraphBuilder, x: Var) -> bool {
    b.dtype_of(x) == Some(Double)
}

/// The tangent.
///
/// # Errors
/// Those of the builder.
pub fn tan(b: &GraphBuilder, x: Var) -> Result<Var> {
    if is_double(b, x) { b.div(b.sin(x)?, b.cos(x)?) } else { b.tan(x) }
}

/// The angle of a tangent. Of 64 bits it is the angle in 32 bits, and what that lacks: that is so small that it is its
/// own tangent.
///
/// # Errors
/// Those of the builder.
pub fn atan(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.atan(x);
    }
    let near = b.cast(b.atan(b.cast(x, Float)?)?, Double)?;
    // Infinity times a cosine would say nothing more.
    let x = b.clip(x).min(-1e300).max(1e300).one()?;
    let (sine, cosine) = (b.sin(near)?, b.cos(near)?);
    let less = b.div(b.sub(b.mul(x, cosine)?, sine)?, b.add(cosine, b.mul(x, sine)?)?)?;
    b.add(near, less)
}

/// The angle of a point: that of its quotient, turned by half a circle on the left.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn atan2(b: &GraphBuilder, y: Var, x: Var) -> Result<Var> {
    // Upright points, and the origin.
    let tiny = match dtype_of(b, x)? {
        Float16 => 6e-8,
        Double => 1e-300,
        _ => 1e-38,
    };
    let angle = atan(b, b.div(y, b.where_(b.equal(x, 0)?, tiny, x)?)?)?;
    let half = b.where_(b.less(y, 0)?, number(b, x, -PI)?, PI)?;
    b.where_(b.less(x, 0)?, b.add(angle, half)?, angle)
}

/// The angle of a sine.
///
/// # Errors
/// Those of the builder.
pub fn asin(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.asin(x);
    }
    let other = b.sqrt(b.mul(b.sub(1.0, x)?, b.add(x, 1.0)?)?)?;
    atan(b, b.div(x, other)?)
}

/// The angle of a cosine.
///
/// # Errors
/// Those of the builder.
pub fn acos(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.acos(x);
    }
    let half = atan(b, b.sqrt(b.div(b.sub(1.0, x)?, b.add(x, 1.0)?)?)?)?;
    b.mul(half, 2.0)
}

/// The inverse of the hyperbolic sine.
///
/// # Errors
/// Those of the builder.
pub fn asinh(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.asinh(x);
    }
    let size = b.abs(x)?;
    let square = b.mul(size, size)?;
    let root = b.sqrt(b.add(square, 1.0)?)?;
    let near = log1p(b, b.add(size, b.div(square, b.add(root, 1.0)?)?)?)?;
    b.mul(b.sign(x)?, far_or(b, size, near)?)
}

/// The inverse of the hyperbolic cosine.
///
/// # Errors
/// Those of the builder.
pub fn acosh(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.acosh(x);
    }
    let less = b.sub(x, 1.0)?;
    let root = b.sqrt(b.mul(less, b.add(x, 1.0)?)?)?;
    far_or(b, x, log1p(b, b.add(less, root)?)?)
}

/// The inverse of the hyperbolic tangent.
///
/// # Errors
/// Those of the builder.
pub fn atanh(b: &GraphBuilder, x: Var) -> Result<Var> {
    if !is_double(b, x) {
        return b.atanh(x);
    }
    let size = b.abs(x)?;
    let double = log1p(b, b.div(b.mul(size, 2.0)?, b.sub(1.0, size)?)?)?;
    b.mul(b.mul(b.sign(x)?, double)?, 0.5)
}

/// `near`, and the logarithm of `2 * x` for a large `x`.
fn far_or(b: &GraphBuilder, x: Var, near: Var) -> Result<Var> {
    b.where_(b.greater(x, LARGE)?, b.add(b.log(x)?, LN_2)?, near)
}

#[cfg(test)]
mod tests;
