//! Operators on quantized tensors: those of floats, and what they give is quantized.

use super::conv::{Convolution, convolution};
use super::dtype::{dtype_of, operand};
use super::linear::{linear, matmul, number};
use super::norm;
use super::quantizer::{dynamic, quantized, quantized_by, quantized_like, quantizer_of};
use super::{Lower, RowContext, Several};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Float, Float16, Uint8};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = weights(table);
    let table = super::rows! { table;
        "quantized::add" => |b, a: Two| two(b, &a, |b, x, y| b.add(x, y), false);
        "quantized::add_relu" => |b, a: Two| two(b, &a, |b, x, y| b.add(x, y), true);
        "quantized::mul" => |b, a: Two| two(b, &a, |b, x, y| b.mul(x, y), false);
        "quantized::mul_relu" => |b, a: Two| two(b, &a, |b, x, y| b.mul(x, y), true);
        "quantized::matmul" => |b, a: Two| two(b, &a, matmul, false);
        "quantized::add.Scalar" | "quantized::add.Scalar2" | "quantized::add_scalar" => |b, a: Scalar| shifted(b, &a);
        "quantized::add_relu.Scalar" | "quantized::add_relu.Scalar2" | "quantized::add_scalar_relu" =>
            |b, a: Scalar| b.relu(shifted(b, &a)?);
        "quantized::mul.Scalar" | "quantized::mul.Scalar2" | "quantized::mul_scalar" => |b, a: Scalar| scaled(b, &a);
        "quantized::mul_relu.Scalar" | "quantized::mul_relu.Scalar2" | "quantized::mul_scalar_relu" =>
            |b, a: Scalar| b.relu(scaled(b, &a)?);
        "quantized::cat" => |b, a: Cat| cat(b, &a, false);
        "quantized::cat_relu" => |b, a: Cat| cat(b, &a, true);
        "quantized::relu6" => |b, qx: Var, inplace: bool| {
            b.clip(qx).min(0.0).max(6.0).one().and_then(|y| quantized_like(b, y, qx))
        };
        "quantized::clamp" => clamp(qx, min, max);
        "quantized::threshold" => |b, qx: Var, threshold: f64, value: f64| {
            let fill = operand(b, &Value::Float(value), dtype_of(b, qx)?)?;
            quantized_like(b, b.where_(b.greater(qx, threshold)?, qx, fill)?, qx)
        };
    };
    super::rows! { table;
        "quantized::sigmoid" => |b, a: One| a.settled(b, b.sigmoid(a.input(b)?)?);
        "quantized::hardswish" => |b, a: One| a.settled(b, b.hard_swish(a.input(b)?)?);
        "quantized::softmax" => |b, a: One| a.settled(b, b.softmax(a.input(b)?).axis(a.dim.unwrap_or(-1)).one()?);
        "quantized::leaky_relu" => |b, a: One| {
            let slope = a.negative_slope.unwrap_or(0.01);
            a.settled(b, b.leaky_relu(a.input(b)?).alpha(slope).one()?)
        };
        "quantized::elu" => elu;
        "quantized::celu" => |b, a: One| {
            a.settled(b, b.celu(a.input(b)?).alpha(a.alpha.unwrap_or(1.0)).one()?)
        };
        "quantized::prelu" => prelu;
        "quantized::dropout" => |b, a: One| a.settled(b, a.input(b)?);
        "quantized::batch_norm" | "quantized::batch_norm1d" | "quantized::batch_norm2d" | "quantized::batch_norm3d"
            | "aten::quantized_batch_norm" => |b, a: BatchNorm| batch_norm(b, a, false);
        "quantized::batch_norm_relu" | "quantized::batch_norm1d_relu" | "quantized::batch_norm2d_relu"
            | "quantized::batch_norm3d_relu" => |b, a: BatchNorm| batch_norm(b, a, true);
        "quantized::layer_norm" => |b, a: One| {
            a.settled(b, norm::layer(b, a.input(b)?, a.shape(), [a.weight, a.bias], a.epsilon())?)
        };
        "quantized::group_norm" => |b, a: One| {
            a.settled(b, norm::group(b, a.input(b)?, a.num_groups.unwrap_or(1), [a.weight, a.bias], a.epsilon())?)
        };
        "quantized::instance_norm" => |b, a: One| {
            a.settled(b, norm::instance(b, a.input(b)?, [a.weight, a.bias], a.epsilon())?)
        };
    }
}

