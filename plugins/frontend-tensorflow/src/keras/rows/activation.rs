//! Activations, as layers and by name.

use crate::keras::hub::GELU;
use crate::ops::activation::{clipped, gelu, leaky};
use crate::ops::create::number;
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::shown;
use onnxd_plugin_sdk::formulas::activation::{
    glu, hard_sigmoid, hard_swish, log_sigmoid, mish, silu,
};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// What `hard_sigmoid` was before version 3.
pub(crate) const OLD_HARD_SIGMOID: &str = "hard_sigmoid of Keras 2";

/// Constants of Selu, as the paper has them.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        // Its activation is applied to what it gives.
        "Activation" => |_, inputs: Var| Ok(inputs);
        "ReLU" => |b, a: Relu| relu(b, a.inputs, a.max_value, a.negative_slope, a.threshold);
        "LeakyReLU" => |b, inputs: Var, negative_slope: Option<f64>, alpha: Option<f64>| {
            leaky(b, inputs, negative_slope.or(alpha).unwrap_or(0.3))
        };
        "ELU" => |b, a: Elu| b.elu(a.inputs).alpha(a.alpha).one();
        "PReLU" => prelu(inputs, shared_axes, weights);
        "ThresholdedReLU" => |b, a: Thresholded| relu(b, a.inputs, None, 0.0, a.theta);
        "Softmax" => softmax;
    }
}

arguments! {
    /// `ELU(alpha=1.0)`
    struct Elu { inputs: Var, alpha: f64 = 1.0 }
    /// `ThresholdedReLU(theta=1.0)`
    struct Thresholded { inputs: Var, theta: f64 = 1.0 }
    /// `Softmax(axis=-1)`; `call(inputs, mask=None)`
    struct Softmax {
        inputs: Var, mask: Option<Var>, axis: Value, robust_masking: Option<bool>, is_keras2: bool = false,
    }
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
        // `Celu` has floats alone; with its default setting it is the same.
        "elu" | "celu" => b.elu(x).one(),
        "selu" => b.selu(x).alpha(SELU_ALPHA).gamma(SELU_SCALE).one(),
        "gelu" => gelu(b, x, false),
        GELU => gelu(b, x, true),
        "silu" | "swish" => silu(b, x),
        "softplus" => b.softplus(x),
        "softsign" => b.softsign(x),
        "exponential" => b.exp(x),
        "leaky_relu" => leaky(b, x, 0.2),
        "hard_sigmoid" => hard_sigmoid(b, x),
        OLD_HARD_SIGMOID => b.hard_sigmoid(x).alpha(0.2).beta(0.5).one(),
        "hard_swish" | "hard_silu" => hard_swish(b, x),
        "hard_tanh" => clipped(b, x, -1.0, 1.0),
        "hard_shrink" => b.shrink(x).lambd(0.5).one(),
        "soft_shrink" => b.shrink(x).lambd(0.5).bias(0.5).one(),
        "tanh_shrink" => b.sub(x, b.tanh(x)?),
        "log_sigmoid" => log_sigmoid(b, x),
        "sparse_sigmoid" => clipped(b, b.mul(b.add(x, 1.0)?, 0.5)?, 0.0, 1.0),
        "sparse_plus" => sparse_plus(b, x),
        "squareplus" => b.mul(b.add(x, b.sqrt(b.add(b.mul(x, x)?, 4.0)?)?)?, 0.5),
        "sparsemax" => sparsemax(b, x),
        "glu" => glu(b, x, -1),
        "mish" => mish(b, x),
        other => {
            Err(b.unsupported(format!("The activation `{}` is not one of Keras.", shown(other))))
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
    dtype_of(b, x)?;
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
        (true, false) => b.mul(x, b.cast(b.greater(x, threshold)?, dtype_of(b, x)?)?)?,
        (false, false) => b.where_(b.greater_or_equal(x, threshold)?, x, below(b)?)?,
    };
    match max {
        Some(max) => b.min([y, b.constant(number(max, dtype_of(b, x)?))]),
        None => Ok(y),
    }
}

/// A number between 0 and `(x + 1) / 2` squared up to 1, from there `x`.
fn sparse_plus(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let middle = b.add(clipped(b, x, -1.0, 1.0)?, 1.0)?;
    let curve = b.mul(b.mul(middle, middle)?, 0.25)?;
    b.where_(b.less(x, 1.0)?, curve, x)
}

/// What Keras calls sparsemax, along the last axis: it adds up the sums of all elements that count, where the paper has
/// the last of these sums.
fn sparsemax(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let shape = b.shape(x).one()?;
    let last = b.shape(x).start(-1).one()?;
    let [sorted, _] = b.top_k(x, last).axis(-1).outputs()?;
    let sums = b.cum_sum(sorted, -1).one()?;
    let counts = b.cum_sum(b.expand(b.constant(number(1.0, dtype_of(b, x)?)), shape)?, -1).one()?;
    let counted = b.greater(b.mul(counts, sorted)?, b.sub(sums, 1.0)?)?;
    let counted = b.cast(counted, dtype_of(b, x)?)?;
    let k = b.reduce_sum(counted).axes([-1]).keepdims(1).one()?;
    let total = b.reduce_sum(b.mul(sums, counted)?).axes([-1]).keepdims(1).one()?;
    let above = b.sub(x, b.div(b.sub(total, 1.0)?, k)?)?;
    b.relu(above)
}

/// Slopes have the sizes of all axes but the batch; those of shared axes are 1.
fn prelu(
    b: &Lower,
    inputs: Var,
    _shared_axes: Option<Vec<i64>>,
    weights: Vec<Var>,
) -> Lowered<Var> {
    let [alpha] = super::exactly(b, &weights)?;
    b.p_relu(inputs, alpha)
}

fn softmax(b: &Lower, a: Softmax) -> Lowered<Var> {
    let dtype = dtype_of(b, a.inputs)?;
    let counts = |mask: Var| match dtype_of(b, mask)? {
        DataType::Bool => Ok(mask),
        _ => b.greater(mask, 0.5),
    };
    let mask = a.mask.map(counts).transpose()?;
    let x = match mask {
        Some(mask) => {
            let least = if dtype == DataType::Float16 { -3e4 } else { -1e9 };
            b.where_(mask, a.inputs, b.constant(number(least, dtype)))?
        }
        None => a.inputs,
    };
    let y = match super::norm::axes(b, x, &a.axis)?[..] {
        [axis] => b.softmax(x).axis(axis).one()?,
        ref several => {
            // As Keras computes it, which matters where everything is masked.
            let sum = b.reduce_log_sum_exp(x).axes(several).keepdims(1).one()?;
            b.exp(b.sub(x, sum)?)?
        }
    };
    // Version 2 shares all out where everything is masked.
    match mask.filter(|_| !a.is_keras2) {
        Some(mask) => b.where_(mask, y, 0),
        None => Ok(y),
    }
}
