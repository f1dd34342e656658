//! Recurrent networks: layers over whole sequences, and cells that take one step.

use super::linear::{linear, matmul};
use super::packed::{packed, padded, remember};
use super::sizes::{known_size, rank};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::formulas::recurrent;
use onnxd_plugin_sdk::ir::{Attr, Dim, Origin, Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::lstm.input" => |b, a: Padded| of_padded(b, &LSTM, a).map(three);
        "aten::lstm.data" => |b, a: Packed| of_packed(b, &LSTM, a).map(three);
        "aten::gru.input" => |b, a: Padded| of_padded(b, &GRU, a).map(two);
        "aten::gru.data" => |b, a: Packed| of_packed(b, &GRU, a).map(two);
        "aten::rnn_tanh.input" => |b, a: Padded| of_padded(b, &TANH, a).map(two);
        "aten::rnn_tanh.data" => |b, a: Packed| of_packed(b, &TANH, a).map(two);
        "aten::rnn_relu.input" => |b, a: Padded| of_padded(b, &RELU, a).map(two);
        "aten::rnn_relu.data" => |b, a: Packed| of_packed(b, &RELU, a).map(two);
        "aten::lstm_cell" => |b, a: Cell| {
            let states = cell(b, &LSTM, a)?;
            Ok([states[0], states[1]])
        };
        "aten::gru_cell" => |b, a: Cell| Ok(cell(b, &GRU, a)?[0]);
        "aten::rnn_tanh_cell" => |b, a: Cell| Ok(cell(b, &TANH, a)?[0]);
        "aten::rnn_relu_cell" => |b, a: Cell| Ok(cell(b, &RELU, a)?[0]);
    }
}

arguments! {
    /// `lstm.input`
    struct Padded {
        input: Var, hx: Value, params: Vec<Var>, has_biases: bool, num_layers: i64, dropout: f64,
        train: bool, bidirectional: bool, batch_first: bool,
    }
    /// `lstm.data`
    struct Packed {
        data: Var, batch_sizes: Var, hx: Value, params: Vec<Var>, has_biases: bool, num_layers: i64,
        dropout: f64, train: bool, bidirectional: bool,
    }
    /// `lstm_cell`
    struct Cell {
        input: Var, hx: Value, w_ih: Var, w_hh: Var, b_ih: Option<Var>, b_hh: Option<Var>,
    }
}

/// A kind of cell.
pub(super) struct CellKind {
    op: &'static str,
    /// ONNX's gates, as torch counts them.
    gates: &'static [usize],
    pub(super) states: usize,
    activation: Option<&'static str>,
}

pub(super) const LSTM: CellKind =
    CellKind { op: "LSTM", gates: &[0, 3, 1, 2], states: 2, activation: None };
pub(super) const GRU: CellKind =
    CellKind { op: "GRU", gates: &[1, 0, 2], states: 1, activation: None };
const TANH: CellKind = CellKind { op: "RNN", gates: &[0], states: 1, activation: Some("Tanh") };
const RELU: CellKind = CellKind { op: "RNN", gates: &[0], states: 1, activation: Some("Relu") };

/// Layers of cells, with their parameters in the order of torch.
pub(super) struct Net {
    pub(super) kind: &'static CellKind,
    pub(super) params: Vec<Var>,
    pub(super) has_biases: bool,
    pub(super) layers: usize,
    pub(super) directions: usize,
    /// Probability of the dropout between layers.
    pub(super) dropout: f64,
}

/// The sequence that a network gives, and its last states.
pub(super) type RecurrentOutputs = (Var, Vec<Var>);

pub(super) fn two((y, states): RecurrentOutputs) -> [Var; 2] {
    [y, states[0]]
}

pub(super) fn three((y, states): RecurrentOutputs) -> [Var; 3] {
    [y, states[0], states[1]]
}

fn of_padded(b: &Lower, kind: &'static CellKind, a: Padded) -> Lowered<RecurrentOutputs> {
    let net = Net {
        kind,
        params: a.params,
        has_biases: a.has_biases,
        layers: a.num_layers.clamp(1, 1024) as usize,
        directions: 1 + usize::from(a.bidirectional),
        dropout: if a.train { a.dropout } else { 0.0 },
    };
    let states = states(b, kind, &a.hx)?;
    let x = if a.batch_first { b.transpose(a.input).perm([1, 0, 2]).one()? } else { a.input };
    net.run(b, x, None, &states, a.batch_first)
}

