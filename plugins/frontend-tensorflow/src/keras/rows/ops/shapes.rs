//! Shapes, joins and splits, and tensors made of numbers.

use super::elementwise::any;
use super::promote::{self, as_tensors, named_if, tensor};
use crate::keras::rows::{count, ints};
use crate::ops::create::{counted, filled, number, scalar};
use crate::ops::join::{concatenated, packed, parts};
use crate::ops::shape::{axis_of, reshaped, size, size_by, sized, sizes, transposed, unsqueezed};
use crate::ops::slicing::reversed;
use crate::ops::{Lower, RowContext, Values, dtype_of, rank, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Float, Int32, Int64};
use onnxd_plugin_sdk::lower::{ArgumentReader, Lowered, Parameter, Table, Value, WrongArgument};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = crate::ops::rows! { table;
        "ops.Reshape" => |b, x: Var, newshape: Operand| reshaped(b, x, &newshape);
        "ops.Ravel" => |b, x: Var| b.reshape(x, [-1]).one();
        "ops.ExpandDims" => |b, a: Axes| {
            let mut axes = list(b, &a.axis)?;
            let n = (rank(b, a.x)? + axes.len()) as i64;
            axes.iter_mut().filter(|axis| **axis < 0).for_each(|axis| *axis += n);
            axes.sort_unstable();
            unsqueezed(b, a.x, &axes)
        };
        "ops.Squeeze" => squeeze;
        "ops.Transpose" => |b, x: Var, axes: Option<Vec<i64>>| {
            let n = rank(b, x)? as i64;
            transposed(b, x, &axes.filter(|axes| !axes.is_empty()).unwrap_or_else(|| (0..n).rev().collect()))
        };
        "ops.Swapaxes" => |b, x: Var, axis1: i64, axis2: i64| {
            let (i, j) = (axis_of(b, x, axis1)?, axis_of(b, x, axis2)?);
            let mut perm: Vec<i64> = (0..rank(b, x)? as i64).collect();
            perm.swap(i, j);
            transposed(b, x, &perm)
        };
        "ops.Moveaxis" => |b, x: Var, source: Operand, destination: Operand| {
            moved(b, x, &list(b, &source)?, &list(b, &destination)?)
        };
        "ops.BroadcastTo" => |b, x: Var, shape: Vec<i64>| b.expand(x, shape);
        "ops.Flip" => |b, a: Axes| {
            let all = (0..rank(b, a.x)? as i64).collect();
            reversed(b, a.x, &if matches!(a.axis, Operand::Absent) { all } else { list(b, &a.axis)? })
        };
        "ops.Fliplr" => |b, x: Var| reversed(b, x, &[1]);
        "ops.Flipud" => |b, x: Var| reversed(b, x, &[0]);
        "ops.Rot90" => |b, a: Turn| quarter_turns(b, a);
        "ops.Roll" => |b, a: Roll| match list(b, &a.axis)? {
            axes if axes.is_empty() => {
                let flat = b.reshape(a.x, [-1]).one()?;
                let turned = rolled(b, flat, &a.shift, vec![0])?;
                b.reshape(turned, b.shape(a.x).one()?).one()
            }
            axes => rolled(b, a.x, &a.shift, axes),
        };
        "ops.Tile" => tile(x, repeats);
        "ops.Size" => |b, x: Var| b.cast(b.size(x)?, Int32);
        "ops.Ndim" => |b, x: Var| Ok(b.constant(scalar(rank(b, x)? as i64, Int32)));
        "ops.Repeat" => repeat(x, repeats, axis);
    };
    made(joined(table))
}

arguments! {
    /// `Squeeze(x; axis=None)`
    struct Axes { x: Var, axis: Operand = Operand::Absent }
    /// `Rot90(array; k=1, axes=(0, 1))`
    struct Turn { array: Var, k: i64 = 1, axes: Vec<i64> }
    /// `Roll(x; shift, axis=None)`
    struct Roll { x: Var, shift: Operand, axis: Operand = Operand::Absent }
    /// `Concatenate(xs; axis=0)`
    struct Join { xs: Vec<Value>, axis: i64 = 0 }
    /// `Stack(x; axis=0)`
    struct Stack { x: Vec<Value>, axis: i64 = 0 }
    /// `Append(x1, x2; axis=None)`
    struct Append { x1: Value, x2: Value, axis: Option<i64> }
    /// `Split(x; indices_or_sections, axis=0)`
    struct Split { x: Var, indices_or_sections: Operand, axis: i64 = 0 }
    /// `Unstack(x; num=None, axis=0)`
    struct Unstack { x: Var, num: Option<i64>, axis: i64 = 0 }
    /// `ZerosLike(x; dtype=None)`
    struct Like { x: Var, dtype: Option<String> }
    /// `Arange(start, stop=None, step=None; dtype=None)`
    struct Arange { start: Value, stop: Option<Value>, step: Option<Value>, dtype: Option<String> }
    /// `Linspace(start, stop; num=50, endpoint=True, retstep=False, dtype=None, axis=0)`
    struct Linspace {
        start: Value, stop: Value, num: i64 = 50, endpoint: bool = true, retstep: bool = false, dtype: Option<String>,
        axis: i64 = 0, base: Option<f64>,
    }
    /// `Pad(x, constant_values=None; pad_width, mode="constant")`
    struct Pad { x: Var, constant_values: Option<Value>, pad_width: Value, mode: String = "constant" }
}

