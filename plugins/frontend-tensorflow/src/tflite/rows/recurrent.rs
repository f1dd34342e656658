//! Recurrent layers whose kernels TFLite has as one operator. States begin where the file says, which is at zero
//! unless a network feeds them.

use super::activation::activated;
use super::size_of;
use crate::ops::create::filled;
use crate::ops::shape::transposed;
use crate::ops::slicing::reversed;
use crate::ops::{Lower, RowContext, Values, dtype_of, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "RNN" => |b, a: Rnn| {
            let y = step(b, a.input, a.state, [a.weights, a.recurrent_weights], a.bias)?;
            let y = activated(b, y, &a.activation)?;
            Ok(with_states(vec![y], a.keeps, &[y]))
        };
        "UNIDIRECTIONAL_SEQUENCE_RNN" => |b, a: Sequence| {
            let keeps = a.keeps;
            let layer =
                RnnLayer { weights: a.weights, recurrent: a.recurrent_weights, bias: a.bias, state: a.state, keeps };
            let x = time_first(b, a.input, a.time_major)?;
            let (y, states) = layer.over(b, x, &a.activation, false)?;
            Ok(with_states(vec![time_first(b, y, a.time_major)?], a.keeps, &states))
        };
        "BIDIRECTIONAL_SEQUENCE_RNN" => both_ways;
        "SVDF" => svdf;
    }
}

arguments! {
    /// `RNN(input, weights, recurrent_weights, bias, state)`
    struct Rnn {
        input: Var, weights: Var, recurrent_weights: Var, bias: Var, state: Var, activation: String,
        keeps: bool = false,
    }
    /// `UNIDIRECTIONAL_SEQUENCE_RNN(input, weights, recurrent_weights, bias, state)`
    struct Sequence {
        input: Var, weights: Var, recurrent_weights: Var, bias: Var, state: Var, time_major: bool,
        activation: String, keeps: bool = false,
    }
    /// `BIDIRECTIONAL_SEQUENCE_RNN(inputs*)`: the input, four tensors of each direction, and an auxiliary input with
    /// its weights.
    struct BothWays {
        inputs: Vec<Value>, time_major: bool, activation: String, merge_outputs: bool, keeps: bool = false,
    }
    /// `SVDF(input, weights_feature, weights_time, bias?, state)`
    struct Svdf {
        input: Var, weights_feature: Var, weights_time: Var, bias: Option<Var>, state: Var, rank: i64,
        keeps: bool = false,
    }
}

/// A layer of `activation(x W + h R + bias)`.
struct RnnLayer {
    weights: Var,
    recurrent: Var,
    bias: Var,
    state: Var,
    /// Whether the state at the end is a result.
    keeps: bool,
}

/// The results of a layer, and its states at the end if they are kept for the next call.
pub(super) fn with_states(results: Vec<Var>, keeps: bool, states: &[Var]) -> Values {
    let states = states.iter().copied().filter(|_| keeps);
    Values(results.into_iter().chain(states).map(Value::from).collect())
}

impl RnnLayer {
    /// Its results over `x`, which has the time first, and its state at the end if that is a result.
    fn over(
        &self,
        b: &GraphBuilder,
        x: Var,
        activation: &str,
        backwards: bool,
    ) -> Lowered<(Var, Vec<Var>)> {
        let state = unless_zeros(b, Some(self.state));
        let word = match activation {
            "TANH" => "Tanh",
            "RELU" => "Relu",
            _ => {
                let state = begin(b, state, x, self.recurrent, 1)?;
                return repeated(b, x, &[state], backwards, |b, x, h| {
                    let weights = [self.weights, self.recurrent];
                    let next = step(b, x, h[0], weights, self.bias)?;
                    Ok(vec![activated(b, next, activation)?])
                });
            }
        };
        let directed = |v: Var| b.unsqueeze(v, [0]);
        let nothing = filled(b, b.shape(self.bias).one()?, 0, dtype_of(b, self.bias)?)?;
        let bias = directed(b.concat([self.bias, nothing]).axis(0).one()?)?;
        let call = b.rnn(x, directed(self.weights)?, directed(self.recurrent)?).b(bias);
        let call =
            call.initial_h(state.map(directed).transpose()?).activations(vec![word.to_owned()]);
        let call = call.hidden_size(size_of(b, self.recurrent, 0));
        let call = call.direction(backwards.then_some("reverse"));
        if !self.keeps {
            return Ok((b.squeeze(call.one()?).axes([1]).one()?, vec![]));
        }
        let [y, h] = call.outputs()?;
        Ok((b.squeeze(y).axes([1]).one()?, vec![b.squeeze(h).axes([0]).one()?]))
    }
}

