//! Makes LSTM and GRU of their steps, where a network has them one by one. A single step is not faster as one operator.
//!
//! ONNX Runtime's LSTM and GRU end the program if a batch is empty, and its RNN is slower than the steps of a batch. So
//! `fuse-recurrent` takes LSTM and GRU of batches that are never empty, and `fuse-recurrent-all` takes any.
//!
//! ```onnx
//! before (float[2,5,3] x, float[5,2] h, float[5,2] c) => (float[5,2] y)
//! <float[3,8] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0,
//!  5.0, 6.0, 7.0, 8.0}, float[2,8] r = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7,
//!  1.8}, float[8] b = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}, int64 i0 = {0}, int64 i1 = {1}>
//! {
//!   x0 = Gather(x, i0)
//!   xw0 = MatMul(x0, w)
//!   hr0 = MatMul(h, r)
//!   s0 = Add(xw0, hr0)
//!   z0 = Add(s0, b)
//!   zi0, zf0, zg0, zo0 = Split<axis = 1>(z0)
//!   gi0 = Sigmoid(zi0)
//!   f0 = Sigmoid(zf0)
//!   g0 = Tanh(zg0)
//!   o0 = Sigmoid(zo0)
//!   kept0 = Mul(f0, c)
//!   new0 = Mul(gi0, g0)
//!   c0 = Add(kept0, new0)
//!   t0 = Tanh(c0)
//!   h0 = Mul(o0, t0)
//!   x1 = Gather(x, i1)
//!   xw1 = MatMul(x1, w)
//!   hr1 = MatMul(h0, r)
//!   s1 = Add(xw1, hr1)
//!   z1 = Add(s1, b)
//!   zi1, zf1, zg1, zo1 = Split<axis = 1>(z1)
//!   gi1 = Sigmoid(zi1)
//!   f1 = Sigmoid(zf1)
//!   g1 = Tanh(zg1)
//!   o1 = Sigmoid(zo1)
//!   kept1 = Mul(f1, c0)
//!   new1 = Mul(gi1, g1)
//!   c1 = Add(kept1, new1)
//!   t1 = Tanh(c1)
//!   y = Mul(o1, t1)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,5,3] x, float[5,2] h, float[5,2] c) => (float[5,2] y)
//! <float[1,8,3] w_input = {1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0,
//!  5.0, 5.0, 5.0, 6.0, 6.0, 6.0}, float[1,8,2] r_hidden = {0.1, 1.1, 0.2, 1.2, 0.7, 1.7, 0.8, 1.8, 0.3, 1.3, 0.4, 1.4,
//!  0.5, 1.5, 0.6, 1.6}, float[1,16] w_input_bias = {1.0, 2.0, 7.0, 8.0, 3.0, 4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0,
//!  0.0, 0.0, 0.0}, int64[1] y_axes = {0}>
//! {
//!   y_unsqueeze = Unsqueeze(h, y_axes)
//!   y_unsqueeze_1 = Unsqueeze(c, y_axes)
//!   "", y_lstm_1 = LSTM<hidden_size = 2>(x, w_input, r_hidden, w_input_bias, "", y_unsqueeze, y_unsqueeze_1)
//!   y = Squeeze(y_lstm_1, y_axes)
//! }
//! ```

mod affine;
mod build;
mod cell;
mod chain;
mod iterations;
mod loops;
mod operator;

use cell::CellStep;
use chain::{Chain, linked};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{Dim, Facts, Graph, Model, NodeId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewriter, Skip, for_each_graph_known};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

/// The first version of the operators as they are today, but for types.
const OPSET_MIN: i64 = 7;

/// LSTM and GRU of batches that are never empty.
pub(crate) fn pass() -> Box<dyn Pass> {
    Box::new(FuseRecurrent { name: "fuse-recurrent", all: false })
}

/// RNN, too, and batches of any size.
pub(crate) fn pass_of_all() -> Box<dyn Pass> {
    Box::new(FuseRecurrent { name: "fuse-recurrent-all", all: true })
}

