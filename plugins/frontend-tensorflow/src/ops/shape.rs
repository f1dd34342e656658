//! Shapes and views.

use super::operands::Input;
use super::{Lower, Source, Values, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "Reshape" => |b, a: Reshape| reshaped(b, a.tensor, &a.shape);
        "Squeeze" => squeeze;
        "ExpandDims" => |b, a: ExpandDims| b.unsqueeze(a.input, [a.dim]);
        "Transpose" => |b, a: Transpose| transposed(b, a.x, &a.perm);
        "Shape" => |b, a: Measured| b.cast(b.shape(a.input).one()?, a.out_type.0);
        "ShapeN" => |b, a: AllMeasured| {
            let shape = |x: Var| Ok(Value::Var(b.cast(b.shape(x).one()?, a.out_type.0)?));
            a.input.into_iter().map(shape).collect::<Lowered<Vec<_>>>().map(Values)
        };
        "Size" => |b, a: Measured| b.cast(b.size(a.input)?, a.out_type.0);
        "Rank" => |b, a: Input| match b.rank_of(a.input) {
            Some(rank) => Ok(b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(rank as i32))),
            None => b.cast(b.size(b.shape(a.input).one()?)?, onnxd_plugin_sdk::ir::DataType::Int32),
        };
        "Tile" => |b, a: Tile| b.tile(a.input, int64s(b, &a.multiples)?);
        "BroadcastTo" => |b, a: Broadcast| b.expand(a.input, int64s(b, &a.shape)?);
        "BroadcastArgs" => broadcast_args;
    }
}

arguments! {
    /// `Reshape(tensor, shape; T: type, Tshape: type = int32) -> output`
    struct Reshape { tensor: Var, shape: Operand }
    /// `Squeeze(input; T: type, squeeze_dims: list(int) = []) -> output`
    struct Squeeze { input: Var, squeeze_dims: Vec<i64> }
    /// `ExpandDims(input, dim; T: type, Tdim: type = int32) -> output`
    struct ExpandDims { input: Var, dim: i64 }
    /// `Transpose(x, perm; T: type, Tperm: type = int32) -> y`
    struct Transpose { x: Var, perm: Vec<i64> }
    /// `Shape(input; T: type, out_type: type = int32) -> output`
    struct Measured { input: Var, out_type: ElementType }
    /// `ShapeN(input*N; N: int, T: type, out_type: type = int32) -> output*N`
    struct AllMeasured { input: Vec<Var>, out_type: ElementType }
    /// `Tile(input, multiples; T: type, Tmultiples: type = int32) -> output`
    struct Tile { input: Var, multiples: Operand }
    /// `BroadcastTo(input, shape; T: type, Tidx: type = int32) -> output`
    struct Broadcast { input: Var, shape: Operand }
    /// `BroadcastArgs(s0, s1; T: type = int32) -> r0`
    struct Shapes { s0: Var, s1: Var }
}

/// Integers as ONNX wants them: a list if they are known, else of 64 bits.
pub(crate) fn int64s(b: &GraphBuilder, x: &Operand) -> Lowered<Operand> {
    Ok(match x {
        Operand::Var(v) => match b.ints_of(*v) {
            Some(known) => known.into(),
            None => b.cast(*v, Int64)?.into(),
        },
        Operand::Int(x) => vec![*x].into(),
        other => other.clone(),
    })
}

/// `x` with the sizes `shape`. A size of zero is one, and does not mean that of the input.
pub(crate) fn reshaped(b: &GraphBuilder, x: Var, shape: &Operand) -> Lowered<Var> {
    let shape = int64s(b, shape)?;
    let Operand::Ints(sizes) = &shape else { return b.reshape(x, shape).one() };
    match (sizes.contains(&0), sizes.iter().position(|n| *n == -1)) {
        (false, _) => b.reshape(x, shape).one(),
        (true, None) => b.reshape(x, shape).allowzero(1).one(),
        (true, Some(open)) => {
            let mut sizes = sizes.clone();
            sizes[open] = open_size(b, x, &sizes);
            b.reshape(x, sizes).allowzero(1).one()
        }
    }
}

/// The size that TensorFlow finds for an open axis beside axes of size zero, which do not count.
fn open_size(b: &GraphBuilder, x: Var, sizes: &[i64]) -> i64 {
    let product = |sizes: &[i64]| {
        sizes.iter().filter(|n| **n > 0).try_fold(1i64, |product, n| product.checked_mul(*n))
    };
    let all = b.dims_of(x).and_then(|dims| product(&dims));
    all.zip(product(sizes)).map_or(0, |(all, others)| all / others)
}

/// Without a list, all axes of size 1 go. One whose size varies stays: the number of axes of a result does not vary.
fn squeeze(b: &Lower, a: Squeeze) -> Lowered<Var> {
    let shape = b.shape_of(a.input).unwrap_or_default();
    if !a.squeeze_dims.is_empty() || shape.iter().all(|dim| dim.known().is_some()) {
        return squeezed(b, a.input, &a.squeeze_dims);
    }
    let message = "An axis of varying size stays, also where its size is 1.";
    b.note(b.diagnostic(Code::LayerParameterIgnored, message));
    let ones = (0..).zip(&shape).filter(|(_, dim)| dim.known() == Some(1));
    let ones: Vec<i64> = ones.map(|(axis, _)| axis).collect();
    if ones.is_empty() { Ok(a.input) } else { squeezed(b, a.input, &ones) }
}

