//! Quantized integers and numbers that are rounded as if they were quantized.
//!
//! Ranges that are constants become `QuantizeLinear` and `DequantizeLinear`, which tools know as quantization. Others
//! are the arithmetic of TensorFlow's kernels.

use super::create::filled;
use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Float, Int8, Int16, Uint8, Uint16};
use onnxd_plugin_sdk::ir::{Reals, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "FakeQuantWithMinMaxArgs" => |b, inputs: Var, min: f64, max: f64, num_bits: i64, narrow_range: bool| {
            faked(b, inputs, &[(min as f32, max as f32)], Grid::new(b, num_bits, narrow_range)?)
        };
        "FakeQuantWithMinMaxVars" => |b, a: Vars| fake_quant(b, a);
        "FakeQuantWithMinMaxVarsPerChannel" => |b, a: Vars| fake_quant(b, a);
        "QuantizeAndDequantize" => |b, a: Rounded1| {
            let steps = Steps::new(b, a.num_bits, a.signed_input, false)?;
            let given = a.range_given.then_some((a.input_min as f32, a.input_max as f32));
            rounded(b, a.input, given, steps, false)
        };
        "QuantizeAndDequantizeV2" | "QuantizeAndDequantizeV4" => |b, a: Rounded| rounded_by(b, &a, &a.round_mode);
        "QuantizeAndDequantizeV3" => |b, a: Rounded3| {
            let Rounded3 { input, input_min, input_max, num_bits, signed_input, range_given, narrow_range, axis } = a;
            let round_mode = String::new();
            rounded_by(b, &Rounded {
                input, input_min, input_max, signed_input, num_bits, range_given, round_mode, narrow_range, axis,
            }, "HALF_TO_EVEN")
        };
        "QuantizeV2" => super::quantize_range::quantize;
        "Dequantize" => super::quantize_range::dequantize;
    }
}

arguments! {
    /// `FakeQuantWithMinMaxVars`
    struct Vars { inputs: Var, min: Var, max: Var, num_bits: i64, narrow_range: bool }
    /// `QuantizeAndDequantize`
    struct Rounded1 {
        input: Var, signed_input: bool, num_bits: i64, range_given: bool, input_min: f64, input_max: f64,
    }
    /// `QuantizeAndDequantizeV2`
    struct Rounded {
        input: Var, input_min: Var, input_max: Var, signed_input: bool, num_bits: i64, range_given: bool,
        round_mode: String, narrow_range: bool, axis: i64,
    }
    /// `QuantizeAndDequantizeV3`
    struct Rounded3 {
        input: Var, input_min: Var, input_max: Var, num_bits: i64, signed_input: bool, range_given: bool,
        narrow_range: bool, axis: i64,
    }
}

/// The steps of unsigned integers of so many bits.
#[derive(Clone, Copy, Debug)]
struct Grid {
    low: f32,
    high: f32,
}

impl Grid {
    fn new(b: &GraphBuilder, bits: i64, narrow: bool) -> Lowered<Grid> {
        check_bits(b, bits)?;
        Ok(Grid { low: if narrow { 1.0 } else { 0.0 }, high: ((1i64 << bits) - 1) as f32 })
    }

    /// The type that holds the steps, where one has operators at this opset.
    fn dtype(self, opset: i64) -> Option<DataType> {
        match self.high {
            ..=255.0 => Some(Uint8),
            ..=65535.0 if opset >= 21 => Some(Uint16),
            _ => None,
        }
    }
}

fn check_bits(b: &GraphBuilder, bits: i64) -> Lowered<()> {
    if (1..=32).contains(&bits) {
        return Ok(());
    }
    Err(b.diagnostic(Code::LayerParameter, format!("Numbers of {bits} bits are not quantized.")))
}

/// A range that was moved so that zero is one of its steps.
#[derive(Clone, Copy, Debug)]
struct Nudged {
    scale: f32,
    zero: f32,
    low: f32,
    high: f32,
}

impl Nudged {
    fn new((min, max): (f32, f32), grid: Grid) -> Nudged {
        let scale = (max - min) / (grid.high - grid.low);
        let zero = (grid.low - min / scale).clamp(grid.low, grid.high).round();
        Nudged { scale, zero, low: (grid.low - zero) * scale, high: (grid.high - zero) * scale }
    }
}

