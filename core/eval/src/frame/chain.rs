//! Nodes that are computed along with the one before them: what a convolution or an operator on elements is followed
//! by, as long as nothing else reads the values between.

use super::{Frame, ModelRunner};
use crate::call::KernelCall;
use crate::conv;
use crate::domain::opset;
use crate::item::RunValue;
use crate::plan::GraphPlan;
use crate::step_nodes::step_of;
use crate::steps::ElementStep;
use crate::vector;
use onnxd_ir::{DataType, Node, Tensor, ValueId};

/// Nodes that are computed along with the one before them: their places and what they do.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) places: Vec<usize>,
    pub(super) steps: Vec<ElementStep>,
    /// What the steps are applied to, the first of which is the first node itself; where there is none, that node
    /// applies the others to its result.
    pub(super) source: Option<Tensor>,
}

impl ModelRunner<'_, '_, '_> {
    /// The nodes behind the one at `place` that are computed along with it.
    pub(super) fn chain(&mut self, frame: &Frame, plan: &GraphPlan, place: usize) -> Chain {
        let node = &frame.graph[plan.order[place]];
        let mut behind = plan.next_steps[place];
        // What is the same in each run is kept on its own.
        let alone = behind.is_none() || plan.constants[place].is_some();
        let first = if alone { None } else { self.begun(frame, node) };
        let Some((mut chain, dims)) = first else { return Chain::default() };
        let mut before = node.output(0);
        while let (Some(next), Some(v)) = (behind, before) {
            // What an observer wants must be there.
            let gate = next.gate.map(|place| &frame.graph[plan.order[place]]);
            let hidden = [Some(v), gate.and_then(|gate| gate.output(0))];
            let mut wanted = |v| self.watch.wants(frame.place, frame.graph, v);
            if hidden.into_iter().flatten().any(&mut wanted) {
                break;
            }
            let node = &frame.graph[plan.order[next.place]];
            let position = node.inputs.iter().position(|input| *input == Some(v));
            let step = match gate {
                Some(gate) => self.silu(gate, node),
                None => position.and_then(|i| self.step(frame, node, i, &dims)),
            };
            let Some(step) = step else { break };
            chain.places.extend(next.gate.into_iter().chain([next.place]));
            chain.steps.push(step);
            (behind, before) = (plan.next_steps[next.place], node.output(0));
        }
        if chain.places.is_empty() { Chain::default() } else { chain }
    }

    /// A chain that begins with `node`, and the sizes of its result.
    fn begun(&self, frame: &Frame, node: &Node) -> Option<(Chain, Vec<usize>)> {
        if self.executor.function(node).is_some() {
            return None;
        }
        let inputs = self.known(frame, node);
        // Types and sizes decide; what is derived is computed once it is needed.
        let is_float = |x: &&Tensor| x.dtype() == DataType::Float && !x.is_empty();
        if node.op == "Conv" {
            let [x, w] = [0, 1].map(|i| inputs.get(i)?.as_ref().filter(is_float));
            let call = self.call(frame, node, opset(frame.opsets, ""), &inputs);
            return Some((Chain::default(), conv::result_dims(&call, x?, w?)?));
        }
        for (position, x) in inputs.iter().enumerate().take(2) {
            let Some(x) = x.as_ref().filter(is_float) else { continue };
            if let Some(step) = self.step(frame, node, position, x.dims()) {
                let source = node.inputs[position].map(|v| self.operand(frame, v, x.clone()));
                let chain = Chain { places: vec![], steps: vec![step], source };
                return Some((chain, x.dims().to_vec()));
            }
        }
        None
    }

    /// The product of a value and its sigmoid.
    fn silu(&self, gate: &Node, product: &Node) -> Option<ElementStep> {
        let own = [gate, product].iter().any(|node| self.executor.function(node).is_some());
        (!own).then_some(ElementStep::Map(vector::silus))
    }

    /// What a node does to its input at `position`, if its others are there.
    fn step(
        &self,
        frame: &Frame,
        node: &Node,
        position: usize,
        dims: &[usize],
    ) -> Option<ElementStep> {
        let mut inputs = self.known(frame, node);
        let lacks =
            |(i, v): (usize, &Option<ValueId>)| i != position && v.is_some() && inputs[i].is_none();
        if self.executor.function(node).is_some() || node.inputs.iter().enumerate().any(lacks) {
            return None;
        }
        for (i, (v, x)) in node.inputs.iter().zip(&mut inputs).enumerate() {
            if let (Some(v), Some(known)) = (v, x.take_if(|_| i != position)) {
                *x = Some(self.operand(frame, *v, known));
            }
        }
        let call: KernelCall = self.call(frame, node, opset(frame.opsets, ""), &inputs);
        step_of(&call, position, dims)
    }

    /// The inputs that are there and are tensors, as they are stored.
    fn known(&self, frame: &Frame, node: &Node) -> Vec<Option<Tensor>> {
        let tensor = |v: &Option<ValueId>| match frame.value((*v)?)? {
            RunValue::Tensor(x) => Some(x),
            _ => None,
        };
        node.inputs.iter().map(tensor).collect()
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
