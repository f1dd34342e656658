//! Recurrent networks with quantized weights, whose inputs and states are quantized while the model runs.

use super::linear::{linear, matmul};
use super::packed::{packed, padded, remember};
use super::quantized::tensors;
use super::quantizer::dynamic;
use super::recurrent::{
    CellKind, GRU, LSTM, Net, RecurrentOutputs, lstm_step, scanned, states, three, together, two,
    wrong,
};
use super::sizes::known_size;
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::recurrent;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::quantized_lstm.input" => |b, a: Padded| of_padded(b, &LSTM, a).map(three);
        "aten::quantized_gru.input" => |b, a: Padded| of_padded(b, &GRU, a).map(two);
        "aten::quantized_lstm.data" => |b, a: Packed| of_packed(b, &LSTM, a).map(three);
        "aten::quantized_gru.data" => |b, a: Packed| of_packed(b, &GRU, a).map(two);
    }
}

arguments! {
    /// `quantized_lstm.input`
    struct Padded {
        input: Var, hx: Value, params: Vec<Value>, has_biases: bool, num_layers: i64, dropout: f64,
        train: bool, bidirectional: bool, batch_first: bool, dtype: Option<i64>, use_dynamic: Option<bool>,
    }
    /// As `quantized_lstm.input`, of packed sequences.
    struct Packed {
        data: Var, batch_sizes: Var, hx: Value, params: Vec<Value>, has_biases: bool, num_layers: i64,
        dropout: f64, train: bool, bidirectional: bool, dtype: Option<i64>, use_dynamic: Option<bool>,
    }
}

/// The weights of a cell in one direction.
struct CellWeights {
    input: Var,
    hidden: Var,
    biases: [Option<Var>; 2],
    /// Whether what they are multiplied with is quantized, and then to seven bits.
    reduce_range: Option<bool>,
}

impl CellWeights {
    /// As archives hold it: the kind, biases, numbers, whether to use seven bits, and packed weights.
    fn unpack(value: &Value) -> Option<CellWeights> {
        let Value::List(items) = value else { return None };
        let [Value::Text(kind), biases, _, numbers, Value::List(weights)] = items.as_slice() else {
            return None;
        };
        let [input, hidden] = weights.as_slice() else { return None };
        let (input, hidden, biases) = (tensors(input), tensors(hidden), tensors(biases));
        let reduces = match numbers {
            Value::List(numbers) => matches!(numbers.first(), Some(Value::Int(1))),
            _ => false,
        };
        Some(CellWeights {
            input: *input.first()?,
            hidden: *hidden.first()?,
            biases: [
                biases.first().or(input.get(1)).copied(),
                biases.get(1).or(hidden.get(1)).copied(),
            ],
            reduce_range: kind.contains("dynamic").then_some(reduces),
        })
    }
}

fn of_padded(b: &Lower, kind: &'static CellKind, a: Padded) -> Lowered<RecurrentOutputs> {
    let x = if a.batch_first { b.transpose(a.input).perm([1, 0, 2]).one()? } else { a.input };
    let net = net(kind, a.num_layers, a.bidirectional);
    run(b, &net, x, &a.params, &states(b, kind, &a.hx)?, None, a.batch_first)
}

fn of_packed(b: &Lower, kind: &'static CellKind, a: Packed) -> Lowered<RecurrentOutputs> {
    let sequences = padded(b, a.data, a.batch_sizes)?;
    let net = net(kind, a.num_layers, a.bidirectional);
    let (x, lengths) = (sequences.padded, Some(sequences.lengths));
    let (y, finals) = run(b, &net, x, &a.params, &states(b, kind, &a.hx)?, lengths, false)?;
    let (data, _) = packed(b, y, sequences.lengths)?;
    remember(b, data, y, sequences.lengths, true);
    Ok((data, finals))
}

fn net(kind: &'static CellKind, layers: i64, bidirectional: bool) -> Net {
    Net {
        kind,
        params: vec![],
        has_biases: true,
        layers: layers.clamp(1, 1024) as usize,
        directions: 1 + usize::from(bidirectional),
        dropout: 0.0,
    }
}

fn run(
    b: &Lower,
    net: &Net,
    x: Var,
    params: &[Value],
    first: &[Option<Var>],
    lengths: Option<Var>,
    batch_first: bool,
) -> Lowered<RecurrentOutputs> {
    let cells = params.iter().map(CellWeights::unpack).collect::<Option<Vec<_>>>();
    let cells = cells.filter(|cells| cells.len() == net.layers * net.directions);
    let cells = cells.ok_or_else(|| wrong(b, "parameters that are not known"))?;
    let (mut x, mut finals) = (x, vec![vec![]; net.kind.states]);
    for (layer, cells) in cells.chunks(net.directions).enumerate() {
        let states = first.iter().map(|v| v.map(|v| net.of_layer(b, v, layer)).transpose());
        let states = states.collect::<Lowered<Vec<_>>>()?;
        let mut all = vec![];
        for (direction, cell) in cells.iter().enumerate() {
            all.push(one(b, net.kind, x, cell, direction, &states, lengths)?);
        }
        let outputs = together(b, all)?;
        x = net.merged(b, outputs[0], batch_first && layer + 1 == net.layers)?;
        for (all, v) in finals.iter_mut().zip(&outputs[1..]) {
            all.push(*v);
        }
    }
    let joined = |all: Vec<Var>| match all[..] {
        [one] => Ok(one),
        _ => b.concat(all).axis(0).one(),
    };
    Ok((x, finals.into_iter().map(joined).collect::<Lowered<_>>()?))
}

/// One direction of a layer. The whole input is quantized at once, the state at each step.
fn one(
    b: &Lower,
    kind: &CellKind,
    x: Var,
    cell: &CellWeights,
    direction: usize,
    states: &[Option<Var>],
    lengths: Option<Var>,
) -> Lowered<Vec<Var>> {
    let rounded = |x: Var| match cell.reduce_range {
        Some(reduce_range) => dynamic(b, x, reduce_range),
        None => Ok(x),
    };
    let gates = linear(b, rounded(x)?, cell.input, cell.biases[0])?;
    let hidden = b.transpose(cell.hidden).perm([1, 0]).one()?;
    let size = known_size(b, cell.hidden, 1);
    let of_state = |h: Var| {
        let product = matmul(b, rounded(h)?, hidden)?;
        cell.biases[1].map_or(Ok(product), |bias| b.add(product, bias))
    };
    let sizes = vec![size; kind.states];
    scanned(b, gates, direction, states, &sizes, lengths, |states, gates| {
        let own = of_state(states[0])?;
        if kind.states == 2 {
            let (h, c) = lstm_step(b, b.add(gates, own)?, states[1])?;
            return Ok(vec![h, c]);
        }
        Ok(vec![gru_step(b, gates, own, states[0])?])
    })
}

/// What the gates r, z and n make of the state.
fn gru_step(b: &Lower, gates: Var, own: Var, h: Var) -> Lowered<Var> {
    let split = |x: Var| {
        let three = (b.opset() >= 18).then_some(3i64);
        b.split(x).axis(-1).num_outputs(three).list(3)
    };
    let (x, y) = (split(gates)?, split(own)?);
    let (x, y) = ([x[1], x[0], x[2]], [y[1], y[0], y[2]]);
    recurrent::gru(b, x, y, h, |x| b.sigmoid(x), |x| b.tanh(x))
}
