//! Comparisons and logic.

use super::create::scalar;
use super::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::elementary::is_infinite;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Equal" => |b, x: Var, y: Var| b.equal(x, y);
        "NotEqual" => |b, x: Var, y: Var| b.not(b.equal(x, y)?);
        "Less" => |b, x: Var, y: Var| b.less(x, y);
        "LessEqual" => |b, x: Var, y: Var| b.less_or_equal(x, y);
        "Greater" => |b, x: Var, y: Var| b.greater(x, y);
        "GreaterEqual" => |b, x: Var, y: Var| b.greater_or_equal(x, y);
        "ApproximateEqual" => |b, x: Var, y: Var, tolerance: f64| b.less(b.abs(b.sub(x, y)?)?, tolerance);
        "LogicalAnd" => |b, x: Var, y: Var| b.and(x, y);
        "LogicalOr" => |b, x: Var, y: Var| b.or(x, y);
        "LogicalNot" => |b, x: Var| b.not(x);
        "IsNan" => |b, x: Var| b.is_nan(x);
        "IsInf" => |b, x: Var| is_infinite(b, x);
        "IsFinite" => |b, x: Var| b.not(b.or(b.is_nan(x)?, is_infinite(b, x)?)?);
        "ToBool" => |b, input: Var| to_bool(b, input);
    }
}

/// `compute()` where `x` is not zero, and zero elsewhere, without what the computation makes of it there.
pub(crate) fn where_zero(
    b: &GraphBuilder,
    x: Var,
    like: Var,
    compute: impl FnOnce(&GraphBuilder) -> Lowered<Var>,
) -> Lowered<Var> {
    let zero = b.constant(scalar(0, dtype_of(b, like)?));
    b.where_(b.equal(x, zero)?, zero, compute(b)?)
}

/// A number is true unless it is zero, another tensor unless it is empty.
fn to_bool(b: &Lower, x: Var) -> Lowered<Var> {
    match rank(b, x)? {
        0 if dtype_of(b, x)? == DataType::Bool => Ok(x),
        0 => b.cast(x, DataType::Bool),
        _ => b.greater(b.size(x)?, 0),
    }
}
