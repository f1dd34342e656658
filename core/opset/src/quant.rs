//! Quantization.

use crate::context::{Done, LowerContext, Refusal, axis, refuse};
use crate::data::filled;
use crate::row::{AdapterRow, down};
use onnxd_build::Var;
use onnxd_ir::DataType;

pub(crate) const ROWS: &[AdapterRow] = &[
    down(&["DequantizeLinear"], 10, dequantize),
    down(&["DequantizeLinear"], 13, dequantize_13_down),
    down(&["QuantizeLinear"], 13, quantize_13_down),
    down(&["QuantizeLinear"], 21, quantize_21_down),
    down(&["DequantizeLinear"], 23, dequantize_23_down),
];

/// Whether there is one scale for the whole tensor.
fn per_tensor(s: &LowerContext<'_>) -> Result<bool, Refusal> {
    let shape = s.shape(s.var(1)?)?;
    Ok(shape.is_empty() || shape.len() == 1 && shape[0].known() == Some(1))
}

fn dequantize_13_down(s: &mut LowerContext<'_>) -> Done {
    match per_tensor(s)? {
        true => s.drop("axis"),
        false => dequantize(s)?,
    }
    Ok(())
}

/// Gives scale or zero point, which lie along `axis`, the axes of size 1 behind it.
fn aligned(s: &LowerContext<'_>, v: Var) -> Result<Var, Refusal> {
    if s.shape(v)?.is_empty() || per_tensor(s)? {
        return Ok(v);
    }
    let rank = s.rank(s.var(0)?)?;
    let at = axis(s.int("axis")?.unwrap_or(1), rank)?;
    let axes: Vec<i64> = (1..rank as i64 - at).collect();
    Ok(if axes.is_empty() { v } else { s.b.unsqueeze(v, axes)? })
}

/// The zero point in float; `None` if there is none.
fn zero_point(s: &LowerContext<'_>) -> Result<Option<Var>, Refusal> {
    let Some(zero) = s.optional(2) else { return Ok(None) };
    Ok(Some(s.b.cast(aligned(s, zero)?, DataType::Float)?))
}

/// (x - zero point) scale
fn dequantize(s: &mut LowerContext<'_>) -> Done {
    let (b, [x, scale]) = (s.b, s.vars()?);
    let mut steps = b.cast(x, DataType::Float)?;
    if let Some(zero) = zero_point(s)? {
        steps = b.sub(steps, zero)?;
    }
    s.becomes(b.mul(steps, aligned(s, scale)?)?)
}

/// Round(x / scale) + zero point, within the type.
fn quantize_13_down(s: &mut LowerContext<'_>) -> Done {
    if per_tensor(s)? {
        s.drop("axis");
        return Ok(());
    }
    let (b, [x, scale]) = (s.b, s.vars()?);
    let to = s.optional(2).map_or(Ok(DataType::Uint8), |zero| s.dtype(zero))?;
    let (low, high) = match to {
        DataType::Uint8 => (0, 255),
        DataType::Int8 => (-128, 127),
        other => return refuse(format!("there is no scale per axis for {other}")),
    };
    let mut y = b.round(b.div(b.cast(x, DataType::Float)?, aligned(s, scale)?)?)?;
    if let Some(zero) = zero_point(s)? {
        y = b.add(y, zero)?;
    }
    s.becomes(b.cast(b.clip(y).min(low).max(high).one()?, to)?)
}

/// A zero point says the type that `output_dtype` says.
fn quantize_21_down(s: &mut LowerContext<'_>) -> Done {
    let number = s.int("output_dtype")?.unwrap_or(0);
    if number == 0 {
        return Ok(());
    }
    if !s.has(2) {
        let to = i32::try_from(number).ok().and_then(DataType::from_number);
        let to = to.ok_or("its `output_dtype` has no zero point")?;
        let zeros = filled(0, to, &s.dims(s.var(1)?)?)?;
        s.set_input(2, Some(s.b.parameter("zero", zeros)))?;
    }
    s.drop("output_dtype");
    Ok(())
}

fn dequantize_23_down(s: &mut LowerContext<'_>) -> Done {
    let to = s.int("output_dtype")?.unwrap_or(0);
    if to != 0 && to == i64::from(s.dtype(s.var(1)?)?.number()) {
        s.drop("output_dtype");
    }
    Ok(())
}
