//! Tensors that are made of sizes and numbers.

use super::dtype::{self, dtype_of, operand};
use super::shape::{INDICES_MAX, reshaped, unsupported, values};
use super::sizes::{self as of, axis, size};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Float, Int64};
use onnxd_plugin_sdk::ir::{Reals, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Most elements of a tensor of equal elements that becomes a constant.
pub(crate) const ELEMENTS_MAX: i64 = 1 << 10;

/// Most lists inside each other that a tensor is made of.
const DEPTH_MAX: usize = 64;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::zeros" | "aten::empty" | "aten::empty_permuted" | "aten::empty_strided" => |b, a: New| new(b, a, 0);
        "aten::ones" => |b, a: New| new(b, a, 1);
        "aten::full" => full;
        "aten::zeros_like" | "aten::empty_like" => |b, input: Var, dtype: Option<i64>| {
            like(b, input, dtype, &Value::Int(0))
        };
        "aten::ones_like" => |b, input: Var, dtype: Option<i64>| like(b, input, dtype, &Value::Int(1));
        "aten::full_like" => |b, input: Var, fill_value: Value, dtype: Option<i64>| like(b, input, dtype, &fill_value);
        "aten::new_zeros" | "aten::new_empty" | "aten::new_empty_strided" => |b, a: NewAs| new_as(b, a, 0);
        "aten::new_ones" => |b, a: NewAs| new_as(b, a, 1);
        "aten::new_full" => |b, input: Var, size: Vec<Value>, fill_value: Value, dtype: Option<i64>| {
            filled(b, &size, &fill_value, dtype_or(b, dtype, input)?)
        };
        "aten::arange" => |b, a: Arange| arange(b, a.start, a.end, a.step, a.dtype);
        "aten::range" => range;
        "aten::_dim_arange" => dim_arange(like, dim);
        "aten::_shape_as_tensor" => |b, input: Var| b.shape(input).one();
        "aten::linspace" => |b, a: Linspace| linspace(b, &a);
        "aten::logspace" => logspace;
        "aten::tensor" | "aten::as_tensor" | "aten::scalar_tensor" => tensor;
    }
}

arguments! {
    /// `zeros`
    struct New {
        size: Vec<Value>, dtype: Option<i64>, names: Option<Value>, stride: Option<Value>,
        physical_layout: Option<Value>,
    }
    struct Full { size: Vec<Value>, fill_value: Value, dtype: Option<i64>, names: Option<Value> }
    struct NewAs { input: Var, size: Vec<Value>, dtype: Option<i64>, stride: Option<Value> }
    struct Arange { start: Option<Value>, end: Value, step: Option<Value>, dtype: Option<i64> }
    struct Linspace { start: Value, end: Value, steps: Value, dtype: Option<i64> }
    struct Logspace { start: Value, end: Value, steps: i64, base: f64, dtype: Option<i64> }
    /// Nested lists of numbers, or one number.
    struct Data { data: Option<Value>, t: Option<Value>, s: Option<Value>, dtype: Option<i64> }
}

/// The type that an argument names, or `default`.
fn named(b: &Lower, number: Option<i64>, default: DataType) -> Lowered<DataType> {
    number.map_or(Ok(default), |number| dtype::named(b, number))
}

/// The type that an argument names, or that of `x`.
pub(crate) fn dtype_or(b: &Lower, number: Option<i64>, x: Var) -> Lowered<DataType> {
    number.map_or_else(|| dtype_of(b, x), |number| dtype::named(b, number))
}

/// A tensor of equal elements.
///
/// # Errors
/// `N0203` if the type has no such number.
pub(crate) fn filled(b: &Lower, sizes: &[Value], with: &Value, to: DataType) -> Lowered<Var> {
    let element = operand(b, with, to)?;
    let Some(one) = b.constant_of(element).filter(|one| one.len() == 1) else {
        let element = b.reshape(element, Vec::<i64>::new()).one()?;
        let whole = of::vector(b, sizes)?;
        return if sizes.is_empty() { Ok(element) } else { b.expand(element, whole) };
    };
    let count = of::all_known(b, sizes).filter(|dims| dims.iter().all(|n| *n >= 0));
    let wrong = |why: &dyn std::fmt::Display| unsupported(b, &why.to_string());
    let counted = count.map(|dims| (dims.iter().try_fold(1, |n: i64, m| n.checked_mul(*m)), dims));
    if let Some((Some(n @ 0..=ELEMENTS_MAX), dims)) = counted {
        let dims: Vec<usize> = dims.iter().map(|n| *n as usize).collect();
        let tensor = Tensor::new(to, dims, one.bytes().repeat(n as usize).into());
        return Ok(b.constant(tensor.map_err(|why| wrong(&why))?));
    }
    let one = one.reshaped(vec![1]).map_err(|why| wrong(&why))?;
    b.constant_of_shape(of::vector(b, sizes)?).value(one).one()
}

fn new(b: &Lower, a: New, with: i64) -> Lowered<Var> {
    filled(b, &a.size, &Value::Int(with), named(b, a.dtype, Float)?)
}

