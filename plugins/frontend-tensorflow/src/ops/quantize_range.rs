//! Integers of TensorFlow 1 that stand for numbers of a range: the range goes along as two tensors.

use super::create::number;
use super::{Lower, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Float, Int8, Int16, Int32, Uint8, Uint16};
use onnxd_plugin_sdk::lower::Lowered;

arguments! {
    /// `QuantizeV2`
    pub(crate) struct Quantize {
        input: Var, min_range: Var, max_range: Var, t: ElementType, mode: String, round_mode: String,
        narrow_range: bool, axis: i64, ensure_minimum_range: f64,
    }
    /// `Dequantize`
    pub(crate) struct Dequantize {
        input: Var, min_range: Var, max_range: Var, mode: String, narrow_range: bool, axis: i64, dtype: ElementType,
    }
}

/// The lowest and the highest number of an integer type.
fn ends(b: &GraphBuilder, dtype: DataType) -> Lowered<[f64; 2]> {
    Ok(match dtype {
        Int8 => [-128.0, 127.0],
        Uint8 => [0.0, 255.0],
        Int16 => [-32768.0, 32767.0],
        Uint16 => [0.0, 65535.0],
        Int32 => [-2_147_483_648.0, 2_147_483_647.0],
        other => {
            let message = format!("Numbers are not quantized to {}.", other.word());
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
    })
}

fn unknown(b: &GraphBuilder, mode: &str) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    let message = format!("The mode of quantization `{}` is not known.", shown(mode));
    b.diagnostic(Code::LayerParameter, message)
}

/// Half a step away from zero where a number lies between two.
fn round_away(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.mul(b.sign(x)?, b.floor(b.add(b.abs(x)?, 0.5)?)?)
}

/// A range for each channel, along an axis of a tensor.
fn along(b: &GraphBuilder, range: Var, x: Var, axis: i64) -> Lowered<Var> {
    if axis == -1 {
        return b.reshape(range, Vec::<i64>::new()).one();
    }
    let behind: Vec<i64> = (1..rank(b, x)? as i64 - axis).collect();
    super::shape::unsqueezed(b, range, &behind)
}

pub(crate) fn quantize(b: &Lower, a: Quantize) -> Lowered<[Var; 3]> {
    let ElementType(dtype) = a.t;
    let [lowest, highest] = ends(b, dtype)?;
    let zero = || Operand::Tensor(number(0.0, Float));
    // The range has zero in it, and some width.
    let low = b.min([a.min_range.into(), zero()])?;
    let sizes = [b.abs(a.min_range)?, b.abs(a.max_range)?, b.constant(number(1.0, Float))];
    let size = b.max(sizes)?;
    let least = b.add(low, b.mul(size, a.ensure_minimum_range)?)?;
    let high = b.max([b.max([a.max_range, least])?.into(), zero()])?;
    let [wide_low, wide_high] = [along(b, low, a.input, a.axis)?, along(b, high, a.input, a.axis)?];
    let inside = |low: Var, high: Var| b.max([b.min([a.input, high])?, low]);
    let to_integers = |x: Var| b.cast(b.cast(x, Int32)?, dtype);
    match a.mode.as_str() {
        "MIN_COMBINED" => {
            let scale = b.div(highest - lowest, b.sub(wide_high, wide_low)?)?;
            let steps = b.mul(b.sub(inside(wide_low, wide_high)?, wide_low)?, scale)?;
            let y = match lowest < 0.0 {
                true => round_away(b, b.sub(steps, -lowest)?)?,
                false => b.floor(b.add(steps, 0.5)?)?,
            };
            Ok([to_integers(y)?, low, high])
        }
        "MIN_FIRST" => {
            let scale = b.div(highest - lowest, b.sub(wide_high, wide_low)?)?;
            let first = b.sub(round_away(b, b.mul(wide_low, scale)?)?, lowest)?;
            let y = b.sub(round_away(b, b.mul(a.input, scale)?)?, first)?;
            Ok([to_integers(b.clip(y).min(lowest).max(highest).one()?)?, low, high])
        }
        "SCALED" => {
            let lowest = lowest + f64::from(u8::from(a.narrow_range));
            let step = step_of(b, [low, high], [lowest, highest])?;
            let ends = [b.mul(step, lowest)?, b.mul(step, highest)?];
            let [first, last] =
                [along(b, ends[0], a.input, a.axis)?, along(b, ends[1], a.input, a.axis)?];
            let steps = b.div(inside(first, last)?, along(b, step, a.input, a.axis)?)?;
            let even = a.round_mode == "HALF_TO_EVEN";
            let y = if even { b.round(steps)? } else { round_away(b, steps)? };
            Ok([to_integers(y)?, ends[0], ends[1]])
        }
        other => Err(unknown(b, other)),
    }
}

/// The step of integers that reach over the longer side of a range.
fn step_of(b: &GraphBuilder, [low, high]: [Var; 2], [lowest, highest]: [f64; 2]) -> Lowered<Var> {
    let high = b.div(high, highest)?;
    if lowest >= 0.0 { Ok(high) } else { b.max([b.div(low, lowest)?, high]) }
}

pub(crate) fn dequantize(b: &Lower, a: Dequantize) -> Lowered<Var> {
    let dtype = super::dtype_of(b, a.input)?;
    let [lowest, highest] = ends(b, dtype)?;
    let [low, high] =
        [along(b, a.min_range, a.input, a.axis)?, along(b, a.max_range, a.input, a.axis)?];
    let x = b.cast(a.input, Float)?;
    let step = || b.div(b.sub(high, low)?, highest - lowest);
    let y = match a.mode.as_str() {
        // Signed integers count from the middle of the range.
        "MIN_COMBINED" => {
            let half = if lowest < 0.0 { (highest - lowest + 1.0) / 2.0 } else { 0.0 };
            b.add(b.mul(b.add(x, half)?, step()?)?, low)?
        }
        "MIN_FIRST" => {
            let step = step()?;
            let first = b.mul(round_away(b, b.div(low, step)?)?, step)?;
            b.add(b.mul(b.sub(x, lowest)?, step)?, first)?
        }
        "SCALED" => {
            let lowest = lowest + f64::from(u8::from(a.narrow_range));
            b.mul(x, step_of(b, [low, high], [lowest, highest])?)?
        }
        other => return Err(unknown(b, other)),
    };
    b.cast(y, a.dtype.0)
}
