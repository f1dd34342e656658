//! Comparisons and logic.

use super::create::scalar;
use super::operands::{Input, One, Two};
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::elementary::is_infinite;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Equal" => |b, a: Two| b.equal(a.x, a.y);
        "NotEqual" => |b, a: Two| b.not(b.equal(a.x, a.y)?);
        "Less" => |b, a: Two| b.less(a.x, a.y);
        "LessEqual" => |b, a: Two| b.less_or_equal(a.x, a.y);
        "Greater" => |b, a: Two| b.greater(a.x, a.y);
        "GreaterEqual" => |b, a: Two| b.greater_or_equal(a.x, a.y);
        "ApproximateEqual" => |b, a: Approximate| b.less(b.abs(b.sub(a.x, a.y)?)?, a.tolerance);
        "LogicalAnd" => |b, a: Two| b.and(a.x, a.y);
        "LogicalOr" => |b, a: Two| b.or(a.x, a.y);
        "LogicalNot" => |b, a: One| b.not(a.x);
        "IsNan" => |b, a: One| b.is_nan(a.x);
        "IsInf" => |b, a: One| is_infinite(b, a.x);
        "IsFinite" => |b, a: One| b.not(b.or(b.is_nan(a.x)?, is_infinite(b, a.x)?)?);
        "ToBool" => |b, a: Input| to_bool(b, a.input);
    }
}

arguments! {
    /// `ApproximateEqual(x, y; T: type, tolerance: float = 1e-05) -> z`
    struct Approximate { x: Var, y: Var, tolerance: f64 }
}

/// `compute()` where `x` is not zero, and zero elsewhere, without what the computation makes of it there.
pub(crate) fn where_zero(
    b: &GraphBuilder,
    x: Var,
    like: Var,
    compute: impl FnOnce(&GraphBuilder) -> Lowered<Var>,
) -> Lowered<Var> {
    let zero = b.constant(scalar(0, of(b, like)?));
    b.where_(b.equal(x, zero)?, zero, compute(b)?)
}

/// A number is true unless it is zero, another tensor unless it is empty.
fn to_bool(b: &Lower, x: Var) -> Lowered<Var> {
    match rank(b, x)? {
        0 if of(b, x)? == DataType::Bool => Ok(x),
        0 => b.cast(x, DataType::Bool),
        _ => b.greater(b.size(x)?, 0),
    }
}
