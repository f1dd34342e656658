//! Scatter and updates.

use super::create::{filled, scalar};
use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bfloat16, Float, Float16, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "ScatterNd" => |b, a: Into| {
            check_policy(b, &a.bad_indices_policy)?;
            let zeros = filled(b, b.cast(a.shape, Int64)?, 0, dtype_of(b, a.updates)?)?;
            scattered(b, [zeros, a.indices, a.updates], Some("add"))
        };
        "ScatterNdNonAliasingAdd" => |b, a: Onto| {
            check_policy(b, &a.bad_indices_policy)?;
            scattered(b, [a.input, a.indices, a.updates], Some("add"))
        };
        "TensorScatterUpdate" => |b, a: Update| updated(b, a, None);
        "TensorScatterAdd" => |b, a: Update| updated(b, a, Some("add"));
        "TensorScatterSub" => |b, a: Update| {
            // Unsigned integers have no Neg.
            let updates = match dtype_of(b, a.updates)?.is_float() {
                true => b.neg(a.updates)?,
                false => b.sub(b.constant(scalar(0, dtype_of(b, a.updates)?)), a.updates)?,
            };
            updated(b, Update { updates, ..a }, Some("add"))
        };
        "TensorScatterMax" => |b, a: Update| updated(b, a, Some("max"));
        "TensorScatterMin" => |b, a: Update| updated(b, a, Some("min"));
    }
}

arguments! {
    /// `ScatterNd`
    struct Into { indices: Var, updates: Var, shape: Var, bad_indices_policy: String = "" }
    /// `ScatterNdNonAliasingAdd`
    struct Onto { input: Var, indices: Var, updates: Var, bad_indices_policy: String = "" }
    /// `TensorScatterAdd`
    struct Update { tensor: Var, indices: Var, updates: Var, bad_indices_policy: String = "" }
}

/// ONNX has no indices that count for nothing.
///
/// # Errors
/// `N0203` if those beyond the tensor are to be passed over.
pub(crate) fn check_policy(b: &GraphBuilder, policy: &str) -> Lowered<()> {
    if policy != "IGNORE" {
        return Ok(());
    }
    let message = "Indices beyond the tensor cannot be passed over (`bad_indices_policy`).";
    Err(b.diagnostic(Code::LayerUnsupported, message))
}

fn updated(b: &Lower, a: Update, reduction: Option<&'static str>) -> Lowered<Var> {
    check_policy(b, &a.bad_indices_policy)?;
    scattered(b, [a.tensor, a.indices, a.updates], reduction)
}

/// `x` with updates at indices, which replace what is there or meet it by `reduction`.
pub(crate) fn scattered(
    b: &GraphBuilder,
    [x, indices, updates]: [Var; 3],
    reduction: Option<&'static str>,
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        _ if reduction.is_none() => dtype,
        DataType::Bool => Int32,
        d if d.is_integer() && d.bits() < 32 => Int32,
        // Runtimes reduce no floats of 16 bits.
        Float16 | Bfloat16 => Float,
        d => d,
    };
    let [x, updates] = [b.cast(x, computed)?, b.cast(updates, computed)?];
    let y = b.scatter_nd(x, b.cast(indices, Int64)?, updates).reduction(reduction).one()?;
    b.cast(y, dtype)
}
