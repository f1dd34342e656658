//! Quantization. A quantized tensor of torch is here what it stands for: what DequantizeLinear gives behind
//! QuantizeLinear. How it is quantized is noted beside it, since operators keep that.

use super::dtype::{dtype_of, named};
use super::qparams::{self, Quantizer};
use super::sizes::{axis, rank};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Float, Int8, Int16, Int32, Uint8, Uint16};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::quantize_per_tensor" => quantize_per_tensor;
        "aten::quantize_per_channel" => quantize_per_channel;
        "aten::quantize_per_tensor_dynamic" => |b, input: Var, dtype: i64, reduce_range: bool| {
            dynamic(b, input, reduce_range)
        };
        // The numbers are the same, but nothing keeps them quantized.
        "aten::dequantize.self" | "aten::dequantize.tensor" | "aten::dequantize.any" | "aten::dequantize" =>
            |b, a: Quantized| b.identity(a.tensor());
        "aten::int_repr" => |b, input: Var| {
            let q = quantizer_of(b, input)?;
            b.quantize_linear(input, q.scale).y_zero_point(q.zero_point).axis(q.axis).one()
        };
        "aten::q_scale" | "aten::q_per_channel_scales" => |b, input: Var| Ok(quantizer_of(b, input)?.scale);
        "aten::q_zero_point" | "aten::q_per_channel_zero_points" => |b, input: Var| {
            b.cast(quantizer_of(b, input)?.zero_point, DataType::Int64)
        };
        "aten::q_per_channel_axis" => |b, input: Var| Ok(quantizer_of(b, input)?.axis.unwrap_or(0));
        "aten::_make_per_tensor_quantized_tensor" => |b, input: Var, scale: f64, zero_point: i64| {
            let zero_point = point(b, Value::Int(zero_point), dtype_of(b, input)?)?;
            let scale = b.constant(Tensor::scalar(scale as f32));
            of_integers(b, input, Quantizer { scale, zero_point, axis: None })
        };
    };
    super::rows! { table;
        "aten::fake_quantize_per_tensor_affine" | "aten::_fake_quantize_learnable_per_tensor_affine"
            | "aten::fake_quantize_per_channel_affine" | "aten::_fake_quantize_learnable_per_channel_affine" => fake;
        "aten::fake_quantize_per_tensor_affine_cachemask" | "aten::fake_quantize_per_channel_affine_cachemask"
            | "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams" =>
            |b, a: Fake| Ok(Several(vec![fake(b, a)?.into(), Value::None]));
        "aten::fused_moving_avg_obs_fake_quant" => observed;
        "aten::_fused_moving_avg_obs_fq_helper" =>
            |b, a: Observed| Ok(Several(vec![observed(b, a)?.into(), Value::None]));
        "quantized_decomposed::quantize_per_tensor" => |b, a: Decomposed| {
            let q = a.quantizer(b)?;
            integers(b, a.input, &q, [a.quant_min, a.quant_max])
        };
        "quantized_decomposed::dequantize_per_tensor" => |b, a: Decomposed| {
            qparams::numbers(b, a.input, &a.quantizer(b)?, a.out_dtype)
        };
        "quantized_decomposed::quantize_per_channel" => |b, a: ByChannel| {
            let q = a.quantizer(b)?;
            integers(b, a.input, &q, [a.quant_min, a.quant_max])
        };
        "quantized_decomposed::dequantize_per_channel" => |b, a: ByChannel| {
            qparams::numbers(b, a.input, &a.quantizer(b)?, a.out_dtype)
        };
    }
}

arguments! {
    /// `dequantize.self`; other overloads have another name for it.
    struct Quantized { input: Option<Var>, qtensor: Option<Var>, tensors: Option<Var> }
    /// `quantize_per_tensor`; both may be tensors.
    struct PerTensor { input: Var, scale: Value, zero_point: Value, dtype: i64 }
    /// `quantize_per_channel`
    struct PerChannel { input: Var, scales: Var, zero_points: Var, axis: i64, dtype: i64 }
    /// `fake_quantize_per_channel_affine`; for whole tensors without the axis.
    struct Fake {
        input: Var, scale: Value, zero_point: Value, fake_quant_enabled: Option<Var>, axis: Option<i64>,
        quant_min: i64, quant_max: i64, grad_factor: Option<f64>,
    }
    /// `fused_moving_avg_obs_fake_quant`
    struct Observed {
        input: Var, observer_on: Var, fake_quant_on: Var, running_min: Var, running_max: Var,
        scale: Var, zero_point: Var, averaging_const: f64, quant_min: i64, quant_max: i64,
        ch_axis: i64, per_row_fake_quant: bool, symmetric_quant: bool,
    }
    /// `quantized_decomposed::quantize_per_tensor`
    struct Decomposed {
        input: Var, scale: Value, zero_point: Value, quant_min: i64, quant_max: i64,
        dtype: i64, out_dtype: Option<i64>,
    }
    /// `quantized_decomposed::quantize_per_channel`
    struct ByChannel {
        input: Var, scales: Var, zero_points: Option<Var>, axis: i64, quant_min: i64, quant_max: i64,
        dtype: i64, out_dtype: Option<i64>,
    }
}

