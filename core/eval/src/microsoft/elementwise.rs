//! Quantized operators on one element, or on two that broadcast.

use super::{ScaleAndZero, eight_bits, first};
use crate::call::{KernelCall, one};
use crate::cells::joined;
use crate::dims::{self, broadcast};
use crate::elementwise::pairs;
use crate::fault::{Fault, Outcome};
use crate::quant::{limits, quantized};
use crate::shape::cast;
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// The result of `f` on all pairs, in the type of the operands.
fn zipped(call: &KernelCall, f: &(dyn Fn(i64, i64) -> f32 + Sync)) -> Outcome<Vec<Tensor>> {
    let (a, b) = (call.x(0)?, call.x(3)?);
    refuse!(a.dtype() != b.dtype() => "{a:?} and {b:?} differ in element type");
    let dims = broadcast(a.dims(), b.dims())?;
    call.room(DataType::Int64, &dims)?;
    let (x, y) = (eight_bits(a)?, eight_bits(b)?);
    let range = limits(a.dtype())?;
    let place = |a: &i64, b: &i64| quantized(f64::from(f(*a, *b)), 0, range);
    let values = pairs(&dims, (&x, a.dims()), (&y, b.dims()), place);
    one(cast(&Tensor::from_vec(dims, values), a.dtype())?)
}

/// Whether `a` repeats along the innermost axis that either varies on.
fn repeats(a: &Tensor, b: &Tensor) -> bool {
    let size = |x: &Tensor, i: usize| x.rank().checked_sub(i).map_or(1, |k| x.dims()[k]);
    let rank = a.rank().max(b.rank());
    let inner = (1..=rank).find(|i| size(a, *i) != 1 || size(b, *i) != 1);
    inner.is_some_and(|i| size(a, i) == 1)
}

/// `a * ra + (b * rb + fixed)`, each sum rounded once. What repeats is the second operand.
pub(super) fn q_linear_add(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b, c) = (
        ScaleAndZero::read(call, 1, 2)?,
        ScaleAndZero::read(call, 4, 5)?,
        ScaleAndZero::read(call, 6, 7)?,
    );
    let swapped = repeats(call.x(0)?, call.x(3)?);
    let (p, q) = if swapped { (b, a) } else { (a, b) };
    let (rp, rq) = (p.scale / c.scale, q.scale / c.scale);
    let fixed = c.zero as f32 - rp.mul_add(p.zero as f32, rq * q.zero as f32);
    zipped(call, &|x, y| {
        let (x, y) = if swapped { (y, x) } else { (x, y) };
        rp.mul_add(x as f32, rq.mul_add(y as f32, fixed))
    })
}

pub(super) fn q_linear_mul(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (a, b, c) = (
        ScaleAndZero::read(call, 1, 2)?,
        ScaleAndZero::read(call, 4, 5)?,
        ScaleAndZero::read(call, 6, 7)?,
    );
    let ratio = a.scale * b.scale / c.scale;
    zipped(call, &|x, y| ((x - a.zero) * (y - b.zero)) as f32 * ratio + c.zero as f32)
}

/// Every element through a table of all 256, from one scale and zero point to others.
fn remapped(
    x: &Tensor,
    from: ScaleAndZero,
    to: ScaleAndZero,
    f: &dyn Fn(f32) -> f32,
) -> Outcome<Tensor> {
    let range = limits(x.dtype())?;
    let signed = match x.dtype() {
        DataType::Int8 => true,
        DataType::Uint8 => false,
        _ => return Err(Fault::invalid(format!("{x:?} where 8-bit integers are needed"))),
    };
    let entry = |bits: u8| {
        let q = if signed { i64::from(bits as i8) } else { i64::from(bits) };
        quantized(f64::from(f(from.real(q)) / to.scale), to.zero, range) as u8
    };
    let table: Vec<u8> = (0..=255).map(entry).collect();
    let bytes: Vec<u8> = x.bytes().iter().map(|b| table[usize::from(*b)]).collect();
    Ok(Tensor::new(x.dtype(), x.dims().to_vec(), Bytes::from(bytes))?)
}

fn mapped(call: &KernelCall, f: &dyn Fn(f32) -> f32) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    call.room_like(x, x.dims())?;
    one(remapped(x, ScaleAndZero::read(call, 1, 2)?, ScaleAndZero::read(call, 3, 4)?, f)?)
}

pub(super) fn q_linear_leaky_relu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let alpha = call.float("alpha", 0.01)?;
    mapped(call, &|x| if x >= 0.0 { x } else { alpha * x })
}

pub(super) fn q_linear_sigmoid(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    mapped(call, &|x| (1.0 / (1.0 + (-f64::from(x)).exp())) as f32)
}

/// `y_scale, y_zero`, then `x, scale, zero` of each part.
pub(super) fn q_linear_concat(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let to = ScaleAndZero::read(call, 0, 1)?;
    let dtype = call.x(1)?.dtype();
    let count = call.inputs.len().saturating_sub(2) / 3;
    refuse!(count == 0 || call.inputs.len() != 2 + 3 * count =>
        "the inputs are not tensors with a scale and zero point each");
    let mut parts = Vec::with_capacity(count);
    for i in (0..count).map(|i| 2 + 3 * i) {
        let x = call.x(i)?;
        refuse!(x.dtype() != dtype => "{x:?} is not of type {dtype}");
        call.room_like(x, x.dims())?;
        parts.push(remapped(x, ScaleAndZero::read(call, i + 1, i + 2)?, to, &|x| x)?);
    }
    let axis = dims::axis(call.int("axis", 0)?, parts[0].rank())?;
    let parts: Vec<&Tensor> = parts.iter().collect();
    one(joined(&parts, axis)?)
}

/// `condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero`.
pub(super) fn q_linear_where(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let to = ScaleAndZero::read(call, 7, 8)?;
    let x = remapped(call.x(1)?, ScaleAndZero::read(call, 2, 3)?, to, &|x| x)?;
    let y = remapped(call.x(4)?, ScaleAndZero::read(call, 5, 6)?, to, &|x| x)?;
    one(first(call, "Where", &[], &[Some(call.x(0)?), Some(&x), Some(&y)])?)
}
