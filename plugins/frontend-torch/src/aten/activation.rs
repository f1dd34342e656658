//! Activation functions, softmax and dropout.

use super::compare::{clamp, select};
use super::dtype::{is_known, named, of, operand, to_float};
use super::{Lower, Source, Unary, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::formulas::activation::{
    glu, hard_sigmoid, hard_swish, log_sigmoid, mish, silu,
};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::{FRAC_2_PI, SQRT_2};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "aten::relu" => |b, a: Unary| relu(b, a.input);
        "aten::relu6" => |b, a: Unary| between(b, a.input, &Value::Int(0), &Value::Int(6));
        "aten::hardtanh" => |b, a: Hardtanh| between(b, a.input, &a.min_val, &a.max_val);
        "aten::elu" => elu;
        "aten::selu" => |b, a: Unary| b.selu(a.input).one();
        "aten::celu" => celu;
        "aten::leaky_relu" => |b, a: LeakyRelu| b.leaky_relu(a.input).alpha(a.negative_slope).one();
        "aten::prelu" => prelu;
        "aten::_prelu_kernel" => |b, a: Prelu| b.p_relu(a.input, a.weight);
        "aten::rrelu" => rrelu;
        "aten::hardsigmoid" => |b, a: Unary| hard_sigmoid(b, a.input);
        "aten::hardswish" => |b, a: Unary| hard_swish(b, a.input);
        "aten::hardshrink" => |b, a: Shrink| b.shrink(a.input).lambd(a.lambd).one();
        "aten::softshrink" => |b, a: Shrink| b.shrink(a.input).lambd(a.lambd).bias(a.lambd).one();
        "aten::threshold" => threshold;
        "aten::softplus" => softplus;
        "aten::silu" => |b, a: Unary| silu(b, a.input);
        "aten::mish" => |b, a: Unary| mish(b, a.input);
        "aten::gelu" => gelu;
        "aten::sigmoid" | "aten::special_expit" => |b, a: Unary| b.sigmoid(to_float(b, a.input)?);
        "aten::log_sigmoid" => |b, a: Unary| log_sigmoid(b, a.input);
        "aten::log_sigmoid_forward" => |b, a: Unary| Ok([log_sigmoid(b, a.input)?, a.input]);
        "aten::glu" => |b, a: Glu| glu(b, a.input, sizes::axis_if_known(b, a.input, a.dim)?);
    };
    super::rows! { table;
        "aten::softmax" | "aten::special_softmax" => |b, a: Softmax| {
            softmax(b, cast(b, a.input, a.dtype)?, a.dim, false)
        };
        "aten::log_softmax" | "aten::special_log_softmax" => |b, a: Softmax| {
            softmax(b, cast(b, a.input, a.dtype)?, a.dim, true)
        };
        "aten::_softmax" => |b, a: RawSoftmax| softmax(b, widened(b, &a)?, a.dim, false);
        "aten::_log_softmax" => |b, a: RawSoftmax| softmax(b, widened(b, &a)?, a.dim, true);
        "aten::_safe_softmax" => safe_softmax;
        "aten::dropout" => |b: &Lower, a: Dropout| match a.train && a.p > 0.0 && b.source.training {
            true => b.dropout(a.input).ratio(a.p).training_mode(true).one(),
            false => without_dropout(b, a),
        };
        "aten::feature_dropout" | "aten::alpha_dropout" | "aten::feature_alpha_dropout" => without_dropout;
        "aten::native_dropout" => |b, a: NativeDropout| {
            note_training(b, a.train.unwrap_or(true) && a.p > 0.0);
            let ones = super::cast::filled(b, a.input, &Value::Int(1))?;
            Ok([a.input, b.cast(ones, DataType::Bool)?])
        };
    }
}

