//! Cumulative sums and the like.

use super::shape::axis_of;
use super::{RowContext, dtype_of, widened};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::running::{self, Reach};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Cumsum" => |b, x: Var, axis: i64, exclusive: bool, reverse: bool| {
            running_sum(b, x, axis, [exclusive, reverse])
        };
        "Cumprod" => |b, x: Var, axis: i64, exclusive: bool, reverse: bool| {
            running_product(b, x, axis, [exclusive, reverse])
        };
        "CumulativeLogsumexp" => |b, x: Var, axis: i64, exclusive: bool, reverse: bool| {
            widely(b, x, axis, [exclusive, reverse], running::log_sum_exp)
        };
    }
}

/// Sums along an axis, without an element itself or with it, from the first or from the last on.
pub(crate) fn running_sum(
    b: &GraphBuilder,
    x: Var,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = widened(dtype);
    let flag = |on: bool| on.then_some(1i64);
    let sums = b.cum_sum(b.cast(x, computed)?, Tensor::scalar(axis));
    b.cast(sums.exclusive(flag(exclusive)).reverse(flag(reverse)).one()?, dtype)
}

/// As [`running_sum`], for products.
pub(crate) fn running_product(
    b: &GraphBuilder,
    x: Var,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
) -> Lowered<Var> {
    widely(b, x, axis, [exclusive, reverse], running::product)
}

/// Applies `f` in a type in which runtimes compute.
fn widely(
    b: &GraphBuilder,
    x: Var,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
    f: fn(&GraphBuilder, Var, usize, Reach) -> Lowered<Var>,
) -> Lowered<Var> {
    let (dtype, axis) = (dtype_of(b, x)?, axis_of(b, x, axis)?);
    b.cast(f(b, b.cast(x, widened(dtype))?, axis, Reach { exclusive, reverse })?, dtype)
}
