//! Cells step by step, for what the operators of ONNX do not have.

use super::super::create::filled;
use super::super::dtype_of;
use super::super::shape::unsqueezed;
use super::{CellKind, RecurrentCell, SequenceOutputs};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::formulas::recurrent;
use onnxd_plugin_sdk::ir::ValueType;
use onnxd_plugin_sdk::lower::Lowered;

/// What a step gives: its output and the new states.
pub(crate) type StepOutput = (Var, Vec<Var>);

/// Which steps count.
#[derive(Clone, Copy)]
pub(crate) struct Mask {
    /// `[time, batch]`
    pub(crate) counts: Var,
    /// Whether the other steps give zeros; else they give the output before.
    pub(crate) zeros: bool,
}

/// Runs `step` over the first axis of `x`. Steps that do not count leave the states as they are. Outputs are like the
/// first state.
pub(crate) fn over_time(
    b: &GraphBuilder,
    x: Var,
    initial: &[Var],
    mask: Option<Mask>,
    step: impl FnOnce(&GraphBuilder, Var, &[Var]) -> Lowered<StepOutput>,
) -> Lowered<SequenceOutputs> {
    let dtype = dtype_of(b, initial[0])?;
    let zeros = filled(b, b.shape(initial[0]).one()?, 0, dtype)?;
    let types: Vec<Option<ValueType>> = initial.iter().map(|v| b.type_of(*v)).collect();
    // The output before is a state too where it is given again.
    let again = mask.is_some_and(|mask| !mask.zeros).then_some(zeros);
    let states: Vec<Var> = initial.iter().copied().chain(again).collect();
    let scanned: Vec<Var> = [x].into_iter().chain(mask.map(|mask| mask.counts)).collect();
    let n = initial.len();
    let scan_results = b.scan(&states, &scanned, |b, states, slices| {
        let likes = types.iter().chain(&types[..1]);
        for (state, ty) in states.iter().zip(likes) {
            if let Some(ty) = ty {
                b.declare(*state, ty.clone());
            }
        }
        let (mut output, mut next) = step(b, slices[0], &states[..n])?;
        if mask.is_some() {
            let axes: Vec<i64> =
                (1..types[0].as_ref().and_then(|ty| ty.shape()).map_or(2, <[_]>::len) as i64)
                    .collect();
            let counts = unsqueezed(b, slices[1], &axes)?;
            let before = states.get(n).copied();
            output = b.where_(counts, output, before.unwrap_or(zeros))?;
            for (new, old) in next.iter_mut().zip(states) {
                *new = b.where_(counts, *new, *old)?;
            }
            next.extend(before.map(|_| output));
        }
        Ok(next.into_iter().chain([output]).collect())
    })?;
    let outputs = scan_results[states.len()];
    Ok(SequenceOutputs { outputs, states: scan_results[..n].to_vec() })
}

/// Runs a cell over `x` (`[time, batch, inputs]`) step by step.
pub(crate) fn scanned(
    b: &GraphBuilder,
    cell: &RecurrentCell,
    x: Var,
    initial: &[Var],
    mask: Option<Mask>,
) -> Lowered<SequenceOutputs> {
    // What does not depend on the states is computed for all steps at once.
    let product = b.mat_mul(x, cell.kernel)?;
    let (outer, inner) = match cell.bias {
        Some(bias) if b.rank_of(bias) == Some(2) => {
            let part = |i: i64| b.gather(bias, i).axis(0).one();
            (Some(part(0)?), Some(part(1)?))
        }
        other => (other, None),
    };
    let product = outer.map_or(Ok(product), |bias| b.add(product, bias))?;
    over_time(b, product, initial, mask, |b, x, states| match cell.kind {
        CellKind::Lstm => lstm(b, cell, x, states),
        CellKind::Gru { reset_after: true } => gru_after(b, cell, x, states[0], inner),
        CellKind::Gru { reset_after: false } => gru_before(b, cell, x, states[0]),
        CellKind::Simple => {
            let sum = b.add(x, b.mat_mul(states[0], cell.recurrent)?)?;
            let h = (cell.activation.apply)(b, sum)?;
            Ok((h, vec![h]))
        }
    })
}

fn lstm(b: &GraphBuilder, cell: &RecurrentCell, x: Var, states: &[Var]) -> Lowered<StepOutput> {
    let z = b.add(x, b.mat_mul(states[0], cell.recurrent)?)?;
    let z = b.split(z).split(vec![cell.units; 4]).axis(-1).list(4)?;
    lstm_states(b, cell, [z[0], z[1], z[2], z[3]], states[1])
}

/// The states of an LSTM from the sums of its gates.
fn lstm_states(
    b: &GraphBuilder,
    cell: &RecurrentCell,
    [i, f, g, o]: [Var; 4],
    c: Var,
) -> Lowered<StepOutput> {
    let (gate, own) = (|x| (cell.gates.apply)(b, x), |x| (cell.activation.apply)(b, x));
    let [h, c] = recurrent::lstm(b, [i, f, g, o], c, gate, own)?;
    Ok((h, vec![h, c]))
}

fn gru_after(
    b: &GraphBuilder,
    cell: &RecurrentCell,
    x: Var,
    h: Var,
    bias: Option<Var>,
) -> Lowered<StepOutput> {
    let inner = b.mat_mul(h, cell.recurrent)?;
    let inner = bias.map_or(Ok(inner), |bias| b.add(inner, bias))?;
    let parts = |v: Var| b.split(v).split(vec![cell.units; 3]).axis(-1).list(3);
    let (x, inner) = (parts(x)?, parts(inner)?);
    let (gate, own) = (|x| (cell.gates.apply)(b, x), |x| (cell.activation.apply)(b, x));
    let (x, inner) = ([x[0], x[1], x[2]], [inner[0], inner[1], inner[2]]);
    let h = recurrent::gru(b, x, inner, h, gate, own)?;
    Ok((h, vec![h]))
}

fn gru_before(b: &GraphBuilder, cell: &RecurrentCell, x: Var, h: Var) -> Lowered<StepOutput> {
    let both = vec![2 * cell.units, cell.units];
    let weights = b.split(cell.recurrent).split(both).axis(-1).list(2)?;
    let x = b.split(x).split(vec![cell.units; 3]).axis(-1).list(3)?;
    let inner = b.split(b.mat_mul(h, weights[0])?).split(vec![cell.units; 2]).axis(-1).list(2)?;
    let z = (cell.gates.apply)(b, b.add(x[0], inner[0])?)?;
    let r = (cell.gates.apply)(b, b.add(x[1], inner[1])?)?;
    let rest = b.mat_mul(b.mul(r, h)?, weights[1])?;
    let new = (cell.activation.apply)(b, b.add(x[2], rest)?)?;
    let h = recurrent::updated(b, z, h, new)?;
    Ok((h, vec![h]))
}