arguments! {
    /// `hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1)`
    struct Hardtanh { input: Var, min_val: Value, max_val: Value }
    /// `elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)`
    struct Elu { input: Var, alpha: f64, scale: f64, input_scale: f64 }
    /// `celu(Tensor self, Scalar alpha=1.0)`
    struct Celu { input: Var, alpha: f64 }
    /// `leaky_relu(Tensor self, Scalar negative_slope=0.01)`
    struct LeakyRelu { input: Var, negative_slope: f64 }
    /// `prelu(Tensor self, Tensor weight)`
    struct Prelu { input: Var, weight: Var }
    /// `rrelu(Tensor self, Scalar lower=1/8, Scalar upper=1/3, bool training=False)`
    struct Rrelu { input: Var, lower: f64, upper: f64, training: bool }
    /// `hardshrink(Tensor self, Scalar lambd=0.5)`
    struct Shrink { input: Var, lambd: f64 }
    /// `threshold(Tensor self, Scalar threshold, Scalar value)`
    struct Threshold { input: Var, threshold: Value, value: Value }
    /// `softplus(Tensor self, Scalar beta=1, Scalar threshold=20)`
    struct Softplus { input: Var, beta: f64, threshold: f64 }
    /// `gelu(Tensor self, *, str approximate='none')`
    struct Gelu { input: Var, approximate: Option<String> }
    /// `glu(Tensor self, int dim=-1)`
    struct Glu { input: Var, dim: i64 }
    /// `softmax.int(Tensor self, int dim, ScalarType? dtype=None)`
    struct Softmax { input: Var, dim: i64, dtype: Option<i64> }
    /// `_softmax(Tensor self, int dim, bool half_to_float)`
    struct RawSoftmax { input: Var, dim: i64, half_to_float: bool }
    /// `dropout(Tensor input, float p, bool train)`
    struct Dropout { input: Var, p: f64, train: bool }
    /// `native_dropout(Tensor input, float p, bool? train)`
    struct NativeDropout { input: Var, p: f64, train: Option<bool> }
}

pub(crate) fn relu(b: &Lower, x: Var) -> Lowered<Var> {
    match of(b, x)?.is_float() {
        true => b.relu(x),
        false => between(b, x, &Value::Int(0), &Value::None),
    }
}

/// `x` between bounds of its own type.
fn between(b: &Lower, x: Var, min: &Value, max: &Value) -> Lowered<Var> {
    let dtype = of(b, x)?;
    let bound = |v: &Value| match v {
        Value::None => Ok(Value::None),
        v => operand(b, v, dtype).map(Value::Var),
    };
    clamp(b, &Value::Var(x), &bound(min)?, &bound(max)?)
}

fn elu(b: &Lower, a: Elu) -> Lowered<Var> {
    let x = a.input;
    if a.input_scale == 1.0 {
        let y = b.elu(x).alpha(a.alpha).one()?;
        return if a.scale == 1.0 { Ok(y) } else { b.mul(y, a.scale) };
    }
    let grown = b.sub(b.exp(b.mul(x, a.input_scale)?)?, 1i64)?;
    let negative = b.mul(grown, a.alpha * a.scale)?;
    b.where_(b.greater(x, 0i64)?, b.mul(x, a.scale)?, negative)
}

fn celu(b: &Lower, a: Celu) -> Lowered<Var> {
    match of(b, a.input)? {
        _ if a.alpha == 1.0 => b.elu(a.input).one(),
        DataType::Float if b.opset() >= 12 => b.celu(a.input).alpha(a.alpha).one(),
        _ => b.mul(b.elu(b.div(a.input, a.alpha)?).one()?, a.alpha),
    }
}

/// The slopes belong to the second axis.
fn prelu(b: &Lower, a: Prelu) -> Lowered<Var> {
    let rank = sizes::rank(b, a.input)?;
    let slopes = match (rank, b.dims_of(a.weight).as_deref()) {
        (0, Some([])) => a.weight,
        (0, _) => b.reshape(a.weight, Vec::<i64>::new()).one()?,
        (1 | 2, _) | (_, Some([1] | [])) => a.weight,
        _ => b.unsqueeze(a.weight, (1..rank as i64 - 1).collect::<Vec<_>>())?,
    };
    b.p_relu(a.input, slopes)
}

