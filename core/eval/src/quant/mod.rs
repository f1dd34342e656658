//! Quantization: `q = saturate(round(x / scale) + zero_point)`, ties to even, and its inverse.

mod bytes;
pub(crate) mod qlinear;

use self::bytes::Parameters;
use crate::call::{KernelCall, KernelRow, one, raw, row};
use crate::cells::{CellWidth, Packed};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::slice;
use crate::parallel::for_each_chunk;
use crate::shape::{cast, dtype_attr, format};
use half::{bf16, f16};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor, nearest_bf16, nearest_f16};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("DequantizeLinear", dequantize_linear),
    row("DynamicQuantizeLinear", dynamic_quantize_linear),
    raw("QLinearConv", qlinear::conv),
    raw("QLinearMatMul", qlinear::matmul),
    raw("QuantizeLinear", quantize_linear),
];

/// Smallest and largest integer of a quantized type.
pub(crate) fn limits(dtype: DataType) -> Outcome<(i64, i64)> {
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
pub(crate) fn quantized(x: f64, zero: i64, (low, high): (i64, i64)) -> i64 {
    (x.round_ties_even() + zero as f64).clamp(low as f64, high as f64) as i64
}

/// Which element of scale and zero point belongs to which element of the tensor.
enum ScaleLayout {
    PerTensor,
    /// Size of the axis, elements behind it.
    PerAxis(usize, usize),
    /// Size of the axis, elements behind it, elements that share a scale, scales along the axis.
    Blocked(usize, usize, usize, usize),
}

impl ScaleLayout {
    fn from_call(call: &KernelCall, x: &Tensor, scale: &Tensor) -> Outcome<ScaleLayout> {
        let misfit = || Fault::invalid(format!("scale {scale:?} does not fit {x:?}"));
        let block = dims::size(call.int("block_size", 0)?)?;
        if block == 0 && scale.len() == 1 {
            return Ok(ScaleLayout::PerTensor);
        }
        // The axis of a rank-1 tensor can only be its own, whatever the default says.
        let axis = call.int("axis", 1)?;
        let axis = if x.rank() == 1 && axis == 1 { 0 } else { dims::axis(axis, x.rank())? };
        let (_, size, inner) = dims::around(x.dims(), axis);
        if block == 0 {
            let fits = scale.rank() == 1 && scale.len() == size;
            return if fits { Ok(ScaleLayout::PerAxis(size, inner)) } else { Err(misfit()) };
        }
        let blocks = size.div_ceil(block);
        let mut wanted = x.dims().to_vec();
        wanted[axis] = blocks;
        refuse!(scale.dims() != wanted => misfit());
        Ok(ScaleLayout::Blocked(size, inner, block, blocks))
    }

    /// The parameter of element `i`.
    fn index(&self, i: usize) -> usize {
        match *self {
            ScaleLayout::PerTensor => 0,
            ScaleLayout::PerAxis(size, inner) => i / inner % size,
            ScaleLayout::Blocked(size, inner, block, blocks) => {
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

/// An element type that an attribute names; 0 and absence name none.
fn named(call: &KernelCall, name: &str) -> Outcome<Option<DataType>> {
    if call.int(name, 0)? == 0 { Ok(None) } else { dtype_attr(call, name) }
}

/// `x / scale`, rounded to the type that the attribute `precision` names. Without it 16-bit floats
/// of ten fraction bits divide in `float`, as ONNX Runtime does, and those of seven in their own
/// type, as the standard says. Integers of 32 bits need `double`.
fn division(call: &KernelCall, x: &Tensor) -> Outcome<fn(f64, f32) -> f64> {
    let by_input = match x.dtype() {
        DataType::Int32 => DataType::Double,
        DataType::Bfloat16 => DataType::Bfloat16,
        _ => DataType::Float,
    };
    Ok(match named(call, "precision")?.unwrap_or(by_input) {
        DataType::Double => |x, s| x / f64::from(s),
        DataType::Float => |x, s| f64::from(x as f32 / s),
        DataType::Float16 => |x, s| {
            let (x, s) = (nearest_f16(x).to_f32(), f16::from_f32(s).to_f32());
            f16::from_f32(x / s).to_f64()
        },
        DataType::Bfloat16 => |x, s| {
            let (x, s) = (nearest_bf16(x).to_f32(), bf16::from_f32(s).to_f32());
            bf16::from_f32(x / s).to_f64()
        },
        other => return Err(Fault::dtype(other)),
    })
}

pub(crate) fn quantize_linear(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, scale, zero) = (call.x(0)?, call.x(1)?, call.opt(2));
    let wanted = named(call, "output_dtype")?;
    let dtype = zero.map(Tensor::dtype).or(wanted).unwrap_or(DataType::Uint8);
    let layout = ScaleLayout::from_call(call, x, scale)?;
    let (scales, zeros) = parameters(scale, zero)?;
    call.room(DataType::Int64, x.dims())?;
    let divide = division(call, x)?;
    if x.dtype() == DataType::Float && named(call, "precision")?.is_none() {
        let parameters = Parameters { layout: &layout, scales: &scales, zeros: &zeros };
        if let Some(y) = parameters.quantize(x.dims(), &slice::<f32>(x)?, dtype) {
            return one(y);
        }
    }
    let wide = cast(x, DataType::Double)?;
    let values = slice::<f64>(&wide)?;
    let divided = values.iter().enumerate().map(|(i, v)| {
        let k = layout.index(i);
        (divide(*v, scales[k]), zeros[k])
    });
    if let Some(format) = format(dtype) {
        let saturate = call.flag("saturate", true)?;
        let bits = divided.map(|(v, _)| format.encode(v, saturate));
        return one(match dtype.bits() {
            8 => <u8 as CellWidth>::store(dtype, x.dims().to_vec(), bits.collect())?,
            _ => {
                <Packed as CellWidth>::store(dtype, x.dims().to_vec(), bits.map(Packed).collect())?
            }
        });
    }
    let limits = limits(dtype)?;
    let integers = divided.map(|(v, zero)| quantized(v, zero, limits)).collect();
    one(cast(&Tensor::from_vec(x.dims(), integers), dtype)?)
}

pub(crate) fn dequantize_linear(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, scale, zero) = (call.x(0)?, call.x(1)?, call.opt(2));
    let layout = ScaleLayout::from_call(call, x, scale)?;
    // A scale that holds nothing but powers of two is no type for results.
    let powers = scale.dtype() == DataType::Float8E8M0;
    let default = if powers { DataType::Float } else { scale.dtype() };
    let dtype = named(call, "output_dtype")?.unwrap_or(default);
    if let Some(y) = dequantized_blocks(call, x, scale, zero)? {
        return one(cast(&y, dtype)?);
    }
    let (scales, zeros) = parameters(scale, zero)?;
    call.room(DataType::Int64, x.dims())?;
    let parameters = Parameters { layout: &layout, scales: &scales, zeros: &zeros };
    if let Some(y) = parameters.dequantize(x) {
        return one(cast(&y, dtype)?);
    }
    let values: Vec<f32> = if format(x.dtype()).is_some() {
        let wide = cast(x, DataType::Float)?;
        slice::<f32>(&wide)?.iter().enumerate().map(|(i, v)| v * scales[layout.index(i)]).collect()
    } else {
        let real = |(i, v): (usize, i64)| {
            let k = layout.index(i);
            // Types that the standard does not allow here may hold any number.
            v.saturating_sub(zeros[k]) as f32 * scales[k]
        };
        crate::call::integers(x)?.into_iter().enumerate().map(real).collect()
    };
    one(cast(&Tensor::from_vec(x.dims(), values), dtype)?)
}

/// Elements that one thread makes real at a time.
const PART: usize = 1 << 16;

/// Integers of 4 or 8 bits with scales of `float` in blocks.
fn dequantized_blocks(
    call: &KernelCall,
    x: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
) -> Outcome<Option<Tensor>> {
    let block = dims::size(call.int("block_size", 0)?)?;
    if block == 0 {
        return Ok(None);
    }
    let axis = dims::axis(call.int("axis", 1)?, x.rank())?;
    let Ok(all) = x.dequantized(scale, zero, (axis, block)) else { return Ok(None) };
    let mut y = vec![0f32; call.room(DataType::Float, x.dims())?];
    for_each_chunk(&mut y, PART, &|i, y| {
        let part = all.part(i * PART..i * PART + y.len());
        let part = part.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        y.iter_mut().zip(part).for_each(|(y, real)| *y = real);
    });
    Ok(Some(Tensor::from_vec(x.dims(), y)))
}

/// Scale and zero point from the range of the data, widened to include zero.
pub(crate) fn dynamic_quantize_linear(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let values = call.slice::<f32>(0)?;
    let (scale, zero) = range_of(&values);
    let y = values.iter().map(|v| quantized(f64::from(v / scale), zero, BYTE) as u8).collect();
    Ok(vec![Tensor::from_vec(x.dims(), y), Tensor::scalar(scale), Tensor::scalar(zero as u8)])
}

/// Smallest and largest `uint8`.
const BYTE: (i64, i64) = (0, 255);

/// Scale and zero point that `uint8` covers the values and zero with.
fn range_of(values: &[f32]) -> (f32, i64) {
    let low = values.iter().copied().fold(0f32, f32::min);
    let high = values.iter().copied().fold(0f32, f32::max);
    let scale = if low == high { 1.0 } else { (high - low) / 255.0 };
    // ONNX Runtime's answer to a range that is too small for any scale but 0.
    (scale, if scale == 0.0 { 255 } else { quantized(f64::from(-low / scale), 0, BYTE) })
}

/// What remains of the values after dynamic quantization.
pub(crate) fn rounded(values: &[f64]) -> Vec<f64> {
    let narrow: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    let (scale, zero) = range_of(&narrow);
    let place = |v: &f32| quantized(f64::from(v / scale), zero, BYTE) - zero;
    narrow.iter().map(|v| place(v) as f64 * f64::from(scale)).collect()
}

#[cfg(test)]
mod tests;
