//! What a request names and a model does not have.

use crate::Request;
use crate::report::name_of;
use crate::request::fits;
use onnxd_diagnostics::nearest;
use onnxd_ir::Model;
use std::collections::BTreeSet;

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

impl Request {
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
        let request = Request {
            exclude: vec!["conv9".into(), "conv?".into(), "zzz*".into(), "unnamed".into()],
            op_types: vec!["Conv".into(), "Relo".into()],
            ..Request::default()
        };
        let found = request.unmatched(&Model::new(graph, 8, 17));
        let told: Vec<String> =
            found.iter().map(|u| format!("{} {} {}", u.list, u.entry, u.near.join(","))).collect();
        assert_eq!(
            told,
            [
                "exclude conv9 conv1,conv2",
                "exclude zzz* Relu -> unnamed,conv1,conv2",
                "op_types Relo Relu"
            ]
        );
    }
}
