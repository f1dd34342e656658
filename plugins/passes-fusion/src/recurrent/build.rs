//! The operator in place of its steps.

use super::affine::{Source, Step, Weight, step_of};
use super::cell::Kind;
use super::chain::{Chain, Weights};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Result as Built, Var};
use onnxd_plugin_sdk::ir::{Attr, Graph, Layers, Opsets, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::collections::HashMap;

/// Bytes of a constant from which on it is derived from the one that it stands in for, and not held.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// Constants as the operator reads them: `W`, `R` and `B`.
type Constants = (ValueId, ValueId, Option<ValueId>);

/// What all steps read.
enum Sequence {
    /// Steps of one value: all of them in their order, or these.
    Of { data: ValueId, axis: usize, indices: Option<Vec<i64>> },
    /// One by one.
    Single(Vec<Source>),
}

/// What the operator computes is wanted as.
struct Wanted {
    /// Hidden states of single steps.
    steps: Vec<usize>,
    last: bool,
    memory: bool,
}

/// How many nodes the steps have, and how many there would be.
pub(crate) fn count(cx: &Rewriter, chain: &Chain) -> (usize, usize) {
    let old = chain.nodes.len() + chain.stack.as_ref().map_or(0, |stack| stack.nodes.len());
    let sequence = match sequence(cx, chain) {
        Sequence::Of { axis, indices, .. } => axis + usize::from(indices.is_some()),
        Sequence::Single(xs) => {
            let taken = xs.iter().filter(|x| matches!(x, Source::Step(_))).count();
            xs.len() + taken + 1
        }
    };
    let states = [Some(chain.hidden_before), chain.memory_before];
    let states = states.into_iter().flatten().filter(|v| !is_zero(cx.graph, *v)).count();
    let wanted = Wanted::of(cx.graph, chain);
    let rows = chain.stack.is_some() || !wanted.steps.is_empty();
    let turned = chain.stack.as_ref().map_or(0, |stack| stack.axis);
    let ends = usize::from(wanted.last) + usize::from(wanted.memory);
    (old, 1 + sequence + states + usize::from(rows) + turned + wanted.steps.len() + ends)
}

impl Wanted {
    fn of(graph: &Graph, chain: &Chain) -> Wanted {
        let is_wanted = |v: &ValueId| chain.is_wanted(graph, *v);
        let last = chain.hidden.len() - 1;
        let steps = chain.hidden[..last].iter().enumerate().filter(|(_, v)| is_wanted(v));
        Wanted {
            steps: steps.map(|(i, _)| i).collect(),
            last: is_wanted(&chain.hidden[last]),
            memory: chain.memory.as_ref().is_some_and(is_wanted),
        }
    }
}

/// What the steps read, as a sequence.
fn sequence(cx: &Rewriter, chain: &Chain) -> Sequence {
    let step = |x: &Source| match x {
        Source::Value(v) => step_of(cx, *v),
        Source::Step(step) => Some(*step),
    };
    let steps: Option<Vec<Step>> = chain.xs.iter().map(step).collect();
    let steps = steps.unwrap_or_default();
    match steps.first() {
        Some(Step { data, axis, .. })
            if steps.iter().all(|step| step.data == *data && step.axis == *axis) =>
        {
            let indices: Vec<i64> = steps.iter().map(|step| step.index as i64).collect();
            let ty = cx.graph[*data].ty.as_ref();
            let size = ty.and_then(|ty| ty.shape()?.get(*axis)?.known()).unwrap_or(-1);
            let all = (0..size).eq(indices.iter().copied());
            Sequence::Of { data: *data, axis: *axis, indices: (!all).then_some(indices) }
        }
        _ => Sequence::Single(chain.xs.clone()),
    }
}

/// Whether `v` has no other elements than 0.
fn is_zero(graph: &Graph, v: ValueId) -> bool {
    let zeros = |t: &Tensor| t.to_reals().is_some_and(|r| r.values.iter().all(|x| *x == 0.0));
    if let Some(constant) = graph.constant(v) {
        return zeros(constant);
    }
    let node = graph.producer(v).map(|id| &graph[id]).filter(|node| node.is("ConstantOfShape"));
    node.is_some_and(|node| match node.attr("value") {
        None => true,
        Some(Attr::Tensor(t)) => zeros(t),
        Some(_) => false,
    })
}

/// Puts the operator in the place of the steps. `made` are constants of other chains.
pub(crate) fn rewrite(
    graph: &mut Graph,
    opset: i64,
    chain: &Chain,
    made: &mut HashMap<Weights, Constants>,
) -> Rewrite {
    let wanted = Wanted::of(graph, chain);
    let mut cx = Rewriter::new(graph, opset);
    let sequence = sequence(&cx, chain);
    let constants = match made.get(&chain.weights) {
        Some(found) => *found,
        None => {
            let found = constants(cx.graph, chain)?;
            made.insert(chain.weights.clone(), found);
            found
        }
    };
    let mut gone: Vec<_> = chain.nodes.iter().copied().collect();
    gone.extend(chain.stack.iter().flat_map(|stack| stack.nodes.iter().copied()));
    gone.sort_unstable();
    let reads: Vec<ValueId> = gone.iter().flat_map(|id| cx.graph[*id].reads()).collect();
    let taken = chain.xs.iter().filter_map(|x| match x {
        Source::Value(v) => cx.graph.producer(*v),
        Source::Step(_) => None,
    });
    let all = gone.iter().copied().chain(taken);
    let all: Layers = all.map(|id| cx.graph[id].layers.clone()).collect();
    let last = chain.hidden[chain.hidden.len() - 1];
    let name = cx.graph[last].name.clone();
    // Nodes around the operator come from the last step alone: else each would tell the layers of all steps.
    let own = cx.graph.producer(last).map(|id| cx.graph[id].layers.clone()).unwrap_or_default();
    let first_new = cx.graph.node_bound();
    let opsets = Opsets::from([(String::new(), opset)]);
    let operator = Operator { chain, wanted: &wanted, sequence: &sequence, constants };
    let done = GraphBuilder::edit(cx.graph, &opsets, |b| {
        b.in_layers(own, &name, |b| {
            let results = operator.build(b)?;
            gone.iter().for_each(|id| drop(b.graph_mut().remove_node(*id)));
            results.into_iter().try_for_each(|(v, old)| b.settle(v, old))
        })
    });
    done.map_err(|found| Skip(found.message.trim_end_matches('.').to_owned()))?;
    cx.sweep(reads);
    for id in cx.graph.nodes_from(first_new) {
        if cx.graph[id].is(operator_of(chain)) {
            cx.graph.node_mut(id).layers.add(&all);
        }
    }
    Ok(())
}

fn constants(graph: &mut Graph, chain: &Chain) -> Result<Constants, Skip> {
    let matrix = |weights: &[Weight], role: &str| {
        let parts: Option<Vec<Tensor>> =
            weights.iter().map(|weight| weight.tensor(graph)).collect();
        let all = parts.and_then(|parts| {
            let all = Tensor::concat(&parts, 0).ok()?;
            let dims = [1, all.dims()[0], all.dims()[1]];
            all.reshaped(dims).ok()
        });
        let all = all.ok_or_else(|| Skip("its weights are derived too often".into()))?;
        let all = if all.byte_len() < DERIVED_BYTES_MIN { all.held() } else { all };
        let name = format!("{}_{role}", graph[weights[0].value].name);
        Ok((name, all))
    };
    let w = matrix(&chain.weights.x, "input")?;
    let r = matrix(&chain.weights.hidden, "hidden")?;
    let b = chain.biases(graph);
    let mut add = |(name, tensor): (String, Tensor)| graph.add_initializer(&name, tensor);
    let (b_name, w, r) = (format!("{}_bias", w.0), add(w), add(r));
    Ok((w, r, b.map(|b| add((b_name, b)))))
}

fn operator_of(chain: &Chain) -> &'static str {
    match chain.weights.kind {
        Kind::Lstm => "LSTM",
        Kind::Gru { .. } => "GRU",
        Kind::Tanh | Kind::Relu => "RNN",
    }
}

