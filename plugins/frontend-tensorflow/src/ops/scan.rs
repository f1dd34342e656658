//! Cumulative sums and the like.

use super::create::number;
use super::shape::{axis_of, transposed};
use super::slicing::reversed;
use super::{Source, of, rank, widened};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Cumsum" => |b, a: Cumulative| running_sum(b, a.x, a.axis, [a.exclusive, a.reverse]);
        "Cumprod" => |b, a: Cumulative| {
            running_product(b, a.x, a.axis, [a.exclusive, a.reverse])
        };
        "CumulativeLogsumexp" => |b, a: Cumulative| {
            running(b, a.x, a.axis, [a.exclusive, a.reverse], f64::NEG_INFINITY, sum_of_powers)
        };
    }
}

arguments! {
    /// `Cumsum(x, axis; exclusive: bool = false, reverse: bool = false, T: type, Tidx: type = int32) -> out`
    struct Cumulative { x: Var, axis: i64, exclusive: bool, reverse: bool }
}

/// Sums along an axis, without an element itself or with it, from the first or from the last on.
pub(crate) fn running_sum(
    b: &GraphBuilder,
    x: Var,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
) -> Lowered<Var> {
    let dtype = of(b, x)?;
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
    if b.opset() >= 26 {
        let flag = |on: bool| on.then_some(1i64);
        let call = b.cum_prod(x, Tensor::scalar(axis));
        return call.exclusive(flag(exclusive)).reverse(flag(reverse)).one();
    }
    running(b, x, axis, [exclusive, reverse], 1.0, GraphBuilder::mul)
}

/// What `step` makes of all elements along an axis, one after the other.
fn running(
    b: &GraphBuilder,
    x: Var,
    axis: i64,
    [exclusive, reverse]: [bool; 2],
    first: f64,
    step: fn(&GraphBuilder, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let dtype = of(b, x)?;
    let computed = widened(dtype);
    let axis = axis_of(b, x, axis)?;
    let mut order: Vec<i64> = (0..rank(b, x)? as i64).collect();
    order.swap(0, axis);
    let turned = transposed(b, b.cast(x, computed)?, &order)?;
    let rows = if reverse { reversed(b, turned, &[0])? } else { turned };
    let start = b.expand(b.constant(number(first, computed)), b.shape(rows).start(1).one()?)?;
    let all = b.scan(&[start], &[rows], |b, states, slices| {
        let next = step(b, states[0], slices[0])?;
        Ok(vec![next, if exclusive { states[0] } else { next }])
    })?;
    let stacked = all[1];
    if let Some(shape) = b.shape_of(rows) {
        b.declare(stacked, ValueType::tensor(computed, shape));
    }
    let back = if reverse { reversed(b, stacked, &[0])? } else { stacked };
    b.cast(transposed(b, back, &order)?, dtype)
}

/// `log(exp(x) + exp(y))`
fn sum_of_powers(b: &GraphBuilder, x: Var, y: Var) -> Lowered<Var> {
    let greater = b.max([x, y])?;
    let distance = b.neg(b.abs(b.sub(x, y)?)?)?;
    let sum = b.add(greater, b.softplus(distance)?)?;
    // There is no distance between two numbers that are minus infinity.
    b.where_(b.equal(greater, f64::NEG_INFINITY)?, greater, sum)
}