/// `x` without these axes of size 1; without all of them if none is named.
pub(crate) fn squeezed(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<Var> {
    let axes = (!axes.is_empty()).then(|| axes.to_vec());
    b.squeeze(x).axes(axes).one()
}

/// `x` with axes of size 1 at these places of the result.
pub(crate) fn unsqueezed(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<Var> {
    match axes {
        [] => Ok(x),
        _ => b.unsqueeze(x, axes),
    }
}

/// `x` with axis `perm[i]` at place `i`.
pub(crate) fn transposed(b: &GraphBuilder, x: Var, perm: &[i64]) -> Lowered<Var> {
    let rank = perm.len() as i64;
    let perm: Vec<i64> = perm.iter().map(|p| if *p < 0 { p + rank } else { *p }).collect();
    if perm.iter().enumerate().all(|(i, p)| i as i64 == *p) {
        return Ok(x);
    }
    b.transpose(x).perm(perm).one()
}

/// An axis counted from the first one.
///
/// # Errors
/// `N0204` if the tensor has no such axis, `N0203` if its number of axes is not known and matters.
pub(crate) fn axis_of(b: &GraphBuilder, x: Var, axis: i64) -> Lowered<usize> {
    if axis >= 0 && b.rank_of(x).is_none() {
        return Ok(axis as usize);
    }
    let n = rank(b, x)? as i64;
    let at = if axis < 0 { axis + n } else { axis };
    usize::try_from(at).ok().filter(|at| (*at as i64) < n).ok_or_else(|| {
        let message = format!("There is no axis {axis} in a tensor of {n} axes.");
        b.diagnostic(Code::LayerParameter, message)
    })
}

/// The most axes of a tensor of TensorFlow.
const AXES_MAX: i64 = 254;

/// The sizes that two shapes meet in.
fn broadcast_args(b: &Lower, a: Shapes) -> Lowered<Var> {
    let length = |x: Var| b.dims_of(x).and_then(|dims| dims.first().copied());
    let known = length(a.s0).zip(length(a.s1)).filter(|(n, m)| *n.max(m) <= AXES_MAX);
    let Some((n, m)) = known else {
        let message = "The lengths of both shapes must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let padded = |x: Var, missing: i64| match missing {
        0.. if missing > 0 => {
            let ones = b.cast(
                b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![1i64; missing as usize])),
                super::of(b, x)?,
            )?;
            b.concat([ones, x]).axis(0).one()
        }
        _ => Ok(x),
    };
    let (x, y) = (padded(a.s0, m - n)?, padded(a.s1, n - m)?);
    b.where_(b.equal(x, 1)?, y, x)
}

/// A size of a tensor: a number, or a vector of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    Known(i64),
    Computed(Var),
}

/// The size of an axis.
pub(crate) fn size(b: &GraphBuilder, x: Var, axis: usize) -> Lowered<Size> {
    let known = b.shape_of(x).and_then(|shape| shape.get(axis)?.known());
    let at = axis as i64;
    Ok(match known {
        Some(n) => Size::Known(n),
        None => Size::Computed(b.shape(x).start(at).end(at + 1).one()?),
    })
}

/// What a function of two numbers makes of a size and a number.
pub(crate) fn size_by(
    b: &GraphBuilder,
    size: Size,
    number: i64,
    known: fn(i64, i64) -> i64,
    computed: fn(&GraphBuilder, Var, i64) -> Lowered<Var>,
) -> Lowered<Size> {
    Ok(match size {
        Size::Known(n) => Size::Known(known(n, number)),
        Size::Computed(v) => Size::Computed(computed(b, v, number)?),
    })
}

/// Sizes as a shape.
pub(crate) fn shape_of(b: &GraphBuilder, sizes: &[Size]) -> Lowered<Operand> {
    let known: Option<Vec<i64>> = sizes
        .iter()
        .map(|size| match size {
            Size::Known(n) => Some(*n),
            Size::Computed(_) => None,
        })
        .collect();
    if let Some(known) = known {
        return Ok(known.into());
    }
    let vector = |size: &Size| match size {
        Size::Known(n) => b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![*n])),
        Size::Computed(v) => *v,
    };
    Ok(b.concat(sizes.iter().map(vector).collect::<Vec<_>>()).axis(0).one()?.into())
}

/// The sizes of several axes.
pub(crate) fn sizes(
    b: &GraphBuilder,
    x: Var,
    axes: impl IntoIterator<Item = usize>,
) -> Lowered<Vec<Size>> {
    axes.into_iter().map(|axis| size(b, x, axis)).collect()
}

/// `x` with these sizes.
pub(crate) fn sized(b: &GraphBuilder, x: Var, sizes: &[Size]) -> Lowered<Var> {
    reshaped(b, x, &shape_of(b, sizes)?)
}
