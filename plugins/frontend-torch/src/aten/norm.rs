//! Normalization by mean and variance.

use super::distance::norm_over;
use super::dtype::dtype_of;
use super::sizes::{axis, known, known_size, product, rank, sizes, vector};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bfloat16, Double, Float, Float16};
use onnxd_plugin_sdk::ir::{Reals, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::batch_norm" => |b, a: Batch| Ok(batch_norm(b, &a)?[0]);
        "aten::native_batch_norm" | "aten::_native_batch_norm_legit" | "aten::_native_batch_norm_legit_no_training"
            => |b, a: Batch| batch_norm(b, &a);
        "aten::_batch_norm_no_update" => |b, a: Batch| with_reserve(b, &a);
        "aten::_batch_norm_with_update" => |b, a: Batch| {
            with_reserve(b, &Batch { training: Some(true), ..a })
        };
        "aten::_batch_norm_impl_index" => |b, a: Batch| {
            let [y, mean, scale] = batch_norm(b, &a)?.map(Value::Var);
            Ok(Several(vec![y, mean, scale, reserve(b), Value::Int(0)]))
        };
        "aten::cudnn_batch_norm" => |b, a: Cudnn| with_reserve(b, &a.into());
        "aten::miopen_batch_norm" => |b, a: Cudnn| batch_norm(b, &a.into());
        "aten::instance_norm" => instance_norm;
        "aten::layer_norm" => |b, a: Layer| Ok(layer_norm(b, &a)?[0]);
        "aten::native_layer_norm" => |b, a: Layer| layer_norm(b, &a);
        "aten::group_norm" => |b, a: Group| group_norm(b, &a);
        "aten::native_group_norm" => native_group_norm;
        "aten::rms_norm" => |b, a: Rms| Ok(rms_norm(b, &a)?.0);
        "aten::_fused_rms_norm" => |b, a: Rms| {
            let (y, x) = rms_norm(b, &a)?;
            Ok([y, inverse_rms(b, x, &a)?])
        };
        "aten::_weight_norm" => |b, a: Weight| Ok(weight_norm(b, &a)?[0]);
        "aten::_weight_norm_interface" => |b, a: Weight| weight_norm(b, &a);
        "aten::norm_except_dim" => |b, v: Var, pow: i64, dim: i64| norm_except(b, v, dim, pow);
        "aten::renorm" => renorm(input, p, dim, maxnorm);
    }
}

arguments! {
    /// `native_batch_norm`; some overloads lack statistics or `training`.
    struct Batch {
        input: Var, weight: Option<Var>, bias: Option<Var>, running_mean: Option<Var>,
        running_var: Option<Var>, training: Option<bool>, momentum: f64, eps: f64,
    }
    /// `cudnn_batch_norm`
    struct Cudnn {
        input: Var, weight: Option<Var>, bias: Option<Var>, running_mean: Option<Var>,
        running_var: Option<Var>, training: bool, exponential_average_factor: f64, epsilon: f64,
    }
    /// `instance_norm`
    struct Instance {
        input: Var, weight: Option<Var>, bias: Option<Var>, running_mean: Option<Var>,
        running_var: Option<Var>, use_input_stats: bool, momentum: f64, eps: f64,
    }
    /// `layer_norm`
    struct Layer {
        input: Var, normalized_shape: Vec<Value>, weight: Option<Var>, bias: Option<Var>, eps: f64,
    }
    /// `group_norm`
    struct Group {
        input: Var, num_groups: i64, weight: Option<Var>, bias: Option<Var>, eps: f64,
    }
    /// `rms_norm`
    struct Rms { input: Var, normalized_shape: Vec<Value>, weight: Option<Var>, eps: Option<f64> }
    /// `_weight_norm`
    struct Weight { v: Var, g: Var, dim: i64 }
}

#[allow(non_snake_case)]
mod native {
    use super::{Value, Var, arguments};
    arguments! {
        /// `native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
        /// float eps)`
        pub(super) struct NativeGroup {
            input: Var, weight: Option<Var>, bias: Option<Var>, N: Value, C: Value, HxW: Value,
            group: i64, eps: f64,
        }
    }
}
use native::NativeGroup;

impl From<Cudnn> for Batch {
    fn from(a: Cudnn) -> Batch {
        let (momentum, eps, training) = (a.exponential_average_factor, a.epsilon, Some(a.training));
        let Cudnn { input, weight, bias, running_mean, running_var, .. } = a;
        Batch { input, weight, bias, running_mean, running_var, training, momentum, eps }
    }
}

/// What backward computations read. Nothing else does.
fn reserve(b: &Lower) -> Value {
    Value::Var(b.constant(Tensor::vector(Vec::<u8>::new())))
}