/// `Meshgrid(*x; indexing="xy")`
struct Grid {
    x: Vec<Value>,
    indexing: String,
}

impl Parameter for Grid {
    fn take(reader: &mut ArgumentReader<'_>, _: &str) -> Result<Grid, WrongArgument> {
        Ok(Grid { x: reader.rest(), indexing: reader.take("indexing", Some("xy".to_owned()))? })
    }
}

/// Integers as a list; one stands for itself, and nothing is an empty list.
///
/// # Errors
/// `N0204` if they are not known.
pub(crate) fn list(b: &GraphBuilder, x: &Operand) -> Lowered<Vec<i64>> {
    let known = match x {
        Operand::Absent => Some(vec![]),
        Operand::Int(x) => Some(vec![*x]),
        Operand::Ints(x) => Some(x.clone()),
        Operand::Var(v) => b.ints_of(*v),
        _ => None,
    };
    known.ok_or_else(|| b.wrong("Axes, sizes and counts must be integers that the model holds."))
}

/// `x` and an axis of it; without one, all elements in a line.
pub(crate) fn in_line(b: &GraphBuilder, x: Var, axis: Option<i64>) -> Lowered<(Var, i64)> {
    let x = if axis.is_none() { b.reshape(x, [-1]).one()? } else { x };
    Ok((x, axis_of(b, x, axis.unwrap_or(0))? as i64))
}

fn joined(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Concatenate" => |b, a: Join| concatenated(b, alike(b, &a.xs)?, a.axis);
        "ops.Stack" => |b, a: Stack| packed(b, alike(b, &a.x)?, a.axis);
        "ops.Vstack" => |b, xs: Vec<Value>| concatenated(b, alike(b, &xs)?, 0);
        "ops.Hstack" => |b, xs: Vec<Value>| {
            let all = alike(b, &xs)?;
            let axis = second(b, all[0])?;
            concatenated(b, all, axis)
        };
        "ops.Dstack" => |b, xs: Vec<Value>| {
            let deep = |x: Var| match rank(b, x)? {
                0 => b.reshape(x, [1, 1, 1]).one(),
                1 => b.unsqueeze(x, [0, 2]),
                2 => b.unsqueeze(x, [2]),
                _ => Ok(x),
            };
            concatenated(b, alike(b, &xs)?.into_iter().map(deep).collect::<Lowered<_>>()?, 2)
        };
        "ops.Append" => |b, a: Append| {
            let both = as_tensors(b, [&a.x1, &a.x2])?.to_vec();
            let Some(axis) = a.axis else {
                let flat = both.into_iter().map(|x| b.reshape(x, [-1]).one());
                return concatenated(b, flat.collect::<Lowered<_>>()?, 0);
            };
            concatenated(b, both, axis)
        };
        "ops.Split" => |b, a: Split| split(b, a.x, &a.indices_or_sections, a.axis, false);
        "ops.ArraySplit" => |b, a: Split| split(b, a.x, &a.indices_or_sections, a.axis, true);
        "ops.Vsplit" => |b, x: Var, indices_or_sections: Operand| split(b, x, &indices_or_sections, 0, false);
        "ops.Hsplit" => |b, x: Var, indices_or_sections: Operand| {
            split(b, x, &indices_or_sections, second(b, x)?, false)
        };
        "ops.Dsplit" => |b, x: Var, indices_or_sections: Operand| split(b, x, &indices_or_sections, 2, false);
        "ops.Unstack" => |b, a: Unstack| {
            let axis = axis_of(b, a.x, a.axis)?;
            let size = size_of(b, a.x, axis);
            let Some(n) = a.num.or(size) else { return Err(unknown(b, axis)) };
            refuse!(size.is_some_and(|size| size != n) => b.wrong(format!("Axis {axis} does not have {n} parts.")));
            let n = count(b, "tensors", n)?;
            let one = |i: i64| Ok(Value::Var(b.gather(a.x, i).axis(axis as i64).one()?));
            (0..n).map(one).collect::<Lowered<Vec<_>>>().map(Values)
        };
    }
}