/// LSTM, GRU and RNN of loops.
pub(crate) fn pass_of_loops() -> Box<dyn Pass> {
    Box::new(loops::FuseLoops)
}

struct FuseRecurrent {
    name: &'static str,
    all: bool,
}

impl Pass for FuseRecurrent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let facts = cx.facts(model);
        let done = for_each_graph_known(model, &facts, &mut |graph, opset, facts| {
            if opset >= OPSET_MIN {
                self.fuse(graph, opset, facts, cx);
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = done;
        Ok(())
    }
}

impl FuseRecurrent {
    fn fuse(&self, graph: &mut Graph, opset: i64, facts: &Facts, cx: &mut PassContext) {
        let order = graph.topological().unwrap_or_default();
        let rewriter = Rewriter::new(graph, opset);
        let cells = self.cells(&rewriter, facts, &order);
        if cells.is_empty() {
            return;
        }
        let place = order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut chains = vec![];
        for steps in linked(rewriter.graph, &cells) {
            let Some((last, _)) = steps.last() else { continue };
            let at = &rewriter.graph[cells[*last].hidden].name;
            let worth = worth(&rewriter, facts, &cells, &steps, &place);
            match worth.and_then(|chain| self.suits(facts, chain)) {
                Ok(chain) => chains.push(chain),
                Err(why) if why.0.is_empty() => {}
                Err(why) => cx.skip(at, why),
            }
        }
        let nodes: HashSet<NodeId> = chains.iter().flat_map(|c| c.nodes.iter().copied()).collect();
        let (shared, chains): (Vec<Chain>, Vec<Chain>) =
            chains.into_iter().partition(|chain| chain.shares_weights(graph, &nodes));
        for chain in shared {
            let at = chain.hidden.last().map(|v| graph[*v].name.clone());
            cx.skip(&at.unwrap_or_default(), Skip("its weights are read elsewhere, too".into()));
        }
        let mut made = HashMap::new();
        for chain in chains {
            if cx.fuel.is_empty() {
                break;
            }
            let at = chain.hidden.last().map(|v| graph[*v].name.clone()).unwrap_or_default();
            match build::rewrite(graph, opset, &chain, &mut made) {
                Ok(()) => cx.rewrote(),
                Err(why) => cx.skip(&at, why),
            }
        }
    }

    /// All steps, in the order of the graph.
    fn cells(&self, cx: &Rewriter, facts: &Facts, order: &[NodeId]) -> Vec<CellStep> {
        let outputs = order.iter().filter_map(|id| cx.graph[*id].output(0));
        let cells = outputs.filter_map(|v| cell::cell(cx, facts, None, v).ok());
        cells.filter(|cell| self.all || cell.is_gated()).collect()
    }

    /// ONNX Runtime's LSTM and GRU end the program if a batch is empty.
    fn suits(&self, facts: &Facts, chain: Chain) -> Result<Chain, Skip> {
        let rows = facts.shape(chain.hidden[0]).and_then(<[Dim]>::first);
        match self.all || rows.is_some_and(Dim::is_positive) {
            true => Ok(chain),
            false => Skip::because("a batch may be empty, which only fuse-recurrent-all takes"),
        }
    }
}

/// The chain of these steps, if it may and should be one operator.
fn worth(
    cx: &Rewriter,
    facts: &Facts,
    cells: &[CellStep],
    steps: &[(usize, usize)],
    place: &HashMap<NodeId, usize>,
) -> Result<Chain, Skip> {
    let chain = Chain::from_cells(cx, facts, cells, steps)?;
    if chain.depends_on_itself(cx.graph, place) {
        return Skip::because("what a step reads comes from the step before");
    }
    let (old, new) = build::count(cx, &chain);
    match new < old {
        true => Ok(chain),
        false => Skip::because(format!("{old} nodes would become {new}")),
    }
}

#[cfg(test)]
mod tests;
