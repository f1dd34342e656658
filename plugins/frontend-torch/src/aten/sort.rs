//! Elements in order, unique elements, and counts of them.

use super::dtype::{dtype_of, operand};
use super::scatter::scattered_nd;
use super::shape::{reshaped, unsupported, values};
use super::sizes::{self as of, axis, known_size, rank, size, sizes};
use super::{Lower, RowContext, create};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Double, Float, Int8, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::topk" => |b, input: Var, k: Value, dim: i64, largest: bool, sorted: bool| {
            top(b, input, &k, dim, largest, sorted)
        };
        "aten::sort" => |b, input: Var, dim: i64, descending: bool, stable: Option<bool>| {
            sorted(b, input, dim, descending)
        };
        "aten::argsort" => |b, input: Var, dim: i64, descending: bool, stable: Option<bool>| {
            Ok(sorted(b, input, dim, descending)?[1])
        };
        "aten::msort" => |b, input: Var| Ok(sorted(b, input, 0, false)?[0]);
        "aten::_unique2" => |b, a: Unique| unique(b, a.input, None, &a);
        "aten::_unique" => |b, a: Unique| unique(b, a.input, None, &a).map(|[x, inverse, _]| [x, inverse]);
        "aten::unique_dim" => |b, a: Unique| unique(b, a.input, a.dim, &a);
        "aten::unique_consecutive" => consecutive;
        "aten::unique_dim_consecutive" => |b, a: Unique| {
            consecutive(b, Unique { return_inverse: true, return_counts: Some(true), ..a })
        };
        "aten::bincount" => bincount(input, weights, minlength);
        "aten::histc" => histc;
    }
}

arguments! {
    struct Unique {
        input: Var, dim: Option<i64>, sorted: Option<bool>, return_inverse: bool,
        return_counts: Option<bool>,
    }
    struct Histogram { input: Var, bins: i64, min: Value, max: Value }
}

/// `x` in a type that runtimes compare, if it is of none.
fn comparable(b: &Lower, x: Var, types: &[DataType]) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    if types.contains(&dtype) {
        return Ok(x);
    }
    let whole = dtype == Bool || dtype.is_integer();
    b.cast(x, if whole { Int64 } else { Float })
}

/// The greatest or smallest elements along an axis, and their places. Of equal ones, the first come first.
fn top(b: &Lower, x: Var, k: &Value, dim: i64, largest: bool, sorted: bool) -> Lowered<[Var; 2]> {
    let at = axis(b, x, dim)? as i64;
    if rank(b, x)? == 0 {
        return Ok([x, b.constant(Tensor::scalar(0i64))]);
    }
    let dtype = dtype_of(b, x)?;
    let number = comparable(b, x, &[Float, Double, Int32, Int64])?;
    let top = b.top_k(number, of::single(b, k)?).axis(at).largest(largest).sorted(sorted);
    let [values, places] = top.outputs()?;
    Ok([b.cast(values, dtype)?, places])
}

fn sorted(b: &Lower, x: Var, dim: i64, descending: bool) -> Lowered<[Var; 2]> {
    let n = match rank(b, x)? {
        0 => Value::Int(1),
        _ => size(b, x, axis(b, x, dim)?)?,
    };
    top(b, x, &n, dim, descending, true)
}

/// Unique elements, or slices along an axis, in their order; which of them each element is, and how often they occur.
fn unique(b: &Lower, x: Var, dim: Option<i64>, a: &Unique) -> Lowered<[Var; 3]> {
    let dtype = dtype_of(b, x)?;
    let at = dim.map(|dim| axis(b, x, dim)).transpose()?;
    let number = comparable(b, x, &[Float, Double, Int8, Int64])?;
    let unique = b.unique(number).axis(at.map(|at| at as i64));
    // Of slices, torch gives all results, wanted or not.
    if at.is_none() && !a.return_inverse && a.return_counts != Some(true) {
        let none = of::ints(b, vec![]);
        return Ok([b.cast(unique.one()?, dtype)?, none, none]);
    }
    let [found, _, inverse, counts] = unique.outputs()?;
    let inverse = match at {
        None if a.return_inverse => reshaped(b, inverse, values(sizes(b, x)?))?,
        _ => inverse,
    };
    Ok([b.cast(found, dtype)?, inverse, counts])
}

