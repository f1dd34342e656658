//! Loops whose turns are steps of LSTM, GRU or RNN, as the operators of ONNX.

use super::cells::{Affine, Body, Cell, Part, Weight, plain};
use super::item::{Form, Item, List};
use super::list::{first_size, single};
use super::scans::{self, Scan};
use super::turns::{self, Counter, Limit};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{Attr, DataType, Graph, Origin, ValueId};
use std::collections::HashMap;
use std::rc::Rc;

/// What becomes of a value of the loop.
#[derive(Clone, Copy, Debug)]
enum End {
    Counter(i64),
    Hidden,
    Memory,
    /// A list of all hidden states.
    All(Scan),
    /// A list of which each turn writes the hidden state to the same place.
    Last(i64),
}

/// A loop of steps of one cell.
#[derive(Debug)]
pub(crate) struct Recurrent {
    cell: Cell,
    width: i64,
    /// What the steps read a slice of, in the graph around the loop.
    sequence: ValueId,
    /// The axis that the steps go along, and where they begin.
    axis: i64,
    first: i64,
    ends: Vec<(usize, End)>,
    hidden: usize,
    memory: Option<usize>,
}

/// A carried value: its number, what goes in, and what comes out.
type State = (usize, [ValueId; 2]);

/// What a turn gets and gives: the numbers of tensors with both, and those of lists.
pub(crate) struct Turn<'t> {
    pub(crate) tensors: Vec<(usize, [Var; 2])>,
    pub(crate) lists: Vec<(usize, ValueId, &'t Rc<List>, &'t Rc<List>)>,
    pub(crate) counters: &'t [Counter],
}

/// The cell whose step a turn is; `None` if a turn does anything else.
pub(crate) fn found(b: &GraphBuilder, turn: &Turn<'_>) -> Option<Recurrent> {
    let mut ends = vec![];
    let mut states: Vec<State> = vec![];
    for (at, [state, next]) in &turn.tensors {
        let (state, next) = (b.id(*state).ok()?, b.id(*next).ok()?);
        match turn.counters.iter().find(|c| b.id(c.state).is_ok_and(|id| id == state)) {
            Some(counter) => ends.push((*at, End::Counter(counter.step))),
            None => states.push((*at, [state, next])),
        }
    }
    // Values of other graphs are captured before the body is looked at.
    let items = turn.lists.iter().map(|(_, _, _, next)| match &next.form {
        Form::Written { item, .. } => b.id(*item).ok(),
        _ => None,
    });
    let items = items.collect::<Option<Vec<ValueId>>>()?;
    let graph = b.graph().clone();
    let body = Body::new(b, &graph);
    let float = |(_, [state, _]): &State| graph[*state].ty.as_ref()?.dtype();
    if !states.iter().all(|state| float(state) == Some(DataType::Float)) {
        return None;
    }
    let next = |(at, [state, next]): State| (at, [state, body.plain(next)]);
    let (cell, hidden, memory) = match states[..] {
        [x] => {
            let cell = body.gru(next(x).1).or_else(|| body.plain_cell(next(x).1))?;
            (cell, next(x), None)
        }
        [x, y] => [(x, y), (y, x)]
            .into_iter()
            .find_map(|(h, c)| Some((body.lstm(next(h).1, next(c).1)?, next(h), Some(next(c)))))?,
        _ => return None,
    };
    ends.push((hidden.0, End::Hidden));
    ends.extend(memory.map(|(at, _)| (at, End::Memory)));
    let [_, width] = body.sizes(hidden.1[0])?[..] else { return None };
    let (sequence, axis, first) = sequence(b, &body, cell.input, turn.counters)?;
    for ((at, input, list, next), item) in turn.lists.iter().zip(items) {
        let end = match &next.form {
            Form::Written { base, index, .. }
                if Rc::ptr_eq(base, list) && graph.uses(*input) == 0 =>
            {
                match single(b, *index) {
                    Some(index) => End::Last(index),
                    None => End::All(scans::scan(b, (*input, list), next, turn.counters)?.1),
                }
            }
            _ => return None,
        };
        if body.plain(item) != hidden.1[1] {
            return None;
        }
        ends.push((*at, end));
    }
    let (hidden, memory) = (hidden.0, memory.map(|(at, _)| at));
    (width > 0).then_some(Recurrent { cell, width, sequence, axis, first, ends, hidden, memory })
}

