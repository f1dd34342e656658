//! Activations.

use super::create::scalar;
use super::{RowContext, dtype_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Constants of Selu, as the paper has them.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Relu" => |b, features: Var| b.relu(features);
        "Relu6" => |b, features: Var| clipped(b, features, 0.0, 6.0);
        "Elu" => |b, features: Var| b.elu(features).one();
        "Selu" => |b, features: Var| b.selu(features).alpha(SELU_ALPHA).gamma(SELU_SCALE).one();
        "LeakyRelu" => |b, features: Var, alpha: f64| leaky(b, features, alpha);
        "Softplus" => |b, features: Var| b.softplus(features);
        "Softsign" => |b, features: Var| b.softsign(features);
        "Softmax" => |b, logits: Var| b.softmax(logits).axis(-1).one();
        "onnxd::Gelu" => |b, x: Var| gelu(b, x, false);
        "LogSoftmax" => |b, logits: Var| b.log_softmax(logits).axis(-1).one();
    }
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
    dtype_of(b, x)?;
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
