//! Where branches meet: sums, maxima and concatenations, and the rescaling of single branches.

use super::rescale::{Accumulator, rescale, saturate, saturation, storage};
use super::types::{Result, Types};
use crate::plan::{CellKind, Output, Rescale};
use onnxd_plugin_sdk::build::{Result as Built, Var};
use onnxd_plugin_sdk::ir::{DataType, Node};

/// The integers of `value`, rescaled before one cell only if `branch` says so.
pub(crate) fn operand(
    t: &Types,
    value: Var,
    output: Output,
    branch: Option<&Rescale>,
) -> Result<Accumulator> {
    let (lo, hi) = output.bounds();
    let (dtype, axes) = (storage(output), t.axes(value));
    let operand = Accumulator { value, dtype, max: hi.max(-lo), axes };
    let Some(branch) = branch else { return Ok(operand) };
    let prefix = format!("{}_rescale_branch", t.b.name_of(value));
    let range = saturation(output.bits, output.signed, false);
    let value = t.b.under(&prefix, |_| rescale(t, operand, &branch.how, range, dtype))?;
    Ok(Accumulator { value, ..operand })
}

/// The sum or maximum of integers, in 32 bits.
pub(crate) fn elementwise(
    t: &Types,
    kind: CellKind,
    inputs: &[Accumulator],
) -> Result<Accumulator> {
    let wide = inputs.iter().map(|x| t.cast(x.value, x.dtype, DataType::Int32, "icast"));
    let wide = wide.collect::<Built<Vec<Var>>>()?;
    let max = match kind {
        CellKind::Sum => inputs.iter().map(|x| x.max).sum(),
        _ => inputs.iter().map(|x| x.max).max().unwrap_or(0),
    };
    let axes = inputs.iter().map(|x| x.axes).collect::<Option<Vec<_>>>();
    let axes = axes.and_then(|axes| axes.into_iter().max());
    let met = |a: Var, b: Var| match kind {
        CellKind::Sum => t.b.add(a, b),
        _ => t.b.max([a, b]),
    };
    let (first, others) = wide.split_first().ok_or("it reads nothing")?;
    let met = |a, b: &Var| met(a, *b).map(|both| t.b.named("act", both));
    let value = others.iter().try_fold(*first, met)?;
    Ok(Accumulator { value, dtype: DataType::Int32, max, axes })
}

/// The concatenation of integers, all as `output` says.
pub(crate) fn concat(
    t: &Types,
    node: &Node,
    inputs: &[Accumulator],
    to: DataType,
    output: Output,
) -> Result<Accumulator> {
    let range = saturation(output.bits, output.signed, false);
    let alike = |x: &Accumulator| match x.dtype == to {
        true => Ok(x.value),
        false => saturate(t, *x, range, to),
    };
    let values = inputs.iter().map(alike).collect::<Result<Vec<Var>>>()?;
    let first = inputs.first().ok_or("it reads nothing")?;
    let max = range.1.max(-range.0);
    let value = t.b.again(node, values).role("act").one()?;
    Ok(Accumulator { value, dtype: to, max, axes: first.axes })
}