struct Operator<'a> {
    chain: &'a Chain,
    wanted: &'a Wanted,
    sequence: &'a Sequence,
    constants: Constants,
}

impl Operator<'_> {
    /// What is wanted, and the values that it takes the place of.
    fn build(&self, b: &GraphBuilder) -> Built<Vec<(Var, ValueId)>> {
        let chain = self.chain;
        let x = self.input(b)?;
        let state = |v: Option<ValueId>| -> Built<Operand> {
            match v.filter(|v| !is_zero(&b.graph(), *v)) {
                Some(v) => Ok(b.unsqueeze(b.var(v), vec![0i64])?.into()),
                None => Ok(Operand::Absent),
            }
        };
        let (w, r, bias) = self.constants;
        let bias = bias.map_or(Operand::Absent, |bias| b.var(bias).into());
        let hidden = state(Some(chain.hidden_before))?;
        let memory = state(chain.memory_before)?;
        let mut inputs: Vec<Operand> =
            vec![x.into(), b.var(w).into(), b.var(r).into(), bias, Operand::Absent, hidden];
        let op = operator_of(chain);
        if op == "LSTM" {
            inputs.push(memory);
        }
        let call = b.op("", op, inputs).set("hidden_size", chain.width as i64);
        let call = match chain.weights.kind {
            Kind::Gru { after_product: true } => call.set("linear_before_reset", 1i64),
            Kind::Relu => call.attrs([("activations", Attr::Strs(vec!["Relu".into()]))]),
            _ => call,
        };
        let made = call.list(match (self.wanted.memory, self.wanted.last) {
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 1,
        })?;
        let mut results = vec![];
        let rows = match chain.stack.is_some() || !self.wanted.steps.is_empty() {
            true => Some(b.squeeze(made[0]).axes(vec![1i64]).one()?),
            false => None,
        };
        for (i, y) in self.wanted.steps.iter().zip(rows.iter().cycle()) {
            results.push((b.gather(*y, *i as i64).axis(0).one()?, chain.hidden[*i]));
        }
        if let Some((stack, y)) = chain.stack.as_ref().zip(rows) {
            let turned = match stack.axis {
                0 => y,
                _ => b.transpose(y).perm(vec![1i64, 0, 2]).one()?,
            };
            results.push((turned, stack.out));
        }
        if self.wanted.last {
            let last = chain.hidden.len() - 1;
            // A step like the others is one that a layer above finds in the sequence.
            let state = match rows {
                Some(y) => b.gather(y, last as i64).axis(0).one()?,
                None => b.squeeze(made[1]).axes(vec![0i64]).one()?,
            };
            results.push((state, chain.hidden[last]));
        }
        if let Some(memory) = chain.memory.filter(|_| self.wanted.memory) {
            results.push((b.squeeze(made[2]).axes(vec![0i64]).one()?, memory));
        }
        leave_out_unread(b, &made)?;
        Ok(results)
    }

    fn input(&self, b: &GraphBuilder) -> Built<Var> {
        match self.sequence {
            Sequence::Of { data, axis, indices } => {
                let mut x = b.var(*data);
                if let Some(indices) = indices {
                    x = b.gather(x, indices.clone()).axis(*axis as i64).one()?;
                }
                if *axis == 1 { b.transpose(x).perm(vec![1i64, 0, 2]).one() } else { Ok(x) }
            }
            Sequence::Single(xs) => {
                let xs = xs.iter().map(|x| {
                    let x = match x {
                        Source::Value(v) => b.var(*v),
                        Source::Step(Step { data, axis, index }) => {
                            b.gather(b.var(*data), *index as i64).axis(*axis as i64).one()?
                        }
                    };
                    b.unsqueeze(x, vec![0i64])
                });
                b.concat(xs.collect::<Built<Vec<_>>>()?).axis(0).one()
            }
        }
    }
}

/// The node computes no output of `made` that nothing reads.
fn leave_out_unread(b: &GraphBuilder, made: &[Var]) -> Built<()> {
    let made = made.iter().map(|v| b.id(*v)).collect::<Built<Vec<ValueId>>>()?;
    let mut graph = b.graph_mut();
    let read = made.iter().map(|v| Some(*v).filter(|v| graph.uses(*v) > 0)).collect();
    if let Some(id) = graph.producer(made[0]) {
        graph.set_node_outputs(id, read);
    }
    Ok(())
}
