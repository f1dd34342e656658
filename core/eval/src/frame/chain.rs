//! Nodes that are computed along with the one before them: what a convolution or an operator on elements is followed
//! by, as long as nothing else reads the values between.

use super::{Frame, Plan, Runner};
use crate::call::Call;
use crate::conv;
use crate::item::Item;
use crate::steps::{self, Step};
use crate::support;
use onnxd_ir::{DataType, Graph, Node, NodeId, Tensor, ValueId};
use std::collections::HashMap;

/// For each node of `order` the place of the node that may follow it as a step.
pub(super) fn next_steps(graph: &Graph, order: &[NodeId]) -> Vec<Option<usize>> {
    let places: HashMap<NodeId, usize> = order.iter().copied().zip(0..).collect();
    let next_step = |id: &NodeId| {
        let node = &graph[*id];
        let begins = node.op == "Conv" || steps::may_follow(&node.op);
        let [Some(v)] = node.outputs[..] else { return None };
        if !begins || !node.is_standard() || graph.uses(v) != 1 {
            return None;
        }
        let reader = graph.readers(v).first()?;
        let next = &graph[*reader];
        let follows = next.is_standard() && steps::may_follow(&next.op);
        (follows && next.outputs.len() == 1).then(|| places.get(reader).copied()).flatten()
    };
    order.iter().map(next_step).collect()
}

/// Nodes that are computed along with the one before them: their places and what they do.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) places: Vec<usize>,
    pub(super) steps: Vec<Step>,
    /// What the steps are applied to, the first of which is the first node itself; where there is none, that node
    /// applies the others to its result.
    pub(super) source: Option<Tensor>,
}

impl Runner<'_, '_, '_> {
    /// The nodes behind the one at `place` that are computed along with it.
    pub(super) fn chain(&mut self, frame: &Frame, plan: &Plan, place: usize) -> Chain {
        let node = &frame.graph[plan.order[place]];
        let mut behind = plan.next_steps[place];
        // What is the same in each run is kept on its own.
        let alone = behind.is_none() || plan.constants[place].is_some();
        let first = if alone { None } else { self.begun(frame, node) };
        let Some((mut chain, dims)) = first else { return Chain::default() };
        let mut before = node.output(0);
        while let (Some(place), Some(v)) = (behind, before) {
            let node = &frame.graph[plan.order[place]];
            // What an observer wants must be there.
            if self.watch.wants(frame.place, frame.graph, v) {
                break;
            }
            let position = node.inputs.iter().position(|input| *input == Some(v));
            let step = position.and_then(|i| self.step(frame, node, i, &dims));
            let Some(step) = step else { break };
            chain.places.push(place);
            chain.steps.push(step);
            (behind, before) = (plan.next_steps[place], node.output(0));
        }
        if chain.places.is_empty() { Chain::default() } else { chain }
    }

    /// A chain that begins with `node`, and the sizes of its result.
    fn begun(&self, frame: &Frame, node: &Node) -> Option<(Chain, Vec<usize>)> {
        if self.executor.function(node).is_some() {
            return None;
        }
        let inputs = self.known(frame, node);
        let is_float = |x: &&Tensor| x.dtype() == DataType::Float && !x.is_empty();
        if node.op == "Conv" {
            let [x, w] = [0, 1].map(|i| inputs.get(i)?.as_ref().filter(is_float));
            let call = self.call(frame, node, support::opset(frame.opsets, ""), &inputs);
            return Some((Chain::default(), conv::result_dims(&call, x?, w?)?));
        }
        for (position, x) in inputs.iter().enumerate().take(2) {
            let Some(x) = x.as_ref().filter(is_float) else { continue };
            if let Some(step) = self.step(frame, node, position, x.dims()) {
                let (places, source) = (vec![], Some(x.clone()));
                return Some((Chain { places, steps: vec![step], source }, x.dims().to_vec()));
            }
        }
        None
    }

    /// What a node does to its input at `position`, if its others are there.
    fn step(&self, frame: &Frame, node: &Node, position: usize, dims: &[usize]) -> Option<Step> {
        let inputs = self.known(frame, node);
        let lacks =
            |(i, v): (usize, &Option<ValueId>)| i != position && v.is_some() && inputs[i].is_none();
        if self.executor.function(node).is_some() || node.inputs.iter().enumerate().any(lacks) {
            return None;
        }
        let call: Call = self.call(frame, node, support::opset(frame.opsets, ""), &inputs);
        Step::of(&call, position, dims)
    }

    /// The inputs that are there and are tensors.
    fn known(&self, frame: &Frame, node: &Node) -> Vec<Option<Tensor>> {
        let tensor = |v: &Option<ValueId>| match frame.value((*v)?)? {
            Item::Tensor(x) => Some(self.executor.in_memory(x, self.keeps())),
            _ => None,
        };
        node.inputs.iter().map(tensor).collect()
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
