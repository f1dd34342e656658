//! LSTM layers. Gates are in TFLite's order: input, forget, cell, output. A layer without input gate takes what the
//! forget gate leaves.

use super::activation::activated;
use super::recurrent::{
    LayerInputs, begin, merged, repeated, time_first, unless_zeros, with_states,
};
use super::size_of;
use crate::ops::activation::clipped;
use crate::ops::create::filled;
use crate::ops::linear::product;
use crate::ops::shape::{squeezed, unsqueezed};
use crate::ops::{Lower, RowContext, Values, dtype_of, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// What is added to variances.
const VARIANCE_MIN: f64 = 1e-8;

/// Gates in the order of ONNX.
const ONNX: [usize; 4] = [INPUT, OUTPUT, FORGET, CELL];
const INPUT: usize = 0;
const FORGET: usize = 1;
const CELL: usize = 2;
const OUTPUT: usize = 3;

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "LSTM" => single;
        "UNIDIRECTIONAL_SEQUENCE_LSTM" => sequence;
        "BIDIRECTIONAL_SEQUENCE_LSTM" => both_ways;
    }
}

arguments! {
    /// `LSTM(inputs*)`: one step.
    struct Single {
        inputs: Vec<Value>, activation: String, cell_clip: f64, proj_clip: f64, kernel_type: String,
        stored: Option<Vec<f64>>, keeps: bool = false,
    }
    /// `UNIDIRECTIONAL_SEQUENCE_LSTM(inputs*)`
    struct Sequence {
        inputs: Vec<Value>, activation: String, cell_clip: f64, proj_clip: f64, time_major: bool,
        diagonal_recurrent_tensors: Option<bool>, stored: Option<Vec<f64>>, keeps: bool = false,
    }
    /// `BIDIRECTIONAL_SEQUENCE_LSTM(inputs*)`
    struct BothWays {
        inputs: Vec<Value>, activation: String, cell_clip: f64, proj_clip: f64, merge_outputs: bool,
        time_major: bool, keeps: bool = false,
    }
}

/// Weights by gate, and what else a layer is made of.
struct LstmWeights {
    input: [Option<Var>; 4],
    /// Matrices, or their diagonals.
    recurrent: [Option<Var>; 4],
    peephole: [Option<Var>; 4],
    bias: [Option<Var>; 4],
    norm: [Option<Var>; 4],
    projection: Option<Var>,
    projection_bias: Option<Var>,
    activation: String,
    cell_clip: f64,
    projection_clip: f64,
    stored: Option<QuantizedStates>,
    /// Whether the states at the end are results.
    keeps: bool,
}

/// How a layer on integers stores what it computes in each step, what it reads of that in the next one, and what its
/// result says: scale and zero point of the same integers.
#[derive(Clone, Copy)]
struct QuantizedStates {
    computed: [f64; 2],
    state: [f64; 2],
    result: [f64; 2],
    /// The largest number of the cell.
    cell: f64,
}

impl QuantizedStates {
    fn from_inputs(
        b: &Lower,
        inputs: &LayerInputs,
        list: Option<Vec<f64>>,
    ) -> Option<QuantizedStates> {
        let [one, two, three, four, five, six, cell] = list?.try_into().ok()?;
        let found = QuantizedStates {
            computed: [one, two],
            state: [three, four],
            result: [five, six],
            cell,
        };
        if !found.has_tanh() {
            // Without an input gate nothing tells what is in the kernel's buffer.
            let ours = match inputs.at(1 + INPUT) {
                Some(_) => "does as the kernel does",
                None => "computes it, so results differ",
            };
            let what = "The scale of the cell is one for which TFLite's kernel leaves out `tanh`.";
            let message = format!("{what} The model {ours}.");
            let help =
                "Quantize the model again, on samples for which cells come near to 1 or above.";
            b.note(b.wrong(message).help(help));
        }
        Some(found)
    }

    /// Whether the kernel computes `tanh` of the cell: it has code for cells that reach 1, 2, 4 ... 64. For others it
    /// leaves its buffer as it is, in which the input gate is (`PortableApplyTanh` of TFLite).
    fn has_tanh(&self) -> bool {
        (0..=6).any(|bits| self.cell.log2().round() == f64::from(bits))
    }
}