/// As [`unique`], of elements or slices that follow each other.
fn consecutive(b: &Lower, a: Unique) -> Lowered<[Var; 3]> {
    let x = match a.dim {
        Some(_) => a.input,
        None => reshaped(b, a.input, vec![(-1).into()])?,
    };
    let at = axis(b, x, a.dim.unwrap_or(0))?;
    let axis = [at as i64];
    let after = b.slice(x, [1], [i64::MAX]).axes(axis).one()?;
    let before = b.slice(x, [0], [-1]).axes(axis).one()?;
    let mut differs = b.not(b.equal(after, before)?)?;
    let others: Vec<i64> = (0..rank(b, x)? as i64).filter(|i| *i != at as i64).collect();
    if !others.is_empty() {
        let any = b.reduce_max(b.cast(differs, Int32)?).axes(others).keepdims(0).one()?;
        differs = b.cast(any, Bool)?;
    }
    let first = Tensor::new(Bool, vec![1], vec![1].into());
    let first = b.constant(first.map_err(|why| unsupported(b, &why.to_string()))?);
    let kept = b.concat([first, differs]).axis(0).one()?;
    let found = b.compress(x, kept).axis(at as i64).one()?;
    let none = of::ints(b, vec![]);
    let mut results = [found, none, none];
    if a.return_inverse {
        let inverse = b.sub(b.cum_sum(b.cast(kept, Int64)?, 0i64).one()?, 1i64)?;
        results[1] = match a.dim {
            Some(_) => inverse,
            None => reshaped(b, inverse, values(sizes(b, a.input)?))?,
        };
    }
    if a.return_counts == Some(true) {
        let n = size(b, x, at)?;
        let places = b.range(0, of::scalar(b, &n)?, 1).one()?;
        let starts = b.compress(places, kept).axis(0).one()?;
        let next = b.slice(starts, [1], [i64::MAX]).axes([0]).one()?;
        let last = match of::single(b, &n)? {
            onnxd_plugin_sdk::build::Operand::Var(last) => last,
            _ => of::ints(b, vec![of::known(b, &n).unwrap_or(0)]),
        };
        results[2] = b.sub(b.concat([next, last]).axis(0).one()?, starts)?;
    }
    Ok(results)
}

/// How often each number occurs, or the sum of what it weighs.
fn bincount(b: &Lower, input: Var, weights: Option<Var>, minlength: Value) -> Lowered<Var> {
    let x = b.cast(input, Int64)?;
    let most = b.add(b.reduce_max(x).keepdims(0).one()?, 1i64)?;
    let count = match of::known(b, &minlength) {
        Some(0) => most,
        _ => {
            let least = match of::scalar(b, &minlength)? {
                onnxd_plugin_sdk::build::Operand::Var(least) => least,
                _ => b.constant(Tensor::scalar(of::known(b, &minlength).unwrap_or(0))),
            };
            b.max([most, least])?
        }
    };
    let count = if known_size(b, x, 0) == Some(0) { minlength } else { Value::Var(count) };
    let weights = match weights {
        None => create::filled(b, &[size(b, x, 0)?], &Value::Int(1), Int64)?,
        Some(weights) if dtype_of(b, weights)? == Float => weights,
        Some(weights) => b.cast(weights, Double)?,
    };
    let none = create::filled(b, &[count], &Value::Int(0), dtype_of(b, weights)?)?;
    scattered_nd(b, none, b.unsqueeze(x, [1])?, weights, "add")
}

fn histc(b: &Lower, a: Histogram) -> Lowered<Var> {
    let dtype = dtype_of(b, a.input)?;
    let x = reshaped(b, a.input, vec![(-1).into()])?;
    let x = if dtype.is_float() { x } else { b.cast(x, Float)? };
    let within = dtype_of(b, x)?;
    let (mut low, mut high) = (operand(b, &a.min, within)?, operand(b, &a.max, within)?);
    if low == high || b.constant_of(low).is_some_and(|low| b.constant_of(high) == Some(low)) {
        let least = b.reduce_min(x).keepdims(0).one()?;
        let most = b.reduce_max(x).keepdims(0).one()?;
        let same = b.cast(b.equal(least, most)?, within)?;
        (low, high) = (b.sub(least, same)?, b.add(most, same)?);
    }
    let bins = operand(b, &Value::Int(a.bins), within)?;
    let at = b.floor(b.div(b.mul(b.sub(x, low)?, bins)?, b.sub(high, low)?)?)?;
    let last = operand(b, &Value::Int(a.bins - 1), within)?;
    let zero = operand(b, &Value::Int(0), within)?;
    let at = b.cast(b.max([b.min([at, last])?, zero])?, Int64)?;
    let outside = b.or(b.less(x, low)?, b.greater(x, high)?)?;
    let counted = b.cast(b.not(outside)?, within)?;
    let none = create::filled(b, &[Value::Int(a.bins)], &Value::Int(0), within)?;
    let counts = scattered_nd(b, none, b.unsqueeze(at, [1])?, counted, "add")?;
    b.cast(counts, dtype)
}
