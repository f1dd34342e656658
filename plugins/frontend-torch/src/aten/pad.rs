//! Padding.

use super::dtype::{dtype_of, operand};
use super::sizes::{all_known, minus, rank, size, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::pad" => |b, input: Var, pad: Vec<Value>, mode: String, value: Value| {
            let mode = PadMode::named(b, &mode)?;
            padded(b, input, &pad, &mode, &value)
        };
        "aten::_pad_enum" => |b, input: Var, pad: Vec<Value>, mode: i64, value: Value| {
            let names = ["reflect", "replicate", "circular", "constant"];
            let name = usize::try_from(mode).ok().and_then(|i| names.get(i)).copied();
            padded(b, input, &pad, &PadMode::named(b, name.unwrap_or("?"))?, &value)
        };
        "aten::constant_pad_nd" => |b, a: Constant| padded(b, a.input, &a.pad, &PadMode::Constant, &a.value);
        "aten::reflection_pad1d" | "aten::reflection_pad2d" | "aten::reflection_pad3d" =>
            |b, input: Var, padding: Vec<Value>| padded(b, input, &padding, &PadMode::Reflect, &Value::None);
        "aten::replication_pad1d" | "aten::replication_pad2d" | "aten::replication_pad3d" =>
            |b, input: Var, padding: Vec<Value>| padded(b, input, &padding, &PadMode::Edge, &Value::None);
        "aten::_pad_circular" => |b, a: Circular| padded(b, a.input, &a.pad, &PadMode::Circular, &Value::None);
    }
}

arguments! {
    /// `constant_pad_nd`
    struct Constant { input: Var, pad: Vec<Value>, value: Value }
    /// `_pad_circular`
    struct Circular { input: Var, pad: Vec<Value> }
}

enum PadMode {
    Constant,
    Reflect,
    Edge,
    Circular,
}

impl PadMode {
    fn named(b: &Lower, name: &str) -> Lowered<PadMode> {
        Ok(match name {
            "constant" => PadMode::Constant,
            "reflect" => PadMode::Reflect,
            "replicate" => PadMode::Edge,
            "circular" => PadMode::Circular,
            other => {
                let message = format!("There is no padding mode `{}`.", shown(other));
                return Err(b.diagnostic(Code::LayerParameter, message));
            }
        })
    }
}

/// Pads by what torch lists: before and behind the last axis, then the axis before it, and so on.
fn padded(b: &Lower, x: Var, pad: &[Value], mode: &PadMode, value: &Value) -> Lowered<Var> {
    let rank = rank(b, x)?;
    if !pad.len().is_multiple_of(2) || pad.len() / 2 > rank {
        let message = format!("{} pads do not fit {rank} axes.", pad.len());
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    // Before all axes, then behind them, as ONNX has it.
    let mut sides = vec![Value::Int(0); 2 * rank];
    for (i, pair) in pad.chunks(2).enumerate() {
        sides[rank - 1 - i] = pair[0].clone();
        sides[2 * rank - 1 - i] = pair[1].clone();
    }
    let Some(known_sides) = all_known(b, &sides) else {
        if let PadMode::Circular = mode {
            let message = "The amounts of a circular padding must be known.";
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
        let pads = vector(b, &sides)?;
        return pad_call(b, x, pads, mode, value);
    };
    let x = cropped(b, x, &known_sides, rank)?;
    let more: Vec<i64> = known_sides.iter().map(|side| (*side).max(0)).collect();
    if more.iter().all(|side| *side == 0) {
        return Ok(x);
    }
    match mode {
        PadMode::Circular if b.opset() < 19 => wrapped(b, x, &more, rank),
        _ => pad_call(b, x, more.into(), mode, value),
    }
}

/// Adds zeros around the last axes.
pub(super) fn zeros_around(b: &Lower, x: Var, padding: &[i64]) -> Lowered<Var> {
    let pads = padding.iter().rev().flat_map(|pad| [Value::Int(*pad), Value::Int(*pad)]);
    padded(b, x, &pads.collect::<Vec<_>>(), &PadMode::Constant, &Value::None)
}

/// Pads both sides of the last axis.
pub(super) fn padded_by(b: &Lower, x: Var, pad: i64, mode: &str) -> Lowered<Var> {
    padded(b, x, &[Value::Int(pad), Value::Int(pad)], &PadMode::named(b, mode)?, &Value::None)
}

fn pad_call(
    b: &Lower,
    x: Var,
    pads: onnxd_plugin_sdk::build::Operand,
    mode: &PadMode,
    value: &Value,
) -> Lowered<Var> {
    let call = b.pad(x, pads);
    match mode {
        PadMode::Constant => {
            let zero = matches!(value, Value::None | Value::Int(0) | Value::Bool(false));
            let zero = zero || matches!(value, Value::Float(x) if *x == 0.0);
            match zero {
                true => call.one(),
                false => call.constant_value(operand(b, value, dtype_of(b, x)?)?).one(),
            }
        }
        PadMode::Reflect => call.mode("reflect").one(),
        PadMode::Edge => call.mode("edge").one(),
        PadMode::Circular => call.mode("wrap").one(),
    }
}

/// Takes off what negative pads name.
fn cropped(b: &Lower, x: Var, sides: &[i64], rank: usize) -> Lowered<Var> {
    let cut: Vec<usize> = (0..rank).filter(|i| sides[*i] < 0 || sides[rank + i] < 0).collect();
    if cut.is_empty() {
        return Ok(x);
    }
    let starts: Vec<i64> = cut.iter().map(|i| -sides[*i].min(0)).collect();
    let end = |i: &usize| if sides[rank + i] < 0 { sides[rank + i] } else { i64::MAX };
    let ends: Vec<i64> = cut.iter().map(end).collect();
    let axes: Vec<i64> = cut.iter().map(|i| *i as i64).collect();
    b.slice(x, starts, ends).axes(axes).one()
}

/// Puts the end of each axis before it, and its start behind it.
fn wrapped(b: &Lower, x: Var, sides: &[i64], rank: usize) -> Lowered<Var> {
    let mut x = x;
    for axis in 0..rank {
        let (before, behind) = (sides[axis], sides[rank + axis]);
        let mut parts = vec![x];
        if before > 0 {
            let start = minus(b, &size(b, x, axis)?, &Value::Int(before))?;
            let start = super::sizes::single(b, &start)?;
            parts.insert(0, b.slice(x, start, [i64::MAX]).axes([axis as i64]).one()?);
        }
        if behind > 0 {
            parts.push(b.slice(x, [0], [behind]).axes([axis as i64]).one()?);
        }
        if parts.len() > 1 {
            x = b.concat(parts).axis(axis as i64).one()?;
        }
    }
    Ok(x)
}