fn new_as(b: &Lower, a: NewAs, with: i64) -> Lowered<Var> {
    filled(b, &a.size, &Value::Int(with), dtype_or(b, a.dtype, a.input)?)
}

/// The type that a number gives to a tensor made of it.
fn number_dtype(b: &Lower, value: &Value) -> DataType {
    match value {
        Value::Bool(_) => Bool,
        Value::Int(_) => Int64,
        Value::Var(v) => b.dtype_of(*v).unwrap_or(Float),
        _ => Float,
    }
}

fn full(b: &Lower, a: Full) -> Lowered<Var> {
    let to = named(b, a.dtype, number_dtype(b, &a.fill_value))?;
    filled(b, &a.size, &a.fill_value, to)
}

/// Equal elements in the shape of `x`.
fn like(b: &Lower, x: Var, dtype: Option<i64>, with: &Value) -> Lowered<Var> {
    let to = dtype_or(b, dtype, x)?;
    if let Some(dims) = b.dims_of(x) {
        return filled(b, &dims.into_iter().map(Value::Int).collect::<Vec<_>>(), with, to);
    }
    let element = operand(b, with, to)?;
    match b.constant_of(element).and_then(|one| one.reshaped(vec![1]).ok()) {
        Some(one) => b.constant_of_shape(b.shape(x).one()?).value(one).one(),
        None => b.expand(element, b.shape(x).one()?),
    }
}

/// A number that is known.
fn real(b: &Lower, value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Var(v) => {
            let reals = b.constant_of(*v).and_then(|tensor| tensor.to_reals());
            let known = reals.and_then(|reals| reals.values.first().copied());
            known.or_else(|| of::known(b, value).map(|n| n as f64))
        }
        other => of::known(b, other).map(|n| n as f64),
    }
}

/// A vector of numbers of the type `to`. Integers are cut towards zero.
fn vector_of(b: &Lower, values: Vec<f64>, to: DataType) -> Lowered<Var> {
    let whole = || Tensor::vector(values.iter().map(|x| *x as i64).collect::<Vec<_>>());
    if to.is_float() {
        let dims = vec![values.len()];
        let tensor = Reals { dims, values }.to_tensor(to);
        return Ok(b.constant(tensor.ok_or_else(|| unsupported(b, "The type has no numbers."))?));
    }
    b.cast(b.constant(whole()), to)
}

fn is_float(b: &Lower, value: &Value) -> bool {
    number_dtype(b, value).is_float()
}

/// Numbers from `start`, which is 0 by default, up to `end`.
///
/// # Errors
/// `N0203` if there are none with this step.
pub(crate) fn arange(
    b: &Lower,
    start: Option<Value>,
    end: Value,
    step: Option<Value>,
    dtype: Option<i64>,
) -> Lowered<Var> {
    let start = start.unwrap_or(Value::Int(0));
    let step = step.unwrap_or(Value::Int(1));
    let all = [&start, &end, &step];
    let float = all.iter().any(|x| is_float(b, x));
    let to = named(b, dtype, if float { Float } else { Int64 })?;
    if let [Some(first), Some(end), Some(by)] = all.map(|x| real(b, x)) {
        // Integer types cut the numbers first.
        let [first, end, by] = match to.is_float() {
            true => [first, end, by],
            false => [first, end, by].map(f64::trunc),
        };
        if by == 0.0 {
            return Err(unsupported(b, "A range needs a step other than 0."));
        }
        let count = ((end - first) / by).ceil().max(0.0);
        if count <= INDICES_MAX as f64 {
            return vector_of(b, (0..count as i64).map(|i| first + i as f64 * by).collect(), to);
        }
    }
    let within = if float { Float } else { Int64 };
    let [start, end, step] = all.map(|x| match (x, within) {
        (Value::Int(x), _) => Ok(Operand::Int(*x)),
        (x, within) => operand(b, x, within).map(Operand::Var),
    });
    b.cast(b.range(start?, end?, step?).one()?, to)
}

/// As `arange`, with its end.
fn range(b: &Lower, a: Arange) -> Lowered<Var> {
    let start = a.start.unwrap_or(Value::Int(0));
    let step = a.step.unwrap_or(Value::Int(1));
    let [Some(first), Some(end), Some(by)] = [&start, &a.end, &step].map(|x| real(b, x)) else {
        return Err(unsupported(b, "range needs numbers that are known."));
    };
    let count = ((end - first) / by).floor() + 1.0;
    if !(0.0..=INDICES_MAX as f64).contains(&count) {
        return Err(unsupported(b, "range gives too many numbers."));
    }
    let values = (0..count as i64).map(|i| first + i as f64 * by).collect();
    vector_of(b, values, named(b, a.dtype, Float)?)
}

fn dim_arange(b: &Lower, like: Var, dim: i64) -> Lowered<Var> {
    let end = size(b, like, axis(b, like, dim)?)?;
    arange(b, None, end, None, Some(dtype::number(Int64)))
}