/// Operators with packed weights. Those are a list of what they were made of.
fn weights(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "quantized::conv1d_prepack" | "quantized::conv2d_prepack" | "quantized::conv3d_prepack"
            | "quantized::conv_prepack" | "_quantized::conv2d_prepack" | "_quantized::conv3d_prepack" =>
            |_, a: Prepack| Ok(a.packed(false));
        "quantized::conv_transpose1d_prepack" | "quantized::conv_transpose2d_prepack"
            | "quantized::conv_transpose3d_prepack" | "_quantized::conv_transpose1d_prepack"
            | "_quantized::conv_transpose2d_prepack" | "_quantized::conv_transpose3d_prepack" =>
            |_, a: Prepack| Ok(a.packed(true));
        "quantized::conv1d" | "quantized::conv2d" | "quantized::conv3d" | "quantized::conv_transpose1d"
            | "quantized::conv_transpose2d" | "quantized::conv_transpose3d" | "_quantized::conv2d"
            | "_quantized::conv3d" | "_quantized::conv_transpose1d" | "_quantized::conv_transpose2d" =>
            |b, a: Conv| conv(b, &a, false);
        "quantized::conv1d_relu" | "quantized::conv2d_relu" | "quantized::conv3d_relu" | "_quantized::conv2d_relu"
            | "_quantized::conv3d_relu" => |b, a: Conv| conv(b, &a, true);
        "quantized::conv2d_add" => |b, a: Conv| conv(b, &a, false);
        "quantized::conv2d_add_relu" => |b, a: Conv| conv(b, &a, true);
        "quantized::conv1d_dynamic" | "quantized::conv2d_dynamic" | "quantized::conv3d_dynamic"
            | "quantized::conv_transpose1d_dynamic" | "quantized::conv_transpose2d_dynamic"
            | "quantized::conv_transpose3d_dynamic" => |b, qx: Var, packed_weight: Value, reduce_range: bool| {
                let x = dynamic(b, qx, reduce_range)?;
                convolved(b, x, &packed_weight)
            };
        "quantized::conv1d_unpack" | "quantized::conv2d_unpack" | "quantized::conv3d_unpack" | "quantized::conv_unpack"
            | "quantized::conv_transpose1d_unpack" | "quantized::conv_transpose2d_unpack"
            | "quantized::conv_transpose3d_unpack" => |b, packed_weights: Value| {
                let conv = PackedConv::unpack(b, &packed_weights)?;
                Ok(Several(vec![conv.weight.into(), conv.bias.into()]))
            };
    };
    super::rows! { table;
        "quantized::linear_prepack" | "quantized::linear_prepack_legacy" | "_quantized::linear_prepack" =>
            |_, a: LinearPrepack| Ok(Value::List(vec![a.W.into(), a.B.into()]));
        "quantized::linear_prepack_fp16" | "quantized::linear_prepack_fp16_legacy" => |b, a: LinearPrepack| {
            Ok(Value::List(vec![b.cast(b.cast(a.W, Float16)?, Float)?.into(), a.B.into()]))
        };
        "quantized::linear" | "_quantized::linear" => |b, a: Linear| projected(b, &a, |_, y| Ok(y));
        "quantized::linear_relu" => |b, a: Linear| projected(b, &a, |b, y| b.relu(y));
        "quantized::linear_tanh" => |b, a: Linear| projected(b, &a, |b, y| b.tanh(y));
        "quantized::linear_leaky_relu" => |b, a: Linear| {
            let slope = a.negative_slope.unwrap_or(0.01);
            projected(b, &a, |b, y| b.leaky_relu(y).alpha(slope).one())
        };
        "quantized::linear_dynamic" | "_quantized::linear_dynamic" => |b, a: Dynamic| linear_dynamic(b, &a);
        "quantized::linear_relu_dynamic" => |b, a: Dynamic| b.relu(linear_dynamic(b, &a)?);
        "quantized::linear_dynamic_fp16" => |b, a: Fp16| linear_fp16(b, &a);
        "quantized::linear_relu_dynamic_fp16" => |b, a: Fp16| b.relu(linear_fp16(b, &a)?);
        "quantized::linear_unpack" | "quantized::linear_unpack_fp16" => |b, a: LinearUnpack| {
            let (weight, bias) = packed_linear(b, &a.W_prepack)?;
            Ok(Several(vec![weight.into(), bias.into()]))
        };
        "quantized::embedding_bag_prepack" => |_, weight: Var| Ok(Value::List(vec![weight.into()]));
        "quantized::embedding_byte" | "quantized::embedding_4bit"
            => |b, weight: Value, indices: Var, pruned_weights: bool| {
            let weight = tensors(&weight).first().copied();
            let message = "The weights of a quantized embedding are not known.";
            let weight = weight.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))?;
            b.gather(weight, indices).one()
        };
    }
}

