//! Shapes and views.

use super::{Lower, RowContext, Values, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Reshape" => |b, tensor: Var, shape: Operand| reshaped(b, tensor, &shape);
        "Squeeze" => squeeze(input, squeeze_dims);
        "ExpandDims" => |b, input: Var, dim: i64| b.unsqueeze(input, [dim]);
        "Transpose" => |b, x: Var, perm: Vec<i64>| transposed(b, x, &perm);
        "Shape" => |b, input: Var, out_type: ElementType| b.cast(b.shape(input).one()?, out_type.0);
        "ShapeN" => |b, input: Vec<Var>, out_type: ElementType| {
            let shape = |x: Var| Ok(Value::Var(b.cast(b.shape(x).one()?, out_type.0)?));
            input.into_iter().map(shape).collect::<Lowered<Vec<_>>>().map(Values)
        };
        "Size" => |b, input: Var, out_type: ElementType| b.cast(b.size(input)?, out_type.0);
        "Rank" => |b, input: Var| match b.rank_of(input) {
            Some(rank) => Ok(b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(rank as i32))),
            None => b.cast(b.size(b.shape(input).one()?)?, onnxd_plugin_sdk::ir::DataType::Int32),
        };
        "Tile" => |b, input: Var, multiples: Operand| b.tile(input, int64s(b, &multiples)?);
        "BroadcastTo" => |b, input: Var, shape: Operand| b.expand(input, int64s(b, &shape)?);
        "BroadcastArgs" => broadcast_args(s0, s1);
    }
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
fn squeeze(b: &Lower, input: Var, squeeze_dims: Vec<i64>) -> Lowered<Var> {
    let shape = b.shape_of(input).unwrap_or_default();
    if !squeeze_dims.is_empty() || shape.iter().all(|dim| dim.known().is_some()) {
        return squeezed(b, input, &squeeze_dims);
    }
    let message = "An axis of varying size stays, also where its size is 1.";
    b.note(b.diagnostic(Code::LayerParameterIgnored, message));
    let ones = (0..).zip(&shape).filter(|(_, dim)| dim.known() == Some(1));
    let ones: Vec<i64> = ones.map(|(axis, _)| axis).collect();
    if ones.is_empty() { Ok(input) } else { squeezed(b, input, &ones) }
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
fn broadcast_args(b: &Lower, s0: Var, s1: Var) -> Lowered<Var> {
    let length = |x: Var| b.dims_of(x).and_then(|dims| dims.first().copied());
    let known = length(s0).zip(length(s1)).filter(|(n, m)| *n.max(m) <= AXES_MAX);
    let Some((n, m)) = known else {
        let message = "The lengths of both shapes must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let padded = |x: Var, missing: i64| match missing {
        0.. if missing > 0 => {
            let ones = b.cast(
                b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![1i64; missing as usize])),
                super::dtype_of(b, x)?,
            )?;
            b.concat([ones, x]).axis(0).one()
        }
        _ => Ok(x),
    };
    let (x, y) = (padded(s0, m - n)?, padded(s1, n - m)?);
    b.where_(b.equal(x, 1)?, y, x)
}

/// A size of a tensor: a number, or a vector of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DimSize {
    Known(i64),
    Computed(Var),
}

/// The size of an axis.
pub(crate) fn size(b: &GraphBuilder, x: Var, axis: usize) -> Lowered<DimSize> {
    let known = b.shape_of(x).and_then(|shape| shape.get(axis)?.known());
    let at = axis as i64;
    Ok(match known {
        Some(n) => DimSize::Known(n),
        None => DimSize::Computed(b.shape(x).start(at).end(at + 1).one()?),
    })
}

/// What a function of two numbers makes of a size and a number.
pub(crate) fn size_by(
    b: &GraphBuilder,
    size: DimSize,
    number: i64,
    known: fn(i64, i64) -> i64,
    computed: fn(&GraphBuilder, Var, i64) -> Lowered<Var>,
) -> Lowered<DimSize> {
    Ok(match size {
        DimSize::Known(n) => DimSize::Known(known(n, number)),
        DimSize::Computed(v) => DimSize::Computed(computed(b, v, number)?),
    })
}

/// Sizes as a shape.
pub(crate) fn shape_of(b: &GraphBuilder, sizes: &[DimSize]) -> Lowered<Operand> {
    let known: Option<Vec<i64>> = sizes
        .iter()
        .map(|size| match size {
            DimSize::Known(n) => Some(*n),
            DimSize::Computed(_) => None,
        })
        .collect();
    if let Some(known) = known {
        return Ok(known.into());
    }
    let vector = |size: &DimSize| match size {
        DimSize::Known(n) => b.constant(onnxd_plugin_sdk::ir::Tensor::vector(vec![*n])),
        DimSize::Computed(v) => *v,
    };
    Ok(b.concat(sizes.iter().map(vector).collect::<Vec<_>>()).axis(0).one()?.into())
}

/// The sizes of several axes.
pub(crate) fn sizes(
    b: &GraphBuilder,
    x: Var,
    axes: impl IntoIterator<Item = usize>,
) -> Lowered<Vec<DimSize>> {
    axes.into_iter().map(|axis| size(b, x, axis)).collect()
}

/// `x` with these sizes.
pub(crate) fn sized(b: &GraphBuilder, x: Var, sizes: &[DimSize]) -> Lowered<Var> {
    reshaped(b, x, &shape_of(b, sizes)?)
}
