//! Operators on quantized operands: exact sums in 32 bits, scaled and rounded to the type of the
//! result.

use super::{limits, quantized};
use crate::call::{KernelCall, one};
use crate::cells::expanded;
use crate::conv::{centered_weights, integer_convolution};
use crate::dims::broadcast;
use crate::fault::Outcome;
use crate::linear::{centered, integer_product};
use crate::num::slice;
use crate::shape::cast;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

/// A scale with one element, or `count` of them.
fn scales<'a>(call: &KernelCall<'a>, i: usize, count: usize) -> Outcome<Cow<'a, [f32]>> {
    let scale = crate::call::widened(call.x(i)?)?;
    let found = slice::<f32>(&scale)?.into_owned();
    refuse!(found.len() != 1 && found.len() != count => "scale {scale:?} does not fit {count} slices");
    Ok(Cow::Owned(found))
}

/// Sums scaled by `factor(i)`, rounded to the type of the zero point.
fn requantized(sums: &Tensor, zero: &Tensor, factor: impl Fn(usize) -> f32) -> Outcome<Tensor> {
    let range = limits(zero.dtype())?;
    let shift = crate::call::scalar(zero)? as i64;
    let scaled = slice::<i32>(sums)?
        .iter()
        .enumerate()
        .map(|(i, v)| quantized(f64::from(*v as f32 * factor(i)), shift, range))
        .collect();
    cast(&Tensor::from_vec(sums.dims(), scaled), zero.dtype())
}

/// `x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias`.
pub(crate) fn conv(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = centered(call.x(0)?, call.opt(2), false)?;
    let w = centered_weights(call.x(3)?, call.opt(5))?;
    let filters = w.dims().first().copied().unwrap_or(0);
    let bias = call.opt(8).map(slice::<i32>).transpose()?;
    refuse!(bias.as_ref().is_some_and(|b| b.len() != filters) => "the bias does not fit the weights");
    let sums = integer_convolution(call, &x, &w, bias.as_deref())?;
    let (xs, ws, ys) = (scales(call, 1, 1)?, scales(call, 4, filters)?, scales(call, 6, 1)?);
    let area: usize = sums.dims().get(2..).unwrap_or_default().iter().product();
    let factor = |i: usize| xs[0] * ws[i / area.max(1) % filters % ws.len()] / ys[0];
    one(requantized(&sums, call.x(7)?, factor)?)
}

/// The scale of every element of a product of shape `dims` with the operand `other`, or the only
/// one. A scale is a scalar, has one element per row of A or column of B, or has the axes of its
/// operand.
fn spread(scale: &Tensor, per_row: bool, other: &Tensor, dims: &[usize]) -> Outcome<Vec<f32>> {
    let wide = crate::call::widened(scale)?;
    let values = slice::<f32>(&wide)?;
    if let [only] = *values {
        return Ok(vec![only]);
    }
    let shape = match (scale.dims(), per_row) {
        // The product with a vector has no columns, or no rows.
        ([batch @ .., rows, 1], true) if other.rank() == 1 => [batch, &[*rows]].concat(),
        ([batch @ .., 1, columns], false) if other.rank() == 1 => [batch, &[*columns]].concat(),
        ([rows], true) if other.rank() > 1 => vec![*rows, 1],
        (given, _) => given.to_vec(),
    };
    refuse!(broadcast(&shape, dims)? != dims => "scale {scale:?} does not fit a product {dims:?}");
    Ok(slice::<f32>(&expanded(&wide.reshaped(shape)?, dims)?)?.into_owned())
}

/// `a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero`.
pub(super) fn matmul(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let a = centered(call.x(0)?, call.opt(2), true)?;
    let b = centered(call.x(3)?, call.opt(5), false)?;
    let sums = integer_product(call, &a, &b)?;
    debug_assert_eq!(sums.dtype(), DataType::Int32);
    let a_s = spread(call.x(1)?, true, &b, sums.dims())?;
    let b_s = spread(call.x(4)?, false, &a, sums.dims())?;
    let y_s = scales(call, 6, 1)?[0];
    let factor = |i: usize| a_s[i % a_s.len()] * b_s[i % b_s.len()] / y_s;
    one(requantized(&sums, call.x(7)?, factor)?)
}
