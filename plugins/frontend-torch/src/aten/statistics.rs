//! Integrals over samples, covariances, and medians of those elements that are numbers.

use super::activation::relu;
use super::compare::select;
use super::dtype::{dtype_of, float_of, operand, to_float};
use super::order::{Median, middle, smallest};
use super::scan::{neighbours, running_sum};
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::matrix::correlation;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::trapezoid" | "aten::trapz" => |b, a: Samples| {
            let (areas, axis) = trapezoids(b, &a)?;
            b.reduce_sum(areas).axes([axis]).keepdims(false).one()
        };
        "aten::cumulative_trapezoid" => |b, a: Samples| {
            let (areas, axis) = trapezoids(b, &a)?;
            running_sum(b, areas, axis)
        };
        "aten::cov" => cov;
        "aten::corrcoef" => corrcoef(input);
        "aten::nanmedian.dim" => |b, a: Median| nanmedian(b, a.input, a.dim, a.keepdim);
        "aten::nanmedian" => |b, input: Var| Ok(nanmedian(b, b.reshape(input, [-1]).one()?, 0, false)?[0]);
    }
}

arguments! {
    /// `trapezoid.x`, `trapezoid.dx`
    struct Samples { y: Var, x: Option<Var>, dx: Value = Value::None, dim: i64 }
    /// `cov`
    struct Cov { input: Var, correction: i64, fweights: Option<Var>, aweights: Option<Var> }
}

/// The areas between samples, and their axis.
fn trapezoids(b: &Lower, a: &Samples) -> Lowered<(Var, i64)> {
    let y = to_float(b, a.y)?;
    let rank = sizes::rank(b, y)?;
    let axis = sizes::wrapped(b, a.dim, rank)? as i64;
    let [after, before] = neighbours(b, y, axis)?;
    let sums = b.add(after, before)?;
    let Some(x) = a.x else {
        let dx = if a.dx == Value::None { &Value::Int(1) } else { &a.dx };
        let half = b.mul(sums, 0.5)?;
        let unit = super::dtype::is_known(dx, 1.0);
        return Ok((
            if unit { half } else { b.mul(half, operand(b, dx, dtype_of(b, half)?)?)? },
            axis,
        ));
    };
    let x = b.cast(x, dtype_of(b, y)?)?;
    let widths = match sizes::rank(b, x)? {
        1 => {
            let [after, before] = neighbours(b, x, 0)?;
            let more: Vec<i64> = (1..rank as i64 - axis).collect();
            let widths = b.sub(after, before)?;
            if more.is_empty() { widths } else { b.unsqueeze(widths, more)? }
        }
        x_rank => {
            let [after, before] = neighbours(b, x, axis - rank as i64 + x_rank as i64)?;
            b.sub(after, before)?
        }
    };
    Ok((b.mul(b.mul(sums, 0.5)?, widths)?, axis))
}

/// Covariances of rows, over the columns.
fn cov(b: &Lower, a: Cov) -> Lowered<Var> {
    let (rows, alone) = as_rows(b, a.input)?;
    if a.fweights.is_some() || a.aweights.is_some() {
        return weighted_cov(b, rows, alone, &a);
    }
    let distance = b.sub(rows, b.reduce_mean(rows).axes([1]).one()?)?;
    let products = b.mat_mul(distance, b.transpose(distance).perm([1, 0]).one()?)?;
    let products = if alone { b.reshape(products, Vec::<i64>::new()).one()? } else { products };
    let count = sizes::minus(b, &sizes::size(b, rows, 1)?, &Value::Int(a.correction))?;
    match sizes::known(b, &count) {
        Some(n) => b.div(products, n.max(0)),
        None => b.div(products, b.relu(operand(b, &count, dtype_of(b, rows)?)?)?),
    }
}

/// A matrix of floats, and whether it has one row, whose results are single numbers.
fn as_rows(b: &Lower, x: Var) -> Lowered<(Var, bool)> {
    let x = to_float(b, x)?;
    if sizes::rank(b, x)? < 2 {
        return Ok((b.reshape(x, [1, -1]).one()?, true));
    }
    Ok((x, sizes::known_size(b, x, 0) == Some(1)))
}

/// Covariances where columns count by weights: how often they are there, and how much they matter.
fn weighted_cov(b: &Lower, rows: Var, alone: bool, a: &Cov) -> Lowered<Var> {
    let dtype = dtype_of(b, rows)?;
    let own = |w: Option<Var>| w.map(|w| b.cast(w, dtype)).transpose();
    let (often, matter) = (own(a.fweights)?, own(a.aweights)?);
    let sum = |x: Var| b.reduce_sum(x).axes([-1]).one();
    let weights = match (often, matter) {
        (Some(f), Some(m)) => b.mul(f, m)?,
        (f, m) => f.or(m).expect("the caller has weights"),
    };
    let whole = sum(weights)?;
    let distance = b.sub(rows, b.div(sum(b.mul(rows, weights)?)?, whole)?)?;
    let weighted = b.transpose(b.mul(distance, weights)?).perm([1, 0]).one()?;
    let products = b.mat_mul(distance, weighted)?;
    // How many columns the correction takes away.
    let less = match matter {
        Some(m) => b.mul(b.div(sum(b.mul(weights, m)?)?, whole)?, a.correction)?,
        None => operand(b, &Value::Int(a.correction), dtype)?,
    };
    let all = b.div(products, b.relu(b.sub(whole, less)?)?)?;
    if alone { b.reshape(all, Vec::<i64>::new()).one() } else { Ok(all) }
}

