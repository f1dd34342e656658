//! Activations.

use super::create::scalar;
use super::{Source, of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Constants of Selu, as the paper has them.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Relu" => |b, a: Features| b.relu(a.features);
        "Relu6" => |b, a: Features| clipped(b, a.features, 0.0, 6.0);
        "Elu" => |b, a: Features| b.elu(a.features).one();
        "Selu" => |b, a: Features| b.selu(a.features).alpha(SELU_ALPHA).gamma(SELU_SCALE).one();
        "LeakyRelu" => |b, a: Leaky| leaky(b, a.features, a.alpha);
        "Softplus" => |b, a: Features| b.softplus(a.features);
        "Softsign" => |b, a: Features| b.softsign(a.features);
        "Softmax" => |b, a: Logits| b.softmax(a.logits).axis(-1).one();
        "onnxd::Gelu" => |b, a: Gelu| gelu(b, a.x, false);
        "LogSoftmax" => |b, a: Logits| b.log_softmax(a.logits).axis(-1).one();
    }
}

arguments! {
    /// `Relu(features; T: type) -> activations`
    struct Features { features: Var }
    /// `LeakyRelu(features; alpha: float = 0.2, T: type = float) -> activations`
    struct Leaky { features: Var, alpha: f64 }
    /// `Softmax(logits; T: type) -> softmax`
    struct Logits { logits: Var }
}

arguments! {
    /// `Gelu(x)`
    struct Gelu { x: Var }
}

/// `x` between two numbers, in its own type.
pub(crate) fn clipped(b: &GraphBuilder, x: Var, low: f64, high: f64) -> Lowered<Var> {
    match b.dtype_of(x) {
        Some(dtype) if dtype.is_integer() => {
            let end = |end: f64| b.constant(scalar(end as i64, dtype));
            b.clip(x).min(end(low)).max(end(high)).one()
        }
        _ => b.clip(x).min(low).max(high).one(),
    }
}

/// `alpha * x` below zero.
pub(crate) fn leaky(b: &GraphBuilder, x: Var, alpha: f64) -> Lowered<Var> {
    b.leaky_relu(x).alpha(alpha).one()
}

/// The row of exact GELU, for which TensorFlow has no operator.
pub(crate) const GELU: &str = "onnxd::Gelu";

/// GELU, exact or by `tanh`.
pub(crate) fn gelu(b: &GraphBuilder, x: Var, approximate: bool) -> Lowered<Var> {
    if b.opset() >= 20 {
        return b.gelu(x).approximate(approximate.then_some("tanh")).one();
    }
    of(b, x)?;
    let factor = if approximate {
        let cube = b.mul(b.mul(x, x)?, x)?;
        let inner =
            b.mul(b.add(x, b.mul(cube, 0.044715)?)?, (2.0 / std::f64::consts::PI).sqrt())?;
        b.tanh(inner)?
    } else {
        b.erf(b.mul(x, std::f64::consts::FRAC_1_SQRT_2)?)?
    };
    b.mul(b.mul(x, 0.5)?, b.add(factor, 1.0)?)
}
