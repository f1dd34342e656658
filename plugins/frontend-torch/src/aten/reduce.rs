//! Sums, means, extremes and norms along axes.

use super::dtype::{dtype_of, named, operand, to_float, wide};
use super::linear::{MatrixNorm, matrix_norm};
use super::{Lower, RowContext, sizes};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Int16, Int32, Int64, Uint8, Uint16};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::sum" => |b, a: Reduced| total(b, a.input, &axes(b, &a)?, a.dtype);
        "prims::sum" => |b, a: Prim| total(b, a.inp, &a.axes(b)?, a.output_dtype);
        "aten::nansum" => |b, a: Reduced| total(b, numbers(b, a.input)?, &axes(b, &a)?, a.dtype);
        "aten::sum_to_size" => sum_to_size(input, size);
        "aten::count_nonzero" => |b, a: Reduced| total(b, b.cast(a.input, Bool)?, &axes(b, &a)?, None);
        "aten::mean" => |b, a: Reduced| mean(b, typed(b, a.input, a.dtype)?, &axes(b, &a)?);
        "aten::nanmean" => nanmean;
        "aten::prod" => |b, a: Reduced| product(b, a.input, &axes(b, &a)?, a.dtype);
        "prims::prod" => |b, a: Prim| product(b, a.inp, &a.axes(b)?, a.output_dtype);
        "aten::amax" | "aten::max" => |b, a: Reduced| most(b, a.input, &axes(b, &a)?, true);
        "aten::amin" | "aten::min" => |b, a: Reduced| most(b, a.input, &axes(b, &a)?, false);
        "prims::amax" => |b, a: Prim| most(b, a.inp, &a.axes(b)?, true);
        "prims::amin" => |b, a: Prim| most(b, a.inp, &a.axes(b)?, false);
        "aten::max.dim" => |b, a: Reduced| with_index(b, &a, true);
        "aten::min.dim" => |b, a: Reduced| with_index(b, &a, false);
        "aten::aminmax" | "aten::_aminmax" => |b, a: Reduced| {
            let axes = axes(b, &a)?;
            Ok([most(b, a.input, &axes, false)?, most(b, a.input, &axes, true)?])
        };
        "aten::argmax" => |b, a: Reduced| index_of(b, &a, true);
        "aten::argmin" => |b, a: Reduced| index_of(b, &a, false);
        "aten::any" | "aten::_is_any_true" => |b, a: Reduced| truth(b, &a, true);
        "aten::all" | "aten::_is_all_true" => |b, a: Reduced| truth(b, &a, false);
        "aten::logsumexp" | "aten::special_logsumexp" => |b, a: Reduced| {
            let axes = axes(b, &a)?;
            reduce_log_sum_exp(b, to_float(b, a.input)?, &axes)
        };
    };
    super::rows! { table;
        "aten::var" => |b, a: Variance| Ok(variance(b, &a, false)?[0]);
        "aten::std" => |b, a: Variance| Ok(variance(b, &a, true)?[0]);
        "aten::var_mean" => |b, a: Variance| variance(b, &a, false);
        "aten::std_mean" => |b, a: Variance| variance(b, &a, true);
        "prims::var" => |b, inp: Var, dims: Value, correction: Option<f64>, output_dtype: Option<i64>| {
            let axes = Axes::from_dims(b, inp, &dims, false)?;
            Ok(spread(b, inp, &axes, correction.unwrap_or(1.0), false)?[0])
        };
        "aten::norm" | "aten::native_norm" => |b, a: Norm| norm(b, &a, &a.p);
        "aten::linalg_vector_norm" => |b, a: Norm| norm(b, &a, &a.ord);
        "aten::frobenius_norm" => |b, a: Norm| norm(b, &a, &Value::Int(2));
        "aten::linalg_norm" => linalg_norm;
    }
}