fn corrcoef(b: &Lower, input: Var) -> Lowered<Var> {
    let (rows, alone) = as_rows(b, input)?;
    let all = correlation(b, rows)?;
    if alone { b.reshape(all, Vec::<i64>::new()).one() } else { Ok(all) }
}

/// The lower one of two in the middle, of the elements that are numbers.
fn nanmedian(b: &Lower, x: Var, dim: i64, keep: bool) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, x)?;
    if !dtype.is_float() || b.rank_of(x) == Some(0) {
        return middle(b, x, dim, keep);
    }
    let axis = sizes::axis(b, x, dim)?;
    let at = axis as i64;
    let none = b.is_nan(x)?;
    let last = operand(b, &Value::Float(f64::INFINITY), float_of(dtype))?;
    let count = b.reduce_sum(b.cast(b.not(none)?, Int64)?).axes([at]).one()?;
    let n = sizes::size(b, x, axis)?;
    let [sorted, places] = smallest(b, select(b, none, last, x)?, &n, axis)?;
    let place = b.div(relu(b, b.sub(count, 1i64)?)?, 2i64)?;
    let take = |from: Var| b.gather_elements(from, place).axis(at).one();
    let nan = operand(b, &Value::Float(f64::NAN), dtype)?;
    let value = b.where_(b.equal(count, 0i64)?, nan, take(sorted)?)?;
    let all = [value, take(places)?];
    if keep {
        return Ok(all);
    }
    Ok([b.squeeze(all[0]).axes([at]).one()?, b.squeeze(all[1]).axes([at]).one()?])
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{Arg, assert_near, floats, run};
    use onnxd_plugin_sdk::ir::Tensor;

    #[test]
    fn areas_lie_between_samples() {
        let y = || Arg::from(floats([1.0, 3.0, 2.0]));
        let (dx, dim) = (("dx", 2.0.into()), ("dim", (-1i64).into()));
        assert_near(&run("aten::trapezoid", [("y", y()), dx, dim]), &Tensor::scalar(9.0f32));
        let (x, dim) = (("x", floats([0.0, 1.0, 4.0]).into()), ("dim", 0i64.into()));
        assert_near(&run("aten::cumulative_trapezoid", [("y", y()), x, dim]), &floats([2.0, 9.5]));
    }

    #[test]
    fn rows_vary_together() {
        let x = || Arg::from(Tensor::from_vec([2, 3], vec![1.0f32, 2.0, 3.0, 1.0, 4.0, 1.0]));
        let cov = run("aten::cov", [("input", x()), ("correction", 1i64.into())]);
        assert_near(&cov, &Tensor::from_vec([2, 2], vec![1.0f32, 0.0, 0.0, 3.0]));
        let all = run("aten::corrcoef", [("input", x())]);
        assert_near(&all, &Tensor::from_vec([2, 2], vec![1.0f32, 0.0, 0.0, 1.0]));
        // Each column twice: of six columns, one is taken away.
        let often = ("fweights", Tensor::vector(vec![2i64; 3]).into());
        let cov = run("aten::cov", [("input", x()), ("correction", 1i64.into()), often]);
        assert_near(&cov, &Tensor::from_vec([2, 2], vec![0.8f32, 0.0, 0.0, 2.4]));
        let matter = ("aweights", floats([1.0, 2.0, 1.0]).into());
        let cov = run("aten::cov", [("input", x()), ("correction", 1i64.into()), matter]);
        assert_near(&cov, &Tensor::from_vec([2, 2], vec![0.8f32, 0.0, 0.0, 3.6]));
        let row = || Arg::from(Tensor::from_vec([1, 3], vec![1.0f32, 2.0, 3.0]));
        let cov = run("aten::cov", [("input", row()), ("correction", 1i64.into())]);
        assert_near(&cov, &Tensor::scalar(1.0f32));
        assert_near(&run("aten::corrcoef", [("input", row())]), &Tensor::scalar(1.0f32));
    }

    #[test]
    fn medians_leave_out_what_is_no_number() {
        let x = floats([f32::NAN, 5.0, 1.0, 3.0, f32::NAN, 4.0]);
        assert_near(&run("aten::nanmedian", [("input", x.into())]), &Tensor::scalar(3.0f32));
    }
}