/// `x W + h R + bias`
fn step(b: &GraphBuilder, x: Var, h: Var, [w, r]: [Var; 2], bias: Var) -> Lowered<Var> {
    let own = b.gemm(x, w).c(bias).trans_b(1).one()?;
    b.add(own, b.gemm(h, r).trans_b(1).one()?)
}

/// States at every step over `x`, which has the time first, and all states at the end: `next` gives the states after a
/// step, of which the first one is the result.
pub(super) fn repeated(
    b: &GraphBuilder,
    x: Var,
    states: &[Var],
    backwards: bool,
    next: impl FnOnce(&GraphBuilder, Var, &[Var]) -> Lowered<Vec<Var>>,
) -> Lowered<(Var, Vec<Var>)> {
    let turned = |x: Var| if backwards { reversed(b, x, &[0]) } else { Ok(x) };
    let results = b.scan(states, &[turned(x)?], |b, states, slices| {
        let mut states = next(b, slices[0], states)?;
        let result = b.identity(states[0])?;
        states.push(result);
        Ok(states)
    })?;
    Ok((turned(results[states.len()])?, results[..states.len()].to_vec()))
}

/// A state, unless it consists of zeros.
pub(super) fn unless_zeros(b: &GraphBuilder, state: Option<Var>) -> Option<Var> {
    let is_zero = |v: Var| {
        let tensor = b.constant_of(v).filter(|t| t.dtype().is_float());
        tensor.is_some_and(|tensor| tensor.bytes().iter().all(|byte| *byte == 0))
    };
    state.filter(|v| !is_zero(*v))
}

/// The state at the beginning. One of zeros has the batch of `x`, and as many columns as axis `axis` of `weights` says.
pub(super) fn begin(
    b: &GraphBuilder,
    state: Option<Var>,
    x: Var,
    weights: Var,
    axis: i64,
) -> Lowered<Var> {
    let Some(state) = state else {
        let batch = b.shape(x).start(1).end(2).one()?;
        let columns = b.shape(weights).start(axis).end(axis + 1).one()?;
        return filled(b, b.concat([batch, columns]).axis(0).one()?, 0, dtype_of(b, x)?);
    };
    Ok(state)
}

/// `x` with the first two axes swapped, unless the time is the first one.
pub(super) fn time_first(b: &GraphBuilder, x: Var, is_first: bool) -> Lowered<Var> {
    if is_first { Ok(x) } else { transposed(b, x, &[1, 0, 2]) }
}

/// Inputs by their places, of which each may be missing.
pub(super) struct LayerInputs(pub(super) Vec<Value>);

impl LayerInputs {
    pub(super) fn at(&self, place: usize) -> Option<Var> {
        match self.0.get(place) {
            Some(Value::Var(v)) => Some(*v),
            _ => None,
        }
    }

    /// # Errors
    /// `N0204` if it is missing.
    pub(super) fn need(&self, b: &GraphBuilder, place: usize) -> Lowered<Var> {
        self.at(place).ok_or_else(|| b.wrong(format!("Input {place} is missing.")))
    }

