//! Quantized tensors: `real = scale * (stored - zero)`. Operators compute on real numbers between `DequantizeLinear`
//! and `QuantizeLinear`.

use super::model::{Quantization, Tensor as Declared};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use std::cell::Cell;

/// The first version in which `QuantizeLinear` knows integers of 16 bits.
const INT16_SINCE: i64 = 21;

/// The first version in which `DequantizeLinear` has a scale for each channel.
pub(crate) const AXIS_SINCE: i64 = 13;

/// The part of a step that a half may miss by the rounding of floats, with room.
const HALF_MARGIN: f64 = 1.0 / 4096.0;

impl Quantization {
    /// Whether there is one scale for all elements.
    pub(crate) fn is_uniform(&self) -> bool {
        self.scales.len() == 1
    }

    /// The stored number nearest to a real one, as TFLite rounds it.
    pub(crate) fn stored(&self, real: f64) -> f64 {
        let (scale, zero) = (f64::from(self.scales[0]), self.zeros[0] as f64);
        (real / scale).round() + zero
    }

    /// The real number that a stored one stands for.
    pub(crate) fn real(&self, stored: f64) -> f64 {
        f64::from(self.scales[0]) * (stored - self.zeros[0] as f64)
    }

    /// What makes it unusable, and the code of that.
    fn fault(&self) -> Option<(Code, String)> {
        let (scales, zeros) = (self.scales.len(), self.zeros.len());
        let bad = self.scales.iter().find(|scale| !scale.is_finite() || **scale < 0.0);
        if self.blocks {
            let what = "has scales for blocks of elements, which are not read";
            return Some((Code::LayerUnsupported, what.to_owned()));
        }
        if scales != zeros {
            let what = format!("has {scales} scales and {zeros} zero points");
            return Some((Code::SourceSyntax, what));
        }
        bad.map(|scale| (Code::LayerParameter, format!("has the scale {scale}")))
    }
}

/// The lowest and highest number of an integer type.
pub(crate) fn limits(dtype: DataType) -> Option<[f64; 2]> {
    Some(match dtype {
        DataType::Int8 => [i8::MIN.into(), i8::MAX.into()],
        DataType::Uint8 => [u8::MIN.into(), u8::MAX.into()],
        DataType::Int16 => [i16::MIN.into(), i16::MAX.into()],
        DataType::Uint16 => [u16::MIN.into(), u16::MAX.into()],
        DataType::Int32 => [i32::MIN.into(), i32::MAX.into()],
        _ => return None,
    })
}

/// How a tensor is quantized; `None` if its numbers are what they are. [`check`] says whether it is usable.
pub(crate) fn quantization_of(tensor: &Declared) -> Option<&Quantization> {
    tensor.quantization.as_ref().filter(|_| tensor.dtype().is_some_and(DataType::is_integer))
}

/// Checks how a tensor is quantized. A scale of zero is usable: it makes zeros of all that is read.
///
/// # Errors
/// `N0201` for lists that do not fit each other, `N0203` for blocks, `N0204` for scales that are none.
pub(crate) fn check(tensor: &Declared) -> Result<()> {
    match quantization_of(tensor).and_then(Quantization::fault) {
        None => Ok(()),
        Some((code, what)) => {
            Err(Diagnostic::new(code, format!("The tensor `{}` {what}.", shown(&tensor.name))))
        }
    }
}

/// Whether two tensors are quantized alike, so that equal integers are equal numbers.
pub(crate) fn alike(one: &Declared, other: &Declared) -> bool {
    let uniform = |tensor| quantization_of(tensor).filter(|found| found.is_uniform());
    match (uniform(one), uniform(other)) {
        (Some(a), Some(b)) => {
            one.number == other.number && a.scales == b.scales && a.zeros == b.zeros
        }
        (None, None) => quantization_of(one).is_none() && quantization_of(other).is_none(),
        _ => false,
    }
}

/// The operands that say a quantization: scales, zero points, and the axis if there are several.
struct ScaleOperands {
    scale: Var,
    zero: Var,
    axis: Option<i64>,
}