fn made(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.ZerosLike" | "ops.EmptyLike" => |b, a: Like| like(b, &a, 0);
        "ops.OnesLike" => |b, a: Like| like(b, &a, 1);
        "ops.FullLike" => |b, x: Var, fill_value: Value, dtype: Option<String>| {
            let to = named_if(b, dtype.as_ref())?.map_or_else(|| dtype_of(b, x), Ok)?;
            b.expand(tensor(b, &fill_value, to)?, b.shape(x).one()?)
        };
        "ops.Full" => |b, fill_value: Value, shape: Vec<i64>, dtype: Option<String>| {
            let to = named_if(b, dtype.as_ref())?.unwrap_or(Float);
            b.expand(tensor(b, &fill_value, to)?, shape)
        };
        "ops.Arange" => arange;
        "ops.Linspace" => linspace;
        "ops.Logspace" => |b, a: Linspace| {
            let base = a.base.unwrap_or(10.0);
            let powers = linspace(b, a)?;
            let powers = match powers.0.first() {
                Some(Value::Var(v)) => *v,
                _ => return Ok(powers),
            };
            let y = b.pow(b.constant(number(base, dtype_of(b, powers)?)), powers)?;
            Ok(Values(vec![y.into()]))
        };
        "ops.Pad" => pad;
        "ops.Meshgrid" => meshgrid;
    }
}

fn unknown(b: &GraphBuilder, axis: usize) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    let message = format!("The size of axis {axis} must be known.");
    b.unsupported(message)
}

/// The place of a new axis among `n` axes.
///
/// # Errors
/// `N0204` if it is none of them.
pub(crate) fn new_axis(b: &GraphBuilder, axis: i64, n: i64) -> Lowered<i64> {
    let place = if axis < 0 { axis + n } else { axis };
    if (0..n).contains(&place) {
        return Ok(place);
    }
    Err(b.wrong(format!("Axis {axis} is none of {n}.")))
}

/// The axis from left to right.
fn second(b: &GraphBuilder, x: Var) -> Lowered<i64> {
    Ok(i64::from(rank(b, x)? != 1))
}

/// Tensors of one element type.
fn alike(b: &GraphBuilder, all: &[Value]) -> Lowered<Vec<Var>> {
    let refs: Vec<&Value> = all.iter().collect();
    refuse!(refs.is_empty() => b.wrong("There are no tensors to join."));
    let to = promote::result(b, &refs)?.fixed();
    all.iter().map(|x| tensor(b, x, to)).collect()
}

fn squeeze(b: &Lower, a: Axes) -> Lowered<Var> {
    let mut axes = list(b, &a.axis)?;
    if matches!(a.axis, Operand::Absent) {
        let shape = b.shape_of(a.x).unwrap_or_default();
        axes = (0..).zip(&shape).filter(|(_, n)| n.known() == Some(1)).map(|(i, _)| i).collect();
    }
    if axes.is_empty() { Ok(a.x) } else { crate::ops::shape::squeezed(b, a.x, &axes) }
}

/// `x` with axes at other places.
pub(crate) fn moved(b: &GraphBuilder, x: Var, from: &[i64], to: &[i64]) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let from = from.iter().map(|a| axis_of(b, x, *a)).collect::<Lowered<Vec<_>>>()?;
    let to = to.iter().map(|a| axis_of(b, x, *a)).collect::<Lowered<Vec<_>>>()?;
    let mut perm: Vec<i64> = (0..n).filter(|a| !from.contains(&(*a as usize))).collect();
    let mut pairs: Vec<(usize, usize)> = to.into_iter().zip(from).collect();
    pairs.sort_unstable();
    for (to, from) in pairs {
        perm.insert(to.min(perm.len()), from as i64);
    }
    transposed(b, x, &perm)
}

fn quarter_turns(b: &Lower, a: Turn) -> Lowered<Var> {
    let [i, j] = a.axes[..] else {
        return Err(b.wrong("A turn has two axes."));
    };
    let (i, j) = (axis_of(b, a.array, i)? as i64, axis_of(b, a.array, j)? as i64);
    let mut perm: Vec<i64> = (0..rank(b, a.array)? as i64).collect();
    perm.swap(i as usize, j as usize);
    match a.k.rem_euclid(4) {
        0 => Ok(a.array),
        1 => transposed(b, reversed(b, a.array, &[j])?, &perm),
        2 => reversed(b, a.array, &[i, j]),
        _ => reversed(b, transposed(b, a.array, &perm)?, &[j]),
    }
}

