//! Shape arithmetic whose result is known becomes a constant when it is added.

use crate::operand::numbers;
use crate::{GraphBuilder, Var};
use onnxd_ir::{NodeId, Tensor};

impl GraphBuilder {
    /// Replaces the node `id`, which was just added, by constants if inference knows all elements of
    /// all its outputs. No kernel runs: they are the small integer tensors that shapes are computed
    /// with.
    pub(crate) fn folded(&self, id: NodeId) -> Option<Vec<Var>> {
        if !self.folds() {
            return None;
        }
        let tensors: Vec<Tensor> = {
            let state = self.state.borrow();
            let frame = state.frames.last()?;
            let node = &frame.graph[id];
            if node.is("Constant") || node.subgraphs().next().is_some() {
                return None;
            }
            let known = node.outputs.iter().map(|v| {
                let dtype = frame.graph[(*v)?].dtype()?;
                let (scalar, items) = frame.scope.elements((*v)?)?;
                let dims = if scalar { vec![] } else { vec![items.len()] };
                let reals = items.iter().map(|x| *x as f64).collect();
                numbers(dims, Some(items), reals, dtype)
            });
            known.collect::<Option<_>>()?
        };
        self.state.borrow_mut().frames.last_mut()?.graph.remove_node(id);
        Some(tensors.into_iter().map(|tensor| self.constant(tensor)).collect())
    }
}