arguments! {
    /// `sum.dim_IntList`
    struct Reduced { input: Var, dim: Value = Value::None, keepdim: bool = false, dtype: Option<i64> }
    /// `prims::sum`
    struct Prim { inp: Var, dims: Value, output_dtype: Option<i64> }
    /// `var.dim`, `var.correction`
    struct Variance {
        input: Var, dim: Value = Value::None, unbiased: Option<bool>, correction: Option<f64>, keepdim: bool = false,
    }
    /// `norm.ScalarOpt_dim_dtype`, `linalg_vector_norm`
    struct Norm {
        input: Var, p: Value = Value::None, ord: Value = Value::None, dim: Value = Value::None,
        keepdim: bool = false, dtype: Option<i64>,
    }
}

/// Axes that are reduced, all if there is no list, and whether they stay with size 1.
pub(crate) struct Axes {
    list: Option<Vec<i64>>,
    keep: bool,
}

impl Axes {
    /// The axes of `x` that an argument names: a number, a list, or nothing for all.
    pub(crate) fn from_dims(b: &Lower, x: Var, dims: &Value, keep: bool) -> Lowered<Axes> {
        let wrong = || {
            b.diagnostic(
                Code::LayerUnsupported,
                format!("Axes must be known numbers, found {dims}."),
            )
        };
        let one = |dim: &Value| sizes::known(b, dim).ok_or_else(wrong);
        let dims = match dims {
            Value::None => vec![],
            Value::List(items) => items.iter().map(one).collect::<Lowered<Vec<_>>>()?,
            Value::Var(v) => b.ints_of(*v).ok_or_else(wrong)?,
            other => vec![one(other)?],
        };
        if dims.is_empty() {
            return Ok(Axes { list: None, keep });
        }
        let Some(rank) = b.rank_of(x) else {
            return Ok(Axes { list: Some(dims), keep });
        };
        let axes = dims.iter().map(|dim| Ok(sizes::wrapped(b, *dim, rank)? as i64));
        let axes = axes.collect::<Lowered<Vec<i64>>>()?;
        Ok(Axes { list: Some(axes).filter(|axes| axes.len() < rank), keep })
    }

    fn kept(&self) -> Axes {
        Axes { list: self.list.clone(), keep: true }
    }

    /// The number of elements that are taken together.
    fn count(&self, b: &Lower, x: Var) -> Lowered<Value> {
        let sizes = match &self.list {
            Some(list) => list
                .iter()
                .map(|axis| sizes::size(b, x, *axis as usize))
                .collect::<Lowered<Vec<_>>>()?,
            None => sizes::sizes(b, x)?,
        };
        sizes::product(b, &sizes)
    }
}

impl Prim {
    fn axes(&self, b: &Lower) -> Lowered<Axes> {
        Axes::from_dims(b, self.inp, &self.dims, false)
    }
}

fn axes(b: &Lower, a: &Reduced) -> Lowered<Axes> {
    Axes::from_dims(b, a.input, &a.dim, a.keepdim)
}

macro_rules! reducers {
    ($($name:ident)*) => { $(
        pub(crate) fn $name(b: &Lower, x: Var, axes: &Axes) -> Lowered<Var> {
            b.$name(x).axes(axes.list.clone()).keepdims(axes.keep).one()
        }
    )* };
}

reducers! {
    reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum_exp
}

/// `x` in the type that an argument names.
fn typed(b: &Lower, x: Var, dtype: Option<i64>) -> Lowered<Var> {
    match dtype {
        Some(number) => b.cast(x, named(b, number)?),
        None => Ok(x),
    }
}

/// `x` in the type of its sum: that of the argument, or int64 of integers.
pub(crate) fn summed(b: &Lower, x: Var, dtype: Option<i64>) -> Lowered<Var> {
    let x = typed(b, x, dtype)?;
    let whole = dtype.is_none() && !dtype_of(b, x)?.is_float();
    if whole { b.cast(x, Int64) } else { Ok(x) }
}

/// `x` with 0 in place of what is no number.
fn numbers(b: &Lower, x: Var) -> Lowered<Var> {
    if dtype_of(b, x)?.is_float() { b.where_(b.is_nan(x)?, 0.0, x) } else { Ok(x) }
}

fn total(b: &Lower, x: Var, axes: &Axes, dtype: Option<i64>) -> Lowered<Var> {
    through(b, summed(b, x, dtype)?, reduce_sum, axes)
}