fn rolled(b: &Lower, x: Var, shift: &Operand, axes: Vec<i64>) -> Lowered<Var> {
    let mut shifts = list(b, shift)?;
    if shifts.len() == 1 {
        shifts = vec![shifts[0]; axes.len()];
    }
    let mut x = x;
    for (axis, shift) in axes.into_iter().zip(shifts) {
        let axis = axis_of(b, x, axis)? as i64;
        let begin: Operand = match size_of(b, x, axis as usize) {
            Some(size) => vec![shift.saturating_neg().rem_euclid(size.max(1))].into(),
            None => b
                .mod_(shift.saturating_neg(), b.shape(x).start(axis).end(axis + 1).one()?)
                .one()?
                .into(),
        };
        let tail = b.slice(x, begin.clone(), [i64::MAX]).axes([axis]).one()?;
        let head = b.slice(x, [0], begin).axes([axis]).one()?;
        x = b.concat([tail, head]).axis(axis).one()?;
    }
    Ok(x)
}

fn tile(b: &Lower, x: Var, repeats: Operand) -> Lowered<Var> {
    let mut repeats = list(b, &repeats)?;
    let n = rank(b, x)?;
    let missing = n.saturating_sub(repeats.len());
    repeats.splice(0..0, vec![1; missing]);
    let new: Vec<i64> = (0..(repeats.len() - n) as i64).collect();
    b.tile(unsqueezed(b, x, &new)?, repeats)
}

fn repeat(b: &Lower, x: Var, repeats: Operand, axis: Option<i64>) -> Lowered<Var> {
    let (flat, axis) = in_line(b, x, axis)?;
    match &list(b, &repeats)?[..] {
        [n] => {
            let n = count(b, "repeats", *n)?;
            let wide = b.unsqueeze(flat, [axis + 1])?;
            let mut times = vec![1; rank(b, wide)?];
            times[axis as usize + 1] = n;
            let tiled = b.tile(wide, times)?;
            let by = |b: &GraphBuilder, v: Var, n: i64| b.mul(v, n);
            let own = size(b, flat, axis as usize)?;
            let own = size_by(b, own, n, i64::saturating_mul, by)?;
            let mut sizes = sizes(b, flat, 0..rank(b, flat)?)?;
            sizes[axis as usize] = own;
            sized(b, tiled, &sizes)
        }
        all => {
            for n in all {
                count(b, "repeats", *n)?;
            }
            count(b, "repeats", all.iter().fold(0, |sum, n| sum.saturating_add(*n)))?;
            let places = (0i64..).zip(all).flat_map(|(i, n)| vec![i; *n as usize]);
            b.gather(flat, places.collect::<Vec<i64>>()).axis(axis).one()
        }
    }
}

/// Parts of one size, or cuts at places.
fn split(b: &Lower, x: Var, cuts: &Operand, axis: i64, uneven: bool) -> Lowered<Values> {
    let axis = axis_of(b, x, axis)?;
    let size = size_of(b, x, axis).ok_or_else(|| unknown(b, axis))?;
    let sizes: Vec<i64> = match cuts {
        Operand::Int(n) if *n > 0 && (uneven || size % n == 0) => {
            (0..count(b, "parts", *n)?).map(|i| size / n + i64::from(i < size % n)).collect()
        }
        Operand::Ints(places) => {
            let ends = places.iter().copied().chain([size]);
            let begins = [0].into_iter().chain(places.iter().copied());
            begins.zip(ends).map(|(begin, end)| end.saturating_sub(begin)).collect()
        }
        _ => vec![],
    };
    refuse!(sizes.is_empty() || sizes.iter().any(|n| *n < 0) =>
        b.wrong(format!("An axis of size {size} cannot be split like this.")));
    parts(b, x, axis as i64, &sizes)
}

fn like(b: &Lower, a: &Like, value: i64) -> Lowered<Var> {
    let to = named_if(b, a.dtype.as_ref())?.map_or_else(|| dtype_of(b, a.x), Ok)?;
    filled(b, b.shape(a.x).one()?, value, to)
}

