//! Quantization.

use crate::row::{Row, down};
use crate::site::{Done, Site, axis, number};
use onnxd_ir::{Attr, DataType, Tensor, ValueId};

pub(crate) const ROWS: &[Row] = &[
    down(&["DequantizeLinear"], 10, dequantize),
    down(&["DequantizeLinear"], 13, dequantize_13_down),
    down(&["QuantizeLinear"], 13, quantize_13_down),
    down(&["QuantizeLinear"], 21, quantize_21_down),
    down(&["DequantizeLinear"], 23, dequantize_23_down),
];

/// Whether there is one scale for the whole tensor.
fn per_tensor(s: &Site<'_>) -> Result<bool, String> {
    let shape = s.shape(s.input(1)?)?;
    Ok(shape.is_empty() || shape.len() == 1 && shape[0].known() == Some(1))
}

fn dequantize_13_down(s: &mut Site<'_>) -> Done {
    match per_tensor(s)? {
        true => s.drop("axis"),
        false => dequantize(s)?,
    }
    Ok(())
}

/// Gives scale or zero point, which lie along `axis`, the axes of size 1 behind it.
fn aligned(s: &mut Site<'_>, v: ValueId) -> Result<ValueId, String> {
    if s.shape(v)?.is_empty() || per_tensor(s)? {
        return Ok(v);
    }
    let rank = s.rank(s.input(0)?)?;
    let at = axis(s.int("axis")?.unwrap_or(1), rank)?;
    let axes: Vec<i64> = (1..rank as i64 - at).collect();
    Ok(if axes.is_empty() { v } else { s.squeeze("Unsqueeze", "aligned", v, &axes) })
}

/// (x - zero point) scale
fn dequantize(s: &mut Site<'_>) -> Done {
    let (x, scale, zero) = (s.input(0)?, s.input(1)?, s.node().input(2));
    let scale = aligned(s, scale)?;
    let mut wide = s.cast("wide", x, DataType::Float);
    if let Some(zero) = zero {
        let zero = aligned(s, zero)?;
        let zero = s.cast("zero", zero, DataType::Float);
        wide = s.add("Sub", "centred", &[wide, zero], &[]);
    }
    s.become_node("Mul", &[wide, scale], &[]);
    Ok(())
}

/// Round(x / scale) + zero point, within the type.
fn quantize_13_down(s: &mut Site<'_>) -> Done {
    if per_tensor(s)? {
        s.drop("axis");
        return Ok(());
    }
    let (mut x, scale, zero) = (s.input(0)?, s.input(1)?, s.node().input(2));
    let to = zero.map_or(Ok(DataType::Uint8), |z| s.dtype(z))?;
    let (low, high) = match to {
        DataType::Uint8 => (0.0, 255.0),
        DataType::Int8 => (-128.0, 127.0),
        other => return Err(format!("there is no scale per axis for {other}")),
    };
    if s.dtype(x)? != DataType::Float {
        x = s.cast("wide", x, DataType::Float);
    }
    let scale = aligned(s, scale)?;
    let steps = s.add("Div", "steps", &[x, scale], &[]);
    let mut y = s.add("Round", "whole", &[steps], &[]);
    if let Some(zero) = zero {
        let zero = aligned(s, zero)?;
        let zero = s.cast("zero", zero, DataType::Float);
        y = s.add("Add", "shifted", &[y, zero], &[]);
    }
    let low = s.scalar("low", low, DataType::Float)?;
    let high = s.scalar("high", high, DataType::Float)?;
    let y = s.add("Clip", "within", &[y, low, high], &[]);
    s.become_node("Cast", &[y], &[("to", Attr::Int(i64::from(to.number())))]);
    Ok(())
}

/// A zero point says the type that `output_dtype` says.
fn quantize_21_down(s: &mut Site<'_>) -> Done {
    let number_of = s.int("output_dtype")?.unwrap_or(0);
    if number_of == 0 {
        return Ok(());
    }
    if !s.has(2) {
        let to = i32::try_from(number_of).ok().and_then(DataType::from_number);
        let zero = to.and_then(|to| number(0.0, to));
        let zero = zero.ok_or("its `output_dtype` has no zero point")?;
        let dims: Vec<usize> = s.dims(s.input(1)?)?.iter().map(|d| *d as usize).collect();
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n < 1 << 24);
        let bytes = zero.bytes().repeat(count.ok_or("its scale is too large")?);
        let zeros = Tensor::new(zero.dtype(), dims, bytes.into()).map_err(|e| e.to_string())?;
        let zeros = s.tensor("zero", zeros);
        s.set_input(2, Some(zeros));
    }
    s.drop("output_dtype");
    Ok(())
}

fn dequantize_23_down(s: &mut Site<'_>) -> Done {
    let to = s.int("output_dtype")?.unwrap_or(0);
    if to != 0 && to == i64::from(s.dtype(s.input(1)?)?.number()) {
        s.drop("output_dtype");
    }
    Ok(())
}
