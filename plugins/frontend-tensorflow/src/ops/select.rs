//! Choices between two tensors, element by element.

use super::shape::unsqueezed;
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Select" => select(condition, t, e);
        "SelectV2" => |b, condition: Var, t: Var, e: Var| choice(b, condition, t, e);
    }
}

/// A vector as the condition selects rows; otherwise all have one shape.
fn select(b: &Lower, condition: Var, t: Var, e: Var) -> Lowered<Var> {
    let condition = match (b.rank_of(condition), b.rank_of(t)) {
        (Some(1), Some(0 | 1)) | (Some(0), _) => condition,
        (Some(1), _) => {
            let axes: Vec<i64> = (1..rank(b, t)? as i64).collect();
            unsqueezed(b, condition, &axes)?
        }
        _ => condition,
    };
    choice(b, condition, t, e)
}

/// `x` where the condition holds, else `y`; runtimes choose few types, and no truth values.
pub(crate) fn choice(b: &GraphBuilder, condition: Var, x: Var, y: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        DataType::Bool => return either(b, condition, x, y),
        DataType::Int16 | DataType::Uint16 => DataType::Int32,
        // A conversion between integers keeps their bits.
        DataType::Uint64 => DataType::Int64,
        _ => dtype,
    };
    b.cast(b.where_(condition, b.cast(x, computed)?, b.cast(y, computed)?)?, dtype)
}

fn either(b: &GraphBuilder, condition: Var, x: Var, y: Var) -> Lowered<Var> {
    b.or(b.and(condition, x)?, b.and(b.not(condition)?, y)?)
}