fn with_reserve(b: &Lower, a: &Batch) -> Lowered<Several> {
    let all = batch_norm(b, a)?.map(Value::Var).into_iter();
    Ok(Several(all.chain([reserve(b)]).collect()))
}

/// A vector of one number for each channel.
fn filled(b: &Lower, x: Var, channels: Option<i64>, number: f64) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let channels = channels.and_then(|n| usize::try_from(n).ok()).filter(|n| *n < 1 << 24);
    let message = "The number of channels must be known where there are no weights.";
    let n = channels.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let numbers = Reals { dims: vec![n], values: vec![number; n] }.to_tensor(dtype);
    let message = format!("{} cannot be normalized.", dtype.word());
    Ok(b.constant(numbers.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))?))
}

/// A vector as it is multiplied with the channels of `x`.
fn by_channel(b: &Lower, v: Var, x: Var) -> Lowered<Var> {
    let axes: Vec<i64> = (1..rank(b, x)? as i64 - 1).collect();
    if axes.is_empty() { Ok(v) } else { b.unsqueeze(v, axes) }
}

/// The result, and mean and inverse deviation of the batch where it is normalized by them.
fn batch_norm(b: &Lower, a: &Batch) -> Lowered<[Var; 3]> {
    let x = a.input;
    let channels = [a.running_mean, a.weight, a.bias].into_iter().flatten();
    let channels = channels.filter_map(|v| known_size(b, v, 0)).next();
    let channels = channels.or_else(|| known_size(b, x, 1));
    let or_filled = |v: Option<Var>, number| match v {
        Some(v) => Ok(v),
        None => filled(b, x, channels, number),
    };
    match (a.training.unwrap_or(false), a.running_mean, a.running_var) {
        (false, Some(mean), Some(variance)) => {
            let (scale, bias) = (or_filled(a.weight, 1.0)?, or_filled(a.bias, 0.0)?);
            let y = b.batch_normalization(x, scale, bias, mean, variance).epsilon(a.eps).one()?;
            let none = b.constant(Tensor::vector(Vec::<f32>::new()));
            Ok([y, none, none])
        }
        _ => by_batch(b, a),
    }
}

/// Normalizes by the mean and variance of the batch itself.
fn by_batch(b: &Lower, a: &Batch) -> Lowered<[Var; 3]> {
    let x = a.input;
    let axes: Vec<i64> = (0..rank(b, x)? as i64).filter(|axis| *axis != 1).collect();
    let (y, mean, inverse) = normalized(b, x, &axes, a.eps)?;
    let y = affine(b, y, a.weight, a.bias, |v| by_channel(b, v, x))?;
    let vector = |v| b.squeeze(v).axes(axes.clone()).one();
    Ok([y, vector(mean)?, vector(inverse)?])
}

/// `(x - mean) / sqrt(variance + eps)` over axes; also the mean and the inverse of the divisor.
fn normalized(b: &Lower, x: Var, axes: &[i64], eps: f64) -> Lowered<(Var, Var, Var)> {
    let mean = b.reduce_mean(x).axes(axes).one()?;
    let d = b.sub(x, mean)?;
    let variance = b.reduce_mean(b.mul(d, d)?).axes(axes).one()?;
    let deviation = b.sqrt(b.add(variance, eps)?)?;
    Ok((b.div(d, deviation)?, mean, b.reciprocal(deviation)?))
}

