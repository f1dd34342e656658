//! Rewrite rules: one pattern, rooted at one operator.

use crate::pass::{Pass, PassContext, for_each_graph_mut};
use crate::rewriter::Rewriter;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{At, Graph, Model, NodeId, Op, ValueId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Why a rule left a place alone, in words for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// Nothing worth telling: the place only looked like the pattern.
    pub fn unlike<T>() -> Result<T, Skip> {
        Err(Skip(String::new()))
    }

    /// A reason.
    pub fn because<T>(reason: impl Into<String>) -> Result<T, Skip> {
        Err(Skip(reason.into()))
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `Ok` if the place was rewritten.
pub type Rewrite = Result<(), Skip>;

/// A pass that applies `apply` wherever the operator `O` is found, until it changes nothing.
pub fn rule<O: Op + 'static>(
    name: &'static str,
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
) -> Box<dyn Pass> {
    Box::new(Rule { name, apply })
}

struct Rule<O> {
    name: &'static str,
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
}

impl<O: Op> Pass for Rule<O> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostic> {
        for_each_graph_mut(model, &mut |graph, opset| self.run_on(graph, opset, cx));
        Ok(())
    }
}

impl<O: Op> Rule<O> {
    /// Visits every node once, then only what a rewrite may have opened up: the new nodes and their readers.
    fn run_on(&self, graph: &mut Graph, opset: i64, cx: &mut PassContext) {
        let mut queue: VecDeque<NodeId> = graph.node_ids().into();
        let mut skipped: BTreeMap<ValueId, Skip> = BTreeMap::new();
        while let Some(id) = queue.pop_front() {
            if cx.fuel.is_empty() {
                break;
            }
            let Some(at) = At::<O>::find(graph, id) else { continue };
            let (out, first_new) = (at.out, graph.node_bound());
            let mut rewriter = Rewriter::new(graph, opset);
            match (self.apply)(&mut rewriter, at) {
                Ok(()) => {
                    rewriter.finish();
                    cx.rewrote();
                    skipped.remove(&out);
                    queue.extend(opened_up(graph, first_new));
                }
                Err(reason) if reason.0.is_empty() => {}
                Err(reason) => {
                    skipped.insert(out, reason);
                }
            }
        }
        for (out, reason) in skipped {
            if graph.producer(out).is_some() {
                cx.skip(&graph[out].name, reason);
            }
        }
    }
}

/// Nodes added since `first_new`, and the nodes that read their outputs.
fn opened_up(graph: &Graph, first_new: usize) -> Vec<NodeId> {
    let new = graph.nodes_from(first_new);
    let mut found: Vec<NodeId> = new.clone();
    for id in new {
        found.extend(graph[id].outputs.iter().flatten().flat_map(|v| graph.readers(*v)));
    }
    found
}
