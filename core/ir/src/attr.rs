//! Attribute values of nodes.

use crate::{Graph, SparseTensor, Tensor, ValueType};
use bytes::Bytes;

/// The value of an attribute, one variant per `AttributeProto.AttributeType`.
#[derive(Clone, Debug)]
pub enum Attr {
    /// INT
    Int(i64),
    /// FLOAT
    Float(f32),
    /// STRING (any bytes; the standard asks for UTF-8)
    Str(Bytes),
    /// TENSOR
    Tensor(Tensor),
    /// SPARSE_TENSOR
    Sparse(Box<SparseTensor>),
    /// GRAPH: a sub-graph of If, Loop or Scan; values of the enclosing graph are captured by id
    Graph(Box<Graph>),
    /// TYPE_PROTO
    Type(Box<ValueType>),
    /// INTS
    Ints(Vec<i64>),
    /// FLOATS
    Floats(Vec<f32>),
    /// STRINGS
    Strs(Vec<Bytes>),
    /// TENSORS
    Tensors(Vec<Tensor>),
    /// SPARSE_TENSORS
    Sparses(Vec<SparseTensor>),
    /// GRAPHS
    Graphs(Vec<Graph>),
    /// TYPE_PROTOS
    Types(Vec<ValueType>),
    /// A reference to an attribute of the enclosing function (`ref_attr_name`).
    Ref {
        /// The function's attribute.
        name: String,
        /// Number of its type in `AttributeProto.AttributeType`.
        kind: i32,
    },
}

impl Attr {
    /// Number in `AttributeProto.AttributeType`.
    pub fn kind(&self) -> i32 {
        match self {
            Attr::Float(_) => 1,
            Attr::Int(_) => 2,
            Attr::Str(_) => 3,
            Attr::Tensor(_) => 4,
            Attr::Graph(_) => 5,
            Attr::Floats(_) => 6,
            Attr::Ints(_) => 7,
            Attr::Strs(_) => 8,
            Attr::Tensors(_) => 9,
            Attr::Graphs(_) => 10,
            Attr::Sparse(_) => 11,
            Attr::Sparses(_) => 12,
            Attr::Type(_) => 13,
            Attr::Types(_) => 14,
            Attr::Ref { kind, .. } => *kind,
        }
    }

    /// The sub-graphs it holds.
    pub fn graphs(&self) -> &[Graph] {
        match self {
            Attr::Graph(graph) => std::slice::from_ref(graph),
            Attr::Graphs(graphs) => graphs,
            _ => &[],
        }
    }

    /// The sub-graphs it holds, to be changed.
    pub fn graphs_mut(&mut self) -> &mut [Graph] {
        match self {
            Attr::Graph(graph) => std::slice::from_mut(graph),
            Attr::Graphs(graphs) => graphs,
            _ => &mut [],
        }
    }
}

/// A Rust type that an attribute of the operator table can have.
pub(crate) trait AttrValue: Sized + PartialEq {
    /// Number in `AttributeProto.AttributeType`.
    #[cfg(test)]
    const KIND: i32;
    /// Reads the attribute; `None` if it has another type.
    fn from_attr(attr: &Attr) -> Option<Self>;
    /// The attribute that says this value.
    fn into_attr(self) -> Attr;
    #[cfg(test)]
    /// As `into_attr`; `None` where the value is the absence of the attribute.
    fn present(self) -> Option<Attr> {
        Some(self.into_attr())
    }
}

macro_rules! attr_values {
    ($($rust:ty => $variant:ident = $kind:literal),*) => {
        $(impl AttrValue for $rust {
            #[cfg(test)]
            const KIND: i32 = $kind;
            fn from_attr(attr: &Attr) -> Option<Self> {
                match attr { Attr::$variant(x) => Some(x.clone()), _ => None }
            }
            fn into_attr(self) -> Attr { Attr::$variant(self) }
        })*
    };
}

attr_values!(i64 => Int = 2, f32 => Float = 1, Tensor => Tensor = 4, Vec<i64> => Ints = 7,
    Vec<f32> => Floats = 6);

impl AttrValue for String {
    #[cfg(test)]
    const KIND: i32 = 3;
    fn from_attr(attr: &Attr) -> Option<String> {
        match attr {
            Attr::Str(bytes) => String::from_utf8(bytes.to_vec()).ok(),
            _ => None,
        }
    }
    fn into_attr(self) -> Attr {
        Attr::Str(Bytes::from(self))
    }
}

impl<T: AttrValue> AttrValue for Option<T> {
    #[cfg(test)]
    const KIND: i32 = T::KIND;
    fn from_attr(attr: &Attr) -> Option<Option<T>> {
        T::from_attr(attr).map(Some)
    }
    #[cfg(test)]
    fn present(self) -> Option<Attr> {
        self.and_then(T::present)
    }
    /// # Panics
    /// For `None`, which is the absence of the attribute and never written.
    fn into_attr(self) -> Attr {
        self.map(T::into_attr).expect("an absent attribute is not written")
    }
}
