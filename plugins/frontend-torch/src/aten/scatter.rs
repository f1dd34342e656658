//! Writing elements to places that tensors name, and combining those that meet.

use super::compare::select;
use super::dtype::{dtype_of, operand};
use super::elementwise::floor_quotient;
use super::indices::{vector, whole};
use super::shape::{expanded, expanded_as, needs, same_shape, unsupported};
use super::sizes::{self as of, axis, known_size, rank};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{self, Bool};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::scatter" => scatter;
        "aten::scatter_add" => |b, input: Var, dim: i64, index: Var, src: Var| {
            let source = source(b, input, index, src)?;
            scattered(b, input, dim, index, source, "add")
        };
        "aten::scatter_reduce" => scatter_reduce;
        "aten::index_add" => index_add;
        "aten::index_copy" => |b, input: Var, dim: i64, index: Var, source: Var| {
            along(b, input, dim, index, source, "none")
        };
        "aten::index_fill" => index_fill(input, dim, index, value);
        "aten::index_reduce" => index_reduce;
    }
}

arguments! {
    struct Scatter { input: Var, dim: i64, index: Var, src: Option<Var>, value: Option<Value>, reduce: Option<String> }
    struct ScatterReduce { input: Var, dim: i64, index: Var, src: Var, reduce: String, include_self: bool }
    struct IndexAdd { input: Var, dim: i64, index: Var, source: Var, alpha: Value }
    struct IndexReduce { input: Var, dim: i64, index: Var, source: Var, reduce: String, include_self: bool }
}

/// `x` with `source` at the places of `index`, which has the same shape.
fn scattered(
    b: &Lower,
    x: Var,
    dim: i64,
    index: Var,
    source: Var,
    reduction: &str,
) -> Lowered<Var> {
    let at = axis(b, x, dim)? as i64;
    let index = whole(b, index)?;
    if rank(b, x)? == 0 {
        let scatter = scattered(
            b,
            b.unsqueeze(x, [0])?,
            0,
            vector(b, index)?,
            vector_of(b, source)?,
            reduction,
        )?;
        return b.squeeze(scatter).axes([0]).one();
    }
    let (index, source) = match rank(b, index)? {
        0 => (vector(b, index)?, vector_of(b, source)?),
        _ => (index, source),
    };
    needs_reduction(b, reduction)?;
    if reduction == "none" {
        return b.scatter_elements(x, index, source).axis(at).one();
    }
    in_float(b, x, source, |x, source| {
        b.scatter_elements(x, index, source).axis(at).reduction(reduction).one()
    })
}

fn needs_reduction(b: &Lower, reduction: &str) -> Lowered<()> {
    match reduction {
        "none" => Ok(()),
        "max" | "min" => needs(b, 18, "extremes of what is scattered"),
        _ => needs(b, 16, "sums of what is scattered"),
    }
}

/// `x` with `updates` at the places of `indices`, whose last axis names the first axes of `x`.
///
/// # Errors
/// `N0203` if the operators of the graph are too old.
pub(crate) fn scattered_nd(
    b: &Lower,
    x: Var,
    indices: Var,
    updates: Var,
    reduction: &str,
) -> Lowered<Var> {
    needs_reduction(b, reduction)?;
    if reduction == "none" {
        return b.scatter_nd(x, indices, updates).one();
    }
    in_float(b, x, updates, |x, updates| {
        b.scatter_nd(x, indices, updates).reduction(reduction).one()
    })
}

