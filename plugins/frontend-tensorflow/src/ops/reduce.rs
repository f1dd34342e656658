//! Reductions.

use super::{Lower, RowContext, dtype_of, widened};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Int32, Int64, Uint8};
use onnxd_plugin_sdk::ir::{Dim, ValueType};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Sum" => |b, a: Reduce| reduce(b, a, Reduction::Sum);
        "Prod" => |b, a: Reduce| reduce(b, a, Reduction::Prod);
        "Max" => |b, a: Reduce| reduce(b, a, Reduction::Max);
        "Min" => |b, a: Reduce| reduce(b, a, Reduction::Min);
        "Mean" => |b, a: Reduce| reduce(b, a, Reduction::Mean);
        "EuclideanNorm" => |b, a: Reduce| reduce(b, a, Reduction::L2);
        "All" => |b, a: Reduce| truth(b, a, Reduction::Min);
        "Any" => |b, a: Reduce| truth(b, a, Reduction::Max);
        "ArgMax" => |b, input: Var, dimension: i64, output_type: ElementType| {
            let at = b.arg_max(integers(b, input)?).axis(dimension).keepdims(0).one()?;
            b.cast(at, output_type.0)
        };
        "ArgMin" => |b, input: Var, dimension: i64, output_type: ElementType| {
            let at = b.arg_min(integers(b, input)?).axis(dimension).keepdims(0).one()?;
            b.cast(at, output_type.0)
        };
        "L2Loss" => |b, t: Var| b.mul(b.reduce_sum_square(t).keepdims(0).one()?, 0.5);
    }
}

arguments! {
    /// `Sum`
    struct Reduce { input: Var, reduction_indices: Operand, keep_dims: bool }
}

/// What becomes of the elements along axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    Mean,
    L2,
}

/// Axes of a reduction.
pub(crate) enum Axes {
    Known(Vec<i64>),
    Computed(Var),
}

impl Axes {
    fn from_operand(b: &GraphBuilder, axes: &Operand) -> Lowered<Axes> {
        Ok(match axes {
            Operand::Int(axis) => Axes::Known(vec![*axis]),
            Operand::Ints(axes) => Axes::Known(axes.clone()),
            Operand::Var(v) => match b.ints_of(*v) {
                Some(axes) => Axes::Known(axes),
                None => Axes::Computed(b.reshape(b.cast(*v, Int64)?, [-1i64]).one()?),
            },
            _ => Axes::Known(vec![]),
        })
    }
}

fn reduce(b: &Lower, a: Reduce, how: Reduction) -> Lowered<Var> {
    let axes = Axes::from_operand(b, &a.reduction_indices)?;
    reduced(b, a.input, &axes, a.keep_dims, how)
}

/// A reduction over axes; over none it changes nothing. Its result has the type of `x`.
pub(crate) fn reduced(
    b: &GraphBuilder,
    x: Var,
    axes: &Axes,
    keep: bool,
    how: Reduction,
) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        d if d.is_float() => d,
        DataType::Int8 | Uint8 if matches!(how, Reduction::Max | Reduction::Min) => dtype,
        d => widened(d),
    };
    let x = b.cast(x, computed)?;
    let axes: Operand = match axes {
        Axes::Known(axes) if axes.is_empty() && how == Reduction::L2 => return b.abs(x),
        Axes::Known(axes) if axes.is_empty() => return b.cast(x, dtype),
        Axes::Known(axes) => axes.into(),
        Axes::Computed(v) => v.into(),
    };
    let left = (!keep).then(|| axes_left(b, x, &axes)).flatten();
    let keep = i64::from(keep);
    // Only axes that are computed may turn out to be none.
    let noop = matches!(axes, Operand::Var(_)).then_some(1i64);
    macro_rules! call {
        ($f:ident) => {
            b.$f(x).axes(axes).keepdims(keep).noop_with_empty_axes(noop).one()?
        };
    }
    let y = match how {
        Reduction::Sum => call!(reduce_sum),
        Reduction::Prod => call!(reduce_prod),
        Reduction::Max => call!(reduce_max),
        Reduction::Min => call!(reduce_min),
        Reduction::Mean => call!(reduce_mean),
        Reduction::L2 => call!(reduce_l2),
    };
    if let Some(left) = left {
        b.declare(y, ValueType::tensor(computed, vec![Dim::Unknown; left]));
    }
    b.cast(y, dtype)
}

/// How many axes are left without those that are computed, which TensorFlow names once each.
fn axes_left(b: &GraphBuilder, x: Var, axes: &Operand) -> Option<usize> {
    let Operand::Var(axes) = axes else { return None };
    let count = *b.dims_of(*axes)?.first()?;
    b.rank_of(x)?.checked_sub(usize::try_from(count).ok()?)
}

/// Reductions of truth values.
fn truth(b: &Lower, a: Reduce, how: Reduction) -> Lowered<Var> {
    let axes = Axes::from_operand(b, &a.reduction_indices)?;
    let x = b.cast(a.input, Int32)?;
    b.cast(reduced(b, x, &axes, a.keep_dims, how)?, Bool)
}

/// Numbers that ArgMax compares: truth values are integers, and runtimes compare few types.
fn integers(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        Bool => b.cast(x, Uint8),
        DataType::Int16 | DataType::Uint16 => b.cast(x, Int32),
        DataType::Uint32 => b.cast(x, Int64),
        _ => Ok(x),
    }
}

/// A reduction over known axes; over none it changes nothing.
pub(crate) fn along(
    b: &GraphBuilder,
    x: Var,
    axes: &[i64],
    keepdims: bool,
    how: Reduction,
) -> Lowered<Var> {
    reduced(b, x, &Axes::Known(axes.to_vec()), keepdims, how)
}

/// Whether a truth holds anywhere along axes (`Max`), or everywhere (`Min`).
pub(crate) fn holds(
    b: &GraphBuilder,
    truth: Var,
    axes: &[i64],
    keepdims: bool,
    how: Reduction,
) -> Lowered<Var> {
    b.cast(along(b, b.cast(truth, Int32)?, axes, keepdims, how)?, Bool)
}

/// The mean along axes, which stay, how far elements are from it, and the mean of the squares of that.
pub(crate) fn deviations(
    b: &GraphBuilder,
    x: Var,
    axes: &[i64],
    keepdims: bool,
) -> Lowered<[Var; 3]> {
    let mean = along(b, x, axes, true, Reduction::Mean)?;
    let apart = b.sub(x, mean)?;
    Ok([mean, apart, along(b, b.mul(apart, apart)?, axes, keepdims, Reduction::Mean)?])
}
