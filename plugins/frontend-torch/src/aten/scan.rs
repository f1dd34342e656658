//! What is gathered along an axis: running sums, products and extremes.

use super::cast::filled;
use super::dtype::{dtype_of, to_float, wide};
use super::reduce::summed;
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::running::{self, Reach, Turned};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::cumsum" => cumsum;
        "aten::cumprod" => cumprod;
        "aten::cummax" => |b, a: Running| extremes(b, &a, true);
        "aten::cummin" => |b, a: Running| extremes(b, &a, false);
        "aten::logcumsumexp" | "aten::_logcumsumexp" => logcumsumexp;
        "aten::diff" => diff;
    }
}

arguments! {
    /// `cumsum`
    struct Running { input: Var, dim: i64, dtype: Option<i64> }
    /// `diff`
    struct Diff { input: Var, n: i64, dim: i64, prepend: Option<Var>, append: Option<Var> }
}

fn cumsum(b: &Lower, a: Running) -> Lowered<Var> {
    let x = summed(b, a.input, a.dtype)?;
    running_sum(b, x, a.dim)
}

pub(crate) fn running_sum(b: &Lower, x: Var, dim: i64) -> Lowered<Var> {
    let axis = sizes::axis_if_known(b, x, dim)?;
    if b.rank_of(x) == Some(0) {
        return Ok(x);
    }
    let dtype = dtype_of(b, x)?;
    let sums = b.cum_sum(b.cast(x, wide(dtype))?, Tensor::scalar(axis)).one()?;
    b.cast(sums, dtype)
}

fn cumprod(b: &Lower, a: Running) -> Lowered<Var> {
    let x = summed(b, a.input, a.dtype)?;
    let rank = sizes::rank(b, x)?;
    let axis = sizes::wrapped(b, a.dim, rank)?;
    if rank == 0 {
        return Ok(x);
    }
    running::product(b, x, axis, Reach::default())
}

fn logcumsumexp(b: &Lower, a: Running) -> Lowered<Var> {
    let x = to_float(b, a.input)?;
    let rank = sizes::rank(b, x)?;
    let axis = sizes::wrapped(b, a.dim, rank)?;
    if rank == 0 {
        return Ok(x);
    }
    running::log_sum_exp(b, x, axis, Reach::default())
}

/// The greatest or the least so far, and where the last of them is.
fn extremes(b: &Lower, a: &Running, greatest: bool) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, a.input)?;
    let rank = sizes::rank(b, a.input)?;
    let axis = sizes::wrapped(b, a.dim, rank)?;
    if rank == 0 {
        return Ok([a.input, b.constant(Tensor::scalar(0i64))]);
    }
    let computed = if dtype == DataType::Bool { DataType::Int32 } else { wide(dtype) };
    let turned = Turned::new(b, b.cast(a.input, computed)?, axis)?;
    let first = b.gather(turned.rows, 0i64).axis(0).one()?;
    let zeros = b.cast(filled(b, first, &Value::Int(0))?, DataType::Int64)?;
    let count = sizes::scalar(b, &sizes::size(b, turned.rows, 0)?)?;
    let places = b.range(0i64, count, 1i64).one()?;
    let all = b.scan(&[first, zeros], &[turned.rows, places], |b, states, slices| {
        let (x, best) = (slices[0], states[0]);
        let worse = if greatest { b.less(x, best)? } else { b.greater(x, best)? };
        let mut better = b.not(worse)?;
        if computed.is_float() {
            // What is no number stays.
            let number = b.or(b.is_nan(x)?, b.not(b.is_nan(best)?)?)?;
            better = b.and(better, number)?;
        }
        let value = b.where_(better, x, best)?;
        let place = b.where_(better, slices[1], states[1])?;
        Ok(vec![value, place, value, place])
    })?;
    Ok([b.cast(turned.back(b, all[2])?, dtype)?, turned.back(b, all[3])?])
}

/// All but the first, and all but the last along an axis.
pub(crate) fn neighbours(b: &Lower, x: Var, axis: i64) -> Lowered<[Var; 2]> {
    let after = b.slice(x, [1], [i64::MAX]).axes([axis]).one()?;
    Ok([after, b.slice(x, [0], [-1]).axes([axis]).one()?])
}

/// Differences of differences, one node or two each.
const DIFFERENCES_MAX: i64 = 256;

/// Differences of neighbours, `n` times.
fn diff(b: &Lower, a: Diff) -> Lowered<Var> {
    if a.n == 0 {
        // What stands before and behind does not count either.
        return Ok(a.input);
    }
    if a.n > DIFFERENCES_MAX {
        let message = format!("More than {DIFFERENCES_MAX} differences of differences.");
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let axis = sizes::axis(b, a.input, a.dim)? as i64;
    let parts: Vec<Var> = [a.prepend, Some(a.input), a.append].into_iter().flatten().collect();
    let mut x = if parts.len() == 1 { a.input } else { b.concat(parts).axis(axis).one()? };
    for _ in 0..a.n {
        let [after, before] = neighbours(b, x, axis)?;
        x = match dtype_of(b, x)? {
            DataType::Bool => b.xor(after, before)?,
            _ => b.sub(after, before)?,
        };
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{assert_near, floats, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;

    #[test]
    fn products_run_along_any_axis() {
        let product = |items: Vec<f32>, dim: i64| {
            run(
                "aten::cumprod",
                [("input", Tensor::from_vec([2, 3], items).into()), ("dim", dim.into())],
            )
        };
        let x = vec![-1.0, 2.0, 0.0, 3.0, -4.0, 5.0];
        let along = vec![-1.0f32, -2.0, 0.0, 3.0, -12.0, -60.0];
        assert_near(&product(x.clone(), -1), &Tensor::from_vec([2, 3], along));
        let down = vec![-1.0f32, 2.0, 0.0, -3.0, -8.0, 0.0];
        assert_near(&product(x, 0), &Tensor::from_vec([2, 3], down));
    }

    #[test]
    fn the_last_extreme_counts() {
        let arguments = [("input", floats([1.0, 3.0, 2.0, 3.0]).into()), ("dim", 0i64.into())];
        let found = run_at(18, "aten::cummax", arguments).unwrap();
        assert_eq!(found, [floats([1.0, 3.0, 3.0, 3.0]), Tensor::vector(vec![0i64, 1, 1, 3])]);
    }

    #[test]
    fn logarithms_of_running_sums_are_safe() {
        let x = [f32::NEG_INFINITY, f32::NEG_INFINITY, 100.0, 0.0];
        let found = run("aten::logcumsumexp", [("input", floats(x).into()), ("dim", 0i64.into())]);
        let expected = [f32::NEG_INFINITY, f32::NEG_INFINITY, 100.0, 100.0];
        assert_near(&found, &floats(expected));
    }
}