fn arange(b: &Lower, a: Arange) -> Lowered<Var> {
    let (start, stop) = match a.stop {
        Some(stop) => (a.start, stop),
        None => (Value::Int(0), a.start),
    };
    let step = a.step.unwrap_or(Value::Int(1));
    let found = promote::result(b, &[&start, &stop, &step])?.fixed();
    let to = named_if(b, a.dtype.as_ref())?.unwrap_or(found);
    let computed = match to {
        DataType::Float | DataType::Double | Int32 | Int64 => to,
        d if d.is_float() => Float,
        _ => Int64,
    };
    let [start, stop, step] = [start, stop, step].map(|x| tensor(b, &x, computed));
    b.cast(b.range(start?, stop?, step?).one()?, to)
}

fn linspace(b: &Lower, a: Linspace) -> Lowered<Values> {
    let float = Value::Float(0.0);
    let found = promote::result(b, &[&a.start, &a.stop, &float])?;
    let to = named_if(b, a.dtype.as_ref())?.unwrap_or(found.fixed());
    let computed = if to.is_float() { to } else { Float };
    let (start, stop) = (tensor(b, &a.start, computed)?, tensor(b, &a.stop, computed)?);
    let num = count(b, "numbers", a.num)?;
    let steps = if a.endpoint { num - 1 } else { num };
    let step = b.div(b.sub(stop, start)?, steps.max(1))?;
    let n = rank(b, start)?.max(rank(b, stop)?) as i64;
    let axis = new_axis(b, a.axis, n + 1)?;
    let steps = b.cast(counted(b, scalar(num, Int64))?, computed)?;
    let steps = unsqueezed(b, steps, &(1..=n - axis).collect::<Vec<i64>>())?;
    let first = b.unsqueeze(b.add(start, b.mul(stop, 0.0)?)?, [axis])?;
    let mut y = b.add(first, b.mul(steps, b.unsqueeze(step, [axis])?)?)?;
    if !to.is_float() {
        y = b.cast(b.floor(y)?, to)?;
    }
    Ok(Values::with(y, a.retstep.then_some(step)))
}

fn pad(b: &Lower, a: Pad) -> Lowered<Var> {
    let n = rank(b, a.x)?;
    let pair = |x: &Value| match ints(x)?[..] {
        [x] => Some([x, x]),
        [before, behind] => Some([before, behind]),
        _ => None,
    };
    let pairs: Option<Vec<[i64; 2]>> = match &a.pad_width {
        Value::List(items) if items.iter().all(|x| matches!(x, Value::List(_))) => {
            let all: Option<Vec<_>> = items.iter().map(pair).collect();
            all.map(|all| if all.len() == 1 { vec![all[0]; n] } else { all })
        }
        other => pair(other).map(|pair| vec![pair; n]),
    };
    let pairs = pairs.ok_or_else(|| b.unsupported("The widths of the padding are not known."))?;
    let mode = a.mode.to_lowercase();
    if mode == "symmetric" {
        let mut x = a.x;
        for (axis, [before, behind]) in pairs.into_iter().enumerate() {
            if before != 0 || behind != 0 {
                x = crate::ops::pad::mirrored(b, x, axis, [before.into(), behind.into()])?;
            }
        }
        return Ok(x);
    }
    let sides = [0, 1].map(|side| pairs.iter().map(move |p| p[side]).collect::<Vec<i64>>());
    let call = b.pad(a.x, sides.concat());
    match mode.as_str() {
        "reflect" | "edge" => call.mode(mode.as_str()).one(),
        "constant" => {
            let value = a.constant_values.map(|x| tensor(b, &x, dtype_of(b, a.x)?)).transpose()?;
            call.constant_value(value).one()
        }
        other => {
            let message = format!("The padding `{}` has no counterpart in ONNX.", shown(other));
            Err(b.unsupported(message))
        }
    }
}

fn meshgrid(b: &Lower, a: Grid) -> Lowered<Values> {
    let all = a.x.iter().map(|x| b.reshape(any(b, x)?, [-1]).one());
    let all = all.collect::<Lowered<Vec<_>>>()?;
    let n = all.len();
    let place = |i: usize| if a.indexing == "xy" && n > 1 && i < 2 { 1 - i } else { i };
    let turned: Vec<Var> = all
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let axes: Vec<i64> = (0..n as i64).filter(|axis| *axis != place(i) as i64).collect();
            unsqueezed(b, *x, &axes)
        })
        .collect::<Lowered<_>>()?;
    let lengths = (0..n).map(|axis| {
        let i = (0..n).find(|i| place(*i) == axis).unwrap_or(axis);
        b.shape(all[i]).one()
    });
    let shape = concatenated(b, lengths.collect::<Lowered<_>>()?, 0)?;
    let grids = turned.into_iter().map(|x| Ok(Value::Var(b.expand(x, shape)?)));
    grids.collect::<Lowered<Vec<_>>>().map(Values)
}