fn product(b: &Lower, x: Var, axes: &Axes, dtype: Option<i64>) -> Lowered<Var> {
    through(b, summed(b, x, dtype)?, reduce_prod, axes)
}

/// Sums and products of small integers are computed in a wider type.
fn through(
    b: &Lower,
    x: Var,
    reduce: fn(&Lower, Var, &Axes) -> Lowered<Var>,
    axes: &Axes,
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let wide = if dtype == Bool { Int32 } else { wide(dtype) };
    b.cast(reduce(b, b.cast(x, wide)?, axes)?, dtype)
}

fn sum_to_size(b: &Lower, input: Var, size: Vec<Value>) -> Lowered<Var> {
    let rank = sizes::rank(b, input)?;
    let more = rank.saturating_sub(size.len());
    let is_one = |axis: &usize| {
        *axis < more
            || (sizes::known(b, &size[*axis - more]) == Some(1)
                && sizes::known_size(b, input, *axis) != Some(1))
    };
    let list: Vec<i64> = (0..rank).filter(is_one).map(|axis| axis as i64).collect();
    if list.is_empty() {
        return Ok(input);
    }
    let sums = reduce_sum(b, input, &Axes { list: Some(list), keep: true })?;
    if more == 0 {
        Ok(sums)
    } else {
        b.squeeze(sums).axes((0..more as i64).collect::<Vec<_>>()).one()
    }
}

fn mean(b: &Lower, x: Var, axes: &Axes) -> Lowered<Var> {
    reduce_mean(b, to_float(b, x)?, axes)
}

fn nanmean(b: &Lower, a: Reduced) -> Lowered<Var> {
    let (x, axes) = (typed(b, a.input, a.dtype)?, axes(b, &a)?);
    let none = b.is_nan(x)?;
    let sum = reduce_sum(b, b.where_(none, 0.0, x)?, &axes)?;
    b.div(sum, reduce_sum(b, b.cast(b.not(none)?, dtype_of(b, x)?)?, &axes)?)
}

/// The type in which extremes of `dtype` are found.
fn comparable(b: &Lower, dtype: DataType) -> DataType {
    match dtype {
        Bool | Int16 | Uint16 => Int32,
        d if b.opset() < 12 => wide(d),
        d => d,
    }
}

/// The greatest or the least elements.
fn most(b: &Lower, x: Var, axes: &Axes, greatest: bool) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let x = b.cast(x, comparable(b, dtype))?;
    b.cast(if greatest { reduce_max(b, x, axes)? } else { reduce_min(b, x, axes)? }, dtype)
}

fn arg(b: &Lower, x: Var, axis: i64, keep: bool, greatest: bool) -> Lowered<Var> {
    let x = b.cast(x, comparable(b, dtype_of(b, x)?))?;
    match greatest {
        true => b.arg_max(x).axis(axis).keepdims(keep).one(),
        false => b.arg_min(x).axis(axis).keepdims(keep).one(),
    }
}

fn index_of(b: &Lower, a: &Reduced, greatest: bool) -> Lowered<Var> {
    if let (None, Some(dim)) = (b.rank_of(a.input), sizes::known(b, &a.dim)) {
        return arg(b, a.input, dim, a.keepdim, greatest);
    }
    let rank = sizes::rank(b, a.input)?;
    let zero = || b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(0i64));
    match (sizes::known(b, &a.dim), rank) {
        (_, 0) => Ok(zero()),
        (Some(dim), _) => {
            arg(b, a.input, sizes::wrapped(b, dim, rank)? as i64, a.keepdim, greatest)
        }
        (None, 1) => arg(b, a.input, 0, a.keepdim, greatest),
        (None, _) => {
            let found = arg(b, b.reshape(a.input, [-1]).one()?, 0, a.keepdim, greatest)?;
            if a.keepdim { b.reshape(found, vec![1; rank]).one() } else { Ok(found) }
        }
    }
}

fn with_index(b: &Lower, a: &Reduced, greatest: bool) -> Lowered<[Var; 2]> {
    Ok([most(b, a.input, &axes(b, a)?, greatest)?, index_of(b, a, greatest)?])
}