/// What integers of 8 bits say in `to`, by scale and zero point, which stand for `x` in `from`.
fn reread(b: &GraphBuilder, x: Var, from: [f64; 2], to: [f64; 2]) -> Lowered<Var> {
    let scale = |list: [f64; 2]| b.constant(Tensor::scalar(list[0] as f32));
    let zero = |list: [f64; 2]| b.constant(Tensor::scalar(list[1] as i8));
    let stored = b.quantize_linear(x, scale(from)).y_zero_point(zero(from)).one()?;
    b.dequantize_linear(stored, scale(to)).x_zero_point(zero(to)).one()
}

impl LstmWeights {
    /// Reads 17 inputs from `first` on; those of a layer norm are elsewhere.
    fn new(
        inputs: &LayerInputs,
        first: usize,
        activation: &str,
        [cell_clip, clip]: [f64; 2],
    ) -> LstmWeights {
        let four = |from: usize| [0, 1, 2, 3].map(|gate| inputs.at(first + from + gate));
        let peephole = [Some(8), Some(9), None, Some(10)];
        LstmWeights {
            input: four(0),
            recurrent: four(4),
            peephole: peephole.map(|at| inputs.at(first + at?)),
            bias: four(11),
            norm: [None; 4],
            projection: inputs.at(first + 15),
            projection_bias: inputs.at(first + 16),
            activation: activation.to_owned(),
            cell_clip,
            projection_clip: clip,
            stored: None,
            keeps: false,
        }
    }

    /// The results over `x`, which has the time first, and the states at the end if those are results.
    fn over(
        &self,
        b: &GraphBuilder,
        x: Var,
        states: [Option<Var>; 2],
        backwards: bool,
    ) -> Lowered<(Var, Vec<Var>)> {
        let [h, c] = states.map(|state| unless_zeros(b, state));
        let word = match self.activation.as_str() {
            "TANH" => Some("Tanh"),
            "RELU" => Some("Relu"),
            _ => None,
        };
        let is_diagonal = self.recurrent.iter().flatten().any(|r| b.rank_of(*r) == Some(1));
        let is_plain = self.norm == [None; 4] && self.projection.is_none() && !is_diagonal;
        let is_plain = is_plain && self.stored.is_none();
        match word.filter(|_| is_plain && self.cell_clip == 0.0) {
            Some(word) => self.layer(b, x, [h, c], backwards, word),
            None => {
                let recurrent = need(b, self.recurrent[FORGET])?;
                let columns = if is_diagonal { 0 } else { 1 };
                let h = begin(b, h, x, recurrent, columns)?;
                let c = begin(b, c, x, need(b, self.input[FORGET])?, 0)?;
                let (y, states) = repeated(b, x, &[h, c], backwards, |b, x, states| {
                    self.step(b, x, [states[0], states[1]]).map(Vec::from)
                })?;
                match self.stored {
                    Some(to) if to.state != to.result => {
                        Ok((reread(b, y, to.state, to.result)?, states))
                    }
                    _ => Ok((y, states)),
                }
            }
        }
    }

    /// As the operator of ONNX. Without an input gate, `1 - sigmoid(x)` is `sigmoid(-x)`.
    fn layer(
        &self,
        b: &GraphBuilder,
        x: Var,
        states: [Option<Var>; 2],
        backwards: bool,
        activation: &str,
    ) -> Lowered<(Var, Vec<Var>)> {
        let is_coupled = self.input[INPUT].is_none();
        let stacked = |all: &[Option<Var>; 4], gates: &[usize]| -> Lowered<Var> {
            let one = |gate: &usize| match *gate {
                INPUT if is_coupled => b.neg(need(b, all[FORGET])?),
                gate => need(b, all[gate]),
            };
            let all = gates.iter().map(one).collect::<Lowered<Vec<_>>>()?;
            b.concat(all).axis(0).one()
        };
        let directed = |v: Var| b.unsqueeze(v, [0]);
        let bias = stacked(&self.bias, &ONNX)?;
        let nothing = filled(b, b.shape(bias).one()?, 0, dtype_of(b, bias)?)?;
        let bias = directed(b.concat([bias, nothing]).axis(0).one()?)?;
        let peephole = self.peephole[FORGET].map(|_| stacked(&self.peephole, &ONNX[..3]));
        let peephole = peephole.transpose()?.map(directed).transpose()?;
        let [h, c] = states.map(|state| state.map(directed).transpose());
        let call = b.lstm(
            x,
            directed(stacked(&self.input, &ONNX)?)?,
            directed(stacked(&self.recurrent, &ONNX)?)?,
        );
        let call = call.b(bias).p(peephole).initial_h(h?).initial_c(c?);
        let words = ["Sigmoid", activation, activation].map(str::to_owned).to_vec();
        let call =
            call.activations(words).hidden_size(size_of(b, need(b, self.recurrent[FORGET])?, 1));
        let call = call.direction(backwards.then_some("reverse"));
        if !self.keeps {
            return Ok((squeezed(b, call.one()?, &[1])?, vec![]));
        }
        let [y, h, c] = call.outputs()?;
        Ok((squeezed(b, y, &[1])?, vec![squeezed(b, h, &[0])?, squeezed(b, c, &[0])?]))
    }