impl Quantized {
    fn tensor(&self) -> Var {
        self.input.or(self.qtensor).or(self.tensors).expect("one overload has one tensor")
    }
}

impl Decomposed {
    fn quantizer(&self, b: &Lower) -> Lowered<Quantizer> {
        let dtype = named(b, self.dtype)?;
        let (scale, zero_point) =
            (real(b, &self.scale)?, point(b, self.zero_point.clone(), dtype)?);
        Ok(Quantizer { scale, zero_point, axis: None })
    }
}

impl ByChannel {
    fn quantizer(&self, b: &Lower) -> Lowered<Quantizer> {
        let (dtype, scale) = (named(b, self.dtype)?, b.cast(self.scales, Float)?);
        let zero_point = match self.zero_points {
            Some(points) => b.cast(points, dtype)?,
            None => b.cast(b.mul(scale, 0.0)?, dtype)?,
        };
        Ok(Quantizer { scale, zero_point, axis: Some(self.axis) })
    }
}

/// A scale as a scalar.
fn real(b: &Lower, value: &Value) -> Lowered<Var> {
    scalar(b, super::dtype::operand(b, value, Float)?)
}

/// A zero point as a scalar of the type of the integers.
fn point(b: &Lower, value: Value, dtype: DataType) -> Lowered<Var> {
    scalar(b, super::dtype::operand(b, &value, dtype)?)
}

fn scalar(b: &Lower, v: Var) -> Lowered<Var> {
    if b.rank_of(v) == Some(0) { Ok(v) } else { b.reshape(v, Vec::<i64>::new()).one() }
}

/// How `x` is quantized.
///
/// # Errors
/// `N0203` if it is not known.
pub(super) fn quantizer_of(b: &Lower, x: Var) -> Lowered<Quantizer> {
    let known = b.source.quantized.borrow().get(&x).copied();
    known.ok_or_else(|| {
        let message = "A quantized tensor is needed, and how this one is quantized is not known.";
        b.diagnostic(Code::LayerUnsupported, message)
    })
}

/// `x` rounded to what integers stand for.
pub(super) fn quantized(b: &Lower, x: Var, q: Quantizer) -> Lowered<Var> {
    let integers = b.quantize_linear(x, q.scale).y_zero_point(q.zero_point).axis(q.axis).one()?;
    of_integers(b, integers, q)
}

/// What integers stand for.
fn of_integers(b: &Lower, integers: Var, q: Quantizer) -> Lowered<Var> {
    let y = b.dequantize_linear(integers, q.scale).x_zero_point(q.zero_point).axis(q.axis).one()?;
    b.source.quantized.borrow_mut().insert(y, q);
    Ok(y)
}

/// As [`quantized`], by numbers.
pub(super) fn quantized_by(
    b: &Lower,
    x: Var,
    scale: f64,
    zero_point: i64,
    dtype: DataType,
) -> Lowered<Var> {
    let scale = b.constant(Tensor::scalar(scale as f32));
    let zero_point = point(b, Value::Int(zero_point), dtype)?;
    quantized(b, x, Quantizer { scale, zero_point, axis: None })
}

/// What is quantized as `like` is.
pub(super) fn quantized_like(b: &Lower, x: Var, like: Var) -> Lowered<Var> {
    quantized(b, x, quantizer_of(b, like)?)
}

fn quantize_per_tensor(b: &Lower, a: PerTensor) -> Lowered<Var> {
    let dtype = named(b, a.dtype)?;
    let scale = real(b, &a.scale)?;
    if dtype == Int32 {
        return b.mul(b.round(b.div(a.input, scale)?)?, scale);
    }
    let zero_point = point(b, a.zero_point, dtype)?;
    quantized(b, a.input, Quantizer { scale, zero_point, axis: None })
}

