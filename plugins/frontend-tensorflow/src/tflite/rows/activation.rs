//! Activations, norms, and products with weights.

use super::size_of;
use crate::ops::activation::{clipped, gelu};
use crate::ops::linear::product;
use crate::ops::{Lower, RowContext, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{refuse, shown};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// What the interpreter takes for the norm of a vector of zeros.
const NORM_MIN: f64 = 1e-6;

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "RELU_N1_TO_1" => |b, input: Var| clipped(b, input, -1.0, 1.0);
        "RELU_0_TO_1" => |b, input: Var| clipped(b, input, 0.0, 1.0);
        "HARD_SWISH" => |b, input: Var| hard_swish(b, input);
        "GELU" => |b, a: Gelu| gelu(b, a.input, a.approximate);
        "PRELU" => |b, input: Var, alpha: Var| b.p_relu(input, alpha);
        "SOFTMAX" => softmax(input, beta);
        "L2_NORMALIZATION" => |b, input: Var| {
            let norm = b.reduce_l2(input).axes([-1]).keepdims(1).one()?;
            b.div(input, b.clip(norm).min(NORM_MIN).one()?)
        };
        "FULLY_CONNECTED" => fully_connected;
        "STABLEHLO_CBRT" => |b, x: Var| {
            b.mul(b.sign(x)?, b.pow(b.abs(x)?, 1.0 / 3.0)?)
        };
    }
}

arguments! {
    /// `GELU(input)`
    struct Gelu { input: Var, approximate: bool = false }
    /// `FULLY_CONNECTED(input, weights, bias?)`: the weights are `[units, inputs]`.
    struct FullyConnected {
        input: Var, weights: Var, bias: Option<Var>, weights_format: String, keep_num_dims: bool,
    }
}

/// What `fused_activation_function` says.
///
/// # Errors
/// `N0203` for words that are no activation.
pub(crate) fn activated(b: &GraphBuilder, x: Var, word: &str) -> Lowered<Var> {
    match word {
        "NONE" => Ok(x),
        "RELU" => b.relu(x),
        "RELU_N1_TO_1" => clipped(b, x, -1.0, 1.0),
        "RELU6" => clipped(b, x, 0.0, 6.0),
        "TANH" => b.tanh(x),
        other => {
            let message = format!("The activation `{}` has no counterpart in ONNX.", shown(other));
            Err(b.unsupported(message))
        }
    }
}

fn hard_swish(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if b.opset() >= 14 {
        return b.hard_swish(x);
    }
    let gate = clipped(b, b.add(x, 3.0)?, 0.0, 6.0)?;
    b.div(b.mul(x, gate)?, 6.0)
}

fn softmax(b: &Lower, input: Var, beta: f64) -> Lowered<Var> {
    let x = if beta == 1.0 { input } else { b.mul(input, beta)? };
    b.softmax(x).axis(-1).one()
}

/// Rows of as many elements as the weights have inputs; `keep_num_dims` keeps the axes before them.
fn fully_connected(b: &Lower, a: FullyConnected) -> Lowered<Var> {
    refuse!(a.weights_format != "DEFAULT" => b.unsupported("Weights in the order `SHUFFLED4x16INT8` are not read."));
    let Some(inputs) = size_of(b, a.weights, 1) else {
        return Err(b.unsupported("The number of inputs of the weights is not known."));
    };
    let n = rank(b, a.input)?;
    let is_row = n == 2 && size_of(b, a.input, 1) == Some(inputs);
    if a.keep_num_dims && n != 2 {
        let y = product(b, [a.input, a.weights], [false, true])?;
        return a.bias.map_or(Ok(y), |bias| b.add(y, bias));
    }
    let x = if is_row { a.input } else { b.reshape(a.input, [-1, inputs]).one()? };
    b.gemm(x, a.weights).c(a.bias).trans_b(1).one()
}