    /// The input of a direction and its weights: an auxiliary input at `aux` with weights of its own stands beside the
    /// input, one without is what the backward direction reads.
    pub(super) fn joined(
        &self,
        b: &GraphBuilder,
        [x, aux]: [usize; 2],
        backwards: bool,
        weighted: bool,
    ) -> Lowered<Var> {
        let x = self.need(b, x)?;
        match self.at(aux) {
            Some(aux) if weighted => b.concat([x, aux]).axis(2).one(),
            Some(aux) if backwards => Ok(aux),
            _ => Ok(x),
        }
    }

    /// Weights at a place, with those of the auxiliary input beside them.
    pub(super) fn weights(&self, b: &GraphBuilder, own: usize, aux: usize) -> Lowered<Option<Var>> {
        match (self.at(own), self.at(aux)) {
            (Some(own), Some(aux)) => b.concat([own, aux]).axis(1).one().map(Some),
            (own, _) => Ok(own),
        }
    }
}

/// The results of both directions, one after the other or beside each other.
pub(super) fn merged(
    b: &GraphBuilder,
    [(forwards, first), (backwards, second)]: [(Var, Vec<Var>); 2],
    [time_major, merge, keeps]: [bool; 3],
) -> Lowered<Values> {
    let both = [time_first(b, forwards, time_major)?, time_first(b, backwards, time_major)?];
    let results = match merge {
        true => vec![b.concat(both).axis(2).one()?],
        false => both.to_vec(),
    };
    Ok(with_states(results, keeps, &[first, second].concat()))
}

fn both_ways(b: &Lower, a: BothWays) -> Lowered<Values> {
    let inputs = LayerInputs(a.inputs);
    let side = |backwards: bool| {
        let (first, aux) = if backwards { (5, 11) } else { (1, 10) };
        // TFLite's kernel reads another input backwards only where the time comes first.
        let x = inputs.joined(b, [0, 9], backwards && a.time_major, inputs.at(10).is_some())?;
        let weights = inputs.weights(b, first, aux)?;
        let layer = RnnLayer {
            weights: weights.map_or_else(|| inputs.need(b, first), Ok)?,
            recurrent: inputs.need(b, first + 1)?,
            bias: inputs.need(b, first + 2)?,
            state: inputs.need(b, first + 3)?,
            keeps: a.keeps,
        };
        layer.over(b, time_first(b, x, a.time_major)?, &a.activation, backwards)
    };
    merged(b, [side(false)?, side(true)?], [a.time_major, a.merge_outputs, a.keeps])
}

/// Features of the last steps, weighted by how long ago they were, and added up by `rank`. The state holds those of the
/// steps before, the oldest of which goes.
fn svdf(b: &Lower, a: Svdf) -> Lowered<Values> {
    let features = b.gemm(a.input, a.weights_feature).trans_b(1).one()?;
    let filters = size_of(b, a.weights_time, 0);
    let (Some(filters), Some(memory)) = (filters, size_of(b, a.weights_time, 1)) else {
        return Err(b.unsupported("The sizes of the weights are not known."));
    };
    let newest = b.slice(a.weights_time, [-1], [i64::MAX]).axes([1]).one()?;
    let mut states = vec![];
    let weighted = match unless_zeros(b, Some(a.state)).or(a.keeps.then_some(a.state)) {
        None => b.mul(features, b.reshape(newest, [-1]).one()?)?,
        Some(state) => {
            let state = b.reshape(state, [-1, filters, memory]).one()?;
            let kept = b.slice(state, [1], [i64::MAX]).axes([2]).one()?;
            let all = b.concat([kept, b.unsqueeze(features, [2])?]).axis(2).one()?;
            if a.keeps {
                states.push(b.reshape(all, b.shape(a.state).one()?).one()?);
            }
            b.reduce_sum(b.mul(all, a.weights_time)?).axes([2]).keepdims(0).one()?
        }
    };
    let rank = a.rank.max(1);
    let units = b.reshape(weighted, [-1, filters / rank, rank]).one()?;
    let y = b.reduce_sum(units).axes([2]).keepdims(0).one()?;
    let y = a.bias.map_or(Ok(y), |bias| b.add(y, bias))?;
    Ok(with_states(vec![y], a.keeps, &states))
}