/// What the steps read slices of, one behind the other; along which axis, and from where on.
fn sequence(
    b: &GraphBuilder,
    body: &Body<'_>,
    input: ValueId,
    counters: &[Counter],
) -> Option<(ValueId, i64, i64)> {
    let (node, _) = body.node(input).filter(|(node, _)| node.is("Gather"))?;
    let axis = match node.attr("axis") {
        Some(Attr::Int(axis)) => axis.rem_euclid(3),
        _ => 0,
    };
    let (from, index) = (node.input(0)?, node.input(1)?);
    let three = body.sizes(from).is_some_and(|sizes| sizes.len() == 3);
    let counter = turns::counter_of(b, b.var(index), counters)?;
    let first = single(b, counter.begin).filter(|first| *first >= 0 && counter.step == 1)?;
    let Origin::Captured(outer) = b.graph()[body.plain(from)].origin() else { return None };
    (three && axis < 2).then_some((outer, axis, first))
}

impl Recurrent {
    /// Adds the operator in place of the loop; gives the values at the end.
    ///
    /// # Errors
    /// Those of the builder.
    pub(crate) fn finished(
        &self,
        b: &GraphBuilder,
        begins: &[Item],
        limits: &[Limit],
        body: &Graph,
    ) -> Result<Vec<Item>> {
        let trips = turns::trips(b, limits)?;
        let outside = Outside { b, body, known: HashMap::default() };
        let mut sequence = b.var(self.sequence);
        if self.axis == 1 {
            sequence = b.transpose(sequence).perm([1, 0, 2]).one()?;
        }
        if self.first > 0 || !turns::same(b, trips, first_size(b, sequence)?) {
            let n = b.reshape(trips, [1]).one()?;
            let end = if self.first > 0 { b.add(n, self.first)? } else { n };
            sequence = b.slice(sequence, [self.first], end).axes([0]).one()?;
        }
        let state = |at: usize| match &begins[at] {
            Item::Tensor(v) => b.unsqueeze(*v, [0]),
            _ => Err(b.diagnostic(
                onnxd_plugin_sdk::diagnostics::Code::InvariantBroken,
                "A loop carries what is no tensor.",
            )),
        };
        let hidden = state(self.hidden)?;
        let memory = self.memory.map(state).transpose()?;
        let [all, hidden, memory] = self.operator(b, outside, sequence, [Some(hidden), memory])?;
        let all = b.squeeze(all).axes([1]).one()?;
        let hidden = b.squeeze(hidden).axes([0]).one()?;
        let mut ends = begins.to_vec();
        for (at, end) in &self.ends {
            ends[*at] = match (end, &begins[*at]) {
                (End::Hidden, _) => Item::Tensor(hidden),
                (End::Memory, _) => Item::Tensor(b.squeeze(memory).axes([0]).one()?),
                (End::Counter(step), Item::Tensor(begin)) => {
                    let dtype = crate::ops::of(b, *begin)?;
                    let trips = b.cast(trips, dtype)?;
                    let way = if *step == 1 { trips } else { b.mul(trips, *step)? };
                    Item::Tensor(b.add(*begin, way)?)
                }
                (End::All(scan), Item::List(list)) => {
                    Item::List(Rc::new(scan.list(b, list, all, Some(trips))?))
                }
                (End::Last(index), Item::List(list)) => {
                    let index = b.constant(onnxd_plugin_sdk::ir::Tensor::scalar(*index));
                    Item::List(Rc::new(list.set(b, index, Item::Tensor(hidden), false)?))
                }
                _ => Item::Hole,
            };
        }
        Ok(ends)
    }