fn of_packed(b: &Lower, kind: &'static CellKind, a: Packed) -> Lowered<RecurrentOutputs> {
    let net = Net {
        kind,
        params: a.params,
        has_biases: a.has_biases,
        layers: a.num_layers.clamp(1, 1024) as usize,
        directions: 1 + usize::from(a.bidirectional),
        dropout: if a.train { a.dropout } else { 0.0 },
    };
    let states = states(b, kind, &a.hx)?;
    let sequences = padded(b, a.data, a.batch_sizes)?;
    let lengths = b.cast(sequences.lengths, onnxd_plugin_sdk::ir::DataType::Int32)?;
    let (y, finals) = net.run(b, sequences.padded, Some(lengths), &states, false)?;
    let (data, _) = packed(b, y, sequences.lengths)?;
    remember(b, data, y, sequences.lengths, true);
    Ok((data, finals))
}

pub(super) fn wrong(b: &Lower, what: &str) -> Diagnostic {
    b.diagnostic(Code::LayerParameter, format!("A recurrent network has {what}."))
}

/// The first states; none where they are zeros, which is what ONNX assumes.
pub(super) fn states(b: &Lower, kind: &CellKind, hx: &Value) -> Lowered<Vec<Option<Var>>> {
    let all: Vec<Var> = match hx {
        Value::Var(v) => vec![*v],
        Value::List(items) => items
            .iter()
            .filter_map(|item| if let Value::Var(v) = item { Some(*v) } else { None })
            .collect(),
        _ => vec![],
    };
    if all.len() != kind.states {
        return Err(wrong(b, "another number of states"));
    }
    Ok(all.into_iter().map(|v| (!is_zero(b, v)).then_some(v)).collect())
}

/// Whether a value is known to be zeros.
fn is_zero(b: &Lower, v: Var) -> bool {
    const ELEMENTS_MAX: usize = 1 << 16;
    let zeros = |t: &Tensor| {
        t.len() <= ELEMENTS_MAX && t.to_reals().is_some_and(|r| r.values.iter().all(|x| *x == 0.0))
    };
    if let Some(tensor) = b.constant_of(v) {
        return zeros(&tensor);
    }
    if !b.is_own(v) {
        return false;
    }
    let Ok(id) = b.id(v) else { return false };
    let source = {
        let graph = b.graph();
        let Origin::Node(node, _) = graph[id].origin() else { return false };
        let node = &graph[node];
        match (node.is("ConstantOfShape"), node.is("Expand")) {
            (true, _) => {
                return match node.attr("value") {
                    Some(Attr::Tensor(value)) => zeros(value),
                    _ => true,
                };
            }
            (_, true) => node.input(0),
            _ => None,
        }
    };
    source.is_some_and(|source| b.constant_of(b.var(source)).is_some_and(|t| zeros(&t)))
}

