//! Elements by their order: medians, quantiles, and the most frequent ones.

use super::dtype::{dtype_of, operand, wide};
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Int32, Int64};
use onnxd_plugin_sdk::ir::{Reals, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::kthvalue" => |b, input: Var, k: Value, dim: i64, keepdim: bool| kth(b, input, &k, dim, keepdim);
        "aten::median.dim" => |b, a: Median| middle(b, a.input, a.dim, a.keepdim);
        "aten::median" => median(input);
        "aten::mode" => mode;
        "aten::quantile" => quantile;
    }
}

arguments! {
    /// `median.dim`
    pub(crate) struct Median { input: Var, dim: i64, keepdim: bool }
    /// `mode`
    struct Mode { input: Var, dim: i64, keepdim: bool }
    /// `quantile`
    struct Quantile { input: Var, q: Value, dim: Option<i64>, keepdim: bool, interpolation: String }
}

/// The smallest `k` elements along an axis, in their order, and their places.
pub(crate) fn smallest(b: &Lower, x: Var, k: &Value, axis: usize) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, x)?;
    let number = if dtype == Bool { b.cast(x, Int32)? } else { x };
    let k = sizes::vector(b, std::slice::from_ref(k))?;
    let [values, places] = b.top_k(number, k).axis(axis as i64).largest(0).outputs()?;
    Ok([b.cast(values, dtype)?, places])
}

/// Element number `k`, counted from 1, and its place.
fn kth(b: &Lower, x: Var, k: &Value, dim: i64, keep: bool) -> Lowered<[Var; 2]> {
    let rank = sizes::rank(b, x)?;
    let axis = sizes::wrapped(b, dim, rank)?;
    if rank == 0 {
        return Ok([x, b.constant(Tensor::scalar(0i64))]);
    }
    let last = if keep { Tensor::vector(vec![-1i64]) } else { Tensor::scalar(-1i64) };
    let [values, places] = smallest(b, x, k, axis)?;
    let take = |from: Var| b.gather(from, last.clone()).axis(axis as i64).one();
    Ok([take(values)?, take(places)?])
}

/// The lower one of two in the middle.
pub(crate) fn middle(b: &Lower, x: Var, dim: i64, keep: bool) -> Lowered<[Var; 2]> {
    let axis = sizes::axis(b, x, dim)?;
    let k = match sizes::rank(b, x)? {
        0 => Value::Int(1),
        _ => {
            let more = sizes::plus(b, &sizes::size(b, x, axis)?, &Value::Int(1))?;
            sizes::over(b, &more, &Value::Int(2))?
        }
    };
    kth(b, x, &k, dim, keep)
}

fn flat(b: &Lower, x: Var) -> Lowered<Var> {
    if b.rank_of(x) == Some(1) { Ok(x) } else { b.reshape(x, [-1]).one() }
}

fn median(b: &Lower, input: Var) -> Lowered<Var> {
    Ok(middle(b, flat(b, input)?, 0, false)?[0])
}

/// Largest number of a type.
fn greatest(dtype: DataType) -> Value {
    use DataType::{Uint8, Uint16, Uint32};
    match dtype {
        d if d.is_float() => Value::Float(f64::INFINITY),
        Uint8 | Uint16 | Uint32 => Value::Int((1 << dtype.bits()) - 1),
        d => Value::Int(i64::MAX >> (64 - d.bits())),
    }
}

/// The least of the most frequent elements, and the place of the last of them.
fn mode(b: &Lower, a: Mode) -> Lowered<[Var; 2]> {
    let rank = sizes::rank(b, a.input)?;
    let axis = sizes::wrapped(b, a.dim, rank)? as i64;
    if rank == 0 {
        return Ok([a.input, b.constant(Tensor::scalar(0i64))]);
    }
    let given = dtype_of(b, a.input)?;
    let x = b.cast(a.input, if given == Bool { Int32 } else { wide(given) })?;
    let alike = b.equal(b.unsqueeze(x, [axis + 1])?, b.unsqueeze(x, [axis])?)?;
    let counts = b.reduce_sum(b.cast(alike, Int64)?).axes([axis + 1]).keepdims(0).one()?;
    let frequent = b.equal(counts, b.reduce_max(counts).axes([axis]).one()?)?;
    let other = operand(b, &greatest(dtype_of(b, x)?), dtype_of(b, x)?)?;
    let least = b.reduce_min(super::compare::select(b, frequent, x, other)?).axes([axis]).one()?;
    let same = b.cast(b.equal(x, least)?, Int32)?;
    let place = b.arg_max(same).axis(axis).select_last_index(1).keepdims(a.keepdim).one()?;
    let value = if a.keepdim { least } else { b.squeeze(least).axes([axis]).one()? };
    Ok([b.cast(value, given)?, place])
}

/// Where quantiles are in a sorted axis: the elements below, and those above with the way to them.
struct QuantilePositions {
    below: Var,
    above: Option<(Var, Var)>,
}

const MODES: [&str; 5] = ["linear", "lower", "higher", "nearest", "midpoint"];

impl QuantilePositions {
    fn find(b: &Lower, q: Var, n: &Value, mode: &str) -> Lowered<QuantilePositions> {
        let known = b.constant_of(q).and_then(|t| t.to_reals()).zip(sizes::known(b, n));
        match known {
            Some((q_known, n)) => QuantilePositions::known(b, q_known, n, mode, dtype_of(b, q)?),
            None => QuantilePositions::computed(b, q, n, mode),
        }
    }