/// `y * weight + bias`, each brought to the shape of `y` first.
fn affine(
    b: &Lower,
    y: Var,
    weight: Option<Var>,
    bias: Option<Var>,
    shaped: impl Fn(Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let y = weight.map_or(Ok(y), |w| b.mul(y, shaped(w)?))?;
    bias.map_or(Ok(y), |v| b.add(y, shaped(v)?))
}

fn instance_norm(b: &Lower, a: Instance) -> Lowered<Var> {
    let Instance { input, weight, bias, running_mean, running_var, momentum, eps, .. } = a;
    if !a.use_input_stats {
        let training = Some(false);
        let batch =
            Batch { input, weight, bias, running_mean, running_var, training, momentum, eps };
        return Ok(batch_norm(b, &batch)?[0]);
    }
    let channels = known_size(b, input, 1);
    let Some(scale) = weight.map_or_else(|| filled(b, input, channels, 1.0).ok(), Some) else {
        let axes: Vec<i64> = (2..rank(b, input)? as i64).collect();
        let (y, ..) = normalized(b, input, &axes, eps)?;
        return affine(b, y, weight, bias, |v| by_channel(b, v, input));
    };
    let bias = bias.map_or_else(|| filled(b, input, channels, 0.0), Ok)?;
    b.instance_normalization(input, scale, bias).epsilon(eps).one()
}

/// Ones of the shape that is normalized.
fn ones(b: &Lower, x: Var, shape: &[Value]) -> Lowered<Var> {
    let one = super::dtype::operand(b, &Value::Float(1.0), dtype_of(b, x)?)?;
    let elements = known(b, &product(b, shape)?);
    match elements.filter(|n| shape.len() == 1 && *n >= 0) {
        Some(_) => filled(b, x, elements, 1.0),
        None => b.expand(one, vector(b, shape)?),
    }
}

/// Normalizes the last axes, of the sizes `shape`.
pub(super) fn layer(
    b: &Lower,
    input: Var,
    shape: Vec<i64>,
    [weight, bias]: [Option<Var>; 2],
    eps: f64,
) -> Lowered<Var> {
    let normalized_shape = shape.into_iter().map(Value::Int).collect();
    Ok(layer_norm(b, &Layer { input, normalized_shape, weight, bias, eps })?[0])
}

/// Normalizes groups of channels.
pub(super) fn group(
    b: &Lower,
    input: Var,
    num_groups: i64,
    [weight, bias]: [Option<Var>; 2],
    eps: f64,
) -> Lowered<Var> {
    group_norm(b, &Group { input, num_groups, weight, bias, eps })
}

/// Normalizes each channel of each image by itself.
pub(super) fn instance(
    b: &Lower,
    input: Var,
    [weight, bias]: [Option<Var>; 2],
    eps: f64,
) -> Lowered<Var> {
    let (running_mean, running_var, use_input_stats, momentum) = (None, None, true, 0.0);
    instance_norm(
        b,
        Instance { input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps },
    )
}

/// Normalizes channels by a mean and variance that are known.
pub(super) fn batch(
    b: &Lower,
    input: Var,
    [weight, bias]: [Option<Var>; 2],
    [mean, variance]: [Var; 2],
    eps: f64,
) -> Lowered<Var> {
    let (running_mean, running_var) = (Some(mean), Some(variance));
    let (training, momentum) = (None, 0.0);
    let a = Batch { input, weight, bias, running_mean, running_var, training, momentum, eps };
    Ok(batch_norm(b, &a)?[0])
}

/// The result, the mean and the inverse deviation.
fn layer_norm(b: &Lower, a: &Layer) -> Lowered<[Var; 3]> {
    let x = a.input;
    let k = a.normalized_shape.len() as i64;
    if b.opset() >= 17 {
        let scale = a.weight.map_or_else(|| ones(b, x, &a.normalized_shape), Ok)?;
        let call = b.layer_normalization(x, scale).b(a.bias).axis(-k).epsilon(a.eps);
        return call.roles(["layer_norm", "mean", "inverse_deviation"]).outputs();
    }
    let rank = rank(b, x)? as i64;
    let axes: Vec<i64> = (rank - k..rank).collect();
    let (y, mean, inverse) = normalized(b, x, &axes, a.eps)?;
    Ok([affine(b, y, a.weight, a.bias, Ok)?, mean, inverse])
}

fn group_norm(b: &Lower, a: &Group) -> Lowered<Var> {
    let x = a.input;
    let channels = a.weight.or(a.bias).and_then(|v| known_size(b, v, 0));
    let channels = channels.or_else(|| known_size(b, x, 1));
    let spatial = rank(b, x)? > 2;
    if b.opset() >= 21 || (spatial && channels == Some(a.num_groups)) {
        let scale = a.weight.map_or_else(|| filled(b, x, channels, 1.0), Ok)?;
        let bias = a.bias.map_or_else(|| filled(b, x, channels, 0.0), Ok)?;
        if spatial && channels == Some(a.num_groups) {
            return b.instance_normalization(x, scale, bias).epsilon(a.eps).one();
        }
        let call = b.group_normalization(x, scale, bias);
        return call.num_groups(a.num_groups).epsilon(a.eps).one();
    }
    let groups = Some(a.num_groups);
    let (one, zero) = (filled(b, x, groups, 1.0)?, filled(b, x, groups, 0.0)?);
    let grouped = b.reshape(x, [0, a.num_groups, -1]).one()?;
    let y = b.instance_normalization(grouped, one, zero).epsilon(a.eps).one()?;
    let y = b.reshape(y, vector(b, &sizes(b, x)?)?).one()?;
    affine(b, y, a.weight, a.bias, |v| by_channel(b, v, x))
}

fn native_group_norm(b: &Lower, a: NativeGroup) -> Lowered<[Var; 3]> {
    let NativeGroup { input, weight, bias, group: num_groups, eps, .. } = a;
    let y = group_norm(b, &Group { input, num_groups, weight, bias, eps })?;
    let grouped = b.reshape(input, [0, num_groups, -1]).one()?;
    let (_, mean, inverse) = normalized(b, grouped, &[2], eps)?;
    let matrix = |v| b.squeeze(v).axes([2]).one();
    Ok([y, matrix(mean)?, matrix(inverse)?])
}

/// Half precision is normalized in float32.
fn computed_in(dtype: DataType) -> DataType {
    if matches!(dtype, Float16 | Bfloat16) { Float } else { dtype }
}

/// Where no epsilon is given, it is that of the type.
fn epsilon(dtype: DataType, given: Option<f64>) -> f64 {
    given.unwrap_or(match dtype {
        Double => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    })
}

/// The result, and the input in the type in which it is normalized.
fn rms_norm(b: &Lower, a: &Rms) -> Lowered<(Var, Var)> {
    let dtype = dtype_of(b, a.input)?;
    let wide = computed_in(dtype);
    let eps = epsilon(wide, a.eps);
    let k = a.normalized_shape.len() as i64;
    if b.opset() >= 23 {
        let scale = a.weight.map_or_else(|| ones(b, a.input, &a.normalized_shape), Ok)?;
        let y = b.rms_normalization(a.input, scale).axis(-k).epsilon(eps).one()?;
        return Ok((y, a.input));
    }
    let x = b.cast(a.input, wide)?;
    let axes: Vec<i64> = (-k..0).collect();
    let mean = b.reduce_mean(b.mul(x, x)?).axes(from_start(b, x, axes)?).one()?;
    let y = b.div(x, b.sqrt(b.add(mean, eps)?)?)?;
    let y = match a.weight {
        Some(weight) => b.mul(y, b.cast(weight, wide)?)?,
        None => y,
    };
    Ok((b.cast(y, dtype)?, x))
}

/// Axes before opset 11 are counted from the start.
fn from_start(b: &Lower, x: Var, axes: Vec<i64>) -> Lowered<Vec<i64>> {
    if b.opset() >= 11 {
        return Ok(axes);
    }
    axes.into_iter().map(|dim| Ok(axis(b, x, dim)? as i64)).collect()
}

fn inverse_rms(b: &Lower, x: Var, a: &Rms) -> Lowered<Var> {
    let wide = computed_in(dtype_of(b, x)?);
    let x = b.cast(x, wide)?;
    let axes: Vec<i64> = (-(a.normalized_shape.len() as i64)..0).collect();
    let mean = b.reduce_mean(b.mul(x, x)?).axes(axes).one()?;
    b.reciprocal(b.sqrt(b.add(mean, epsilon(wide, a.eps))?)?)
}

/// The norm over all axes but `dim`; over all of them if it is -1.
fn norm_except(b: &Lower, v: Var, dim: i64, pow: i64) -> Lowered<Var> {
    let rank = rank(b, v)? as i64;
    let axes: Vec<i64> = (0..rank).filter(|axis| *axis != dim).collect();
    let keepdims = dim != -1;
    match pow {
        _ if axes.is_empty() => b.abs(v),
        1 => b.reduce_l1(v).axes(axes).keepdims(keepdims).one(),
        2 => b.reduce_l2(v).axes(axes).keepdims(keepdims).one(),
        _ => {
            let sums = b.reduce_sum(b.pow(b.abs(v)?, pow as f64)?).axes(axes).keepdims(keepdims);
            b.pow(sums.one()?, 1.0 / pow as f64)
        }
    }
}

fn weight_norm(b: &Lower, a: &Weight) -> Lowered<[Var; 2]> {
    let norm = norm_except(b, a.v, a.dim, 2)?;
    Ok([b.mul(a.v, b.div(a.g, norm)?)?, norm])
}

/// Slices along `dim` whose norm is too large are scaled down to `maxnorm`.
fn renorm(b: &Lower, input: Var, p: f64, dim: i64, maxnorm: f64) -> Lowered<Var> {
    let dim = axis(b, input, dim)? as i64;
    let axes: Vec<i64> = (0..rank(b, input)? as i64).filter(|axis| *axis != dim).collect();
    let norm = norm_over(b, input, p, Some(axes), true)?;
    let factor = b.div(maxnorm, b.add(norm, 1e-7)?)?;
    let one = super::dtype::operand(b, &Value::Float(1.0), dtype_of(b, input)?)?;
    b.mul(input, b.where_(b.greater(norm, maxnorm)?, factor, one)?)
}
