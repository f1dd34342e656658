//! Products of integer matrices whose result is scaled or biased.

use super::pool::channels_first;
use super::{ScaleAndZero, scalar};
use crate::call::{KernelCall, integers, one};
use crate::cells::{expanded, transposed};
use crate::fault::{Fault, Outcome};
use crate::linear::{centered, gemm_bias, multiplied};
use crate::num::slice;
use crate::quant::{dynamic_quantize_linear, limits, quantized};
use crate::shape::cast;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// A matrix, transposed if the attribute says so.
fn operand(call: &KernelCall, i: usize, flip: bool) -> Outcome<Tensor> {
    match call.x(i)? {
        x if x.rank() != 2 => Err(Fault::invalid(format!("{x:?} is not a matrix"))),
        x if flip => transposed(x, &[1, 0]),
        x => Ok(x.clone()),
    }
}

/// A scale of the whole product or of each column, times `by`; one element per element of `sums`.
fn scaled(sums: &Tensor, by: f32, scale: &Tensor) -> Outcome<Vec<f32>> {
    let wide = crate::call::widened(scale)?;
    let factors: Vec<f32> = slice::<f32>(&wide)?.iter().map(|s| by * s).collect();
    let dims = if factors.len() == 1 { &[][..] } else { scale.dims() };
    let factors = Tensor::from_vec(dims, factors);
    refuse!(crate::dims::broadcast(dims, sums.dims())? != sums.dims() => "scale {scale:?} does not fit {sums:?}");
    Ok(slice::<f32>(&expanded(&factors, sums.dims())?)?.into_owned())
}

/// `A, a_scale, a_zero, B, b_scale, b_zero, C?, y_scale?, y_zero?`; without `y_scale` in `float`.
pub(super) fn q_gemm(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let a = operand(call, 0, call.flag("transA", false)?)?;
    let b = operand(call, 3, call.flag("transB", false)?)?;
    let a = centered(&a, call.opt(2), false)?;
    let b = centered(&b, call.opt(5), false)?;
    let sums = multiplied::<i32>(call, &a, &b)?;
    let mut y = slice::<i32>(&sums)?.into_owned();
    if let Some(c) = call.opt(6) {
        let c = gemm_bias(c, sums.dims())?;
        y.iter_mut().zip(slice::<i32>(&c)?.iter()).for_each(|(v, c)| *v = v.wrapping_add(*c));
    }
    let by = call.float("alpha", 1.0)? * scalar(call.x(1)?)? as f32;
    let factors = scaled(&sums, by, call.x(4)?)?;
    let pairs = y.iter().zip(&factors);
    let Some(scale) = call.opt(7) else {
        return one(Tensor::from_vec(sums.dims(), pairs.map(|(v, s)| *v as f32 * s).collect()));
    };
    let (to, zero) = (ScaleAndZero::from(scale, call.opt(8))?, call.x(8)?);
    let range = limits(zero.dtype())?;
    let place =
        |(v, s): (&i32, &f32)| quantized(f64::from(*v as f32 * (s / to.scale)), to.zero, range);
    one(cast(&Tensor::from_vec(sums.dims(), pairs.map(place).collect()), zero.dtype())?)
}

/// A sum of products in `float`, plus a bias per column.
pub(super) fn in_float(
    sums: &Tensor,
    a_scale: f32,
    b_scale: &Tensor,
    bias: Option<&Tensor>,
) -> Outcome<Vec<Tensor>> {
    let factors = scaled(sums, a_scale, b_scale)?;
    let values = slice::<i32>(sums)?;
    let mut y: Vec<f32> = values.iter().zip(&factors).map(|(v, s)| *v as f32 * s).collect();
    if let Some(bias) = bias {
        let columns = sums.dims().last().copied().unwrap_or(1);
        refuse!(bias.dims() != [columns] => "the bias {bias:?} does not fit {columns} columns");
        let bias = slice::<f32>(bias)?;
        y.iter_mut().zip(bias.iter().cycle()).for_each(|(v, b)| *v += b);
    }
    one(Tensor::from_vec(sums.dims(), y))
}

/// `A, B, a_scale, b_scale, a_zero?, b_zero?, bias?`.
pub(super) fn matmul_integer_to_float(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let a = centered(call.x(0)?, call.opt(4), false)?;
    let b = centered(call.x(1)?, call.opt(5), false)?;
    let sums = multiplied::<i32>(call, &a, &b)?;
    in_float(&sums, scalar(call.x(2)?)? as f32, call.x(3)?, call.opt(6))
}

/// `A` in `float`, `B, b_scale, b_zero?, bias?`.
pub(super) fn dynamic_quantize_matmul(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let found = dynamic_quantize_linear(call)?;
    let a = centered(&found[0], Some(&found[2]), false)?;
    let b = centered(call.x(1)?, call.opt(3), false)?;
    let sums = multiplied::<i32>(call, &a, &b)?;
    in_float(&sums, scalar(&found[1])? as f32, call.x(2)?, call.opt(4))
}

/// 16-bit integers, sums in 32 bits.
pub(super) fn matmul_integer_16(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let wide = |i: usize| -> Outcome<Tensor> {
        let x = call.x(i)?;
        refuse!(!matches!(x.dtype(), DataType::Int16 | DataType::Uint16) => "{x:?} where 16-bit integers are needed");
        call.room(DataType::Int64, x.dims())?;
        Ok(Tensor::from_vec(x.dims(), integers(x)?.into_iter().map(|v| v as i32).collect()))
    };
    let (a, b) = (wide(0)?, wide(1)?);
    let signed = call.x(0)?.dtype() == DataType::Int16 || call.x(1)?.dtype() == DataType::Int16;
    let sums = multiplied::<i32>(call, &a, &b)?;
    one(if signed { sums } else { cast(&sums, DataType::Uint32)? })
}

/// As the standard's, but the channels may be behind.
pub(super) fn q_linear_conv(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    channels_first(call.x(0)?, call.flag("channels_last", false)?, |x| {
        let mut inputs = call.inputs.to_vec();
        inputs[0] = Some(x);
        Ok(crate::quant::qlinear::conv(&KernelCall { inputs: &inputs, ..*call })?.swap_remove(0))
    })
}