fn operands(b: &GraphBuilder, found: &Quantization, dtype: DataType) -> Result<ScaleOperands> {
    let zeros = found.zeros.clone();
    let [low, high] = limits(dtype).unwrap_or([0.0, 0.0]);
    refuse!(zeros.iter().any(|zero| (*zero as f64) < low || (*zero as f64) > high) =>
        b.wrong(format!("A zero point is no number of the type {dtype}.")));
    let dims: Vec<usize> = if found.is_uniform() { vec![] } else { vec![zeros.len()] };
    let zero = Tensor::from_vec(dims.clone(), zeros).cast(dtype);
    let zero = zero
        .map(|zero| zero.held())
        .map_err(|e| b.wrong(format!("A zero point cannot be converted: {e}.")))?;
    let scale = b.constant(Tensor::from_vec(dims, found.scales.clone()));
    let axis = (!found.is_uniform()).then_some(found.axis as i64);
    Ok(ScaleOperands { scale, zero: b.constant(zero), axis })
}

/// Whether nodes of ONNX quantize to this type.
fn has_node(b: &GraphBuilder, dtype: DataType) -> bool {
    match dtype {
        DataType::Int8 | DataType::Uint8 => true,
        DataType::Int16 | DataType::Uint16 => b.opset() >= INT16_SINCE,
        _ => false,
    }
}

/// Says what is wrong with scales along an axis.
fn check_axis(b: &GraphBuilder, x: Var, found: &Quantization, name: &str) -> Result<()> {
    let size = b.shape_of(x).and_then(|shape| shape.get(found.axis)?.known());
    if found.is_uniform() || size == Some(found.scales.len() as i64) {
        return Ok(());
    }
    Err(b.wrong(format!("The scales of `{}` do not fit its axis {}.", shown(name), found.axis)))
}

/// The real numbers of what is stored.
///
/// # Errors
/// `N0204` for scales that do not fit the tensor.
pub(crate) fn real(
    b: &GraphBuilder,
    x: Var,
    quantization: &Quantization,
    name: &str,
) -> Result<Var> {
    check_axis(b, x, quantization, name)?;
    let dtype = super::super::ops::dtype_of(b, x)?;
    // Biases have 32 or 64 bits; ONNX knows the former, without a zero point.
    let is_bias = dtype == DataType::Int32 && quantization.zeros.iter().all(|zero| *zero == 0);
    if has_node(b, dtype) || is_bias {
        let ScaleOperands { scale, zero, axis } = operands(b, quantization, dtype)?;
        let zero = (!is_bias).then_some(zero);
        return b.dequantize_linear(x, scale).x_zero_point(zero).axis(axis).one();
    }
    let steps = b.cast(x, DataType::Float)?;
    let along = |tensor: Tensor| {
        let rank = b.rank_of(x).unwrap_or(0);
        let mut dims = vec![1; rank];
        if let (false, Some(axis)) = (quantization.is_uniform(), dims.get_mut(quantization.axis)) {
            *axis = quantization.scales.len();
        }
        let dims = if quantization.is_uniform() { vec![] } else { dims };
        tensor
            .reshaped(dims)
            .map(|tensor| b.constant(tensor))
            .map_err(|e| b.wrong(format!("A scale cannot be used: {e}.")))
    };
    let zeros: Vec<f32> = quantization.zeros.iter().map(|zero| *zero as f32).collect();
    let steps = match zeros.iter().any(|zero| *zero != 0.0) {
        true => b.sub(steps, along(Tensor::vector(zeros))?)?,
        false => steps,
    };
    b.mul(steps, along(Tensor::vector(quantization.scales.clone()))?)
}

/// Real numbers of which `QuantizeLinear`, which rounds halves to even integers, rounds halves of steps up. Kernels
/// with that rule compute weights in some ten bits, so nothing else is as near to a half.
pub(crate) fn halves_up(b: &GraphBuilder, x: Var, to: &Declared) -> Result<Var> {
    match quantization_of(to).filter(|found| found.is_uniform()) {
        Some(found) => b.add(x, f64::from(found.scales[0]) * HALF_MARGIN),
        None => Ok(x),
    }
}