arguments! {
    /// `quantized::add`
    struct Two { qa: Var, qb: Var, scale: f64, zero_point: i64 }
    /// `quantized::add.Scalar`
    struct Scalar { qa: Var, b: Value }
    /// `quantized::cat`
    struct Cat { qx: Vec<Var>, dim: i64, scale: Option<f64>, zero_point: Option<i64> }
    /// Operators of one tensor: `quantized::sigmoid`
    struct One {
        qx: Option<Var>, input: Option<Var>, dim: Option<i64>, negative_slope: Option<f64>,
        inplace: Option<bool>, alpha: Option<f64>, scale: Option<f64>, input_scale: Option<f64>,
        num_groups: Option<i64>, normalized_shape: Option<Vec<i64>>, weight: Option<Var>,
        bias: Option<Var>, eps: Option<f64>, p: Option<f64>, training: Option<bool>,
        output_scale: f64, output_zero_point: i64,
    }
    /// `quantized::batch_norm`
    struct BatchNorm {
        qx: Option<Var>, input: Option<Var>, weight: Option<Var>, bias: Option<Var>, mean: Var,
        var: Var, eps: f64, output_scale: f64, output_zero_point: i64,
    }
    /// `quantized::conv_transpose2d_prepack`
    struct Prepack {
        weight: Var, bias: Option<Var>, stride: Vec<i64>, padding: Vec<i64>,
        output_padding: Option<Vec<i64>>, dilation: Vec<i64>, groups: i64,
    }
    /// `quantized::conv2d_add`; an old overload repeats what is packed.
    struct Conv {
        qx: Var, qaccum: Option<Var>, packed_weight: Option<Value>, weight: Option<Value>,
        stride: Option<Vec<i64>>, padding: Option<Vec<i64>>, dilation: Option<Vec<i64>>,
        groups: Option<i64>, output_scale: f64, output_zero_point: i64,
    }
}

#[allow(non_snake_case)]
mod linears {
    use super::{Value, Var, arguments};
    arguments! {
        /// `quantized::linear_prepack(Tensor W, Tensor? B=None)`
        pub(super) struct LinearPrepack { W: Var, B: Option<Var> }
        /// `quantized::linear_unpack(LinearPackedParamsBase W_prepack)`
        pub(super) struct LinearUnpack { W_prepack: Value }
        /// `quantized::linear(Tensor X, LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i)`
        pub(super) struct Linear {
            X: Var, W_prepack: Value, Y_scale_i: f64, Y_zero_point_i: i64, negative_slope: Option<f64>,
        }
        /// `quantized::linear_dynamic(Tensor X, LinearPackedParamsBase W_prepack, bool reduce_range=False)`
        pub(super) struct Dynamic { X: Var, W_prepack: Value, reduce_range: bool }
        /// `quantized::linear_dynamic_fp16(Tensor X, LinearPackedParamsBase W_prepack)`
        pub(super) struct Fp16 { X: Var, W_prepack: Value }
    }
}
use linears::{Dynamic, Fp16, Linear, LinearPrepack, LinearUnpack};

