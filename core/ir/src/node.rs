//! Nodes: one application of an operator.

use crate::{Attr, Layers, ValueId};

/// A node of one graph. Ids grow in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// Position in the graph's list of nodes, for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One application of an operator, in generic form; [`crate::ops`] has typed views.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Operator type (`Conv`).
    pub op: String,
    /// Operator domain; empty for the standard's own.
    pub domain: String,
    /// Overload of a local function; mostly empty.
    pub overload: String,
    /// Free name, need not be unique.
    pub name: String,
    /// Inputs by position; `None` where an optional one is absent.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs by position; `None` where an optional one is not wanted.
    pub outputs: Vec<Option<ValueId>>,
    /// Attributes in the order of the source.
    pub attrs: Vec<(String, Attr)>,
    /// Free text.
    pub doc: String,
    /// `metadata_props`.
    pub metadata: Vec<(String, String)>,
    /// Layers of the source network that it computes; a fusion keeps the union.
    pub layers: Layers,
}

impl Node {
    /// A node of the standard's domain.
    pub fn new(
        op: impl Into<String>,
        inputs: impl IntoIterator<Item = ValueId>,
        outputs: impl IntoIterator<Item = ValueId>,
    ) -> Node {
        Node {
            op: op.into(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: outputs.into_iter().map(Some).collect(),
            ..Node::default()
        }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, attr: Attr) -> Node {
        self.attrs.push((name.into(), attr));
        self
    }

    /// Whether it applies operator `op` of the standard's domain.
    pub fn is(&self, op: &str) -> bool {
        self.op == op && self.is_standard()
    }

    /// Whether its operator is of the standard's own domain (`""` or `"ai.onnx"`).
    pub fn is_standard(&self) -> bool {
        self.domain.is_empty() || self.domain == "ai.onnx"
    }

    /// The attribute called `name`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// The attribute called `name`, if it is an integer; `default` otherwise.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attr(name) {
            Some(Attr::Int(x)) => *x,
            _ => default,
        }
    }

    /// Input `i`, if present.
    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// Output `i`, if wanted.
    pub fn output(&self, i: usize) -> Option<ValueId> {
        self.outputs.get(i).copied().flatten()
    }

    /// Its sub-graphs (If, Loop, Scan), in the order of its attributes.
    pub fn subgraphs(&self) -> impl Iterator<Item = &crate::Graph> {
        self.attrs.iter().flat_map(|(_, a)| a.graphs())
    }

    /// All values it reads: its inputs, then what its sub-graphs capture.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> + '_ {
        let captured = self.subgraphs().flat_map(|g| g.captures().map(|(_, outer)| outer));
        self.inputs.iter().flatten().copied().chain(captured)
    }
}
