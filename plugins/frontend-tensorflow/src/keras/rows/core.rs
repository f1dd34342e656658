//! Core layers.

use super::weights_and_bias;
use crate::ops::{Lower, Source, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    crate::ops::rows! { table;
        "InputLayer" | "Identity" => |_, a: Inputs| Ok(a.inputs);
        "Dense" => dense;
    }
}

arguments! {
    struct Inputs { inputs: Var }
    /// `Dense(units, use_bias=True)`
    struct Dense { inputs: Var, units: i64, use_bias: bool = true, weights: Vec<Var> }
}

/// The last axis times a matrix, plus a bias.
fn dense(b: &Lower, a: Dense) -> Lowered<Var> {
    match weights_and_bias(b, &a.weights, a.use_bias)? {
        ([kernel], Some(bias)) if rank(b, a.inputs)? == 2 => b.gemm(a.inputs, kernel).c(bias).one(),
        ([kernel], Some(bias)) => b.add(b.mat_mul(a.inputs, kernel)?, bias),
        ([kernel], None) => b.mat_mul(a.inputs, kernel),
    }
}