impl One {
    fn input(&self, b: &Lower) -> Lowered<Var> {
        let message = "The operator lacks its tensor.";
        self.qx.or(self.input).ok_or_else(|| b.diagnostic(Code::LayerParameter, message))
    }

    fn settled(&self, b: &Lower, y: Var) -> Lowered<Var> {
        quantized_by(b, y, self.output_scale, self.output_zero_point, Uint8)
    }

    fn shape(&self) -> Vec<i64> {
        self.normalized_shape.clone().unwrap_or_default()
    }

    fn epsilon(&self) -> f64 {
        self.eps.unwrap_or(1e-5)
    }
}

impl Prepack {
    fn packed(self, transposed: bool) -> Value {
        let more = self.output_padding.unwrap_or_else(|| vec![0; self.stride.len()]);
        let lists = [self.stride, self.padding, self.dilation, more].map(Value::from);
        let tensors = [self.weight.into(), self.bias.into()];
        let rest = [Value::Int(self.groups), Value::Bool(transposed)];
        Value::List(tensors.into_iter().chain(lists).chain(rest).collect())
    }
}

/// Weights of a convolution, and how it moves.
struct PackedConv {
    weight: Var,
    bias: Option<Var>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    groups: i64,
    transposed: bool,
}

/// All tensors in a value, however deep.
pub(super) fn tensors(value: &Value) -> Vec<Var> {
    match value {
        Value::Var(v) => vec![*v],
        Value::List(items) => items.iter().flat_map(tensors).collect(),
        _ => vec![],
    }
}

fn ints(b: &Lower, value: &Value) -> Option<Vec<i64>> {
    match value {
        Value::Var(v) => b.ints_of(*v),
        Value::List(items) => items
            .iter()
            .map(|item| if let Value::Int(x) = item { Some(*x) } else { None })
            .collect(),
        _ => None,
    }
}

impl PackedConv {
    fn unpack(b: &Lower, value: &Value) -> Lowered<PackedConv> {
        let Value::List(items) = value else { return Err(unknown(b)) };
        let found = match items.as_slice() {
            [
                Value::Var(weight),
                bias,
                stride,
                padding,
                dilation,
                more,
                Value::Int(groups),
                Value::Bool(transposed),
            ] => {
                let list = |value| ints(b, value);
                let lists = (list(stride), list(padding), list(dilation), list(more));
                let (Some(stride), Some(padding), Some(dilation), Some(output_padding)) = lists
                else {
                    return Err(unknown(b));
                };
                let (groups, transposed) = (*groups, *transposed);
                let bias = if let Value::Var(bias) = bias { Some(*bias) } else { None };
                Some(PackedConv {
                    weight: *weight,
                    bias,
                    stride,
                    padding,
                    dilation,
                    output_padding,
                    groups,
                    transposed,
                })
            }
            // As archives store it: the version, then numbers and tensors.
            [Value::Int(_), numbers, stored] => Self::stored(b, numbers, &tensors(stored)),
            [Value::Text(_), Value::List(first), more] => {
                let all: Vec<Var> =
                    first.iter().skip(1).flat_map(tensors).chain(tensors(more)).collect();
                first.first().and_then(|numbers| Self::stored(b, numbers, &all))
            }
            _ => None,
        };
        found.ok_or_else(|| unknown(b))
    }

    /// The number of axes, then lists of that many numbers, the groups, and whether it is transposed.
    fn stored(b: &Lower, numbers: &Value, tensors: &[Var]) -> Option<PackedConv> {
        let numbers = ints(b, numbers)?;
        let n = usize::try_from(*numbers.first()?).ok()?;
        let list = |i: usize| numbers.get(1 + i * n..1 + (i + 1) * n).map(<[i64]>::to_vec);
        Some(PackedConv {
            weight: *tensors.first()?,
            bias: tensors.get(1).copied(),
            stride: list(0)?,
            padding: list(1)?,
            dilation: list(2)?,
            output_padding: list(3)?,
            groups: *numbers.get(1 + 4 * n)?,
            transposed: numbers.get(2 + 4 * n).is_some_and(|flags| flags & 1 == 1),
        })
    }
}

