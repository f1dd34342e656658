//! Scatter and updates.

use super::create::filled;
use super::{Source, of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "ScatterNd" => |b, a: Into| {
            let zeros = filled(b, b.cast(a.shape, Int64)?, 0, of(b, a.updates)?)?;
            scattered(b, [zeros, a.indices, a.updates], Some("add"))
        };
        "ScatterNdNonAliasingAdd" => |b, a: Onto| scattered(b, [a.input, a.indices, a.updates], Some("add"));
        "TensorScatterUpdate" => |b, a: Update| scattered(b, [a.tensor, a.indices, a.updates], None);
        "TensorScatterAdd" => |b, a: Update| scattered(b, [a.tensor, a.indices, a.updates], Some("add"));
        "TensorScatterSub" => |b, a: Update| {
            scattered(b, [a.tensor, a.indices, b.neg(a.updates)?], Some("add"))
        };
        "TensorScatterMax" => |b, a: Update| scattered(b, [a.tensor, a.indices, a.updates], Some("max"));
        "TensorScatterMin" => |b, a: Update| scattered(b, [a.tensor, a.indices, a.updates], Some("min"));
    }
}

arguments! {
    /// `ScatterNd(indices, updates, shape; T: type, Tindices: type, bad_indices_policy: string = "") -> output`
    struct Into { indices: Var, updates: Var, shape: Var }
    /// `ScatterNdNonAliasingAdd(input, indices, updates; T: type, Tindices: type, bad_indices_policy: string = "")
    /// -> output`
    struct Onto { input: Var, indices: Var, updates: Var }
    /// `TensorScatterAdd(tensor, indices, updates; T: type, Tindices: type, bad_indices_policy: string = "") -> output`
    struct Update { tensor: Var, indices: Var, updates: Var }
}

/// `x` with updates at indices, which replace what is there or meet it by `reduction`.
pub(crate) fn scattered(
    b: &GraphBuilder,
    [x, indices, updates]: [Var; 3],
    reduction: Option<&'static str>,
) -> Lowered<Var> {
    let dtype = of(b, x)?;
    let computed = match dtype {
        _ if reduction.is_none() => dtype,
        DataType::Bool => Int32,
        d if d.is_integer() && d.bits() < 32 => Int32,
        d => d,
    };
    let [x, updates] = [b.cast(x, computed)?, b.cast(updates, computed)?];
    let y = b.scatter_nd(x, b.cast(indices, Int64)?, updates).reduction(reduction).one()?;
    b.cast(y, dtype)
}