fn quantize_per_channel(b: &Lower, a: PerChannel) -> Lowered<Var> {
    let zero_point = b.cast(a.zero_points, named(b, a.dtype)?)?;
    let axis = Some(axis(b, a.input, a.axis)? as i64);
    quantized(b, a.input, Quantizer { scale: b.cast(a.scales, Float)?, zero_point, axis })
}

/// Quantized by the range that the numbers have when the model runs.
pub(super) fn dynamic(b: &Lower, x: Var, reduce_range: bool) -> Lowered<Var> {
    if !reduce_range {
        let [integers, scale, zero_point] = b.dynamic_quantize_linear(x).outputs()?;
        return of_integers(b, integers, Quantizer { scale, zero_point, axis: None });
    }
    // Seven bits leave room where products are added up in 16.
    let zero = b.constant(Tensor::scalar(0.0f32));
    let low = b.min([b.reduce_min(x).keepdims(0).one()?, zero])?;
    let high = b.max([b.reduce_max(x).keepdims(0).one()?, zero])?;
    let scale = b.div(b.sub(high, low)?, 127.0)?;
    let zero_point = b.clip(b.round(b.neg(b.div(low, scale)?)?)?).min(0.0).max(127.0).one()?;
    quantized(b, x, Quantizer { scale, zero_point: b.cast(zero_point, Uint8)?, axis: None })
}

/// The type of integers between two bounds, if QuantizeLinear has one.
fn integer_type(b: &Lower, [low, high]: [i64; 2]) -> Option<DataType> {
    match (low, high) {
        (0.., ..=255) => Some(Uint8),
        (-128.., ..=127) => Some(Int8),
        (0.., ..=65535) if b.opset() >= 21 => Some(Uint16),
        (-32768.., ..=32767) if b.opset() >= 21 => Some(Int16),
        _ => None,
    }
}

/// The integers of `x`, between two bounds.
fn integers(b: &Lower, x: Var, q: &Quantizer, [low, high]: [i64; 2]) -> Lowered<Var> {
    if !qparams::is_native(b, dtype_of(b, q.zero_point)?) {
        return qparams::integers(b, x, q, [low, high]);
    }
    let y = b.quantize_linear(x, q.scale).y_zero_point(q.zero_point).axis(q.axis).one()?;
    let all = match dtype_of(b, y)? {
        Int8 => [-128, 127],
        Uint8 => [0, 255],
        Int16 => [-32768, 32767],
        _ => [0, 65535],
    };
    if [low, high] == all { Ok(y) } else { b.clip(y).min(low).max(high).one() }
}

fn fake(b: &Lower, a: Fake) -> Lowered<Var> {
    if let Some(enabled) = a.fake_quant_enabled {
        match b.ints_of(b.cast(enabled, DataType::Int64)?).as_deref() {
            Some([0]) => return Ok(a.input),
            Some(_) => {}
            None => {
                let message = "Whether a fake quantization is enabled must be known.";
                return Err(b.diagnostic(Code::LayerUnsupported, message));
            }
        }
    }
    let bounds = [a.quant_min, a.quant_max];
    let axis = a.axis.map(|dim| axis(b, a.input, dim)).transpose()?.map(|axis| axis as i64);
    let scale = super::dtype::operand(b, &a.scale, dtype_of(b, a.input)?)?;
    let Some(dtype) = integer_type(b, bounds) else {
        return fake_by_arithmetic(b, &a, scale, axis);
    };
    let zero_point = super::dtype::operand(b, &rounded(b, a.zero_point)?, dtype)?;
    let (scale, zero_point) = match axis {
        Some(_) => (scale, zero_point),
        None => (scalar(b, scale)?, scalar(b, zero_point)?),
    };
    let q = Quantizer { scale, zero_point, axis };
    let y = integers(b, a.input, &q, bounds)?;
    b.dequantize_linear(y, q.scale).x_zero_point(q.zero_point).axis(q.axis).one()
}

/// Zero points that are learned are no integers.
fn rounded(b: &Lower, zero_point: Value) -> Lowered<Value> {
    match zero_point {
        Value::Var(v) if dtype_of(b, v)?.is_float() => Ok(Value::Var(b.round(v)?)),
        other => Ok(other),
    }
}