/// Whether any or all elements are not 0. Bytes give bytes.
fn truth(b: &Lower, a: &Reduced, any: bool) -> Lowered<Var> {
    let given = dtype_of(b, a.input)?;
    let x = b.cast(a.input, Bool)?;
    let to = if given == Uint8 { Uint8 } else { Bool };
    if matches!(&a.dim, Value::List(items) if items.is_empty()) {
        return b.cast(x, to);
    }
    let number = if b.opset() >= 20 { x } else { b.cast(x, Int32)? };
    let axes = axes(b, a)?;
    b.cast(if any { reduce_max(b, number, &axes)? } else { reduce_min(b, number, &axes)? }, to)
}

/// The variance or its root, and the mean.
fn variance(b: &Lower, a: &Variance, root: bool) -> Lowered<[Var; 2]> {
    let correction = match a.unbiased {
        Some(unbiased) => f64::from(u8::from(unbiased)),
        None => a.correction.unwrap_or(1.0),
    };
    spread(b, a.input, &Axes::from_dims(b, a.input, &a.dim, a.keepdim)?, correction, root)
}

fn spread(b: &Lower, x: Var, axes: &Axes, correction: f64, root: bool) -> Lowered<[Var; 2]> {
    let mean = reduce_mean(b, x, &axes.kept())?;
    let distance = b.sub(x, mean)?;
    let factor = |which| factor(b, x, axes, correction, which);
    let half = matches!(dtype_of(b, x)?, DataType::Float16 | DataType::Bfloat16);
    let spread = if half || (correction == 0.0 && !root) {
        // Sums of squares may leave the range of float16, means do not.
        let mut variance = reduce_mean(b, b.mul(distance, distance)?, axes)?;
        if correction != 0.0 {
            variance = b.mul(variance, factor(Factor::Share)?)?;
        }
        if root { b.sqrt(variance)? } else { variance }
    } else if root {
        b.div(reduce_l2(b, distance, axes)?, factor(Factor::Root)?)?
    } else {
        b.div(reduce_sum_square(b, distance, axes)?, factor(Factor::Freedom)?)?
    };
    let mean = match (&axes.list, axes.keep) {
        (_, true) => mean,
        (Some(list), false) => b.squeeze(mean).axes(list.clone()).one()?,
        (None, false) => b.reshape(mean, Vec::<i64>::new()).one()?,
    };
    Ok([spread, mean])
}

/// Degrees of freedom, their root, or the number of elements for each of them.
enum Factor {
    Freedom,
    Root,
    Share,
}

fn factor(b: &Lower, x: Var, axes: &Axes, correction: f64, which: Factor) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let count = axes.count(b, x)?;
    if let Some(n) = sizes::known(b, &count) {
        let free = (n as f64 - correction).max(0.0);
        let factor = match which {
            Factor::Freedom => free,
            Factor::Root => free.sqrt(),
            Factor::Share => n as f64 / free,
        };
        return operand(b, &Value::Float(factor), dtype);
    }
    let n = operand(b, &count, if dtype == DataType::Double { dtype } else { DataType::Float })?;
    let free = if correction == 0.0 { n } else { b.relu(b.sub(n, correction)?)? };
    let factor = match which {
        Factor::Freedom => free,
        Factor::Root => b.sqrt(free)?,
        Factor::Share => b.div(n, free)?,
    };
    b.cast(factor, dtype)
}

/// The root of a sum of powers of absolute values.
fn norm(b: &Lower, a: &Norm, order: &Value) -> Lowered<Var> {
    let x = to_float(b, typed(b, a.input, a.dtype)?)?;
    norm_of(b, x, &Axes::from_dims(b, x, &a.dim, a.keepdim)?, order)
}