fn floats(b: &GraphBuilder, v: Var) -> Option<Vec<f32>> {
    let values = b.constant_of(v).filter(|t| t.rank() <= 1)?.to_reals()?.values;
    Some(values.into_iter().map(|x| x as f32).collect())
}

/// Ranges are numbers, or vectors along the last axis.
fn fake_quant(b: &Lower, a: Vars) -> Lowered<Var> {
    let grid = Grid::new(b, a.num_bits, a.narrow_range)?;
    let (Some(low), Some(high)) = (floats(b, a.min), floats(b, a.max)) else {
        return computed(b, a.inputs, [a.min, a.max], grid);
    };
    let ranges: Vec<(f32, f32)> = low.into_iter().zip(high).collect();
    match ranges[..] {
        [(0.0, 0.0)] => filled(b, b.shape(a.inputs).one()?, 0, Float),
        _ => faked(b, a.inputs, &ranges, grid),
    }
}

/// Numbers rounded to the steps of ranges, one for all or one for each channel.
fn faked(b: &GraphBuilder, x: Var, ranges: &[(f32, f32)], grid: Grid) -> Lowered<Var> {
    let whole = |(low, high): &(f32, f32)| low.is_finite() && high.is_finite() && low < high;
    if ranges.is_empty() || !ranges.iter().all(whole) {
        return Err(b.diagnostic(Code::LayerParameter, "A range of quantization is empty."));
    }
    let nudged: Vec<Nudged> = ranges.iter().map(|range| Nudged::new(*range, grid)).collect();
    let all = |f: fn(&Nudged) -> f32| vector(nudged.iter().map(f).collect());
    let Some(dtype) = grid.dtype(b.opset()) else {
        let [low, high] =
            [(|n| n.low) as fn(&Nudged) -> f32, |n| n.high].map(|f| b.constant(all(f)));
        return stepped(b, x, [low, high], b.constant(all(|n| n.scale)));
    };
    let full = grid.low == 0.0 && (grid.high == 255.0 || grid.high == 65535.0);
    let inside = match full {
        true => x,
        false => b.max([
            b.min([x.into(), Operand::Tensor(all(|n| n.high))])?.into(),
            Operand::Tensor(all(|n| n.low)),
        ])?,
    };
    let axis = (nudged.len() > 1).then_some(-1i64);
    let zero = b.cast(b.constant(all(|n| n.zero)), dtype)?;
    let scale = b.constant(all(|n| n.scale));
    let q = b.quantize_linear(inside, scale).y_zero_point(zero).axis(axis).one()?;
    b.dequantize_linear(q, scale).x_zero_point(zero).axis(axis).one()
}

/// One number, or a vector.
fn vector(values: Vec<f32>) -> Tensor {
    match values[..] {
        [only] => Tensor::scalar(only),
        _ => Tensor::vector(values),
    }
}

/// `x` within a range, as whole steps above its lower end.
fn stepped(b: &GraphBuilder, x: Var, [low, high]: [Var; 2], scale: Var) -> Lowered<Var> {
    let above = b.sub(b.max([b.min([x, high])?, low])?, low)?;
    let steps = b.floor(b.add(b.mul(above, b.reciprocal(scale)?)?, 0.5)?)?;
    b.add(b.mul(steps, scale)?, low)
}

/// As [`faked`], of ranges that the network computes.
fn computed(b: &GraphBuilder, x: Var, [min, max]: [Var; 2], grid: Grid) -> Lowered<Var> {
    let scale = b.div(b.sub(max, min)?, f64::from(grid.high - grid.low))?;
    let zero = b.sub(f64::from(grid.low), b.div(min, scale)?)?;
    let zero = b.clip(zero).min(grid.low).max(grid.high).one()?;
    let zero = b.floor(b.add(zero, 0.5)?)?;
    let end = |step: f32| b.mul(b.sub(f64::from(step), zero)?, scale);
    stepped(b, x, [end(grid.low)?, end(grid.high)?], scale)
}

/// The steps of integers around zero, or from zero on.
#[derive(Clone, Copy, Debug)]
struct Steps {
    low: f64,
    high: f64,
    signed: bool,
    full: bool,
}

