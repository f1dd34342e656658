//! Quantization: `q = saturate(round(x / scale) + zero_point)`, ties to even, and its inverse.

mod qlinear;

use crate::call::{Call, Row, one, raw, row};
use crate::cells::{Cell, Packed};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::slice;
use crate::shape::{cast, format};
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[Row] = &[
    row("DequantizeLinear", dequantize_linear),
    row("DynamicQuantizeLinear", dynamic_quantize_linear),
    raw("QLinearConv", qlinear::conv),
    raw("QLinearMatMul", qlinear::matmul),
    row("QuantizeLinear", quantize_linear),
];

/// Smallest and largest integer of a quantized type.
fn limits(dtype: DataType) -> Outcome<(i64, i64)> {
    let bits = dtype.bits() as u32;
    match dtype {
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Int16 | DataType::Int32 => {
            Ok((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        }
        DataType::Uint2 | DataType::Uint4 | DataType::Uint8 | DataType::Uint16 => {
            Ok((0, (1 << bits) - 1))
        }
        other => Err(Fault::dtype(other)),
    }
}

/// The integer of a real number already divided by its scale.
fn quantized(x: f64, zero: i64, (low, high): (i64, i64)) -> i64 {
    (x.round_ties_even() + zero as f64).clamp(low as f64, high as f64) as i64
}

/// Which element of scale and zero point belongs to which element of the tensor.
enum Layout {
    PerTensor,
    /// Size of the axis, elements behind it.
    PerAxis(usize, usize),
    /// Size of the axis, elements behind it, elements that share a scale, scales along the axis.
    Blocked(usize, usize, usize, usize),
}

impl Layout {
    fn of(call: &Call, x: &Tensor, scale: &Tensor) -> Outcome<Layout> {
        let misfit = || Fault::invalid(format!("scale {scale:?} does not fit {x:?}"));
        let block = dims::size(call.int("block_size", 0)?)?;
        if block == 0 && scale.len() == 1 {
            return Ok(Layout::PerTensor);
        }
        // The axis of a rank-1 tensor can only be its own, whatever the default says.
        let axis = call.int("axis", 1)?;
        let axis = if x.rank() == 1 && axis == 1 { 0 } else { dims::axis(axis, x.rank())? };
        let (_, size, inner) = dims::around(x.dims(), axis);
        if block == 0 {
            let fits = scale.rank() == 1 && scale.len() == size;
            return if fits { Ok(Layout::PerAxis(size, inner)) } else { Err(misfit()) };
        }
        let blocks = size.div_ceil(block);
        let mut wanted = x.dims().to_vec();
        wanted[axis] = blocks;
        if scale.dims() != wanted {
            return Err(misfit());
        }
        Ok(Layout::Blocked(size, inner, block, blocks))
    }

    /// The parameter of element `i`.
    fn index(&self, i: usize) -> usize {
        match *self {
            Layout::PerTensor => 0,
            Layout::PerAxis(size, inner) => i / inner % size,
            Layout::Blocked(size, inner, block, blocks) => {
                let (outer, k) = (i / inner / size, i / inner % size);
                (outer * blocks + k / block) * inner + i % inner
            }
        }
    }
}

/// Scale as `float` and zero point as integers, zeros where it is absent.
fn parameters(scale: &Tensor, zero: Option<&Tensor>) -> Outcome<(Vec<f32>, Vec<i64>)> {
    let scales = slice::<f32>(&cast(scale, DataType::Float)?)?.into_owned();
    let zeros = match zero {
        Some(zero) if zero.len() != scales.len() => {
            return Err(Fault::invalid(format!("zero point {zero:?} does not fit {scale:?}")));
        }
        Some(zero) if format(zero.dtype()).is_none() => crate::call::integers(zero)?,
        _ => vec![0; scales.len()],
    };
    Ok((scales, zeros))
}

fn quantize_linear(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, scale, zero) = (call.x(0)?, call.x(1)?, call.opt(2));
    let named = call.int("output_dtype", 0)?;
    let named = i32::try_from(named).ok().and_then(DataType::from_number);
    let dtype = zero.map(Tensor::dtype).or(named).unwrap_or(DataType::Uint8);
    let layout = Layout::of(call, x, scale)?;
    let (scales, zeros) = parameters(scale, zero)?;
    call.room(DataType::Int64, x.dims())?;
    let wide = cast(x, DataType::Float)?;
    let values = slice::<f32>(&wide)?;
    let divided = values.iter().enumerate().map(|(i, v)| {
        let k = layout.index(i);
        (f64::from(v / scales[k]), zeros[k])
    });
    if let Some(format) = format(dtype) {
        let saturate = call.flag("saturate", true)?;
        let bits = divided.map(|(v, _)| format.encode(v, saturate));
        return one(match dtype.bits() {
            8 => <u8 as Cell>::store(dtype, x.dims().to_vec(), bits.collect())?,
            _ => <Packed as Cell>::store(dtype, x.dims().to_vec(), bits.map(Packed).collect())?,
        });
    }
    let limits = limits(dtype)?;
    let integers = divided.map(|(v, zero)| quantized(v, zero, limits)).collect();
    one(cast(&Tensor::from_vec(x.dims(), integers), dtype)?)
}

fn dequantize_linear(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, scale, zero) = (call.x(0)?, call.x(1)?, call.opt(2));
    let layout = Layout::of(call, x, scale)?;
    let (scales, zeros) = parameters(scale, zero)?;
    call.room(DataType::Int64, x.dims())?;
    let values: Vec<f32> = if format(x.dtype()).is_some() {
        let wide = cast(x, DataType::Float)?;
        slice::<f32>(&wide)?.iter().enumerate().map(|(i, v)| v * scales[layout.index(i)]).collect()
    } else {
        let real = |(i, v): (usize, i64)| {
            let k = layout.index(i);
            (v - zeros[k]) as f32 * scales[k]
        };
        crate::call::integers(x)?.into_iter().enumerate().map(real).collect()
    };
    let named = i32::try_from(call.int("output_dtype", 0)?).ok().and_then(DataType::from_number);
    one(cast(&Tensor::from_vec(x.dims(), values), named.unwrap_or(DataType::Float))?)
}

/// Scale and zero point from the range of the data, widened to include zero.
fn dynamic_quantize_linear(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let values = call.slice::<f32>(0)?;
    let low = values.iter().copied().fold(0f32, f32::min);
    let high = values.iter().copied().fold(0f32, f32::max);
    let scale = if low == high { 1.0 } else { (high - low) / 255.0 };
    let limits = limits(DataType::Uint8)?;
    let zero = quantized(f64::from(-low / scale), 0, limits);
    let y = values.iter().map(|v| quantized(f64::from(v / scale), zero, limits) as u8).collect();
    Ok(vec![Tensor::from_vec(x.dims(), y), Tensor::scalar(scale), Tensor::scalar(zero as u8)])
}

#[cfg(test)]
mod tests;