fn rrelu(b: &Lower, a: Rrelu) -> Lowered<Var> {
    note_training(b, a.training);
    b.leaky_relu(a.input).alpha(f64::midpoint(a.lower, a.upper)).one()
}

fn threshold(b: &Lower, a: Threshold) -> Lowered<Var> {
    let dtype = of(b, a.input)?;
    if dtype.is_float() && b.opset() >= 10 && is_known(&a.value, 0.0) {
        match a.threshold {
            Value::Int(t) => return b.thresholded_relu(a.input).alpha(t as f64).one(),
            Value::Float(t) => return b.thresholded_relu(a.input).alpha(t).one(),
            _ => {}
        }
    }
    let limit = operand(b, &a.threshold, dtype)?;
    select(b, b.greater(a.input, limit)?, a.input, operand(b, &a.value, dtype)?)
}

fn softplus(b: &Lower, a: Softplus) -> Lowered<Var> {
    let x = a.input;
    let scaled = if a.beta == 1.0 { x } else { b.mul(x, a.beta)? };
    let mut y = b.softplus(scaled)?;
    if a.beta != 1.0 {
        y = b.div(y, a.beta)?;
    }
    // From 20 on both are the same number.
    match a.threshold >= 20.0 {
        true => Ok(y),
        false => b.where_(b.greater(scaled, a.threshold)?, x, y),
    }
}