impl Net {
    /// Runs over a sequence `[time, batch, features]`.
    pub(super) fn run(
        &self,
        b: &Lower,
        x: Var,
        lengths: Option<Var>,
        first: &[Option<Var>],
        batch_first: bool,
    ) -> Lowered<RecurrentOutputs> {
        let cells = self.layers * self.directions;
        let each = self.params.len() / cells;
        let plain = if self.has_biases { 4 } else { 2 };
        let projects = self.kind.op == "LSTM" && each == plain + 1;
        if self.params.len() != each * cells || !(each == plain || projects) {
            return Err(wrong(b, "another number of parameters"));
        }
        let mut x = x;
        let mut finals = vec![vec![]; self.kind.states];
        for layer in 0..self.layers {
            if layer > 0 && self.dropout > 0.0 {
                x = b.dropout(x).ratio(self.dropout).training_mode(true).one()?;
            }
            let at = layer * self.directions * each;
            let params = &self.params[at..at + self.directions * each];
            let states = first.iter().map(|v| v.map(|v| self.of_layer(b, v, layer)).transpose());
            let states = states.collect::<Lowered<Vec<_>>>()?;
            let cells: Vec<&[Var]> = params.chunks(each).collect();
            let last = layer + 1 == self.layers;
            let outputs = if projects {
                projected(b, x, &cells, &states, lengths)?
            } else {
                self.layer(b, x, &cells, &states, lengths)?
            };
            x = self.merged(b, outputs[0], batch_first && last)?;
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

    /// The part of the first states that belongs to a layer.
    pub(super) fn of_layer(&self, b: &Lower, v: Var, layer: usize) -> Lowered<Var> {
        if self.layers == 1 {
            return Ok(v);
        }
        let start = (layer * self.directions) as i64;
        b.slice(v, [start], [start + self.directions as i64]).axes([0]).one()
    }

    /// `[time, directions, batch, features]` with the directions side by side.
    pub(super) fn merged(&self, b: &Lower, y: Var, batch_first: bool) -> Lowered<Var> {
        if self.directions == 1 {
            let y = b.squeeze(y).axes([1]).one()?;
            return if batch_first { b.transpose(y).perm([1, 0, 2]).one() } else { Ok(y) };
        }
        let perm = if batch_first { [2, 0, 1, 3] } else { [0, 2, 1, 3] };
        b.reshape(b.transpose(y).perm(perm).one()?, [0, 0, -1]).one()
    }

    /// One operator: the sequence, and the last states.
    fn layer(
        &self,
        b: &Lower,
        x: Var,
        cells: &[&[Var]],
        states: &[Option<Var>],
        lengths: Option<Var>,
    ) -> Lowered<Vec<Var>> {
        let gates = self.kind.gates;
        let part = |role: &str, at: &[usize]| {
            let parts = cells.iter().map(|cell| at.iter().map(|i| cell[*i]).collect());
            weights(b, role, parts.collect(), gates)
        };
        let (w, r) = (part("W", &[0])?, part("R", &[1])?);
        let bias = self.has_biases.then(|| part("B", &[2, 3])).transpose()?;
        let hidden = known_size(b, cells[0][1], 1);
        let hidden = hidden.ok_or_else(|| wrong(b, "a size that is not known"))?;
        let mut inputs: Vec<Operand> =
            vec![x.into(), w.into(), r.into(), bias.into(), lengths.into()];
        inputs.extend(states.iter().map(|v| Operand::from(*v)));
        let mut call = b.op("", self.kind.op, inputs).set("hidden_size", hidden);
        if self.directions == 2 {
            call = call.set("direction", "bidirectional");
        }
        if let Some(activation) = self.kind.activation.filter(|a| *a != "Tanh") {
            call = call.set("activations", vec![activation.to_owned(); self.directions]);
        }
        if self.kind.op == "GRU" {
            call = call.set("linear_before_reset", 1i64);
        }
        call.list(1 + self.kind.states)
    }
}

/// Weights of all directions, with the gates in ONNX's order. What is constant stays so.
fn weights(b: &Lower, role: &str, directions: Vec<Vec<Var>>, gates: &[usize]) -> Lowered<Var> {
    let constants = directions.iter().map(|parts| {
        let tensors = parts.iter().map(|v| reordered(b.constant_of(*v)?, gates));
        let one = Tensor::concat(&tensors.collect::<Option<Vec<_>>>()?, 0).ok()?;
        one.reshaped([&[1], one.dims()].concat()).ok()
    });
    let constants = constants.collect::<Option<Vec<_>>>();
    if let Some(all) = constants.and_then(|parts| Tensor::concat(&parts, 0).ok()) {
        return Ok(b.parameter(role, all));
    }
    let mut all = vec![];
    for parts in directions {
        let mut ordered = vec![];
        for v in parts {
            let split = match gates.len() {
                1 => vec![v],
                n => {
                    b.split(v).axis(0).num_outputs((b.opset() >= 18).then_some(n as i64)).list(n)?
                }
            };
            ordered.extend(gates.iter().map(|gate| split[*gate]));
        }
        let one = if ordered.len() == 1 { ordered[0] } else { b.concat(ordered).axis(0).one()? };
        all.push(b.unsqueeze(one, [0])?);
    }
    if all.len() == 1 { Ok(all[0]) } else { b.concat(all).axis(0).one() }
}

/// The blocks of the first axis in another order.
fn reordered(tensor: Tensor, gates: &[usize]) -> Option<Tensor> {
    let rows = tensor.dims().first()? / gates.len();
    if gates.len() == 1 {
        return Some(tensor);
    }
    let block = |gate: &usize| {
        let mut axes: Vec<_> = tensor.dims().iter().map(|n| (0, *n, 1)).collect();
        axes[0] = (gate * rows, rows, 1);
        tensor.sliced(&axes).ok()
    };
    Tensor::concat(&gates.iter().map(block).collect::<Option<Vec<_>>>()?, 0).ok()
}

/// An LSTM whose hidden state is projected, which no operator says: a Scan for each direction.
fn projected(
    b: &Lower,
    x: Var,
    cells: &[&[Var]],
    states: &[Option<Var>],
    lengths: Option<Var>,
) -> Lowered<Vec<Var>> {
    let mut all = vec![];
    for (direction, cell) in cells.iter().enumerate() {
        let (w_hh, w_hr) = (cell[1], cell[cell.len() - 1]);
        let bias = (cell.len() == 5).then(|| b.add(cell[2], cell[3])).transpose()?;
        let gates = linear(b, x, cell[0], bias)?;
        let sizes = [known_size(b, w_hr, 0), known_size(b, w_hr, 1)];
        let r = b.transpose(w_hh).perm([1, 0]).one()?;
        let p = b.transpose(w_hr).perm([1, 0]).one()?;
        all.push(scanned(b, gates, direction, states, &sizes, lengths, |states, gates| {
            let (h, c) = lstm_step(b, b.add(gates, matmul(b, states[0], r)?)?, states[1])?;
            Ok(vec![matmul(b, h, p)?, c])
        })?);
    }
    together(b, all)
}

/// What directions give, side by side: sequences along axis 1, states along axis 0.
pub(super) fn together(b: &Lower, directions: Vec<Vec<Var>>) -> Lowered<Vec<Var>> {
    let count = directions.first().map_or(0, Vec::len);
    let of = |i: usize| {
        let all: Vec<Var> = directions.iter().map(|given| given[i]).collect();
        match all[..] {
            [one] => Ok(one),
            _ => b.concat(all).axis(i64::from(i == 0)).one(),
        }
    };
    (0..count).map(of).collect()
}

/// A Scan over the gates `[time, batch, ...]` that do not depend on the state. `step` makes the next states; the first
/// of them is what the sequence is made of. The second direction runs backwards. `sizes` are those of the states.
pub(super) fn scanned(
    b: &Lower,
    gates: Var,
    direction: usize,
    first: &[Option<Var>],
    sizes: &[Option<i64>],
    lengths: Option<Var>,
    step: impl Fn(&[Var], Var) -> Lowered<Vec<Var>>,
) -> Lowered<Vec<Var>> {
    if lengths.is_some() {
        let message = "Packed sequences in a cell that is no operator of ONNX cannot be said.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let turned = |x: Var| match direction {
        0 => Ok(x),
        _ => b.slice(x, [-1], [i64::MIN + 1]).axes([0]).steps([-1]).one(),
    };
    let gates = turned(gates)?;
    let start = first.iter().zip(sizes).map(|(v, size)| match v {
        Some(v) => b.gather(*v, direction as i64).axis(0).one(),
        None => zeros(b, gates, *size),
    });
    let start = start.collect::<Lowered<Vec<_>>>()?;
    let scan_results = b.scan(&start, &[gates], |_, states, gates| {
        let mut next = step(states, gates[0])?;
        next.push(b.identity(next[0])?);
        Ok(next)
    })?;
    let dtype = super::dtype::dtype_of(b, gates)?;
    if let Some([time, batch, ..]) = b.shape_of(gates).as_deref() {
        for (v, size) in scan_results.iter().zip(sizes) {
            let size = size.map_or(Dim::Unknown, Dim::Known);
            b.declare(*v, ValueType::tensor(dtype, [batch.clone(), size]));
        }
        let size = sizes[0].map_or(Dim::Unknown, Dim::Known);
        b.declare(
            scan_results[first.len()],
            ValueType::tensor(dtype, [time.clone(), batch.clone(), size]),
        );
    }
    let mut all = vec![b.unsqueeze(turned(scan_results[first.len()])?, [1])?];
    for v in &scan_results[..first.len()] {
        all.push(b.unsqueeze(*v, [0])?);
    }
    Ok(all)
}

/// Zeros `[batch, size]` for a sequence `[time, batch, features]`.
fn zeros(b: &Lower, x: Var, size: Option<i64>) -> Lowered<Var> {
    let size = size.ok_or_else(|| wrong(b, "a size that is not known"))?;
    let zero = super::dtype::operand(b, &Value::Int(0), super::dtype::dtype_of(b, x)?)?;
    let shape = [super::sizes::size(b, x, 1)?, Value::Int(size)];
    b.expand(zero, super::sizes::vector(b, &shape)?)
}

/// What the gates i, f, g and o make of the state: the next hidden state, and the next cell state.
pub(super) fn lstm_step(b: &Lower, gates: Var, c: Var) -> Lowered<(Var, Var)> {
    let four = (b.opset() >= 18).then_some(4i64);
    let split = b.split(gates).axis(-1).num_outputs(four).list(4)?;
    let gates = [split[0], split[1], split[2], split[3]];
    let [h, c] = recurrent::lstm(b, gates, c, |x| b.sigmoid(x), |x| b.tanh(x))?;
    Ok((h, c))
}

/// One step of a cell: a sequence of one element.
fn cell(b: &Lower, kind: &'static CellKind, a: Cell) -> Lowered<Vec<Var>> {
    let single = rank(b, a.input)? == 1;
    let axes = if single { vec![0, 1] } else { vec![0] };
    let params: Vec<Var> =
        [Some(a.w_ih), Some(a.w_hh), a.b_ih, a.b_hh].into_iter().flatten().collect();
    let has_biases = params.len() == 4;
    let net = Net { kind, params, has_biases, layers: 1, directions: 1, dropout: 0.0 };
    let states = states(b, kind, &a.hx)?.into_iter();
    let states = states.map(|v| v.map(|v| b.unsqueeze(v, &axes)).transpose());
    let states = states.collect::<Lowered<Vec<_>>>()?;
    let x = b.unsqueeze(a.input, &axes)?;
    let given = net.layer(b, x, &[&net.params], &states, None)?;
    given[1..].iter().map(|v| b.squeeze(*v).axes(axes.clone()).one()).collect()
}
