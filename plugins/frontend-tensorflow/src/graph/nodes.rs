//! The nodes of a graph or function by their names.

use super::node::{self, Reference};
use crate::wire::proto::NodeDef;
use std::collections::{HashMap, HashSet};

/// The nodes of a graph or function.
pub(crate) struct Nodes<'a> {
    pub(crate) nodes: &'a [NodeDef],
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(nodes: &'a [NodeDef]) -> Nodes<'a> {
        let by_name = nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        Nodes { nodes, by_name }
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The nodes that these places need.
    pub(crate) fn needed_by<'t>(&self, places: impl Iterator<Item = &'t str>) -> HashSet<usize> {
        let of = |text: &str| {
            let (Reference::Slot(name, _) | Reference::Output(name, ..)) =
                node::reference(text.trim_start_matches('^'))?;
            self.find(name)
        };
        let mut open: Vec<usize> = places.filter_map(of).collect();
        let mut found = HashSet::new();
        while let Some(at) = open.pop() {
            if found.insert(at) {
                open.extend(self.nodes[at].input.iter().filter_map(|text| of(text)));
            }
        }
        found
    }
}
