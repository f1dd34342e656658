//! Arithmetic of NumPy that ONNX has no operators for: divisions that round down, divisors, sums of powers.

use crate::elementary::log1p;
use crate::{dtype_of, number};
use onnxd_build::{GraphBuilder, Result, Turn, Var};
use onnxd_ir::DataType::{self, Bfloat16, Bool, Double, Float, Float16, Int32};
use std::f64::consts::PI;

/// `x / y`, rounded down.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn floor_quotient(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    use DataType::{Uint8, Uint16, Uint32, Uint64};
    match dtype_of(b, x)? {
        d if d.is_float() => b.floor(b.div(x, y)?),
        Uint8 | Uint16 | Uint32 | Uint64 => b.div(x, y),
        // Division truncates, and Mod has the sign of the divisor.
        _ => b.div(b.sub(x, b.mod_(x, y).one()?)?, y),
    }
}

/// What a division that rounds down leaves: it has the sign of `y`.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn floor_remainder(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    if !dtype_of(b, x)?.is_float() {
        return b.mod_(x, y).one();
    }
    let rest = b.mod_(x, y).fmod(1).one()?;
    let known = b.constant_of(y).filter(|t| t.rank() == 0).and_then(|t| t.to_reals());
    let wrong_sign = match known.and_then(|y| y.values.first().copied()) {
        Some(y) if y > 0.0 => b.less(rest, 0.0)?,
        Some(y) if y < 0.0 => b.greater(rest, 0.0)?,
        _ => b.less(b.mul(rest, y)?, 0.0)?,
    };
    b.where_(wrong_sign, b.add(rest, y)?, rest)
}

/// The greatest common divisor of integers that are not negative, by Euclid's steps until all are done.
///
/// # Errors
/// Those of the builder.
pub fn gcd(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    // Both have the shape of the result from the first step on.
    let none = b.mul(b.mul(x, y)?, 0)?;
    let start = [b.add(x, none)?, b.add(y, none)?];
    let is_left = |b: &GraphBuilder, y: Var| {
        let any = b.cast(b.not(b.equal(y, 0)?)?, Int32)?;
        b.cast(b.reduce_max(any).keepdims(0).one()?, Bool)
    };
    let steps: Option<Var> = None;
    let found = b.loop_(steps, is_left(b, start[1])?, &start, |b, _, _, states| {
        let (x, y) = (states[0], states[1]);
        let done = b.equal(y, 0)?;
        let rest = b.mod_(x, b.where_(done, 1, y)?).one()?;
        let carried = vec![b.where_(done, x, y)?, b.where_(done, 0, rest)?];
        Ok(Turn { condition: is_left(b, carried[1])?, carried, scanned: vec![] })
    })?;
    Ok(found[0])
}

/// The least common multiple of integers that are not negative.
///
/// # Errors
/// Those of the builder.
pub fn lcm(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    let divisor = gcd(b, x, y)?;
    b.mul(x, b.div(y, b.where_(b.equal(divisor, 0)?, 1, divisor)?)?)
}

/// The length of the longest side of a right triangle; no square is too large or small.
///
/// # Errors
/// Those of the builder.
pub fn hypot(b: &GraphBuilder, x: Var, y: Var) -> Result<Var> {
    let (x, y) = (b.abs(x)?, b.abs(y)?);
    let (most, least) = (b.max([x, y])?, b.min([x, y])?);
    let ratio = b.where_(b.equal(most, 0)?, 0.0, b.div(least, most)?)?;
    let length = b.mul(most, b.sqrt(b.add(b.mul(ratio, ratio)?, 1.0)?)?)?;
    // Two infinities have no ratio.
    b.where_(b.equal(most, f64::INFINITY)?, most, length)
}

/// `log(base ** x + base ** y)` in that base, whose logarithm is `unit`.
///
/// # Errors
/// Those of [`log1p`].
pub fn log_add_exp(b: &GraphBuilder, x: Var, y: Var, unit: f64) -> Result<Var> {
    let distance = b.sub(x, y)?;
    let less = b.neg(b.abs(distance)?)?;
    let more = match unit {
        1.0 => log1p(b, b.exp(less)?)?,
        unit => b.div(log1p(b, b.exp(b.mul(less, unit)?)?)?, unit)?,
    };
    // Infinities of one sign have no distance.
    b.where_(b.is_nan(distance)?, b.add(x, y)?, b.add(b.max([x, y])?, more)?)
}

/// `sin(pi * x) / (pi * x)`
///
/// # Errors
/// Those of the builder.
pub fn sinc(b: &GraphBuilder, x: Var) -> Result<Var> {
    let angle = b.mul(x, PI)?;
    b.where_(b.equal(angle, 0)?, 1.0, b.div(b.sin(angle)?, angle)?)
}

/// Whether numbers are negative; a negative zero is.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn is_negative(b: &GraphBuilder, x: Var) -> Result<Var> {
    let dtype = dtype_of(b, x)?;
    if !dtype.is_float() {
        return b.less(x, 0);
    }
    let x = if dtype == Double { x } else { b.cast(x, Float)? };
    b.less(b.min([x, b.reciprocal(x)?])?, 0)
}

/// Largest number of a type of floats.
pub fn largest(dtype: DataType) -> f64 {
    match dtype {
        Float16 => 65504.0,
        Bfloat16 => 3.389_531_389_251_535_5e38,
        Double => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

/// `x` with numbers in place of what is none, and of infinities: the largest numbers unless others are given.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn nan_to_num(
    b: &GraphBuilder,
    x: Var,
    nan: f64,
    [positive, negative]: [Option<f64>; 2],
) -> Result<Var> {
    let dtype = dtype_of(b, x)?;
    if !dtype.is_float() {
        return Ok(x);
    }
    let mut y = b.where_(b.is_nan(x)?, number(b, x, nan)?, x)?;
    for (given_bound, infinity) in [(positive, f64::INFINITY), (negative, f64::NEG_INFINITY)] {
        if let Some(given_bound) = given_bound {
            y = b.where_(b.equal(x, number(b, x, infinity)?)?, number(b, x, given_bound)?, y)?;
        }
    }
    let bound = |given_bound: Option<f64>, bound: f64| match given_bound {
        Some(_) => Ok(None),
        None => number(b, x, bound).map(Some),
    };
    if positive.is_some() && negative.is_some() {
        return Ok(y);
    }
    let (min, max) = (bound(negative, -largest(dtype))?, bound(positive, largest(dtype))?);
    b.clip(y).min(min).max(max).one()
}

#[cfg(test)]
mod tests;
