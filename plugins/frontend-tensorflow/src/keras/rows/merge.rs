//! Layers that make one tensor of several.

use crate::ops::join::concatenated;
use crate::ops::shape::{axis_of, transposed};
use crate::ops::{Lower, RowContext, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Axes of the tensors of a product, each of which has a letter.
const AXES_MAX: i64 = 10;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "Add" => |b, inputs: Vec<Var>| merged(b, inputs, GraphBuilder::add);
        "Subtract" => |b, inputs: Vec<Var>| merged(b, inputs, GraphBuilder::sub);
        "Multiply" => |b, a: Masked| product(b, a);
        "Maximum" => |b, a: Masked| extreme(b, a, |b, x, y| b.max([x, y]));
        "Minimum" => |b, a: Masked| extreme(b, a, |b, x, y| b.min([x, y]));
        "Average" => |b, inputs: Vec<Var>| {
            let count = inputs.len();
            b.div(merged(b, inputs, GraphBuilder::add)?, count as f64)
        };
        "Concatenate" => |b, a: Concatenate| concatenated(b, a.inputs, a.axis);
        "Dot" => dot;
        // A layer of `keras.applications`.
        "CustomScaleLayer" => |b, inputs: Vec<Var>, scale: f64| match inputs[..] {
            [x, y] => b.add(x, b.mul(y, scale)?),
            _ => Err(b.wrong("The layer is not called on two tensors.")),
        };
    }
}

arguments! {
    /// The masks of the tensors, where they count.
    struct Masked { inputs: Vec<Var>, masks: Option<Vec<Value>> }
    /// `Concatenate(axis=-1)`
    struct Concatenate { inputs: Vec<Var>, axis: i64 = -1 }
    /// `Dot(axes, normalize=False)`
    struct Dot { inputs: Vec<Var>, axes: Value, normalize: bool = false }
}

/// Tensors one by one. Those of fewer axes get axes of size 1 behind the batch.
fn merged(
    b: &Lower,
    inputs: Vec<Var>,
    join: impl Fn(&GraphBuilder, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let ranks = inputs.iter().map(|x| rank(b, *x)).collect::<Lowered<Vec<_>>>()?;
    let most = ranks.iter().copied().max().unwrap_or(0);
    let mut all = inputs.into_iter().zip(ranks).map(|(x, rank)| {
        let axes: Vec<i64> = (1..=(most - rank) as i64).collect();
        crate::ops::shape::unsqueezed(b, x, &axes)
    });
    let first = all.next().ok_or_else(|| b.wrong("The layer is called on no tensor."))?;
    all.try_fold(first?, |joined, x| join(b, joined, x?))
}

/// The mask of each tensor, for all of its elements.
fn masks(b: &GraphBuilder, masks: Vec<Value>) -> Lowered<Vec<Option<Var>>> {
    let wide = |mask: Value| match mask {
        Value::Var(mask) => b.unsqueeze(mask, [-1]).map(Some),
        _ => Ok(None),
    };
    masks.into_iter().map(wide).collect()
}

/// What a mask leaves out is 1, and 0 where all masks leave it out.
fn product(b: &Lower, a: Masked) -> Lowered<Var> {
    let Some(of_each) = a.masks else { return merged(b, a.inputs, GraphBuilder::mul) };
    let masks = masks(b, of_each)?;
    let counted = |(x, mask): (Var, &Option<Var>)| match mask {
        Some(mask) => b.where_(*mask, x, 1),
        None => Ok(x),
    };
    let counted = a.inputs.into_iter().zip(&masks).map(counted).collect::<Lowered<Vec<_>>>()?;
    let y = merged(b, counted, GraphBuilder::mul)?;
    match masks.into_iter().collect::<Option<Vec<Var>>>().as_deref() {
        Some([first, rest @ ..]) => {
            let any = rest.iter().try_fold(*first, |any, mask| b.or(any, *mask))?;
            b.where_(any, y, 0)
        }
        _ => Ok(y),
    }
}

/// What a mask leaves out is taken from the tensor beside it.
fn extreme(
    b: &Lower,
    a: Masked,
    join: impl Fn(&GraphBuilder, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let Some(of_each) = a.masks else { return merged(b, a.inputs, join) };
    let mut all = a.inputs.into_iter().zip(masks(b, of_each)?);
    let Some((mut y, mut whole)) = all.next() else {
        return Err(b.wrong("The layer is called on no tensor."));
    };
    for (x, mask) in all {
        let x = mask.map_or(Ok(x), |mask| b.where_(mask, x, y))?;
        let before = whole.map_or(Ok(y), |whole| b.where_(whole, y, x))?;
        whole = match (whole, mask) {
            (Some(whole), Some(mask)) => Some(b.or(whole, mask)?),
            _ => None,
        };
        y = join(b, before, x)?;
    }
    Ok(y)
}

/// Products along an axis of each tensor, for each element of the batch.
fn dot(b: &Lower, a: Dot) -> Lowered<Var> {
    let ([x, y], axes) = match (&a.inputs[..], &a.axes) {
        ([x, y], Value::Int(axis)) => ([*x, *y], [*axis, *axis]),
        ([x, y], Value::List(list)) if let [Value::Int(i), Value::Int(j)] = list[..] => {
            ([*x, *y], [i, j])
        }
        _ => return Err(b.wrong("The layer has no axis for each of two tensors.")),
    };
    let (i, j) = (axis_of(b, x, axes[0])? as i64, axis_of(b, y, axes[1])? as i64);
    let (n, m) = (rank(b, x)? as i64, rank(b, y)? as i64);
    let one = |x: Var, axis: i64| match a.normalize {
        true => super::norm::unit(b, x, &[axis], 1e-12),
        false => Ok(x),
    };
    let (x, y) = (one(x, i)?, one(y, j)?);
    if n <= 3 && m <= 3 {
        // The axis is the last one of the first matrix and the second last of the other one.
        let x = if n == 2 { b.unsqueeze(x, [1])? } else { x };
        let y = if m == 2 { b.unsqueeze(y, [2])? } else { y };
        let x = if n == 3 && i == 1 { transposed(b, x, &[0, 2, 1])? } else { x };
        let y = if m == 3 && j == 2 { transposed(b, y, &[0, 2, 1])? } else { y };
        let product = b.mat_mul(x, y)?;
        return match (n, m) {
            (2, _) => b.squeeze(product).axes([1]).one(),
            (_, 2) => b.squeeze(product).axes([-1]).one(),
            _ => Ok(product),
        };
    }
    refuse!(n.max(m) > AXES_MAX => b.unsupported("The tensors have too many axes."));
    let letters = |n: i64, at: i64, from: u8| -> String {
        let letter = |k: i64| match k {
            0 => 'a',
            k if k == at => 'z',
            k => char::from(from + k as u8),
        };
        (0..n).map(letter).collect()
    };
    let (left, right) = (letters(n, i, b'a'), letters(m, j, b'l'));
    let result: String = left.chars().chain(right.chars().skip(1)).filter(|c| *c != 'z').collect();
    b.einsum([x, y]).equation(format!("{left},{right}->{result}")).one()
}
