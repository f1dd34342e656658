//! The nodes of a graph or function by their names.

use super::node;
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

    pub(crate) fn node(&self, name: &str) -> Option<&'a NodeDef> {
        self.find(name).map(|index| &self.nodes[index])
    }

    /// The node that a text refers to, if it is no control input.
    pub(crate) fn read(&self, text: &str) -> Option<&'a NodeDef> {
        self.node(node::reference(text)?.name())
    }

    /// The nodes that these places need.
    pub(crate) fn needed_by<'t>(&self, places: impl Iterator<Item = &'t str>) -> HashSet<usize> {
        let of = |text: &str| self.find(node::name_of(text));
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
