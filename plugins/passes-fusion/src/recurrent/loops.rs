//! Makes LSTM, GRU and RNN of a `Loop` or `Scan` whose iterations are their steps.
//!
//! ONNX Runtime takes far longer for a loop, so this holds for batches of any size, and for RNN. Where there may be
//! no iteration, the first states are the last ones.
//!
//! ```onnx
//! before (float[T,5,3] x, float[5,2] h, float[5,2] c) => (float[5,2] y, float[T,5,2] all)
//! <float[3,8] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0,
//!  5.0, 6.0, 7.0, 8.0}, float[2,8] r = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7,
//!  1.8}, float[8] b = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, int64 zero = {0}>
//! {
//!   sizes = Shape(x)
//!   trips = Gather(sizes, zero)
//!   y, last, all = Loop (trips, , h, c) <
//!     body = step (int64 i, bool go, float[5,2] h0, float[5,2] c0)
//!       => (bool on, float[5,2] h1, float[5,2] c1, float[5,2] h2) {
//!       on = Identity(go)
//!       xi = Gather(x, i)
//!       xw = MatMul(xi, w)
//!       hr = MatMul(h0, r)
//!       s = Add(xw, hr)
//!       z = Add(s, b)
//!       zi, zf, zg, zo = Split<axis = 1>(z)
//!       gi = Sigmoid(zi)
//!       f = Sigmoid(zf)
//!       g = Tanh(zg)
//!       o = Sigmoid(zo)
//!       kept = Mul(f, c0)
//!       new = Mul(gi, g)
//!       c1 = Add(kept, new)
//!       t = Tanh(c1)
//!       h1 = Mul(o, t)
//!       h2 = Identity(h1)
//!     }
//!   >
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[T,5,3] x, float[5,2] h, float[5,2] c) => (float[5,2] y, float[T,5,2] all)
//! <int64 zero = {0}, float[1,8,3] w_input = {1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0, 3.0, 3.0,
//!  3.0, 4.0, 4.0, 4.0, 5.0, 5.0, 5.0, 6.0, 6.0, 6.0}, float[1,8,2] r_hidden = {0.1, 1.1, 0.2, 1.2, 0.7, 1.7, 0.8, 1.8,
//!  0.3, 1.3, 0.4, 1.4, 0.5, 1.5, 0.6, 1.6}, float[1,16] w_input_bias = {1.0, 2.0, 7.0, 8.0, 3.0, 4.0, 5.0, 6.0, 0.0,
//!  0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, int64[1] y_axes = {0}, int64[1] y_axes_1 = {1}, int64 y_constant = {0}>
//! {
//!   sizes = Shape(x)
//!   trips = Gather(sizes, zero)
//!   y_unsqueeze = Unsqueeze(h, y_axes)
//!   y_unsqueeze_1 = Unsqueeze(c, y_axes)
//!   y_lstm, y_lstm_1 = LSTM<hidden_size = 2>(x, w_input, r_hidden, w_input_bias, "", y_unsqueeze, y_unsqueeze_1)
//!   all = Squeeze(y_lstm, y_axes_1)
//!   y_squeeze_1 = Squeeze(y_lstm_1, y_axes)
//!   y_greater = Greater(trips, y_constant)
//!   y = Where(y_greater, y_squeeze_1, h)
//! }
//! ```

use super::affine::{NODES_MAX, TermSource, Weight};
use super::cell::{CellStep, cell};
use super::iterations::{Carried, Iterations, Sequence, single, step};
use super::operator::{ChainWeights, leave_out_unread};
use crate::parts::unlike;
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::text::inline;
use onnxd_plugin_sdk::ir::{
    DataType, Dim, Facts, Graph, Layers, Model, Node, NodeId, Opsets, ValueId,
};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Rewriter, Skip, for_each_graph_known};
use std::collections::HashMap;
use std::convert::Infallible;

/// The first version of operators that choose a state by a whole number.
const CHOICE_OPSET_MIN: i64 = 9;

pub(crate) struct FuseLoops;

