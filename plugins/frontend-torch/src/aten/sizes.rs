//! Axes and sizes: numbers where they are known, values of the graph where they are not.

use super::Lower;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::{DataType, Dim, NodeId, Origin, Tensor, ValueId};
use onnxd_plugin_sdk::lower::{Lowered, Value};

/// The number of axes of `x`.
///
/// # Errors
/// `N0204` if it is not known.
pub(crate) fn rank(b: &Lower, x: Var) -> Lowered<usize> {
    b.rank_of(x).ok_or_else(|| {
        let message = format!("The number of axes of `{}` is not known.", shown(&b.name_of(x)));
        let help = "Give the shapes of the inputs: `export.input_shapes`.";
        b.diagnostic(Code::LayerParameter, message).help(help)
    })
}

/// An axis that may be counted from the end. A tensor of rank 0 counts as one of rank 1.
///
/// # Errors
/// `N0204` if there is no such axis.
pub(crate) fn wrapped(b: &Lower, dim: i64, rank: usize) -> Lowered<usize> {
    let count = rank.max(1) as i64;
    let axis = if dim < 0 { dim + count } else { dim };
    if (0..count).contains(&axis) {
        return Ok(axis as usize);
    }
    let message = format!("A tensor of {rank} axes has no axis {dim}.");
    Err(b.diagnostic(Code::LayerParameter, message))
}

/// The axis `dim` of `x`.
///
/// # Errors
/// Those of [`rank`] and [`wrapped`].
pub(crate) fn axis(b: &Lower, x: Var, dim: i64) -> Lowered<usize> {
    wrapped(b, dim, rank(b, x)?)
}

/// As [`axis`]; `dim` as it is, where the number of axes is not known.
///
/// # Errors
/// Those of [`wrapped`].
pub(crate) fn axis_if_known(b: &Lower, x: Var, dim: i64) -> Lowered<i64> {
    match b.rank_of(x) {
        Some(rank) => Ok(wrapped(b, dim, rank)? as i64),
        None => Ok(dim),
    }
}

/// All of `dims` as axes of `x`.
///
/// # Errors
/// Those of [`axis`].
pub(crate) fn axes(b: &Lower, x: Var, dims: &[i64]) -> Lowered<Vec<usize>> {
    let rank = rank(b, x)?;
    dims.iter().map(|dim| wrapped(b, *dim, rank)).collect()
}

/// The size of an axis, if it is known.
pub(crate) fn known_size(b: &Lower, x: Var, axis: usize) -> Option<i64> {
    b.shape_of(x)?.get(axis)?.known()
}

/// The size of an axis: a number, or a scalar of the graph.
///
/// # Errors
/// Those of the builder.
pub(crate) fn size(b: &Lower, x: Var, axis: usize) -> Lowered<Value> {
    if let Some(n) = known_size(b, x, axis) {
        return Ok(Value::Int(n));
    }
    let at = axis as i64;
    let x = b.source.complex.shaped(b, x)?;
    Ok(Value::Var(match b.opset() >= 15 {
        true => b.squeeze(b.shape(x).start(at).end(at + 1).one()?).axes([0]).one()?,
        false => b.gather(b.shape(x).one()?, at).one()?,
    }))
}

/// The sizes of all axes.
///
/// # Errors
/// Those of [`rank`] and [`size`].
pub(crate) fn sizes(b: &Lower, x: Var) -> Lowered<Vec<Value>> {
    (0..rank(b, x)?).map(|axis| size(b, x, axis)).collect()
}

/// A size as a number, if it is known.
pub(crate) fn known(b: &Lower, size: &Value) -> Option<i64> {
    match size {
        Value::Int(n) => Some(*n),
        Value::Bool(x) => Some(i64::from(*x)),
        Value::Var(v) => match b.ints_of(*v)?.as_slice() {
            [n] => Some(*n),
            _ => None,
        },
        _ => None,
    }
}

/// All sizes as numbers, if they are known.
pub(crate) fn all_known(b: &Lower, sizes: &[Value]) -> Option<Vec<i64>> {
    sizes.iter().map(|size| known(b, size)).collect()
}

/// A size as an operand: a number or a scalar.
///
/// # Errors
/// `N0204` if it is neither.
pub(crate) fn scalar(b: &Lower, size: &Value) -> Lowered<Operand> {
    match (known(b, size), size) {
        (Some(n), _) => Ok(Operand::Int(n)),
        (None, Value::Var(v)) => {
            let whole = b.cast(*v, DataType::Int64)?;
            Ok(match b.rank_of(whole) {
                Some(0) => whole.into(),
                _ => b.reshape(whole, Vec::<i64>::new()).one()?.into(),
            })
        }
        (None, other) => Err(b.diagnostic(
            Code::LayerParameter,
            format!("A size must be an integer, found {other}."),
        )),
    }
}

