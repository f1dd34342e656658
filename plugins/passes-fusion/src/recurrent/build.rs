//! The operator in place of its steps.

use super::affine::{SequenceStep, TermSource, step_of};
use super::chain::Chain;
use super::operator::{ChainWeights, Constants, is_zero, leave_out_unread};
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::ir::{Graph, Layers, Opsets, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::collections::HashMap;

/// What all steps read.
enum Sequence {
    /// Steps of one value: all of them in their order, or these.
    Of { data: ValueId, axis: usize, indices: Option<Vec<i64>> },
    /// One by one.
    Single(Vec<TermSource>),
}

/// What the operator computes is wanted as.
struct WantedOutputs {
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
            let taken = xs.iter().filter(|x| matches!(x, TermSource::Step(_))).count();
            xs.len() + taken + 1
        }
    };
    let states = [Some(chain.hidden_before), chain.memory_before];
    let states = states.into_iter().flatten().filter(|v| !is_zero(cx.graph, *v)).count();
    let wanted = WantedOutputs::from_chain(cx.graph, chain);
    let rows = chain.stack.is_some() || !wanted.steps.is_empty();
    let turned = chain.stack.as_ref().map_or(0, |stack| stack.axis);
    let ends = usize::from(wanted.last) + usize::from(wanted.memory);
    (old, 1 + sequence + states + usize::from(rows) + turned + wanted.steps.len() + ends)
}

impl WantedOutputs {
    fn from_chain(graph: &Graph, chain: &Chain) -> WantedOutputs {
        let is_wanted = |v: &ValueId| chain.is_wanted(graph, *v);
        let last = chain.hidden.len() - 1;
        let steps = chain.hidden[..last].iter().enumerate().filter(|(_, v)| is_wanted(v));
        WantedOutputs {
            steps: steps.map(|(i, _)| i).collect(),
            last: is_wanted(&chain.hidden[last]),
            memory: chain.memory.as_ref().is_some_and(is_wanted),
        }
    }
}

/// What the steps read, as a sequence.
fn sequence(cx: &Rewriter, chain: &Chain) -> Sequence {
    let step = |x: &TermSource| match x {
        TermSource::Value(v) => step_of(cx, *v),
        TermSource::Step(step) => Some(*step),
    };
    let steps: Option<Vec<SequenceStep>> = chain.xs.iter().map(step).collect();
    let steps = steps.unwrap_or_default();
    match steps.first() {
        Some(SequenceStep { data, axis, .. })
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

/// Puts the operator in the place of the steps. `made` are constants of other chains.
pub(crate) fn rewrite(
    graph: &mut Graph,
    opset: i64,
    chain: &Chain,
    made: &mut HashMap<ChainWeights, Constants>,
) -> Rewrite {
    let wanted = WantedOutputs::from_chain(graph, chain);
    let mut cx = Rewriter::new(graph, opset);
    let sequence = sequence(&cx, chain);
    let constants = match made.get(&chain.weights) {
        Some(operator_constants) => *operator_constants,
        None => {
            let operator_constants = chain.weights.derived(cx.graph)?;
            made.insert(chain.weights.clone(), operator_constants);
            operator_constants
        }
    };
    let mut gone: Vec<_> = chain.nodes.iter().copied().collect();
    gone.extend(chain.stack.iter().flat_map(|stack| stack.nodes.iter().copied()));
    gone.sort_unstable();
    let reads: Vec<ValueId> = gone.iter().flat_map(|id| cx.graph[*id].reads()).collect();
    let taken = chain.xs.iter().filter_map(|x| match x {
        TermSource::Value(v) => cx.graph.producer(*v),
        TermSource::Step(_) => None,
    });
    let all = gone.iter().copied().chain(taken);
    let all: Layers = all.map(|id| cx.graph[id].layers.clone()).collect();
    let last = chain.hidden[chain.hidden.len() - 1];
    let name = cx.graph[last].name.clone();
    // Nodes around the operator come from the last step alone: else each would tell the layers of all steps.
    let own = cx.graph.producer(last).map(|id| cx.graph[id].layers.clone()).unwrap_or_default();
    let first_new = cx.graph.node_bound();
    let opsets = Opsets::from([(String::new(), opset)]);
    let operator = RecurrentOperator { chain, wanted: &wanted, sequence: &sequence, constants };
    let done = GraphBuilder::edit(cx.graph, &opsets, |b| {
        b.in_layers(own, &name, |b| {
            let results = operator.build(b)?;
            gone.iter().for_each(|id| drop(b.graph_mut().remove_node(*id)));
            results.into_iter().try_for_each(|(v, old)| b.settle(v, old))
        })
    });
    done.map_err(|operator_constants| {
        Skip(operator_constants.message.trim_end_matches('.').to_owned())
    })?;
    cx.sweep(reads);
    for id in cx.graph.nodes_from(first_new) {
        if cx.graph[id].is(chain.weights.kind.operator()) {
            cx.graph.node_mut(id).layers.add(&all);
        }
    }
    Ok(())
}

struct RecurrentOperator<'a> {
    chain: &'a Chain,
    wanted: &'a WantedOutputs,
    sequence: &'a Sequence,
    constants: Constants,
}

impl RecurrentOperator<'_> {
    /// What is wanted, and the values that it takes the place of.
    fn build(&self, b: &GraphBuilder) -> Built<Vec<(Var, ValueId)>> {
        let chain = self.chain;
        let x = self.input(b)?;
        let count = match (self.wanted.memory, self.wanted.last) {
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 1,
        };
        let states = [Some(chain.hidden_before), chain.memory_before];
        let made = chain.weights.operator(b, x, self.constants, states, count)?;
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
                        TermSource::Value(v) => b.var(*v),
                        TermSource::Step(SequenceStep { data, axis, index }) => {
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
