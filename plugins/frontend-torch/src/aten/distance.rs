//! Norms of differences, and angles.

use super::dtype::{dtype_of, operand, operands, to_float};
use super::sizes::{axis, known_size, rank, size, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::cdist" | "aten::_cdist_forward" => cdist(x1, x2, p, compute_mode);
        "aten::pdist" | "aten::_pdist_forward" => pdist(input, p);
        "aten::dist" => dist(input, other, p);
        "aten::pairwise_distance" => pairwise(x1, x2, p, eps, keepdim);
        "aten::cosine_similarity" => cosine_similarity(x1, x2, dim, eps);
    }
}

/// The p-norm over an axis, or over all of them.
pub(super) fn norm(b: &Lower, x: Var, p: f64, axis: Option<i64>, keepdims: bool) -> Lowered<Var> {
    norm_over(b, x, p, axis.map(|axis| vec![axis]), keepdims)
}

/// The p-norm over some axes, or over all of them.
pub(super) fn norm_over(
    b: &Lower,
    x: Var,
    p: f64,
    axes: Option<Vec<i64>>,
    keepdims: bool,
) -> Lowered<Var> {
    macro_rules! reduced {
        ($op:ident, $x:expr) => {
            b.$op($x).axes(axes.clone()).keepdims(keepdims).one()
        };
    }
    match p {
        0.0 => {
            let zero = operand(b, &Value::Int(0), dtype_of(b, x)?)?;
            let some = b.cast(b.not(b.equal(x, zero)?)?, dtype_of(b, x)?)?;
            reduced!(reduce_sum, some)
        }
        1.0 => reduced!(reduce_l1, x),
        2.0 => reduced!(reduce_l2, x),
        f64::INFINITY => reduced!(reduce_max, b.abs(x)?),
        f64::NEG_INFINITY => reduced!(reduce_min, b.abs(x)?),
        p => {
            let sums = reduced!(reduce_sum, b.pow(b.abs(x)?, p)?)?;
            b.pow(sums, 1.0 / p)
        }
    }
}

fn cdist(b: &Lower, x1: Var, x2: Var, p: f64, _compute_mode: Option<i64>) -> Lowered<Var> {
    let (n, m) = (rank(b, x1)? as i64, rank(b, x2)? as i64);
    if n < 2 || m < 2 {
        return Err(b.diagnostic(Code::LayerParameter, "Distances need matrices of points."));
    }
    let (x, y) = (b.unsqueeze(x1, [n - 1])?, b.unsqueeze(x2, [m - 2])?);
    norm(b, b.sub(x, y)?, p, Some(n.max(m)), false)
}

/// Distances between each row and those behind it.
fn pdist(b: &Lower, input: Var, p: f64) -> Lowered<Var> {
    const ROWS_MAX: i64 = 1 << 11;
    let n = known_size(b, input, 0).filter(|n| *n <= ROWS_MAX);
    let message = "The number of rows must be known, and small.";
    let n = n.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))?;
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let (i, j): (Vec<i64>, Vec<i64>) = pairs.unzip();
    let rows = |at: Vec<i64>| b.gather(input, at).axis(0).one();
    norm(b, b.sub(rows(i)?, rows(j)?)?, p, Some(1), false)
}

fn dist(b: &Lower, input: Value, other: Value, p: f64) -> Lowered<Var> {
    let [x, y] = operands(b, [&input, &other])?;
    norm(b, to_float(b, b.sub(x, y)?)?, p, None, false)
}

/// The norm of each row of the difference.
pub(super) fn distance(b: &Lower, [x, y]: [Var; 2], p: f64, eps: f64, keep: bool) -> Lowered<Var> {
    let d = b.sub(x, y)?;
    let d = if eps == 0.0 { d } else { b.add(d, eps)? };
    let last = rank(b, d)?.saturating_sub(1) as i64;
    norm(b, d, p, Some(last), keep)
}

fn pairwise(b: &Lower, x1: Var, x2: Var, p: f64, eps: f64, keepdim: bool) -> Lowered<Var> {
    distance(b, [x1, x2], p, eps, keepdim)
}

fn cosine_similarity(b: &Lower, x1: Value, x2: Value, dim: i64, eps: f64) -> Lowered<Var> {
    let [x, y] = super::dtype::float_operands(b, [&x1, &x2])?;
    let all = rank(b, x)?.max(rank(b, y)?);
    let widened = |v: Var| match (all - rank(b, v)?) as i64 {
        0 => Ok(v),
        more => b.unsqueeze(v, (0..more).collect::<Vec<_>>()),
    };
    let (x, y) = (widened(x)?, widened(y)?);
    let dim = axis(b, x, dim)?;
    let (x, y) = (broadcast_along(b, x, y, dim)?, broadcast_along(b, y, x, dim)?);
    let dim = dim as i64;
    let unit = |v: Var| {
        let length = norm(b, v, 2.0, Some(dim), true)?;
        b.div(v, b.max([length, operand(b, &Value::Float(eps), dtype_of(b, v)?)?])?)
    };
    let product = b.mul(unit(x)?, unit(y)?)?;
    b.reduce_sum(product).axes([dim]).keepdims(0).one()
}

/// `x` with as many elements along an axis as `like` has.
fn broadcast_along(b: &Lower, x: Var, like: Var, axis: usize) -> Lowered<Var> {
    let dim = |v: Var| b.shape_of(v).and_then(|shape| shape.get(axis).cloned());
    let (Some(own), Some(wanted)) = (dim(x), dim(like)) else { return Ok(x) };
    if own.same(&wanted) || own.known().is_some_and(|n| n != 1) || wanted.known() == Some(1) {
        return Ok(x);
    }
    let mut shape = vec![Value::Int(1); rank(b, x)?];
    shape[axis] = size(b, like, axis)?;
    b.expand(x, vector(b, &shape)?)
}