/// A size as a vector of one element.
///
/// # Errors
/// Those of [`scalar`].
pub(crate) fn single(b: &Lower, size: &Value) -> Lowered<Operand> {
    if let (None, Value::Var(v)) = (known(b, size), size)
        && let Some(vector) = vector_before_squeeze(b, *v)
    {
        return Ok(vector.into());
    }
    Ok(match scalar(b, size)? {
        Operand::Int(n) => Operand::Ints(vec![n]),
        Operand::Var(v) => b.reshape(v, [1]).one()?.into(),
        other => other,
    })
}

/// What a size was before its only axis was taken off.
fn vector_before_squeeze(b: &Lower, v: Var) -> Option<Var> {
    let (op, inputs, _) = made_by(b, v)?;
    let before = b.var(*inputs.first()?);
    (op == "Squeeze" && b.dims_of(before)? == [1]).then_some(before)
}

/// Sizes as a vector: a constant where all are known.
///
/// # Errors
/// Those of [`scalar`].
pub(crate) fn vector(b: &Lower, sizes: &[Value]) -> Lowered<Operand> {
    let mut parts: Vec<Operand> = vec![];
    for size in sizes {
        match (single(b, size)?, parts.last_mut()) {
            (Operand::Ints(n), Some(Operand::Ints(before))) => before.extend(n),
            (part, _) => parts.push(part),
        }
    }
    match parts.len() {
        0 => Ok(Operand::Ints(vec![])),
        1 => Ok(parts.remove(0)),
        _ => Ok(b.concat(parts).axis(0).one()?.into()),
    }
}

/// The product of sizes that are all known; `None` also if it is out of range.
pub(crate) fn count(sizes: impl IntoIterator<Item = Option<i64>>) -> Option<i64> {
    sizes.into_iter().try_fold(1i64, |n, size| n.checked_mul(size?))
}

/// The product of sizes.
///
/// # Errors
/// Those of [`scalar`].
pub(crate) fn product(b: &Lower, sizes: &[Value]) -> Lowered<Value> {
    sizes.iter().try_fold(Value::Int(1), |a, size| times(b, &a, size))
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident: |$a:ident, $c:ident| $known:expr, $op:ident, neutral $neutral:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of [`scalar`].
        pub(crate) fn $name(b: &Lower, a: &Value, c: &Value) -> Lowered<Value> {
            match (known(b, a), known(b, c)) {
                (Some($a), Some($c)) => {
                    let found: Option<i64> = $known;
                    let over = || b.diagnostic(Code::LayerParameter, "A size is out of range.");
                    found.map(Value::Int).ok_or_else(over)
                }
                (_, Some($neutral)) => Ok(a.clone()),
                _ => Ok(Value::Var(b.$op(scalar(b, a)?, scalar(b, c)?)?)),
            }
        }
    )* };
}

arithmetic! {
    /// The sum of two sizes.
    plus: |x, y| x.checked_add(y), add, neutral 0;
    /// The difference of two sizes.
    minus: |x, y| x.checked_sub(y), sub, neutral 0;
    /// The product of two sizes.
    times: |x, y| x.checked_mul(y), mul, neutral 1;
    /// The quotient of two sizes, neither of which is negative.
    over: |x, y| x.checked_div(y), div, neutral 1;
}

/// The operator that computes `v`, with its inputs and the node.
fn made_by(b: &Lower, v: Var) -> Option<(String, Vec<ValueId>, NodeId)> {
    if !b.is_own(v) {
        return None;
    }
    let id = b.id(v).ok()?;
    let graph = b.graph();
    let Origin::Node(node, 0) = graph[id].origin() else { return None };
    let inputs = graph[node].inputs.iter().copied().collect::<Option<Vec<_>>>()?;
    Some((graph[node].op.clone(), inputs, node))
}

/// The size that `v` is, as shapes name it, if it was read from a shape.
pub(crate) fn dim_of(b: &Lower, v: Var) -> Option<Dim> {
    let (op, inputs, _) = made_by(b, v)?;
    let inner = b.var(*inputs.first()?);
    let (shape, data, node) = made_by(b, inner)?;
    if shape != "Shape" {
        return None;
    }
    let start = b.graph()[node].int("start", 0);
    let at = match op.as_str() {
        "Squeeze" | "Reshape" => 0,
        "Gather" => *b.ints_of(b.var(*inputs.get(1)?))?.first()?,
        _ => return None,
    };
    let shape = b.shape_of(b.var(*data.first()?))?;
    let at = usize::try_from(start + at).ok()?;
    shape.get(at).cloned()
}

/// A vector of integers.
pub(crate) fn ints(b: &Lower, items: Vec<i64>) -> Var {
    b.constant(Tensor::vector(items))
}