    /// Both states after a step.
    fn step(&self, b: &GraphBuilder, x: Var, [h, c]: [Var; 2]) -> Lowered<[Var; 2]> {
        let forget = b.sigmoid(self.gate(b, FORGET, x, [h, c])?)?;
        let input = match self.input[INPUT] {
            None => b.sub(1.0, forget)?,
            Some(_) => b.sigmoid(self.gate(b, INPUT, x, [h, c])?)?,
        };
        let news = activated(b, self.gate(b, CELL, x, [h, c])?, &self.activation)?;
        let c = b.add(b.mul(forget, c)?, b.mul(input, news)?)?;
        let c = within(b, c, self.cell_clip)?;
        let c = within(b, c, self.stored.map_or(0.0, |to| to.cell))?;
        let output = b.sigmoid(self.gate(b, OUTPUT, x, [h, c])?)?;
        let squashed = match self.stored {
            Some(to) if !to.has_tanh() && self.input[INPUT].is_some() => input,
            _ => activated(b, c, &self.activation)?,
        };
        let h = b.mul(output, squashed)?;
        let stored =
            |h: Var, from: fn(QuantizedStates) -> [f64; 2], to: fn(QuantizedStates) -> [f64; 2]| {
                self.stored.map_or(Ok(h), |stored| reread(b, h, from(stored), to(stored)))
            };
        let Some(projection) = self.projection else {
            return Ok([stored(h, |to| to.computed, |to| to.state)?, c]);
        };
        let h = stored(h, |to| to.computed, |to| to.computed)?;
        let h = b.gemm(h, projection).c(self.projection_bias).trans_b(1).one()?;
        Ok([stored(within(b, h, self.projection_clip)?, |to| to.state, |to| to.state)?, c])
    }

    /// What a gate is the sigmoid of.
    fn gate(&self, b: &GraphBuilder, gate: usize, x: Var, [h, c]: [Var; 2]) -> Lowered<Var> {
        let norm = self.norm[gate];
        let bias = self.bias[gate].filter(|_| norm.is_none());
        let own = b.gemm(x, need(b, self.input[gate])?).c(bias).trans_b(1).one()?;
        let recurrent = need(b, self.recurrent[gate])?;
        let before = match b.rank_of(recurrent) {
            Some(1) => b.mul(h, recurrent)?,
            _ => b.gemm(h, recurrent).trans_b(1).one()?,
        };
        let mut sum = b.add(own, before)?;
        if let Some(peephole) = self.peephole[gate] {
            sum = b.add(sum, b.mul(c, peephole)?)?;
        }
        let Some(norm) = norm else { return Ok(sum) };
        let apart = b.sub(sum, b.reduce_mean(sum).axes([-1]).keepdims(1).one()?)?;
        let variance = b.reduce_mean(b.mul(apart, apart)?).axes([-1]).keepdims(1).one()?;
        let deviation = b.sqrt(b.add(variance, VARIANCE_MIN)?)?;
        let y = b.mul(b.div(apart, deviation)?, norm)?;
        self.bias[gate].map_or(Ok(y), |bias| b.add(y, bias))
    }
}