    /// All hidden states, the last one, and the last cell state.
    fn operator(
        &self,
        b: &GraphBuilder,
        mut outside: Outside<'_>,
        sequence: Var,
        [hidden, memory]: [Option<Var>; 2],
    ) -> Result<[Var; 3]> {
        let (mut w, mut r, mut biases) = (vec![], vec![], vec![]);
        for gate in &self.cell.gates {
            let Affine { products, biases: own } = &gate.sum;
            for (source, weight) in products {
                let is_state = plain(outside.body, *source) == self.cell.state;
                let to = if is_state { &mut r } else { &mut w };
                to.push(outside.matrix(weight)?);
            }
            biases.push(outside.bias(own, self.width)?);
        }
        let [w, r] = [w, r].map(|parts| {
            let joined = if parts.len() == 1 { parts[0] } else { b.concat(parts).axis(1).one()? };
            b.unsqueeze(b.transpose(joined).perm([1, 0]).one()?, [0])
        });
        let zeros = outside.bias(&[], self.width)?;
        let mut more = vec![zeros; biases.len()];
        if let (Some(reset), Some(last)) = (&self.cell.reset, more.last_mut()) {
            *last = outside.bias(reset, self.width)?;
        }
        biases.extend(more);
        let bias = b.unsqueeze(b.concat(biases).axis(0).one()?, [0])?;
        let inputs = [Some(sequence), Some(w?), Some(r?), Some(bias), None, hidden, memory];
        let used = if memory.is_some() { 7 } else { 6 };
        let gates = &self.cell.gates;
        let activations: Vec<&str> = match self.cell.op {
            "LSTM" => [gates[0].activation, gates[3].activation]
                .into_iter()
                .chain(self.cell.output)
                .collect(),
            "GRU" => vec![gates[0].activation, gates[2].activation],
            _ => vec![gates[0].activation],
        };
        let default: &[&str] = match self.cell.op {
            "LSTM" => &["Sigmoid", "Tanh", "Tanh"],
            "GRU" => &["Sigmoid", "Tanh"],
            _ => &["Tanh"],
        };
        let mut call = b.op("", self.cell.op, inputs.into_iter().take(used));
        call = call.set("hidden_size", self.width);
        if activations != default {
            let words: Vec<String> = activations.iter().map(|word| (*word).to_owned()).collect();
            call = call.set("activations", words);
        }
        if self.cell.reset.is_some() {
            call = call.set("linear_before_reset", 1i64);
        }
        match memory {
            Some(_) => call.outputs::<3>(),
            None => call.outputs::<2>().map(|[all, hidden]| [all, hidden, hidden]),
        }
    }
}

/// Values of the body that are the same in each turn, built around the loop.
struct Outside<'g> {
    b: &'g GraphBuilder,
    body: &'g Graph,
    known: HashMap<ValueId, Var>,
}

impl Outside<'_> {
    fn value(&mut self, v: ValueId) -> Result<Var> {
        if let Some(known) = self.known.get(&v) {
            return Ok(*known);
        }
        // Nodes that it needs come first.
        let mut stack = vec![v];
        while let Some(at) = stack.last().copied() {
            let node = match self.body[at].origin() {
                Origin::Captured(outer) => {
                    self.known.insert(at, self.b.var(outer));
                    None
                }
                Origin::Node(id, _) => Some(&self.body[id]),
                _ => {
                    let tensor = self.body.constant(at).cloned();
                    let tensor =
                        tensor.unwrap_or_else(|| onnxd_plugin_sdk::ir::Tensor::scalar(0f32));
                    self.known.insert(at, self.b.constant(tensor));
                    None
                }
            };
            let Some(node) = node.filter(|_| !self.known.contains_key(&at)) else {
                stack.pop();
                continue;
            };
            let open: Vec<ValueId> = node
                .inputs
                .iter()
                .flatten()
                .filter(|v| !self.known.contains_key(v))
                .copied()
                .collect();
            if open.is_empty() {
                let inputs =
                    node.inputs.iter().map(|v| v.and_then(|v| self.known.get(&v).copied()));
                let outputs = self.b.again(node, inputs).called("").outputs_of(node)?;
                for (id, v) in node.outputs.iter().zip(outputs) {
                    self.known.extend(id.zip(v));
                }
            }
            stack.extend(open);
        }
        Ok(self.known[&v])
    }

    fn part(&self, v: Var, axis: i64, part: Part) -> Result<Var> {
        match part {
            None => Ok(v),
            Some((start, n)) => self.b.slice(v, [start], [start + n]).axes([axis]).one(),
        }
    }

    fn matrix(&mut self, weight: &Weight) -> Result<Var> {
        let all = self.value(weight.value)?;
        let rows = self.part(all, 0, weight.rows)?;
        self.part(rows, 1, weight.columns)
    }

    /// The sum of biases, for each of `width` elements.
    fn bias(&mut self, biases: &[Weight], width: i64) -> Result<Var> {
        let b = self.b;
        let mut sum: Option<Var> = None;
        for bias in biases {
            let all = self.value(bias.value)?;
            let one = self.part(b.reshape(all, [-1]).one()?, 0, bias.columns)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, one)?,
                None => one,
            });
        }
        match sum {
            Some(sum) if b.dims_of(sum).is_some_and(|dims| dims == [width]) => Ok(sum),
            Some(sum) => b.expand(sum, [width]),
            None => {
                let zero = b.constant(crate::ops::create::number(0.0, DataType::Float));
                b.expand(zero, [width])
            }
        }
    }
}