fn unknown(b: &Lower) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    let message = "The packed weights of a quantized operator are not known.";
    b.diagnostic(Code::LayerUnsupported, message)
}

fn packed_linear(b: &Lower, value: &Value) -> Lowered<(Var, Option<Var>)> {
    match tensors(value).as_slice() {
        [weight, rest @ ..] if rest.len() <= 1 => Ok((*weight, rest.first().copied())),
        _ => Err(unknown(b)),
    }
}

fn convolved(b: &Lower, input: Var, packed: &Value) -> Lowered<Var> {
    let PackedConv { weight, bias, stride, padding, dilation, output_padding, groups, transposed } =
        PackedConv::unpack(b, packed)?;
    let mut weight = weight;
    let per_axis = |list: Vec<i64>, n: usize| match list.len() {
        // One spatial axis is packed as two.
        2 if n == 1 => vec![list[1]],
        _ => list,
    };
    let rank = super::sizes::rank(b, weight)?;
    let input_rank = super::sizes::rank(b, input)?;
    let mut n = rank.saturating_sub(2);
    if n == 2 && input_rank == 3 && stride.len() == 2 {
        weight = b.squeeze(weight).axes([2]).one()?;
        n = 1;
    }
    let [stride, padding, dilation, output_padding] =
        [stride, padding, dilation, output_padding].map(|list| per_axis(list, n));
    convolution(
        b,
        Convolution {
            input,
            weight,
            bias,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        },
    )
}

/// The type of the integers of activations: that of the input.
fn activation_type(b: &Lower, x: Var) -> onnxd_plugin_sdk::ir::DataType {
    quantizer_of(b, x).ok().and_then(|q| b.dtype_of(q.zero_point)).unwrap_or(Uint8)
}

fn conv(b: &Lower, a: &Conv, relu: bool) -> Lowered<Var> {
    let packed = a.packed_weight.as_ref().or(a.weight.as_ref()).ok_or_else(|| unknown(b))?;
    let mut y = convolved(b, a.qx, packed)?;
    if let Some(more) = a.qaccum {
        y = b.add(y, more)?;
    }
    let y = if relu { b.relu(y)? } else { y };
    quantized_by(b, y, a.output_scale, a.output_zero_point, activation_type(b, a.qx))
}

fn projected(b: &Lower, a: &Linear, f: impl Fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    let (weight, bias) = packed_linear(b, &a.W_prepack)?;
    let y = f(b, linear(b, a.X, weight, bias)?)?;
    quantized_by(b, y, a.Y_scale_i, a.Y_zero_point_i, activation_type(b, a.X))
}

fn linear_dynamic(b: &Lower, a: &Dynamic) -> Lowered<Var> {
    let (weight, bias) = packed_linear(b, &a.W_prepack)?;
    linear(b, dynamic(b, a.X, a.reduce_range)?, weight, bias)
}

fn linear_fp16(b: &Lower, a: &Fp16) -> Lowered<Var> {
    let (weight, bias) = packed_linear(b, &a.W_prepack)?;
    linear(b, a.X, weight, bias)
}

fn two(
    b: &Lower,
    a: &Two,
    f: impl Fn(&Lower, Var, Var) -> Lowered<Var>,
    relu: bool,
) -> Lowered<Var> {
    let y = f(b, a.qa, a.qb)?;
    let y = if relu { b.relu(y)? } else { y };
    quantized_by(b, y, a.scale, a.zero_point, activation_type(b, a.qa))
}

fn scalar(b: &Lower, value: &Value) -> Lowered<f64> {
    let constant = |v: Var| b.constant_of(v).and_then(|t| t.to_reals()?.values.first().copied());
    let found = number(value).or(if let Value::Var(v) = value { constant(*v) } else { None });
    let message = "A number beside a quantized tensor must be known.";
    found.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))
}

