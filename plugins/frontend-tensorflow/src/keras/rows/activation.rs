//! Activations, as layers and by name.

use crate::ops::activation::{clipped, gelu, leaky, silu};
use crate::ops::{Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// What `hard_sigmoid` was before version 3.
pub(crate) const OLD_HARD_SIGMOID: &str = "hard_sigmoid of Keras 2";

/// Constants of Selu, as the paper has them.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    crate::ops::rows! { table;
        // Its activation is applied to what it gives.
        "Activation" => |_, a: Inputs| Ok(a.inputs);
        "ReLU" => |b, a: Relu| relu(b, a.inputs, a.max_value, a.negative_slope, a.threshold);
    }
}

arguments! {
    struct Inputs { inputs: Var }
    /// `ReLU(max_value=None, negative_slope=0.0, threshold=0.0)`
    struct Relu { inputs: Var, max_value: Option<f64>, negative_slope: f64 = 0.0, threshold: f64 = 0.0 }
}

/// What an activation makes of a tensor.
///
/// # Errors
/// `N0203` for names that Keras does not have.
pub(crate) fn named(b: &GraphBuilder, name: &str, x: Var) -> Lowered<Var> {
    match name {
        "linear" => Ok(x),
        "relu" => b.relu(x),
        "relu6" => clipped(b, x, 0.0, 6.0),
        "sigmoid" => b.sigmoid(x),
        "tanh" => b.tanh(x),
        "softmax" => b.softmax(x).axis(-1).one(),
        "log_softmax" => b.log_softmax(x).axis(-1).one(),
        "elu" => b.elu(x).one(),
        "selu" => b.selu(x).alpha(SELU_ALPHA).gamma(SELU_SCALE).one(),
        "celu" => b.celu(x).one(),
        "gelu" => gelu(b, x, false),
        "silu" | "swish" => silu(b, x),
        "softplus" => b.softplus(x),
        "softsign" => b.softsign(x),
        "exponential" => b.exp(x),
        "leaky_relu" => leaky(b, x, 0.2),
        "hard_sigmoid" => b.hard_sigmoid(x).alpha(1.0 / 6.0).beta(0.5).one(),
        OLD_HARD_SIGMOID => b.hard_sigmoid(x).alpha(0.2).beta(0.5).one(),
        "hard_swish" | "hard_silu" => b.hard_swish(x),
        "mish" => b.mul(x, b.tanh(b.softplus(x)?)?),
        other => {
            let message = format!("The activation `{}` is not one of Keras.", shown(other));
            Err(b.diagnostic(Code::LayerUnsupported, message))
        }
    }
}

/// `x` where it is above a threshold, else a part of how much it is below.
pub(crate) fn relu(
    b: &GraphBuilder,
    x: Var,
    max: Option<f64>,
    slope: f64,
    threshold: f64,
) -> Lowered<Var> {
    of(b, x)?;
    rank(b, x)?;
    let below = |b: &GraphBuilder| b.mul(b.sub(x, threshold)?, slope);
    let y = match (slope == 0.0, threshold == 0.0) {
        (true, true) => {
            return match max {
                Some(max) => clipped(b, x, 0.0, max),
                None => b.relu(x),
            };
        }
        (false, true) => leaky(b, x, slope)?,
        (true, false) => b.mul(x, b.cast(b.greater(x, threshold)?, of(b, x)?)?)?,
        (false, false) => b.where_(b.greater_or_equal(x, threshold)?, x, below(b)?)?,
    };
    match max {
        Some(max) => b.min([y, b.constant(crate::ops::create::number(max, of(b, x)?))]),
        None => Ok(y),
    }
}