impl Pass for FuseLoops {
    fn name(&self) -> &'static str {
        "fuse-recurrent-loops"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let facts = cx.facts(model);
        let done = for_each_graph_known(model, &facts, &mut |graph, opset, facts| {
            for id in graph.node_ids() {
                // A rewrite before may have removed it.
                let Some(node) = graph.node(id) else { continue };
                let is_loop = node.is("Loop") || node.is("Scan");
                if !is_loop || opset < super::OPSET_MIN || cx.fuel.is_empty() {
                    continue;
                }
                let at = node.outputs.iter().flatten().next();
                let at = at.map(|v| graph[*v].name.clone()).unwrap_or_default();
                match fuse(graph, opset, id, facts) {
                    Ok(()) => cx.rewrote(),
                    Err(why) if why.0.is_empty() => {}
                    Err(why) => cx.skip(&at, why),
                }
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = done;
        Ok(())
    }
}

/// A loop of steps of one cell. Values are those of the body, where nothing else is said.
struct Recurrent {
    weights: ChainWeights,
    sequence: Sequence,
    /// The hidden state and the cell state: their first values around the loop, and what a step makes of them.
    states: Vec<(ValueId, ValueId)>,
    /// Around the loop, if their number is not that of the slices.
    trips: Option<ValueId>,
    /// Whether there is an iteration in every run.
    is_run: bool,
    /// What the loop gives, around it.
    ends: Vec<(ValueId, End)>,
}

/// What a value at the end of the loop is.
enum End {
    State(usize),
    /// All hidden states, in one tensor.
    All,
    /// All hidden states, one by one.
    Sequence,
    /// What it begins with around the loop, and by how much it grows in each iteration.
    Counter(ValueId, i64),
    /// What it begins with around the loop.
    Begin(ValueId),
    /// What the body computes of the states.
    Computed(ValueId),
}

fn fuse(graph: &mut Graph, opset: i64, id: NodeId, facts: &Facts) -> Rewrite {
    let inner = facts.inside(id).first().ok_or_else(unlike)?;
    let iterations = Iterations::of(graph, id, opset, NODES_MAX)?;
    let found = recognized(graph, &iterations, (facts, inner), opset)?;
    let node = &graph[id];
    let layers = node.layers.clone();
    let first = node.outputs.iter().flatten().next();
    let name = first.map(|v| graph[*v].name.clone()).unwrap_or_default();
    let reads: Vec<ValueId> = node.reads().collect();
    let opsets = Opsets::from([(String::new(), opset)]);
    let done = GraphBuilder::edit(graph, &opsets, |b| {
        b.in_layers(layers, &name, |b| found.build(b, id, iterations, facts))
    });
    done.map_err(|found| Skip(found.message.trim_end_matches('.').to_owned()))?;
    Rewriter::new(graph, opset).sweep(reads);
    Ok(())
}

/// The cell whose steps the iterations are. `facts` are those around the loop and in it.
fn recognized(
    graph: &Graph,
    iterations: &Iterations,
    (facts, inner): (&Facts, &Facts),
    opset: i64,
) -> Result<Recurrent, Skip> {
    let mut seen = iterations.seen(graph);
    let varying = iterations.varying(&seen, &[]);
    let cx = Rewriter::new(&mut seen, opset);
    let carried = &iterations.carried;
    let found = carried.iter().enumerate().find_map(|(hidden, state)| {
        let cell = cell(&cx, inner, Some(&varying), state.next).ok()?;
        if cell.hidden_before.is_some_and(|before| before != state.before) {
            return None;
        }
        let role =
            cell.terms.iter().position(|term| term.source == TermSource::Value(state.before))?;
        let places = match cell.memory {
            None => vec![hidden],
            Some(memory) => {
                vec![hidden, carried.iter().position(|c| [c.before, c.next] == memory)?]
            }
        };
        Some((cell, role, places))
    });
    let (cell, role, places) = found.ok_or_else(unlike)?;
    let TermSource::Value(x) = cell.terms[1 - role].source else { return Skip::unlike() };
    let sequence = iterations.sequence(&cx, graph, x).ok_or_else(unlike)?;
    let slice = inner.shape(x).filter(|shape| shape.len() == 2 && sequence.axis < 2);
    let is_outside = !iterations.has_trips() || !varying.contains(&sequence.data);
    let slice = slice.filter(|_| is_outside).ok_or_else(unlike)?;
    let weights = ChainWeights::of(&cell, role);
    if !weights.hidden.iter().all(Weight::is_square) {
        return Skip::unlike();
    }
    let states =
        places.iter().map(|at| (carried[*at].begin, carried[*at].next)).collect::<Vec<_>>();
    // TensorFlow's loops seldom tell the size of a batch: rows that are all unknown pass.
    let width = Dim::from(cell.width as i64);
    for (begin, _) in &states {
        let shape = facts.shape(*begin).filter(|shape| shape.len() == 2).ok_or_else(unlike)?;
        if shape[0] != slice[0] || shape[1] != width {
            return Skip::because("inputs and states are not of the same batch");
        }
    }
    let trips = iterations.trips(graph)?;
    let ends = ends(graph, &cx, iterations, &cell, &places)?;
    let count = match trips {
        Some(trips) => count(graph, facts, trips),
        None => facts.shape(sequence.data).and_then(|shape| shape.get(sequence.axis)).cloned(),
    };
    let is_run = count.is_some_and(|count| count.is_positive());
    let is_computed = ends.iter().any(|(_, end)| matches!(end, End::Computed(_)));
    if !is_run && (is_computed || opset < CHOICE_OPSET_MIN) {
        return Skip::because("it may have no iteration");
    }
    Ok(Recurrent { weights, sequence, states, trips, is_run, ends })
}

/// What is known of the number of iterations.
fn count(graph: &Graph, facts: &Facts, trips: ValueId) -> Option<Dim> {
    match single(graph, trips) {
        Some(count) => Some(Dim::Known(count)),
        None => facts.elements(trips).and_then(|(_, all)| all.first().cloned()),
    }
}

/// What becomes of all that the loop gives.
fn ends(
    graph: &Graph,
    cx: &Rewriter,
    iterations: &Iterations,
    cell: &CellStep,
    places: &[usize],
) -> Result<Vec<(ValueId, End)>, Skip> {
    let states: Vec<ValueId> = places.iter().map(|at| iterations.carried[*at].next).collect();
    let varying = iterations.varying(cx.graph, &states);
    let mut ends = vec![];
    for (at, carried) in iterations.carried.iter().enumerate() {
        let Some(out) = carried.end else { continue };
        let end = match places.iter().position(|place| *place == at) {
            Some(state) => End::State(state),
            None if carried.next == carried.before => End::Begin(carried.begin),
            None if !varying.contains(&carried.next) => End::Computed(carried.next),
            None if is_list(graph, cx.graph, carried, cell.hidden) => End::Sequence,
            None => match step(cx, carried).filter(|_| iterations.has_trips()) {
                Some(step) => End::Counter(carried.begin, step),
                None => return Skip::because("it carries what is no state of a cell"),
            },
        };
        ends.push((out, end));
    }
    for (v, out) in &iterations.stacked {
        if *v != cell.hidden {
            return Skip::because("it stacks what is no hidden state");
        }
        ends.push((*out, End::All));
    }
    Ok(ends)
}

/// Whether a carried sequence, which is empty at first, gets `v` in each iteration.
fn is_list(graph: &Graph, body: &Graph, carried: &Carried, v: ValueId) -> bool {
    let begins = graph.producer(carried.begin).is_some_and(|id| graph[id].is("SequenceEmpty"));
    let insert = body.producer(carried.next).map(|id| &body[id]);
    let insert = insert.filter(|node| begins && node.is("SequenceInsert"));
    insert.is_some_and(|node| node.inputs == [Some(carried.before), Some(v)])
}

impl Recurrent {
    /// Puts the operator in the place of the loop `id`.
    fn build(
        &self,
        b: &GraphBuilder,
        id: NodeId,
        iterations: Iterations,
        facts: &Facts,
    ) -> Built<()> {
        let has_trips = iterations.has_trips();
        let layers = b.graph()[id].layers.clone();
        let inside = iterations.body.nodes().map(|(_, node)| node.layers.clone());
        let inside: Layers = inside.collect();
        let mut outside = Outside { b, body: iterations.body, layers, known: iterations.captures };
        let data = match has_trips {
            true => outside.values([self.sequence.data])?[0],
            false => self.sequence.data,
        };
        let values: Vec<ValueId> = self.weights.values().collect();
        outside.values(values)?;
        let weights = self.weights.clone().moved(|v| outside.known[&v]);
        let is_constant = weights.values().all(|v| b.graph().constant(v).is_some());
        let derived = is_constant.then(|| weights.derived(&mut b.graph_mut()));
        let constants = match derived {
            Some(Ok(constants)) => constants,
            _ => weights.computed(b)?,
        };
        let x = self.input(b, data, facts)?;
        let begins = [self.states.first(), self.states.get(1)];
        let begins = begins.map(|state| state.map(|(begin, _)| *begin));
        let made = weights.operator(b, x, constants, begins, 1 + self.states.len())?;
        let first = b.id(made[0])?;
        let operator = b.graph().producer(first);
        if let Some(operator) = operator {
            b.graph_mut().node_mut(operator).layers.add(&inside);
        }
        let all = b.squeeze(made[0]).axes([1]).one()?;
        let last = made[1..].iter().map(|state| b.squeeze(*state).axes([0]).one());
        let last = last.collect::<Built<Vec<Var>>>()?;
        for ((_, next), v) in self.states.iter().zip(&last) {
            outside.known.insert(*next, b.id(*v)?);
        }
        let chooses = self.ends.iter().any(|(_, end)| matches!(end, End::State(_)));
        let some = if chooses { self.some(b, x)? } else { None };
        let mut given = vec![];
        for (out, end) in &self.ends {
            let v = match end {
                End::State(state) => match some {
                    Some(some) => b.where_(some, last[*state], b.var(self.states[*state].0))?,
                    None => last[*state],
                },
                End::All => all,
                End::Sequence => {
                    given.extend(stacks(b, *out, all)?.into_iter().map(|stack| (all, stack)));
                    if b.graph().uses(*out) == 0 {
                        continue;
                    }
                    b.split_to_sequence(all).axis(0).keepdims(0).one()?
                }
                End::Begin(begin) => b.var(*begin),
                End::Computed(v) => b.var(outside.values([*v])?[0]),
                End::Counter(begin, step) => self.counted(b, b.var(*begin), *step)?,
            };
            given.push((v, *out));
        }
        b.graph_mut().remove_node(id);
        settle(b, &given)?;
        let unread = [all].into_iter().chain(last).map(|v| b.id(v)).collect::<Built<Vec<_>>>()?;
        b.graph_mut().drop_unread(unread);
        leave_out_unread(b, &made)
    }

    /// The sequence, whose first axis are the steps.
    fn input(&self, b: &GraphBuilder, data: ValueId, facts: &Facts) -> Built<Var> {
        let Sequence { axis, first, .. } = self.sequence;
        let mut x = b.var(data);
        if axis == 1 {
            x = b.transpose(x).perm([1, 0, 2]).one()?;
        }
        let Some(trips) = self.trips else { return Ok(x) };
        let steps = facts.shape(data).and_then(|shape| shape.get(axis));
        let count = count(&b.graph(), facts, trips);
        if first == 0 && steps.zip(count).is_some_and(|(steps, count)| steps.same(&count)) {
            return Ok(x);
        }
        let count = b.reshape(self.counted_trips(b, trips)?, [1]).one()?;
        let end = if first == 0 { count } else { b.add(count, first)? };
        b.slice(x, [first], end).axes([0]).one()
    }

    /// How many iterations there are: a trip count may be less than 0.
    fn counted_trips(&self, b: &GraphBuilder, trips: ValueId) -> Built<Var> {
        let trips = b.var(trips);
        if self.is_run { Ok(trips) } else { b.where_(b.greater(trips, 0)?, trips, 0) }
    }

    /// Whether there is an iteration over `x`, if that is not known. Without one, the operator gives no last states.
    fn some(&self, b: &GraphBuilder, x: Var) -> Built<Option<Var>> {
        if self.is_run {
            return Ok(None);
        }
        let count = match self.trips {
            Some(trips) => b.var(trips),
            None => b.gather(b.shape(x).one()?, 0).one()?,
        };
        b.greater(count, 0).map(Some)
    }

    /// A number that begins with `begin` and grows by `step` in each iteration.
    fn counted(&self, b: &GraphBuilder, begin: Var, step: i64) -> Built<Var> {
        let Some(trips) = self.trips else { return Ok(begin) };
        let trips = self.counted_trips(b, trips)?;
        let grown = b.mul(b.reshape(trips, Vec::<i64>::new()).one()?, step)?;
        let dtype = b.dtype_of(begin).unwrap_or(DataType::Int64);
        b.add(begin, b.cast(grown, dtype)?)
    }
}

/// Removes nodes that make one tensor of the `sequence`, which `all` is; gives what they computed.
fn stacks(b: &GraphBuilder, sequence: ValueId, all: Var) -> Built<Vec<ValueId>> {
    let all = b.id(all)?;
    let mut graph = b.graph_mut();
    let mut stacks = vec![];
    for id in graph.readers(sequence).to_vec() {
        let node = &graph[id];
        let is_stack = node.int("axis", 0) == 0 && node.int("new_axis", 0) == 1;
        let out = node.output(0).filter(|_| node.is("ConcatFromSequence") && is_stack);
        let Some(out) = out else { continue };
        stacks.push(out);
        let layers = graph.remove_node(id).layers;
        if let Some(producer) = graph.producer(all) {
            graph.node_mut(producer).layers.add(&layers);
        }
    }
    Ok(stacks)
}

/// Lets each value be computed as the one beside it.
fn settle(b: &GraphBuilder, given: &[(Var, ValueId)]) -> Built<()> {
    let mut settled: HashMap<Var, ValueId> = HashMap::new();
    for (v, out) in given {
        match settled.get(v) {
            Some(same) => drop(b.add_node(Node::new("Identity", [*same], [*out]))?),
            None => b.settle(*v, *out)?,
        }
        settled.insert(*v, *out);
    }
    Ok(())
}

/// Values of the body, computed around the loop.
struct Outside<'b> {
    b: &'b GraphBuilder,
    body: Graph,
    /// Layers of the loop.
    layers: Layers,
    known: HashMap<ValueId, ValueId>,
}

impl Outside<'_> {
    /// What these values of the body, which are not known but computed of what is, are around the loop.
    fn values(&mut self, values: impl IntoIterator<Item = ValueId> + Clone) -> Built<Vec<ValueId>> {
        let mut missing: Vec<ValueId> = values.clone().into_iter().collect();
        missing.retain(|v| !self.known.contains_key(v));
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let part = self.body.part(&|v| self.known.contains_key(&v), &missing);
            let inputs = part.inputs.iter().filter(|(_, own)| part.graph.inputs().contains(own));
            let bound: Vec<(&str, ValueId)> = inputs
                .filter_map(|(v, own)| Some((&*part.graph[*own].name, *self.known.get(v)?)))
                .collect();
            let first_new = self.b.graph().node_bound();
            let made = inline(&mut self.b.graph_mut(), "", &part.graph, &bound)?;
            let nodes = self.b.graph().nodes_from(first_new);
            for id in nodes {
                self.b.graph_mut().node_mut(id).layers.add(&self.layers);
                self.b.infer(id);
            }
            self.known.extend(missing.into_iter().zip(made));
        }
        Ok(values.into_iter().map(|v| self.known[&v]).collect())
    }
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;