fn gelu(b: &Lower, a: Gelu) -> Lowered<Var> {
    let x = a.input;
    let approximate = a.approximate.unwrap_or_else(|| "none".into());
    if !matches!(approximate.as_str(), "none" | "tanh") {
        let message = format!("There is no approximation `{}` of gelu.", shown(&approximate));
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    if b.opset() >= 20 {
        return b.gelu(x).approximate(approximate).one();
    }
    if approximate == "none" {
        let share = b.add(b.erf(b.div(x, SQRT_2)?)?, 1i64)?;
        return b.mul(b.mul(x, share)?, 0.5);
    }
    // (1 + tanh(z)) / 2 is sigmoid(2 z), where z = sqrt(2 / pi) (x + 0.044715 x^3).
    let scale = 2.0 * FRAC_2_PI.sqrt();
    let angle = b.mul(b.add(b.mul(b.mul(x, x)?, 0.044_715 * scale)?, scale)?, x)?;
    b.mul(x, b.sigmoid(angle)?)
}

fn cast(b: &Lower, x: Var, dtype: Option<i64>) -> Lowered<Var> {
    match dtype {
        Some(number) => b.cast(x, named(b, number)?),
        None => to_float(b, x),
    }
}

fn widened(b: &Lower, a: &RawSoftmax) -> Lowered<Var> {
    if a.half_to_float { b.cast(a.input, DataType::Float) } else { Ok(a.input) }
}

/// Softmax or its logarithm along one axis. Old versions take the last axes together.
pub(crate) fn softmax(b: &Lower, x: Var, dim: i64, log: bool) -> Lowered<Var> {
    let along = |x: Var, axis: i64| match log {
        true => b.log_softmax(x).axis(axis).one(),
        false => b.softmax(x).axis(axis).one(),
    };
    if b.rank_of(x).is_none() && b.opset() >= 13 {
        return along(x, dim);
    }
    let rank = sizes::rank(b, x)?;
    let axis = sizes::wrapped(b, dim, rank)?;
    if rank == 0 {
        return b.reshape(along(b.reshape(x, [1]).one()?, 0)?, Vec::<i64>::new()).one();
    }
    if b.opset() >= 13 || axis + 1 == rank {
        return along(x, if b.opset() >= 13 && dim < 0 { dim } else { axis as i64 });
    }
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(axis, rank - 1);
    let turned = b.transpose(x).perm(order.clone()).one()?;
    b.transpose(along(turned, rank as i64 - 1)?).perm(order).one()
}

/// Softmax, but zeros where all is minus infinity.
fn safe_softmax(b: &Lower, a: Softmax) -> Lowered<Var> {
    let x = cast(b, a.input, a.dtype)?;
    let axis = sizes::axis_if_known(b, x, a.dim)?;
    let greatest = b.reduce_max(x).axes([axis]).one()?;
    let none = b.equal(greatest, f64::NEG_INFINITY)?;
    b.where_(none, 0.0, softmax(b, x, a.dim, false)?)
}

/// What dropout gives in evaluation.
fn without_dropout(b: &Lower, a: Dropout) -> Lowered<Var> {
    note_training(b, a.train && a.p > 0.0);
    Ok(a.input)
}

/// Says that an operator draws at random in the source.
fn note_training(b: &Lower, training: bool) {
    if training {
        let message = "It is in training mode, and converted as in evaluation mode.";
        b.note(b.diagnostic(Code::LayerParameterIgnored, message));
    }
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{assert_near, floats, ints, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;
    use std::f32::consts::LN_2;

    fn unary(op: &str, x: Tensor) -> Tensor {
        run(op, [("input", x.into())])
    }

    #[test]
    fn activations_give_torchs_numbers() {
        let x = || floats([-2.0, -0.5, 0.0, 3.0]);
        assert_near(&unary("aten::silu", x()), &floats([-0.238_406, -0.188_770, 0.0, 2.857_722]));
        assert_near(&unary("aten::hardswish", x()), &floats([-0.333_333, -0.208_333, 0.0, 3.0]));
        assert_near(
            &unary("aten::log_sigmoid", x()),
            &floats([-2.126_928, -0.974_077, -LN_2, -0.048_587]),
        );
        let gelu = |approximate: &str, opset| {
            let arguments = [("input", x().into()), ("approximate", approximate.into())];
            run_at(opset, "aten::gelu", arguments).unwrap().remove(0)
        };
        let (exact, near) =
            ([-0.045_500, -0.154_269, 0.0, 2.995_95], [-0.045_402, -0.154_286, 0.0, 2.996_363]);
        for opset in [18, 20] {
            assert_near(&gelu("none", opset), &floats(exact));
            assert_near(&gelu("tanh", opset), &floats(near));
        }
        let softplus = |beta: f64, threshold: f64| {
            let arguments =
                [("input", x().into()), ("beta", beta.into()), ("threshold", threshold.into())];
            run("aten::softplus", arguments)
        };
        assert_near(&softplus(2.0, 1.0), &floats([0.009_075, 0.156_631, 0.346_574, 3.0]));
    }

    #[test]
    fn integers_are_bounded_too() {
        assert_eq!(unary("aten::relu6", ints([-1, 4, 9])), ints([0, 4, 6]));
        let arguments =
            [("input", ints([1, 2, 3]).into()), ("threshold", 1i64.into()), ("value", 7i64.into())];
        assert_eq!(run("aten::threshold", arguments), ints([7, 2, 3]));
    }

    #[test]
    fn softmax_is_of_one_axis_in_all_versions() {
        let x = || Tensor::from_vec([2, 2, 1], vec![1.0f32, 2.0, 3.0, 5.0]);
        for opset in [11, 18] {
            let arguments = [("input", x().into()), ("dim", (-2i64).into())];
            let found = run_at(opset, "aten::softmax", arguments).unwrap().remove(0);
            let expected = vec![0.268_941f32, 0.731_059, 0.119_203, 0.880_797];
            assert_near(&found, &Tensor::from_vec([2, 2, 1], expected));
        }
        let scalar = [("input", Tensor::scalar(3.0f32).into()), ("dim", 0i64.into())];
        assert_eq!(run("aten::softmax", scalar), Tensor::scalar(1.0f32));
    }
}