fn norm_of(b: &Lower, x: Var, axes: &Axes, order: &Value) -> Lowered<Var> {
    let p = match order {
        Value::None => 2.0,
        Value::Text(name) if name == "fro" => 2.0,
        Value::Int(p) => *p as f64,
        Value::Float(p) => *p,
        other => {
            let message = format!("The norm {other} has no counterpart in ONNX.");
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        }
    };
    if p == 2.0 {
        return reduce_l2(b, x, axes);
    }
    if p == 1.0 {
        return reduce_l1(b, x, axes);
    }
    if p == 0.0 {
        return reduce_sum(b, b.cast(b.cast(x, Bool)?, dtype_of(b, x)?)?, axes);
    }
    let size = b.abs(x)?;
    if p.is_infinite() {
        return most(b, size, axes, p > 0.0);
    }
    let number = |x: f64| operand(b, &Value::Float(x), dtype_of(b, size)?);
    b.pow(reduce_sum(b, b.pow(size, number(p)?)?, axes)?, number(1.0 / p)?)
}

/// A norm of vectors or of matrices, by the number of axes.
fn linalg_norm(b: &Lower, a: Norm) -> Lowered<Var> {
    let rank = sizes::rank(b, a.input)? as i64;
    let dim = match &a.dim {
        Value::List(items) if items.len() == 2 => {
            items.iter().filter_map(|d| sizes::known(b, d)).collect()
        }
        Value::None if rank == 2 => vec![0, 1],
        _ => vec![],
    };
    if a.ord == Value::None || dim.len() != 2 {
        return norm(b, &a, &a.ord);
    }
    matrix_norm(
        b,
        &MatrixNorm { input: a.input, ord: a.ord, dim, keepdim: a.keepdim, dtype: a.dtype },
    )
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{Arg, assert_near, bools, floats, ints, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;
    use onnxd_plugin_sdk::lower::Value;

    fn table() -> Arg {
        Tensor::from_vec([2, 2], vec![1.0f32, -2.0, 3.0, 4.0]).into()
    }

    fn over(op: &str, x: Arg, dims: Arg) -> Tensor {
        run(op, [("input", x), ("dim", dims), ("keepdim", false.into())])
    }

    #[test]
    fn sums_of_integers_are_long() {
        assert_eq!(
            over("aten::sum", bools([true, true]).into(), vec![0].into()),
            Tensor::scalar(2i64)
        );
        assert_eq!(over("aten::sum", table(), vec![-1].into()), floats([-1.0, 7.0]));
        assert_eq!(over("aten::mean", table(), Value::None.into()), Tensor::scalar(1.5f32));
        assert_eq!(
            over("aten::count_nonzero", ints([0, 3]).into(), Value::None.into()),
            Tensor::scalar(1i64)
        );
    }

    #[test]
    fn extremes_come_with_their_places() {
        for opset in [11, 18] {
            let arguments = [("input", table()), ("dim", 0i64.into()), ("keepdim", true.into())];
            let found = run_at(opset, "aten::max.dim", arguments).unwrap();
            let places = Tensor::from_vec([1, 2], vec![1i64, 1]);
            assert_eq!(found, [Tensor::from_vec([1, 2], vec![3.0f32, 4.0]), places]);
        }
        assert_eq!(over("aten::argmin", table(), Value::None.into()), Tensor::scalar(1i64));
        assert_eq!(over("aten::any", ints([0, 3]).into(), 0i64.into()), bools_scalar(true));
        assert_eq!(over("aten::all", ints([0, 3]).into(), Value::None.into()), bools_scalar(false));
    }

    fn bools_scalar(x: bool) -> Tensor {
        bools([x]).reshaped(vec![]).unwrap()
    }

    #[test]
    fn variances_and_norms() {
        let variance = |correction: f64| {
            let arguments =
                [("input", table()), ("dim", vec![1].into()), ("correction", correction.into())];
            run("aten::var", arguments)
        };
        assert_near(&variance(1.0), &floats([4.5, 0.5]));
        assert_near(&variance(0.0), &floats([2.25, 0.25]));
        let norm = |p: Arg| {
            run(
                "aten::linalg_vector_norm",
                [("input", table()), ("ord", p), ("dim", vec![1].into())],
            )
        };
        assert_near(&norm(2i64.into()), &floats([2.236_068, 5.0]));
        assert_near(&norm(3i64.into()), &floats([2.080_084, 4.497_941]));
        assert_near(&norm(f64::NEG_INFINITY.into()), &floats([1.0, 3.0]));
        assert_near(&norm(0i64.into()), &floats([2.0, 2.0]));
    }
}
