//! The nodes of a graph or function, and what is found out about them once.

use super::flow::{Flow, MergeChoice};
use super::nodes::Nodes;
use super::order;
use super::siblings::{MergeGroup, SiblingSearch, Siblings};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Deref;
use std::rc::Rc;

/// The nodes of a graph or function that runs.
pub(crate) struct GraphBody<'a> {
    nodes: Nodes<'a>,
    /// Whether one of them writes a variable.
    pub(crate) writes: OnceCell<bool>,
    /// The nodes that the results need, if all of them are known beforehand.
    pub(crate) needed: OnceCell<HashSet<usize>>,
    flow: OnceCell<Flow>,
    siblings: Siblings,
    /// Whether each node is part of a loop or condition of TensorFlow 1.
    inside_flow: OnceCell<Vec<bool>>,
    circle: OnceCell<Option<usize>>,
}

impl<'a> Deref for GraphBody<'a> {
    type Target = Nodes<'a>;

    fn deref(&self) -> &Nodes<'a> {
        &self.nodes
    }
}

impl<'a> GraphBody<'a> {
    pub(crate) fn new(nodes: &'a [NodeDef]) -> GraphBody<'a> {
        let (writes, needed, flow, siblings, inside_flow, circle) = Default::default();
        GraphBody { nodes: Nodes::new(nodes), writes, needed, flow, siblings, inside_flow, circle }
    }

    /// A node that waits for itself by control inputs.
    pub(crate) fn circle(&self) -> Option<usize> {
        *self.circle.get_or_init(|| order::circle(self))
    }

    /// Its loops and conditions of TensorFlow 1.
    pub(crate) fn flow(&self) -> &Flow {
        self.flow.get_or_init(|| Flow::new(self))
    }

    /// As [`Siblings::group`].
    pub(crate) fn siblings(
        &self,
        index: usize,
        choice: &MergeChoice,
        needed: &HashSet<usize>,
        work: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Rc<MergeGroup>> {
        let search = SiblingSearch { flow: self.flow(), body: self, work };
        self.siblings.group(&search, index, choice, needed)
    }

    /// Whether a node is part of a loop or condition of TensorFlow 1.
    pub(crate) fn is_inside_flow(&self, index: usize) -> bool {
        let inside = self.inside_flow.get_or_init(|| order::inside_flow(self));
        inside.get(index).copied().unwrap_or(false)
    }
}