impl Steps {
    fn new(b: &GraphBuilder, bits: i64, signed: bool, narrow: bool) -> Lowered<Steps> {
        check_bits(b, bits)?;
        let (low, high) = match signed {
            true => (-(1i64 << (bits - 1)) + i64::from(narrow), (1i64 << (bits - 1)) - 1),
            false => (0, (1i64 << bits) - 1),
        };
        let full = matches!(bits, 8 | 16) && !(narrow && signed);
        Ok(Steps { low: low as f64, high: high as f64, signed, full })
    }

    fn dtype(self, opset: i64) -> Option<DataType> {
        match (self.high, self.signed) {
            (..=127.0, true) => Some(Int8),
            (..=255.0, false) => Some(Uint8),
            (..=32767.0, true) if opset >= 21 => Some(Int16),
            (..=65535.0, false) if opset >= 21 => Some(Uint16),
            _ => None,
        }
    }
}

fn rounded_by(b: &Lower, a: &Rounded, mode: &str) -> Lowered<Var> {
    if a.axis != -1 {
        let message = "Numbers are rounded with one range only, not with one for each channel.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let steps = Steps::new(b, a.num_bits, a.signed_input, a.narrow_range)?;
    let half_up = mode == "HALF_UP";
    if !a.range_given {
        return rounded(b, a.input, None, steps, half_up);
    }
    let single = |v: Var| floats(b, v).and_then(|values| values.first().copied());
    match (single(a.input_min), single(a.input_max)) {
        (Some(low), Some(high)) => rounded(b, a.input, Some((low, high)), steps, half_up),
        _ => {
            let inverse = step_of(b, [a.input_min, a.input_max], steps)?;
            let ends = [b.mul(inverse, steps.low)?, b.mul(inverse, steps.high)?];
            in_steps(b, b.max([b.min([a.input, ends[1]])?, ends[0]])?, inverse, half_up)
        }
    }
}

/// `x` in steps such that a range has as many of them as there are integers on its longer side. Without a range, it is
/// that of the numbers themselves.
fn rounded(
    b: &GraphBuilder,
    x: Var,
    range: Option<(f32, f32)>,
    steps: Steps,
    half_up: bool,
) -> Lowered<Var> {
    let Some((low, high)) = range else {
        let ends = [b.reduce_min(x).keepdims(0).one()?, b.reduce_max(x).keepdims(0).one()?];
        return in_steps(b, x, step_of(b, ends, steps)?, half_up);
    };
    let side =
        |end: f32, most: f64| if f64::from(end) * most > 0.0 { end / most as f32 } else { 0.0 };
    let step = side(low, steps.low).max(side(high, steps.high));
    if step <= 0.0 || !step.is_finite() {
        return Err(b.diagnostic(Code::LayerParameter, "A range of quantization is empty."));
    }
    let dtype = steps.dtype(b.opset()).filter(|_| !half_up);
    let dtype = if dtype_of(b, x)? == Float { dtype } else { None };
    // Integers saturate by themselves.
    let inside = match steps.full && dtype.is_some() {
        true => x,
        false => {
            let [low, high] = [steps.low, steps.high].map(|end| end * f64::from(step));
            b.clip(x).min(low).max(high).one()?
        }
    };
    match dtype {
        Some(dtype) => {
            let scale = b.constant(Tensor::scalar(step));
            let zero = b.constant(super::create::scalar(0, dtype));
            let q = b.quantize_linear(inside, scale).y_zero_point(zero).one()?;
            b.dequantize_linear(q, scale).x_zero_point(zero).one()
        }
        None => {
            let step = Reals { dims: vec![], values: vec![step.into()] }.to_tensor(dtype_of(b, x)?);
            in_steps(b, inside, b.constant(step.expect("a number of a float type")), half_up)
        }
    }
}

/// The step of a range that the network computes; a tiny one if the range is zero alone.
fn step_of(b: &GraphBuilder, [low, high]: [Var; 2], steps: Steps) -> Lowered<Var> {
    let high = b.div(high, steps.high)?;
    let step = match steps.signed {
        true => b.max([high, b.div(low, steps.low)?])?,
        false => high,
    };
    b.max([step.into(), Operand::Tensor(super::create::number(1e-30, dtype_of(b, step)?))])
}

fn in_steps(b: &GraphBuilder, x: Var, step: Var, half_up: bool) -> Lowered<Var> {
    let steps = b.div(x, step)?;
    let whole = if half_up { b.floor(b.add(steps, 0.5)?)? } else { b.round(steps)? };
    b.mul(whole, step)
}