/// Weights that a layer cannot be without.
fn need(b: &GraphBuilder, weights: Option<Var>) -> Lowered<Var> {
    weights.ok_or_else(|| b.wrong("Weights of the layer are missing."))
}

/// `x` between `-clip` and `clip`; zero does not clip.
fn within(b: &GraphBuilder, x: Var, clip: f64) -> Lowered<Var> {
    if clip > 0.0 { clipped(b, x, -clip, clip) } else { Ok(x) }
}

fn single(b: &Lower, a: Single) -> Lowered<Values> {
    let inputs = LayerInputs(a.inputs);
    if a.kernel_type == "BASIC" {
        return basic(b, &inputs, a.keeps);
    }
    let mut cell = LstmWeights::new(&inputs, 1, &a.activation, [a.cell_clip, a.proj_clip]);
    cell.norm = [20, 21, 22, 23].map(|at| inputs.at(at));
    cell.stored = QuantizedStates::from_inputs(b, &inputs, a.stored);
    cell.keeps = a.keeps;
    let x = unsqueezed(b, inputs.need(b, 0)?, &[0])?;
    let (y, states) = cell.over(b, x, [inputs.at(18), inputs.at(19)], false)?;
    Ok(with_states(vec![squeezed(b, y, &[0])?], a.keeps, &states))
}

/// `LSTM(input, previous, weights, bias, state)` of the kernel `BASIC`: one matrix for input and previous result, with
/// the gates in the order input, cell, forget, output.
fn basic(b: &GraphBuilder, inputs: &LayerInputs, keeps: bool) -> Lowered<Values> {
    let both = b.concat([inputs.need(b, 0)?, inputs.need(b, 1)?]).axis(-1).one()?;
    let gates = product(b, [both, inputs.need(b, 2)?], [false, true])?;
    let gates = b.add(gates, inputs.need(b, 3)?)?;
    let Some(width) = size_of(b, inputs.need(b, 3)?, 0).map(|n| n / 4) else {
        return Err(b.unsupported("The length of the bias is not known."));
    };
    let parts = b.split(gates).split(vec![width; 4]).axis(-1).list(4)?;
    let kept = b.mul(b.sigmoid(parts[2])?, inputs.need(b, 4)?)?;
    let c = b.add(b.mul(b.sigmoid(parts[0])?, b.tanh(parts[1])?)?, kept)?;
    let h = b.mul(b.sigmoid(parts[3])?, b.tanh(c)?)?;
    Ok(with_states(vec![h, c, both, gates], keeps, &[h, c]))
}

fn sequence(b: &Lower, a: Sequence) -> Lowered<Values> {
    let inputs = LayerInputs(a.inputs);
    let mut cell = LstmWeights::new(&inputs, 1, &a.activation, [a.cell_clip, a.proj_clip]);
    cell.norm = [20, 21, 22, 23].map(|at| inputs.at(at));
    cell.stored = QuantizedStates::from_inputs(b, &inputs, a.stored);
    cell.keeps = a.keeps;
    let x = time_first(b, inputs.need(b, 0)?, a.time_major)?;
    let (y, states) = cell.over(b, x, [inputs.at(18), inputs.at(19)], false)?;
    Ok(with_states(vec![time_first(b, y, a.time_major)?], a.keeps, &states))
}

fn both_ways(b: &Lower, a: BothWays) -> Lowered<Values> {
    let inputs = LayerInputs(a.inputs);
    let side = |backwards: bool| {
        let (first, states, aux) = if backwards { (18, 37, 44) } else { (1, 35, 40) };
        let x = inputs.joined(b, [0, 39], backwards, inputs.at(41).is_some())?;
        let mut cell = LstmWeights::new(&inputs, first, &a.activation, [a.cell_clip, a.proj_clip]);
        for gate in 0..4 {
            cell.input[gate] = inputs.weights(b, first + gate, aux + gate)?;
        }
        cell.keeps = a.keeps;
        let states = [inputs.at(states), inputs.at(states + 1)];
        cell.over(b, time_first(b, x, a.time_major)?, states, backwards)
    };
    merged(b, [side(false)?, side(true)?], [a.time_major, a.merge_outputs, a.keeps])
}

#[cfg(test)]
mod tests;
