//! A request held against a model: the operator set that it takes, and what has no effect.

use crate::graph::quantized::dtype_of;
use crate::graph::weighted::{WEIGHTED_OPS, WeightedNode, is_weighted};
use crate::plan::opt_in;
use crate::plan::propagation::Propagation;
use crate::plan::request::{EMBEDDINGS, QuantizeRequest, fits};
use crate::report::name_of;
use onnxd_diagnostics::nearest;
use onnxd_ir::{DataType, Model, Node, ValueId};
use onnxd_params::words::Mode;
use std::collections::BTreeSet;

/// The operators of which something is quantized with ranges at run time.
pub(crate) const DYNAMIC: [&str; 7] =
    ["Attention", "Conv", "EmbedLayerNormalization", "Gather", "Gemm", "LSTM", "MatMul"];

/// Names that are told beside one that matches nothing.
const NEAR_MAX: usize = 3;

/// An entry of a list that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The list: `op_types`, `include`, `exclude` or `overrides`.
    pub list: &'static str,
    /// What stands there.
    pub entry: String,
    /// The names of the model that are nearest, else its first ones.
    pub near: Vec<String>,
}

impl QuantizeRequest {
    /// As [`QuantizeRequest::opset_min`], for this model: scales of `float16` came with operator set 19.
    #[must_use]
    pub fn opset_for(&self, model: &Model) -> i64 {
        let mut half = false;
        model.for_each_graph(|graph| {
            let is_half = |v: ValueId| dtype_of(graph, v) == Some(DataType::Float16);
            let is_wanted_weighted =
                |node: &Node| is_weighted(node) && self.settings_for(graph, node).is_some();
            let opted_in = |node: &Node| {
                opt_in::named(graph, node, self) && self.settings_for(graph, node).is_some()
            };
            half |= graph.nodes().any(|(_, n)| {
                is_wanted_weighted(n) && n.input(WeightedNode::W).is_some_and(is_half)
                    || opted_in(n) && n.inputs.iter().flatten().any(|v| is_half(*v))
            });
        });
        self.opset_min().max(if half { 19 } else { 0 })
    }

    /// The operators among [`QuantizeRequest::op_types`] of which nothing is quantized in this mode:
    /// `static`, `dynamic` or `weight_only`.
    #[must_use]
    pub fn idle_types(&self, mode: Mode) -> Vec<&str> {
        let known = |op: &str| match mode {
            Mode::Dynamic => DYNAMIC.contains(&op),
            Mode::WeightOnly => ["Gather", "Gemm", "MatMul"].contains(&op),
            _ if self.weighted_only => WEIGHTED_OPS.contains(&op),
            _ => {
                [EMBEDDINGS, "Attention"].contains(&op)
                    || [WEIGHTED_OPS.contains(&op), Propagation::knows(op), opt_in::knows(op)]
                        .contains(&true)
            }
        };
        self.op_types.iter().map(String::as_str).filter(|op| !known(op)).collect()
    }

    /// Names of nodes and operators that the model does not have.
    #[must_use]
    pub fn unmatched(&self, model: &Model) -> Vec<Unmatched> {
        let (mut names, mut operators) = (BTreeSet::new(), BTreeSet::new());
        model.for_each_graph(|graph| {
            for (_, node) in graph.nodes() {
                operators.insert(node.op.clone());
                names.insert(name_of(graph, node));
                if let Some(output) = node.output(0).filter(|_| node.name.is_empty()) {
                    names.insert(graph[output].name.clone());
                }
            }
        });
        let lists = [("include", &self.include), ("exclude", &self.exclude)];
        let globs =
            lists.into_iter().flat_map(|(list, globs)| globs.iter().map(move |g| (list, g)));
        let globs = globs.chain(self.overrides.keys().map(|glob| ("overrides", glob)));
        let missed = globs.filter(|(_, glob)| !names.iter().any(|name| fits(glob, name)));
        let mut found: Vec<Unmatched> =
            missed.map(|(list, glob)| one(list, glob, &names)).collect();
        let absent = self.op_types.iter().filter(|op| !operators.contains(*op));
        found.extend(absent.map(|op| one("op_types", op, &operators)));
        found
    }
}

fn one(list: &'static str, entry: &str, names: &BTreeSet<String>) -> Unmatched {
    let word = entry.replace(['*', '?'], "");
    let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut near = Vec::new();
    while near.len() < NEAR_MAX {
        let Some(found) = nearest(&word, left.iter().copied()) else { break };
        left.retain(|name| *name != found);
        near.push(found.to_owned());
    }
    if near.is_empty() {
        near = names.iter().filter(|name| !name.is_empty()).take(NEAR_MAX).cloned().collect();
    }
    Unmatched { list, entry: entry.to_owned(), near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::ops::Relu;
    use onnxd_ir::{Graph, Node};

    #[test]
    fn what_matches_nothing_is_told_with_the_nearest_names() {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", None);
        for name in ["conv1", "conv2", "head"] {
            let out = graph.add_value("v", None);
            graph.add_node(Node { name: name.into(), ..Node::new("Conv", [x], [out]) });
        }
        let y = graph.add("unnamed", Relu::new(x));
        graph.mark_output(y);
        let request = QuantizeRequest {
            exclude: vec!["conv9".into(), "conv?".into(), "zzz*".into(), "unnamed".into()],
            op_types: vec!["Conv".into(), "Relo".into()],
            ..QuantizeRequest::default()
        };
        let found = request.unmatched(&Model::new(graph, 8, 17));
        let told: Vec<String> =
            found.iter().map(|u| format!("{} {} {}", u.list, u.entry, u.near.join(","))).collect();
        assert_eq!(
            told,
            [
                "exclude conv9 conv1,conv2", "exclude zzz* Relu -> unnamed,conv1,conv2",
                "op_types Relo Relu"
            ]
        );
    }
}