/// Fake quantization to more integers than QuantizeLinear has.
fn fake_by_arithmetic(b: &Lower, a: &Fake, scale: Var, axis: Option<i64>) -> Lowered<Var> {
    let dtype = dtype_of(b, a.input)?;
    let behind: Vec<i64> = match axis {
        Some(axis) => (1..rank(b, a.input)? as i64 - axis).collect(),
        None => vec![],
    };
    let shaped = |v: Var| match behind.is_empty() {
        true => Ok(v),
        false => b.unsqueeze(v, behind.clone()),
    };
    let scale = shaped(scale)?;
    let zero = shaped(super::dtype::operand(b, &rounded(b, a.zero_point.clone())?, dtype)?)?;
    let steps = b.add(b.round(b.div(a.input, scale)?)?, zero)?;
    let steps = b.clip(steps).min(a.quant_min as f64).max(a.quant_max as f64).one()?;
    b.mul(b.sub(steps, zero)?, scale)
}

/// Fake quantization behind an observer, which must not learn any more.
fn observed(b: &Lower, a: Observed) -> Lowered<Var> {
    let known = |v: Var| b.constant_of(v).and_then(|t| t.to_reals()?.values.first().copied());
    if known(a.observer_on) != Some(0.0) {
        let message =
            "An observer learns ranges here, which a model does not do. Disable it before saving.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let (scale, zero_point) = (Value::Var(a.scale), Value::Var(a.zero_point));
    let axis = a.per_row_fake_quant.then_some(a.ch_axis);
    let (quant_min, quant_max) = (a.quant_min, a.quant_max);
    fake(
        b,
        Fake {
            input: a.input,
            scale,
            zero_point,
            fake_quant_enabled: Some(a.fake_quant_on),
            axis,
            quant_min,
            quant_max,
            grad_factor: None,
        },
    )
}

/// What an operator of float tensors gives for a quantized one: where numbers are only moved or chosen, they stay
/// quantized; where they are computed, they are quantized again.
///
/// # Errors
/// Those of the builder.
pub(crate) fn kept(b: &Lower, op: &str, input: Option<&Value>, result: Var) -> Lowered<Var> {
    let input = match input {
        Some(Value::List(items)) => items.first(),
        other => other,
    };
    let known = match input {
        Some(Value::Var(v)) => b.source.quantized.borrow().get(v).copied(),
        _ => None,
    };
    let Some(q) = known else { return Ok(result) };
    if b.source.quantized.borrow().contains_key(&result) || b.dtype_of(result) == Some(Bool) {
        return Ok(result);
    }
    let name = op.trim_start_matches("aten::").split('.').next().unwrap_or(op);
    match name {
        "sigmoid" => quantized_by(b, result, 1.0 / 256.0, 0, Uint8),
        "tanh" => quantized_by(b, result, 2.0 / 256.0, 128, Uint8),
        "hardsigmoid" => quantized_by(b, result, 1.0 / 256.0, 0, Uint8),
        _ if COMPUTED.contains(&name) || name.starts_with("upsample_") => quantized(b, result, q),
        // Axes that move take the axis of a quantizer by channel with them, which is not followed.
        _ if MOVED.contains(&name) && q.axis.is_none() => {
            b.source.quantized.borrow_mut().insert(result, q);
            Ok(result)
        }
        _ => Ok(result),
    }
}

/// Operators that compute quantized tensors from one of the same quantization.
const COMPUTED: [&str; 22] = [
    "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "clamp", "clamp_min",
    "clamp_max", "hardtanh", "relu6", "leaky_relu", "elu", "gelu", "silu", "hardswish",
    "threshold", "std", "prelu",
];

/// Operators that move or choose numbers.
pub(super) const MOVED: [&str; 47] = [
    "relu", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d", "view", "reshape",
    "flatten", "_unsafe_view", "_reshape_alias", "permute", "transpose", "t", "numpy_T",
    "contiguous", "clone", "detach", "alias", "slice", "select", "narrow", "squeeze", "unsqueeze",
    "expand", "expand_as", "index_select", "index", "flip", "roll", "cat", "concat", "stack",
    "dropout", "feature_dropout", "unfold", "repeat", "tile", "pad", "constant_pad_nd",
    "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "pixel_shuffle",
    "pixel_unshuffle", "max", "min", "view_as",
];
