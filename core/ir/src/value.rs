//! Values: what flows along the edges of a graph.

use crate::readers::Readers;
use crate::{DataType, Dim, NodeId, Tensor, ValueType};

/// A value of one graph. Ids of different graphs must not be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Position in the graph's list of values, for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing produces it: an initializer, or a name that was never defined.
    None,
    /// A graph input (it may have an initializer as its default).
    Input,
    /// Output number `1` of node `0`.
    Node(NodeId, usize),
    /// A value of the enclosing graph, seen from a sub-graph.
    Captured(ValueId),
}

/// A value: name, type as far as known, constant data if it is an initializer.
#[derive(Clone, Debug)]
pub struct Value {
    /// Unique within its graph.
    pub name: String,
    /// Declared or inferred type.
    pub ty: Option<ValueType>,
    /// Free text.
    pub doc: String,
    /// `metadata_props` of its ValueInfo.
    pub metadata: Vec<(String, String)>,
    pub(crate) data: Option<Tensor>,
    pub(crate) origin: Origin,
    /// Nodes that read it, once per read.
    pub(crate) readers: Readers,
    /// How often it is listed as an output of its graph.
    pub(crate) listed: usize,
}

impl Value {
    /// Element type of the declared or inferred type.
    #[must_use]
    pub fn dtype(&self) -> Option<DataType> {
        self.ty.as_ref()?.dtype()
    }

    /// Shape of the declared or inferred type.
    #[must_use]
    pub fn shape(&self) -> Option<&[Dim]> {
        self.ty.as_ref()?.shape()
    }

    pub(crate) fn new(name: String, ty: Option<ValueType>) -> Value {
        Value {
            name,
            ty,
            doc: String::new(),
            metadata: Vec::new(),
            data: None,
            origin: Origin::None,
            readers: Readers::default(),
            listed: 0,
        }
    }

    /// The initializer, also where a graph input may override it; see [`crate::Graph::constant`].
    pub fn initializer(&self) -> Option<&Tensor> {
        self.data.as_ref()
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}
