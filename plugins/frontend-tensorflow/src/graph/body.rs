//! The nodes of a graph or function, and what is found out about them once.

use super::flow::Flow;
use super::node::{self, Reference};
use super::order;
use crate::wire::proto::NodeDef;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

/// The nodes of a graph or function.
pub(crate) struct Body<'a> {
    pub(crate) nodes: &'a [NodeDef],
    by_name: HashMap<&'a str, usize>,
    /// Whether one of them writes a variable.
    pub(crate) writes: OnceCell<bool>,
    /// The nodes that the results need, if all of them are known beforehand.
    pub(crate) needed: OnceCell<HashSet<usize>>,
    flow: OnceCell<Flow>,
    /// Whether each node is part of a loop or condition of TensorFlow 1.
    inside_flow: OnceCell<Vec<bool>>,
    circle: OnceCell<Option<usize>>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(nodes: &'a [NodeDef]) -> Body<'a> {
        let by_name = nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let (writes, needed, flow, inside_flow, circle) = Default::default();
        Body { nodes, by_name, writes, needed, flow, inside_flow, circle }
    }

    /// A node that waits for itself by control inputs.
    pub(crate) fn circle(&self) -> Option<usize> {
        *self.circle.get_or_init(|| order::circle(self))
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

    /// Its loops and conditions of TensorFlow 1.
    pub(crate) fn flow(&self) -> &Flow {
        self.flow.get_or_init(|| Flow::new(self))
    }

    /// Whether a node is part of a loop or condition of TensorFlow 1.
    pub(crate) fn is_inside_flow(&self, index: usize) -> bool {
        let inside = self.inside_flow.get_or_init(|| order::inside_flow(self));
        inside.get(index).copied().unwrap_or(false)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}
