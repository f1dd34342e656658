//! Elements that are found by what they are: masks, places of sorted numbers, membership.

use super::compare::{lesser, select};
use super::dtype::{all_of, common, dtype_of};
use super::indices::whole;
use super::shape::{expanded_as, reshaped, same_shape};
use super::sizes::{self as of, rank};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{Bool, Float, Int32, Int64, Uint8};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::nonzero" | "aten::argwhere" => |b, input: Var| nonzero(b, input);
        "aten::nonzero_numpy" => |b, input: Var| nonzero_axes(b, input);
        "aten::nonzero_static" => nonzero_static(input, size, fill_value);
        "aten::masked_select" => masked_select(input, mask);
        "aten::masked_scatter" => masked_scatter(input, mask, source);
        "aten::one_hot" => one_hot(input, num_classes);
        "aten::bucketize" => |b, input: Value, boundaries: Var, out_int32: bool, right: bool| {
            before(b, &input, &Value::Var(boundaries), right, out_int32)
        };
        "aten::searchsorted" => searchsorted;
        "aten::isin" => isin;
    }
}

arguments! {
    struct SearchSorted {
        sorted_sequence: Var, input: Value, out_int32: bool, right: bool, side: Option<String>,
        sorter: Option<Var>,
    }
    struct IsIn {
        elements: Option<Value>, element: Option<Value>, test_elements: Option<Value>,
        test_element: Option<Value>, assume_unique: bool, invert: bool,
    }
}

/// Places of elements that are not 0, one axis per row.
fn by_axis(b: &Lower, x: Var) -> Lowered<Var> {
    let x = if rank(b, x)? == 0 { b.reshape(x, [1]).one()? } else { x };
    match dtype_of(b, x)? {
        Bool | Float | Int32 | Int64 | Uint8 => b.non_zero(x),
        // Runtimes look at few types.
        _ => b.non_zero(b.cast(x, Bool)?),
    }
}

fn nonzero(b: &Lower, x: Var) -> Lowered<Var> {
    let places = b.transpose(by_axis(b, x)?).perm([1, 0]).one()?;
    match rank(b, x)? {
        0 => b.slice(places, [0], [0]).axes([1]).one(),
        _ => Ok(places),
    }
}

fn nonzero_axes(b: &Lower, x: Var) -> Lowered<Value> {
    let places = by_axis(b, x)?;
    let axes = (0..rank(b, x)?.max(1) as i64).map(|i| b.gather(places, i).axis(0).one());
    Ok(axes.collect::<Lowered<Vec<Var>>>()?.into())
}

fn nonzero_static(b: &Lower, input: Var, size: Value, fill_value: i64) -> Lowered<Var> {
    let found = nonzero(b, input)?;
    let width = Value::Int(rank(b, input)? as i64);
    let rest = super::create::filled(b, &[size.clone(), width], &Value::Int(fill_value), Int64)?;
    b.slice(b.concat([found, rest]).axis(0).one()?, [0], of::single(b, &size)?).axes([0]).one()
}

fn masked_select(b: &Lower, input: Var, mask: Var) -> Lowered<Var> {
    let mask = b.cast(mask, Bool)?;
    let (mut x, mut mask) = (input, mask);
    if !same_shape(b, x, mask) {
        let whole = expanded_as(b, x, mask)?;
        (x, mask) = (whole, expanded_as(b, mask, whole)?);
    }
    match rank(b, x)? {
        1 => b.compress(x, mask).axis(0).one(),
        _ => b.compress(x, reshaped(b, mask, vec![(-1).into()])?).one(),
    }
}

fn masked_scatter(b: &Lower, input: Var, mask: Var, source: Var) -> Lowered<Var> {
    let mask = expanded_as(b, b.cast(mask, Bool)?, input)?;
    let source = b.cast(reshaped(b, source, vec![(-1).into()])?, dtype_of(b, input)?)?;
    if rank(b, input)? == 0 {
        return select(b, mask, b.gather(source, 0).one()?, input);
    }
    let places = b.transpose(b.non_zero(mask)?).perm([1, 0]).one()?;
    let count = match b.opset() >= 15 {
        true => b.shape(places).start(0).end(1).one()?,
        false => b.slice(b.shape(places).one()?, [0], [1]).axes([0]).one()?,
    };
    let written = b.slice(source, [0], count).axes([0]).one()?;
    b.scatter_nd(input, places, written).one()
}

fn one_hot(b: &Lower, input: Var, num_classes: i64) -> Lowered<Var> {
    let index = whole(b, input)?;
    let values = Tensor::vector(vec![0i64, 1]);
    if num_classes >= 0 {
        return b.one_hot(index, [num_classes], values).one();
    }
    let most = b.reduce_max(index).keepdims(0).one()?;
    let depth = b.reshape(b.add(most, 1i64)?, [1]).one()?;
    b.one_hot(index, depth, values).one()
}

/// How many of `sorted`, along its last axis, come before each of `values`.
fn before(b: &Lower, values: &Value, sorted: &Value, right: bool, short: bool) -> Lowered<Var> {
    let [x, bounds] = all_of(b, [values, sorted], common(b, &[values, sorted])?)?;
    let apart = b.unsqueeze(x, [rank(b, x)? as i64])?;
    let bounds = match rank(b, bounds)? {
        0 | 1 => bounds,
        n => b.unsqueeze(bounds, [n as i64 - 1])?,
    };
    let passed = match right {
        true => b.not(lesser(b, apart, bounds)?)?,
        false => lesser(b, bounds, apart)?,
    };
    let to = if short { Int32 } else { Int64 };
    b.reduce_sum(b.cast(passed, to)?).axes([-1]).keepdims(0).one()
}

fn searchsorted(b: &Lower, a: SearchSorted) -> Lowered<Var> {
    let right = a.right || a.side.as_deref() == Some("right");
    let sorted = match a.sorter {
        Some(order) => b.gather_elements(a.sorted_sequence, whole(b, order)?).axis(-1).one()?,
        None => a.sorted_sequence,
    };
    before(b, &a.input, &Value::Var(sorted), right, a.out_int32)
}

fn isin(b: &Lower, a: IsIn) -> Lowered<Var> {
    let none = Value::None;
    let elements = a.elements.or(a.element).unwrap_or_else(|| none.clone());
    let tests = a.test_elements.or(a.test_element).unwrap_or(none);
    let [x, tests] = all_of(b, [&elements, &tests], common(b, &[&elements, &tests])?)?;
    let found = match rank(b, tests)? {
        0 => b.equal(x, tests)?,
        _ => {
            let tests = reshaped(b, tests, vec![(-1).into()])?;
            let equal = b.equal(b.unsqueeze(x, [rank(b, x)? as i64])?, tests)?;
            let count = b.reduce_sum(b.cast(equal, Int32)?).axes([-1]).keepdims(0).one()?;
            b.cast(count, Bool)?
        }
    };
    if a.invert { b.not(found) } else { Ok(found) }
}