    fn known(
        b: &Lower,
        mut q: Reals,
        n: i64,
        mode: &str,
        dtype: DataType,
    ) -> Lowered<QuantilePositions> {
        let rounded = |x: f64| if dtype == DataType::Double { x } else { f64::from(x as f32) };
        let at = q.values.iter().map(|q| rounded(*q * (n - 1) as f64));
        let at: Vec<f64> = at
            .map(|at| match mode {
                "lower" => at.floor(),
                "higher" => at.ceil(),
                "nearest" => at.round_ties_even(),
                _ => at,
            })
            .collect();
        let whole = |round: fn(f64) -> f64| {
            let items = at.iter().map(|at| round(*at) as i64).collect();
            b.constant(Tensor::from_vec(q.dims.clone(), items))
        };
        let (below, above) = (whole(f64::floor), whole(f64::ceil));
        let way = |at: &f64| if mode == "midpoint" { 0.5 } else { at.fract() };
        q.values = at.iter().map(way).collect();
        let way = q.to_tensor(dtype).map(|way| b.constant(way));
        let between =
            matches!(mode, "linear" | "midpoint") && at.iter().any(|at| at.fract() != 0.0);
        Ok(QuantilePositions { below, above: way.filter(|_| between).map(|way| (above, way)) })
    }

    fn computed(b: &Lower, q: Var, n: &Value, mode: &str) -> Lowered<QuantilePositions> {
        let last = sizes::scalar(b, &sizes::minus(b, n, &Value::Int(1))?)?;
        let at = b.mul(q, b.cast(last, dtype_of(b, q)?)?)?;
        let whole = |at: Var| b.cast(at, Int64);
        let below = b.floor(at)?;
        let between = |way: Var| Ok(Some((whole(b.ceil(at)?)?, way)));
        let (below, above) = match mode {
            "lower" => (below, None),
            "higher" => (b.ceil(at)?, None),
            "nearest" => (b.round(at)?, None),
            "midpoint" => (below, between(operand(b, &Value::Float(0.5), dtype_of(b, q)?)?)?),
            _ => (below, between(b.sub(at, below)?)?),
        };
        Ok(QuantilePositions { below: whole(below)?, above })
    }
}

fn quantile(b: &Lower, a: Quantile) -> Lowered<Var> {
    if !MODES.contains(&a.interpolation.as_str()) {
        let message = format!("There is no interpolation `{}`.", shown(&a.interpolation));
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let rank = sizes::rank(b, a.input)?;
    let (x, axis) = match a.dim {
        Some(dim) if rank > 0 => (a.input, sizes::wrapped(b, dim, rank)?),
        _ => (flat(b, a.input)?, 0),
    };
    let dtype = dtype_of(b, x)?;
    let q = operand(b, &a.q, dtype)?;
    let n = sizes::size(b, x, axis)?;
    let places = QuantilePositions::find(b, q, &n, &a.interpolation)?;
    let [sorted, _] = smallest(b, x, &n, axis)?;
    let many = sizes::rank(b, q)? > 0;
    let taken = |at: Var| b.gather(sorted, at).axis(axis as i64).one();
    let mut quantiles = taken(places.below)?;
    if let Some((above, way)) = places.above {
        let more: Vec<i64> = (1..(sizes::rank(b, x)? - axis) as i64).collect();
        let way = if many && !more.is_empty() { b.unsqueeze(way, more)? } else { way };
        quantiles = b.add(quantiles, b.mul(b.sub(taken(above)?, quantiles)?, way)?)?;
    }
    if many && axis > 0 {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        order.remove(axis);
        order.insert(0, axis as i64);
        quantiles = b.transpose(quantiles).perm(order).one()?;
    }
    match (a.keepdim, a.dim) {
        (true, Some(_)) if rank > 0 => b.unsqueeze(quantiles, [axis as i64 + i64::from(many)]),
        (true, _) if rank > 0 => {
            let first = i64::from(many);
            b.unsqueeze(quantiles, (first..first + rank as i64).collect::<Vec<_>>())
        }
        _ => Ok(quantiles),
    }
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{Arg, assert_near, floats, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;

    fn table() -> Arg {
        Tensor::from_vec([2, 4], vec![3i64, 1, 1, 2, 5, 5, 4, 4]).into()
    }

    fn along(op: &str) -> Vec<Tensor> {
        let arguments = [("input", table()), ("dim", 1i64.into()), ("keepdim", false.into())];
        run_at(18, op, arguments).unwrap()
    }

    #[test]
    fn medians_are_the_lower_ones() {
        assert_eq!(along("aten::median.dim")[0], Tensor::vector(vec![1i64, 4]));
        assert_eq!(run("aten::median", [("input", table())]), Tensor::scalar(3i64));
    }

    #[test]
    fn modes_are_the_least_of_the_most_frequent() {
        let expected = [Tensor::vector(vec![1i64, 4]), Tensor::vector(vec![2i64, 3])];
        assert_eq!(along("aten::mode"), expected);
    }

    #[test]
    fn quantiles_lie_between_elements() {
        let at = |q: Arg, mode: &str| {
            let [input, q] = [("input", floats([4.0, 1.0, 3.0, 2.0]).into()), ("q", q)];
            let (dim, keep) = (("dim", 0i64.into()), ("keepdim", false.into()));
            run("aten::quantile", [input, q, dim, keep, ("interpolation", mode.into())])
        };
        assert_near(&at(0.4.into(), "linear"), &Tensor::scalar(2.2f32));
        assert_near(&at(0.4.into(), "midpoint"), &Tensor::scalar(2.5f32));
        assert_eq!(at(floats([0.0, 0.4, 1.0]).into(), "higher"), floats([1.0, 3.0, 4.0]));
        assert_near(&at(floats([0.0, 0.4]).into(), "linear"), &floats([1.0, 2.2]));
    }
}
