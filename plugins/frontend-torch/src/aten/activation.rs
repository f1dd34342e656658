//! Activation functions, softmax and dropout.

use super::compare::{clamp, select};
use super::dtype::{dtype_of, is_known, named, operand, to_float};
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::formulas::activation::{
    glu, hard_sigmoid, hard_swish, log_sigmoid, mish, silu,
};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::{FRAC_2_PI, SQRT_2};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::relu" => |b, input: Var| relu(b, input);
        "aten::relu6" => |b, input: Var| between(b, input, &Value::Int(0), &Value::Int(6));
        "aten::hardtanh" => |b, input: Var, min_val: Value, max_val: Value| between(b, input, &min_val, &max_val);
        "aten::elu" => elu(input, alpha, scale, input_scale);
        "aten::selu" => |b, input: Var| b.selu(input).one();
        "aten::celu" => celu(input, alpha);
        "aten::leaky_relu" => |b, input: Var, negative_slope: f64| b.leaky_relu(input).alpha(negative_slope).one();
        "aten::prelu" => prelu(input, weight);
        "aten::_prelu_kernel" => |b, input: Var, weight: Var| b.p_relu(input, weight);
        "aten::rrelu" => rrelu(input, lower, upper, training);
        "aten::hardsigmoid" => |b, input: Var| hard_sigmoid(b, input);
        "aten::hardswish" => |b, input: Var| hard_swish(b, input);
        "aten::hardshrink" => |b, input: Var, lambd: f64| b.shrink(input).lambd(lambd).one();
        "aten::softshrink" => |b, input: Var, lambd: f64| b.shrink(input).lambd(lambd).bias(lambd).one();
        "aten::threshold" => threshold;
        "aten::softplus" => softplus;
        "aten::silu" => |b, input: Var| silu(b, input);
        "aten::mish" => |b, input: Var| mish(b, input);
        "aten::gelu" => gelu;
        "aten::sigmoid" | "aten::special_expit" => |b, input: Var| b.sigmoid(to_float(b, input)?);
        "aten::log_sigmoid" => |b, input: Var| log_sigmoid(b, input);
        "aten::log_sigmoid_forward" => |b, input: Var| Ok([log_sigmoid(b, input)?, input]);
        "aten::glu" => |b, input: Var, dim: i64| glu(b, input, sizes::axis_if_known(b, input, dim)?);
    };
    super::rows! { table;
        "aten::softmax" | "aten::special_softmax" => |b, input: Var, dim: i64, dtype: Option<i64>| {
            softmax(b, cast(b, input, dtype)?, dim, false)
        };
        "aten::log_softmax" | "aten::special_log_softmax" => |b, input: Var, dim: i64, dtype: Option<i64>| {
            softmax(b, cast(b, input, dtype)?, dim, true)
        };
        "aten::_softmax" => |b, a: RawSoftmax| softmax(b, widened(b, &a)?, a.dim, false);
        "aten::_log_softmax" => |b, a: RawSoftmax| softmax(b, widened(b, &a)?, a.dim, true);
        "aten::_safe_softmax" => safe_softmax(input, dim, dtype);
        "aten::dropout" => |b: &Lower, a: Dropout| match a.train && a.p > 0.0 && b.source.training {
            true => b.dropout(a.input).ratio(a.p).training_mode(true).one(),
            false => without_dropout(b, a),
        };
        "aten::feature_dropout" | "aten::alpha_dropout" | "aten::feature_alpha_dropout" => without_dropout;
        "aten::native_dropout" => |b, input: Var, p: f64, train: Option<bool>| {
            note_training(b, train.unwrap_or(true) && p > 0.0);
            let ones = super::cast::filled(b, input, &Value::Int(1))?;
            Ok([input, b.cast(ones, DataType::Bool)?])
        };
    }
}

arguments! {
    /// `threshold`
    struct Threshold { input: Var, threshold: Value, value: Value }
    /// `softplus`
    struct Softplus { input: Var, beta: f64, threshold: f64 }
    /// `gelu`
    struct Gelu { input: Var, approximate: Option<String> }
    /// `_softmax`
    struct RawSoftmax { input: Var, dim: i64, half_to_float: bool }
    /// `dropout`
    struct Dropout { input: Var, p: f64, train: bool }
}

pub(crate) fn relu(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)?.is_float() {
        true => b.relu(x),
        false => between(b, x, &Value::Int(0), &Value::None),
    }
}

/// `x` between bounds of its own type.
fn between(b: &Lower, x: Var, min: &Value, max: &Value) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let bound = |v: &Value| match v {
        Value::None => Ok(Value::None),
        v => operand(b, v, dtype).map(Value::Var),
    };
    clamp(b, &Value::Var(x), &bound(min)?, &bound(max)?)
}

fn elu(b: &Lower, input: Var, alpha: f64, scale: f64, input_scale: f64) -> Lowered<Var> {
    let x = input;
    if input_scale == 1.0 {
        let y = b.elu(x).alpha(alpha).one()?;
        return if scale == 1.0 { Ok(y) } else { b.mul(y, scale) };
    }
    let grown = b.sub(b.exp(b.mul(x, input_scale)?)?, 1i64)?;
    let negative = b.mul(grown, alpha * scale)?;
    b.where_(b.greater(x, 0i64)?, b.mul(x, scale)?, negative)
}

fn celu(b: &Lower, input: Var, alpha: f64) -> Lowered<Var> {
    match dtype_of(b, input)? {
        _ if alpha == 1.0 => b.elu(input).one(),
        DataType::Float if b.opset() >= 12 => b.celu(input).alpha(alpha).one(),
        _ => b.mul(b.elu(b.div(input, alpha)?).one()?, alpha),
    }
}

/// The slopes belong to the second axis.
fn prelu(b: &Lower, input: Var, weight: Var) -> Lowered<Var> {
    let rank = sizes::rank(b, input)?;
    let slopes = match (rank, b.dims_of(weight).as_deref()) {
        (0, Some([])) => weight,
        (0, _) => b.reshape(weight, Vec::<i64>::new()).one()?,
        (1 | 2, _) | (_, Some([1] | [])) => weight,
        _ => b.unsqueeze(weight, (1..rank as i64 - 1).collect::<Vec<_>>())?,
    };
    b.p_relu(input, slopes)
}

fn rrelu(b: &Lower, input: Var, lower: f64, upper: f64, training: bool) -> Lowered<Var> {
    note_training(b, training);
    b.leaky_relu(input).alpha(f64::midpoint(lower, upper)).one()
}

fn threshold(b: &Lower, a: Threshold) -> Lowered<Var> {
    let dtype = dtype_of(b, a.input)?;
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
fn safe_softmax(b: &Lower, input: Var, dim: i64, dtype: Option<i64>) -> Lowered<Var> {
    let x = cast(b, input, dtype)?;
    let axis = sizes::axis_if_known(b, x, dim)?;
    let greatest = b.reduce_max(x).axes([axis]).one()?;
    let none = b.equal(greatest, f64::NEG_INFINITY)?;
    b.where_(none, 0.0, softmax(b, x, dim, false)?)
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