/// A number is added as so many steps: the zero point moves, and the integers stay.
fn shifted(b: &Lower, a: &Scalar) -> Lowered<Var> {
    let q = quantizer_of(b, a.qa)?;
    let scale = scalar(b, &Value::Var(q.scale))?;
    let steps = (scalar(b, &a.b)? / scale).round_ties_even();
    let zero_point = scalar(b, &Value::Var(q.zero_point))? - steps;
    let y = b.add(a.qa, steps * scale)?;
    let dtype = dtype_of(b, q.zero_point)?;
    let fits = if dtype == Uint8 { 0.0..=255.0 } else { -128.0..=127.0 };
    match fits.contains(&zero_point) {
        true => quantized_by(b, y, scale, zero_point as i64, dtype),
        false => Ok(y),
    }
}

/// A factor changes the scale alone; what is negative turns the integers around.
fn scaled(b: &Lower, a: &Scalar) -> Lowered<Var> {
    let q = quantizer_of(b, a.qa)?;
    let (scale, factor) = (scalar(b, &Value::Var(q.scale))?, scalar(b, &a.b)?);
    let y = b.mul(a.qa, factor)?;
    match factor > 0.0 {
        true => {
            let point = scalar(b, &Value::Var(q.zero_point))? as i64;
            quantized_by(b, y, scale * factor, point, dtype_of(b, q.zero_point)?)
        }
        false => Ok(y),
    }
}

fn cat(b: &Lower, a: &Cat, relu: bool) -> Lowered<Var> {
    let message = "There is nothing to join.";
    let first = *a.qx.first().ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let y = b.concat(a.qx.iter().copied()).axis(a.dim).one()?;
    let y = if relu { b.relu(y)? } else { y };
    match (a.scale, a.zero_point) {
        (Some(scale), Some(point)) => quantized_by(b, y, scale, point, activation_type(b, first)),
        _ => quantized(b, y, quantizer_of(b, first)?),
    }
}

fn clamp(b: &Lower, qx: Var, min: Option<f64>, max: Option<f64>) -> Lowered<Var> {
    quantized_like(b, b.clip(qx).min(min).max(max).one()?, qx)
}

/// `scale * (x where it is positive, else alpha * (exp(x * input_scale) - 1))`
fn elu(b: &Lower, a: One) -> Lowered<Var> {
    let x = a.input(b)?;
    let (alpha, scale, inner) =
        (a.alpha.unwrap_or(1.0), a.scale.unwrap_or(1.0), a.input_scale.unwrap_or(1.0));
    let y = match (scale, inner) {
        (1.0, 1.0) => b.elu(x).alpha(alpha).one()?,
        _ => {
            let low = b.mul(b.sub(b.exp(b.mul(x, inner)?)?, 1.0)?, alpha)?;
            b.mul(b.where_(b.greater(x, 0.0)?, x, low)?, scale)?
        }
    };
    a.settled(b, y)
}

fn prelu(b: &Lower, a: One) -> Lowered<Var> {
    let (x, message) = (a.input(b)?, "A slope is needed.");
    let slope = a.weight.ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let behind: Vec<i64> = (1..super::sizes::rank(b, x)? as i64 - 1).collect();
    let slope = if behind.is_empty() { slope } else { b.unsqueeze(slope, behind)? };
    a.settled(b, b.p_relu(x, slope)?)
}

fn batch_norm(b: &Lower, a: BatchNorm, relu: bool) -> Lowered<Var> {
    let message = "The operator lacks its tensor.";
    let x = a.qx.or(a.input).ok_or_else(|| b.diagnostic(Code::LayerParameter, message))?;
    let y = norm::batch(b, x, [a.weight, a.bias], [a.mean, a.var], a.eps)?;
    let y = if relu { b.relu(y)? } else { y };
    quantized_by(b, y, a.output_scale, a.output_zero_point, activation_type(b, x))
}