/// What is stored of real numbers.
///
/// # Errors
/// `N0204` for a quantization that no activation has.
pub(crate) fn stored(b: &GraphBuilder, x: Var, to: &Declared) -> Result<Var> {
    let (Some(found), Some(dtype)) = (quantization_of(to), to.dtype()) else { return Ok(x) };
    refuse!(found.scales.contains(&0.0) =>
        b.wrong(format!("The result `{}` is to be divided by a scale of zero.", shown(&to.name))));
    let x = b.cast(x, DataType::Float)?;
    if has_node(b, dtype) {
        check_axis(b, x, found, &to.name)?;
        let ScaleOperands { scale, zero, axis } = operands(b, found, dtype)?;
        return b.quantize_linear(x, scale).y_zero_point(zero).axis(axis).one();
    }
    let (Some([low, high]), true) = (limits(dtype), found.is_uniform()) else {
        let message = format!("`{}` is quantized to {dtype} as no result is.", shown(&to.name));
        return Err(b.wrong(message));
    };
    let steps = b.round(b.div(x, f64::from(found.scales[0]))?)?;
    let steps = match found.zeros[0] {
        0 => steps,
        zero => b.add(steps, zero as f64)?,
    };
    b.cast(b.clip(steps).min(low).max(high).one()?, dtype)
}

/// A constant as real numbers that are computed when the model is written; `None` if its zero points are not zero or
/// its scales do not fit.
pub(crate) fn real_constant(tensor: &Tensor, found: &Quantization) -> Option<Tensor> {
    let scales: Vec<f64> = found.scales.iter().map(|scale| f64::from(*scale)).collect();
    if found.zeros.iter().any(|zero| *zero != 0) {
        return None;
    }
    let floats = tensor.cast(DataType::Float).ok()?;
    if !found.is_uniform() {
        return floats.scaled(found.axis, &scales).ok();
    }
    let all = floats.reshaped([1, tensor.len()]).ok()?;
    all.scaled(0, &scales).ok()?.reshaped(tensor.dims().to_vec()).ok()
}

/// The real numbers between which an activation keeps a result that is stored as said; `None` on a side on which the
/// stored type keeps it anyway.
pub(crate) fn clamp(
    stored: Option<(&Quantization, DataType)>,
    [low, high]: [Option<f64>; 2],
) -> [Option<f64>; 2] {
    let stored = stored.and_then(|(found, dtype)| Some((found, limits(dtype)?)));
    let Some((found, [lowest, highest])) = stored else {
        return [low, high];
    };
    let low = low.map(|low| found.stored(low)).filter(|low| *low > lowest);
    let high = high.map(|high| found.stored(high)).filter(|high| *high < highest);
    [low, high].map(|stored| stored.map(|stored| found.real(stored)))
}

/// The value of a variable tensor before the first run, as real zeros (`Float`) or as they are stored.
///
/// # Errors
/// `N0201` for sizes that are none, `N0213` if it is too large.
pub(crate) fn zeros(declared: &Declared, dtype: DataType, room: &Cell<usize>) -> Result<Tensor> {
    let wrong = |code, what: &str| {
        Diagnostic::new(code, format!("The variable `{}` {what}.", shown(&declared.name)))
    };
    let dims = declared.dims.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<_>>>();
    let count = dims.as_deref().and_then(element_count);
    let (Some(dims), Some(count)) = (dims, count) else {
        return Err(wrong(Code::SourceSyntax, "has sizes that are none"));
    };
    let left = count.checked_mul(size_of::<i64>()).and_then(|bytes| room.get().checked_sub(bytes));
    room.set(left.ok_or_else(|| wrong(Code::SourceLimit, "is too large"))?);
    let zero = quantization_of(declared)
        .filter(|_| dtype.is_integer())
        .and_then(|found| found.zeros.first().copied())
        .unwrap_or(0);
    let zeros = Tensor::from_vec(dims, vec![zero; count]).cast(dtype);
    zeros.map(|zeros| zeros.held()).map_err(|_| wrong(Code::LayerUnsupported, "has an odd type"))
}

#[cfg(test)]
mod tests;
