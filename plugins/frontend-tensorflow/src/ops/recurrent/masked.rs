//! Whole layers: cells one above the other over a sequence, of which some steps may not count.

use super::super::create::filled;
use super::super::gather::gathered;
use super::super::shape::{DimSize, shape_of, size, transposed};
use super::super::slicing::reversed;
use super::super::{dtype_of, rank};
use super::steps::{Mask, scanned};
use super::{RecurrentCell, SequenceOutputs, operator};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Int32, Int64};
use onnxd_plugin_sdk::lower::Lowered;

/// What a layer is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SequenceOptions {
    /// From the last step to the first; outputs are in this order too.
    pub(crate) backwards: bool,
    /// All outputs, not only the last one.
    pub(crate) sequences: bool,
    /// Which steps count: `[batch, time]`.
    pub(crate) mask: Option<Var>,
    /// Steps that do not count give zeros, not the output before.
    pub(crate) zeros: bool,
}

/// Runs cells one above the other over `x` (`[batch, time, inputs]`). `initial` has the states of all cells, or is
/// empty. Gives the output (`[batch, time, units]` or `[batch, units]`) and the states of all cells.
pub(crate) fn layer(
    b: &GraphBuilder,
    cells: &[RecurrentCell],
    x: Var,
    initial: &[Var],
    options: SequenceOptions,
) -> Lowered<(Var, Vec<Var>)> {
    let by_operators = cells.iter().all(RecurrentCell::is_operator);
    let turned = options.backwards && (options.mask.is_some() || !by_operators);
    let turn = |v: Var| if turned { reversed(b, v, &[1]) } else { Ok(v) };
    let x = turn(x)?;
    let mask = options.mask.map(turn).transpose()?;
    let options = SequenceOptions { mask, ..options };
    match (by_operators, mask) {
        (false, _) => by_steps(b, cells, x, initial, options),
        (true, None) => plain(b, cells, x, initial, options),
        (true, Some(mask)) => masked(b, cells, x, initial, mask, options),
    }
}

/// Runs each cell on the outputs of the one before.
fn stacked(
    cells: &[RecurrentCell],
    x: Var,
    initial: &[Var],
    run: impl Fn(&RecurrentCell, Var, &[Var]) -> Lowered<SequenceOutputs>,
) -> Lowered<SequenceOutputs> {
    let (mut outputs, mut states, mut rest) = (x, vec![], initial);
    for cell in cells {
        let (own, others) = rest.split_at(cell.kind.states().min(rest.len()));
        let given = run(cell, outputs, own)?;
        (outputs, rest) = (given.outputs, others);
        states.extend(given.states);
    }
    Ok(SequenceOutputs { outputs, states })
}

/// The first state of the last cell, which is also its output.
fn last_output(cells: &[RecurrentCell], states: &[Var]) -> Var {
    states[states.len() - cells.last().map_or(1, |cell| cell.kind.states())]
}

/// By operators; all steps count.
fn plain(
    b: &GraphBuilder,
    cells: &[RecurrentCell],
    x: Var,
    initial: &[Var],
    options: SequenceOptions,
) -> Lowered<(Var, Vec<Var>)> {
    let run = stacked(cells, transposed(b, x, &[1, 0, 2])?, initial, |cell, x, own| {
        operator(b, cell, x, own, None, options.backwards)
    })?;
    if !options.sequences {
        return Ok((last_output(cells, &run.states), run.states));
    }
    let outputs = if options.backwards { reversed(b, run.outputs, &[0])? } else { run.outputs };
    Ok((transposed(b, outputs, &[1, 0, 2])?, run.states))
}