/// Lets `f` compute in float32 where runtimes do not combine elements of the type.
fn in_float(
    b: &Lower,
    x: Var,
    updates: Var,
    f: impl FnOnce(Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    match dtype_of(b, x)? {
        short @ (DataType::Float16 | DataType::Bfloat16) => {
            let wide = |x| b.cast(x, DataType::Float);
            b.cast(f(wide(x)?, wide(updates)?)?, short)
        }
        _ => f(x, updates),
    }
}

fn vector_of(b: &Lower, x: Var) -> Lowered<Var> {
    if rank(b, x)? == 0 { b.unsqueeze(x, [0]) } else { Ok(x) }
}

/// The part of `src` that has the shape of `index`, in the type of `x`.
fn source(b: &Lower, x: Var, index: Var, src: Var) -> Lowered<Var> {
    let src = b.cast(src, dtype_of(b, x)?)?;
    if same_shape(b, src, index) || rank(b, src)? == 0 {
        return Ok(src);
    }
    let zeros = vec![0; rank(b, src)?];
    match b.dims_of(index) {
        Some(dims) => b.slice(src, zeros, dims).one(),
        None => b.slice(src, zeros, b.shape(index).one()?).one(),
    }
}

/// A number in the shape of `index`.
fn spread(b: &Lower, index: Var, value: &Value, to: DataType) -> Lowered<Var> {
    match b.dims_of(index) {
        Some(dims) => {
            let sizes: Vec<Value> = dims.into_iter().map(Value::Int).collect();
            super::create::filled(b, &sizes, value, to)
        }
        None => expanded_as(b, operand(b, value, to)?, index),
    }
}

fn scatter(b: &Lower, a: Scatter) -> Lowered<Var> {
    let source = match (a.src, &a.value) {
        (Some(src), _) => source(b, a.input, a.index, src)?,
        (None, Some(value)) => spread(b, a.index, value, dtype_of(b, a.input)?)?,
        (None, None) => return Err(unsupported(b, "There is nothing to scatter.")),
    };
    let reduction = match a.reduce.as_deref() {
        None => "none",
        Some("add") => "add",
        Some("multiply") => "mul",
        Some(_) => return Err(unsupported(b, "scatter adds or multiplies.")),
    };
    scattered(b, a.input, a.dim, a.index, source, reduction)
}

/// What leaves the result of a reduction as it is.
fn neutral(b: &Lower, reduce: &str, dtype: DataType) -> Lowered<Value> {
    Ok(match (reduce, dtype.is_float()) {
        ("sum" | "mean", _) => Value::Int(0),
        ("prod", _) => Value::Int(1),
        ("amax", true) => Value::Float(f64::NEG_INFINITY),
        ("amin", true) => Value::Float(f64::INFINITY),
        ("amax" | "amin", false) => {
            let signed = matches!(
                dtype,
                DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64
            );
            let bits = dtype.bits() as u32;
            let high = if bits >= 64 { i64::MAX } else { (1i64 << (bits - u32::from(signed))) - 1 };
            let low = if signed { -high - 1 } else { 0 };
            Value::Int(if reduce == "amax" { low } else { high })
        }
        _ => return Err(unsupported(b, "There is no such reduction.")),
    })
}

fn scatter_reduce(b: &Lower, a: ScatterReduce) -> Lowered<Var> {
    let source = source(b, a.input, a.index, a.src)?;
    reduced(b, (a.input, a.dim), a.index, source, &a.reduce, a.include_self)
}

fn reduced(
    b: &Lower,
    (x, dim): (Var, i64),
    index: Var,
    source: Var,
    reduce: &str,
    include_self: bool,
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let neutral = neutral(b, reduce, dtype)?;
    let start = match include_self {
        true => x,
        false => scattered(b, x, dim, index, spread(b, index, &neutral, dtype)?, "none")?,
    };
    let reduction = match reduce {
        "prod" => "mul",
        "amax" => "max",
        "amin" => "min",
        _ => "add",
    };
    let total = scattered(b, start, dim, index, source, reduction)?;
    if reduce != "mean" {
        return Ok(total);
    }
    let ones = spread(b, index, &Value::Int(1), dtype)?;
    let before = operand(b, &Value::Int(i64::from(include_self)), dtype)?;
    let before = expanded_as(b, before, x)?;
    let count = scattered(b, before, dim, index, ones, "add")?;
    let count =
        if include_self { count } else { b.max([count, operand(b, &Value::Int(1), dtype)?])? };
    if dtype.is_float() { b.div(total, count) } else { floor_quotient(b, total, count) }
}

/// `x` with slices of `source` at the places of `index` along an axis.
fn along(b: &Lower, x: Var, dim: i64, index: Var, source: Var, reduction: &str) -> Lowered<Var> {
    let source = b.cast(source, dtype_of(b, x)?)?;
    let at = axis(b, x, dim)?;
    let index = vector(b, index)?;
    if at == 0 && rank(b, x)? > 0 {
        let source =
            if rank(b, source)? < rank(b, x)? { b.unsqueeze(source, [0])? } else { source };
        return scattered_nd(b, x, b.unsqueeze(index, [1])?, source, reduction);
    }
    scattered(b, x, dim, everywhere(b, index, source, at)?, source, reduction)
}

/// An index along an axis, for all elements of a tensor.
fn everywhere(b: &Lower, index: Var, like: Var, at: usize) -> Lowered<Var> {
    let rank = rank(b, like)?;
    if rank < 2 {
        return Ok(index);
    }
    let others: Vec<i64> = (0..rank as i64).filter(|axis| *axis != at as i64).collect();
    expanded_as(b, b.unsqueeze(index, others)?, like)
}

fn index_add(b: &Lower, a: IndexAdd) -> Lowered<Var> {
    let source = match of::known(b, &a.alpha) == Some(1) || a.alpha == Value::Float(1.0) {
        true => a.source,
        false => b.mul(a.source, operand(b, &a.alpha, dtype_of(b, a.source)?)?)?,
    };
    along(b, a.input, a.dim, a.index, source, "add")
}

fn index_fill(b: &Lower, input: Var, dim: i64, index: Var, value: Value) -> Lowered<Var> {
    let to = dtype_of(b, input)?;
    let at = axis(b, input, dim)?;
    let rank = rank(b, input)?;
    let index = vector(b, index)?;
    let constant = b.constant_of(index).and_then(|index| index.to_i64s());
    if let (Some(places), Some(n)) = (constant, known_size(b, input, at))
        && n <= super::shape::INDICES_MAX
    {
        let hit = |i: i64| places.iter().any(|place| *place == i || *place + n == i);
        let cells: Vec<u8> = (0..n).map(|i| u8::from(hit(i))).collect();
        let mut dims = vec![1; rank - at];
        dims[0] = n as usize;
        let mask = Tensor::new(Bool, dims, cells.into());
        let mask = b.constant(mask.map_err(|why| unsupported(b, &why.to_string()))?);
        return select(b, mask, operand(b, &value, to)?, input);
    }
    let mut sizes = of::sizes(b, input)?;
    let Some(of_axis) = sizes.get_mut(at) else {
        return b.reshape(operand(b, &value, to)?, Vec::<i64>::new()).one();
    };
    *of_axis = of::size(b, index, 0)?;
    let source = expanded(b, operand(b, &value, to)?, &sizes)?;
    along(b, input, dim, index, source, "none")
}

fn index_reduce(b: &Lower, a: IndexReduce) -> Lowered<Var> {
    let source = b.cast(a.source, dtype_of(b, a.input)?)?;
    let at = axis(b, a.input, a.dim)?;
    let index = everywhere(b, vector(b, a.index)?, source, at)?;
    reduced(b, (a.input, a.dim), index, source, &a.reduce, a.include_self)
}