fn linspace(b: &Lower, a: &Linspace) -> Lowered<Var> {
    let to = named(b, a.dtype, Float)?;
    let steps = of::known(b, &a.steps);
    if steps.is_some_and(|steps| !(0..=INDICES_MAX).contains(&steps)) {
        return Err(unsupported(b, "linspace gives too many numbers."));
    }
    if let (Some(start), Some(end), Some(steps)) = (real(b, &a.start), real(b, &a.end), steps) {
        return vector_of(b, spaced(start, end, steps), to);
    }
    let within = if to.is_float() { to } else { Float };
    let [start, end] = [&a.start, &a.end].map(|end| operand(b, end, within));
    let (start, end) = (start?, end?);
    let steps = operand(b, &a.steps, Int64)?;
    let places = b.range(0i64, steps, 1i64).one()?;
    let last = b.sub(steps, 1i64)?;
    let step =
        b.div(b.sub(end, start)?, b.cast(b.max([last.into(), Operand::Int(1)])?, within)?)?;
    // As [`spaced`] does.
    let along = |places: Var| b.mul(step, b.cast(places, within)?);
    let (front, back) = (b.add(start, along(places)?)?, b.sub(end, along(b.sub(last, places)?)?)?);
    let single = b.equal(steps, 1i64)?;
    let first = b.or(b.less(places, b.div(steps, 2i64)?)?, single)?;
    b.cast(b.where_(first, front, back)?, to)
}

/// Numbers from `start` to `end`; the second half is counted from the end, so that the end is exact.
fn spaced(start: f64, end: f64, steps: i64) -> Vec<f64> {
    let step = (end - start) / (steps - 1).max(1) as f64;
    let at = |i: i64| match i < steps / 2 || steps == 1 {
        true => start + step * i as f64,
        false => end - step * (steps - 1 - i) as f64,
    };
    (0..steps).map(at).collect()
}

fn logspace(b: &Lower, a: Logspace) -> Lowered<Var> {
    let (Some(start), Some(end)) = (real(b, &a.start), real(b, &a.end)) else {
        return Err(unsupported(b, "logspace needs numbers that are known."));
    };
    if !(0..=INDICES_MAX).contains(&a.steps) {
        return Err(unsupported(b, "logspace gives too many numbers."));
    }
    let values = spaced(start, end, a.steps).into_iter().map(|x| a.base.powf(x)).collect();
    vector_of(b, values, named(b, a.dtype, Float)?)
}

fn tensor(b: &Lower, a: Data) -> Lowered<Var> {
    let single = a.s.is_some();
    let Some(data) = a.data.or(a.t).or(a.s) else {
        return Err(unsupported(b, "There is nothing to make a tensor of."));
    };
    let (mut items, mut dims) = (vec![], vec![]);
    flattened(b, &data, 0, &mut dims, &mut items)?;
    let types = items.iter().map(|item| number_dtype(b, item));
    let common_type = types.reduce(|one, other| dtype::meet(one, other).unwrap_or(Float));
    let tensor = matches!(data, Value::Var(v) if !single && b.rank_of(v) != Some(0));
    let common_type = if single && !tensor { None } else { common_type };
    let to = named(b, a.dtype, common_type.unwrap_or(Float))?;
    if let (Value::Var(v), true) = (&data, dims.is_empty()) {
        return b.cast(*v, to);
    }
    if let Some(values) = items.iter().map(|item| real(b, item)).collect::<Option<Vec<_>>>()
        && items.iter().all(|item| matches!(item, Value::Float(_)) || to != Int64)
    {
        let flat = vector_of(b, values, to)?;
        let constant = b.constant_of(flat).and_then(|flat| flat.reshaped(dims.clone()).ok());
        if let Some(constant) = constant {
            return Ok(b.constant(constant));
        }
    }
    let known_items: Option<Vec<i64>> = of::all_known(b, &items);
    if let (Some(known_items), true) = (known_items, to == Int64) {
        return Ok(b.constant(Tensor::from_vec(dims, known_items)));
    }
    let part = |item: &Value| b.reshape(operand(b, item, to)?, [1]).one();
    let parts = items.iter().map(part).collect::<Lowered<Vec<_>>>()?;
    let flat = if parts.len() == 1 { parts[0] } else { b.concat(parts).axis(0).one()? };
    reshaped(b, flat, values(dims.iter().map(|n| Value::Int(*n as i64)).collect()))
}

/// The numbers of nested lists, and the shape that they have.
fn flattened(
    b: &Lower,
    value: &Value,
    depth: usize,
    dims: &mut Vec<usize>,
    items: &mut Vec<Value>,
) -> Lowered<()> {
    let Value::List(list) = value else {
        if depth != dims.len() || items.len() as i64 > INDICES_MAX {
            return Err(unsupported(b, "A tensor is made of lists of unequal length."));
        }
        items.push(value.clone());
        return Ok(());
    };
    if depth > DEPTH_MAX || (depth < dims.len() && dims[depth] != list.len()) {
        return Err(unsupported(b, "A tensor is made of lists of unequal length."));
    }
    if depth == dims.len() {
        dims.push(list.len());
    }
    list.iter().try_for_each(|item| flattened(b, item, depth + 1, dims, items))
}
