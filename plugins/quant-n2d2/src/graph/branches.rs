//! Where branches meet: sums, maxima and concatenations, and the rescaling of single branches.

use super::emit::Emit;
use super::rescale::{Accumulator, rescale, saturate, saturation, storage};
use crate::plan::{Kind, Output, Rescale};
use onnxd_plugin_sdk::ir::{DataType, Node, ValueId};

/// The integers of `value`, rescaled before one cell only if `branch` says so.
pub(crate) fn operand(
    e: &mut Emit,
    value: ValueId,
    output: Output,
    branch: Option<&Rescale>,
) -> Result<Accumulator, String> {
    let (lo, hi) = output.bounds();
    let (dtype, axes) = (storage(output), e.axes(value));
    let operand = Accumulator { value, dtype, max: hi.max(-lo), axes };
    let Some(branch) = branch else { return Ok(operand) };
    let name = format!("{}_rescale_branch", e.graph[value].name);
    let prefix = std::mem::replace(&mut e.prefix, name);
    let range = saturation(output.bits, output.signed, false);
    let rescaled = rescale(e, operand, &branch.how, range, dtype);
    e.prefix = prefix;
    Ok(Accumulator { value: rescaled?, ..operand })
}

/// The sum or maximum of integers, in 32 bits.
pub(crate) fn elementwise(
    e: &mut Emit,
    kind: Kind,
    inputs: &[Accumulator],
) -> Result<Accumulator, String> {
    let wide: Vec<ValueId> =
        inputs.iter().map(|x| e.cast(x.value, x.dtype, DataType::Int32, "icast")).collect();
    let (op, max) = match kind {
        Kind::Sum => ("Add", inputs.iter().map(|x| x.max).sum()),
        _ => ("Max", inputs.iter().map(|x| x.max).max().unwrap_or(0)),
    };
    let axes = inputs.iter().map(|x| x.axes).collect::<Option<Vec<_>>>();
    let axes = axes.and_then(|axes| axes.into_iter().max());
    let value = wide.into_iter().reduce(|a, b| e.op(op, &[a, b], "act"));
    let value = value.ok_or("it reads nothing")?;
    Ok(Accumulator { value, dtype: DataType::Int32, max, axes })
}

/// The concatenation of integers, all as `output` says.
pub(crate) fn concat(
    e: &mut Emit,
    node: Node,
    inputs: &[Accumulator],
    to: DataType,
    output: Output,
) -> Result<Accumulator, String> {
    let range = saturation(output.bits, output.signed, false);
    let mut alike = |x: &Accumulator| match x.dtype == to {
        true => x.value,
        false => saturate(e, *x, range, to),
    };
    let values: Vec<ValueId> = inputs.iter().map(&mut alike).collect();
    let node = Node { inputs: values.into_iter().map(Some).collect(), outputs: vec![], ..node };
    let first = inputs.first().ok_or("it reads nothing")?;
    let max = range.1.max(-range.0);
    Ok(Accumulator { value: e.node(node, "act"), dtype: to, max, axes: first.axes })
}