/// By operators. States stay at steps that do not count, so these are left out: the others move to the front, and each
/// output is that of the last step that counted.
fn masked(
    b: &GraphBuilder,
    cells: &[RecurrentCell],
    x: Var,
    initial: &[Var],
    mask: Var,
    options: SequenceOptions,
) -> Lowered<(Var, Vec<Var>)> {
    let counts = b.cast(mask, Int64)?;
    let number = b.reduce_sum(counts).axes([1]).keepdims(0).one()?;
    let length = b.squeeze(b.shape(mask).start(1).end(2).one()?).axes([0]).one()?;
    let places = b.range(int64(b, 0), length, int64(b, 1)).one()?;
    let key = b.add(places, b.mul(b.sub(1, counts)?, length)?)?;
    let order = b.top_k(key, b.reshape(length, [1]).one()?).axis(1).largest(0).list(2)?[1];
    let front = transposed(b, gathered(b, x, order, 1, 1)?, &[1, 0, 2])?;
    // Runtimes want one step at least.
    let lengths = b.cast(b.max([number, int64(b, 1)])?, Int32)?;
    let run = stacked(cells, front, initial, |cell, x, own| {
        operator(b, cell, x, own, Some(lengths), false)
    })?;
    let any = b.unsqueeze(b.greater(number, 0)?, [1])?;
    let mut states = run.states;
    for (i, state) in states.iter_mut().enumerate() {
        let before = initial
            .get(i)
            .map_or(Ok(Operand::Int(0)), |v| b.cast(*v, dtype_of(b, *state)?).map(Operand::Var))?;
        *state = b.where_(any, *state, before)?;
    }
    if !options.sequences {
        let masked_output = match options.zeros {
            true => b.gather(mask, -1).axis(1).one().and_then(|last| b.unsqueeze(last, [1]))?,
            false => any,
        };
        let output = b.where_(masked_output, last_output(cells, &states), 0)?;
        return Ok((output, states));
    }
    let at = b.sub(b.cum_sum(counts, 1).one()?, 1)?;
    let outputs = transposed(b, run.outputs, &[1, 0, 2])?;
    let outputs = gathered(b, outputs, b.max([at, int64(b, 0)])?, 1, 1)?;
    let masked_output = if options.zeros { mask } else { b.greater_or_equal(at, 0)? };
    Ok((b.where_(b.unsqueeze(masked_output, [2])?, outputs, 0)?, states))
}

fn int64(b: &GraphBuilder, x: i64) -> Var {
    b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(x))
}

/// Step by step.
fn by_steps(
    b: &GraphBuilder,
    cells: &[RecurrentCell],
    x: Var,
    initial: &[Var],
    options: SequenceOptions,
) -> Lowered<(Var, Vec<Var>)> {
    let (batch, dtype) = (size(b, x, 0)?, dtype_of(b, x)?);
    let mut states = initial.to_vec();
    if states.is_empty() {
        for cell in cells {
            let zeros = zeros(b, &[batch, DimSize::Known(cell.units)], dtype)?;
            states.extend(vec![zeros; cell.kind.states()]);
        }
    }
    let time_first = |v: Var| -> Lowered<Var> {
        let n = rank(b, v)? as i64;
        transposed(b, v, &[1, 0].into_iter().chain(2..n).collect::<Vec<i64>>())
    };
    let mask = options.mask.map(time_first).transpose()?;
    let mask = mask.map(|counts| Mask { counts, zeros: options.zeros });
    let run =
        stacked(cells, time_first(x)?, &states, |cell, x, own| scanned(b, cell, x, own, mask))?;
    if options.sequences {
        return Ok((time_first(run.outputs)?, run.states));
    }
    Ok((b.gather(run.outputs, -1).axis(0).one()?, run.states))
}

/// Zeros of these sizes.
pub(crate) fn zeros(
    b: &GraphBuilder,
    sizes: &[DimSize],
    dtype: onnxd_plugin_sdk::ir::DataType,
) -> Lowered<Var> {
    let shape = match shape_of(b, sizes)? {
        Operand::Var(v) => v,
        other => b.constant(other.to_tensor(Some(Int64)).expect("a list of integers")),
    };
    filled(b, shape, 0, dtype)
}
