//! Gather, its kin, and embeddings.

use super::shape::{axis_of, transposed};
use super::{RowContext, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Gather" => |b, params: Var, indices: Var| gathered(b, params, indices, 0, 0);
        "GatherV2" => |b, params: Var, indices: Var, axis: i64, batch_dims: i64| {
            gathered(b, params, indices, axis, batch_dims)
        };
        "GatherNd" => |b, a: Places| {
            super::scatter::check_policy(b, &a.bad_indices_policy)?;
            b.gather_nd(a.params, b.cast(a.indices, Int64)?).one()
        };
    }
}

arguments! {
    /// `GatherNd`
    struct Places { params: Var, indices: Var, bad_indices_policy: String = "" }
}

/// Slices of `x` along `axis`, whose first `batch` axes belong to those of the indices.
pub(crate) fn gathered(
    b: &GraphBuilder,
    x: Var,
    indices: Var,
    axis: i64,
    batch: i64,
) -> Lowered<Var> {
    let axis = axis_of(b, x, axis)? as i64;
    let batch = match batch {
        0.. => batch,
        _ => batch.saturating_add(rank(b, indices)? as i64),
    };
    if batch == 0 {
        return b.gather(x, indices).axis(axis).one();
    }
    if !(1..=axis).contains(&batch) || batch > rank(b, indices)? as i64 {
        let message = format!("There are no {batch} axes of the batch before axis {axis}.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    // GatherND takes the axis behind those of the batch.
    let n = rank(b, x)? as i64;
    let mut perm: Vec<i64> = (0..n).filter(|a| *a != axis).collect();
    perm.insert(batch as usize, axis);
    let x = transposed(b, x, &perm)?;
    let places = b.unsqueeze(b.cast(indices, Int64)?, [-1])?;
    let y = b.gather_nd(x, places).batch_dims(batch).one()?;
    // The result has the batch, the axes of the indices, and those of `x` that stay: first those before `axis`.
    let own = rank(b, indices)? as i64 - batch;
    let between = axis - batch;
    let total = n - 1 + own;
    let moved = (0..batch).chain(batch + own..batch + own + between).chain(batch..batch + own);
    let back: Vec<i64> = moved.chain(batch + own + between..total).collect();
    transposed(b, y, &back)
}
