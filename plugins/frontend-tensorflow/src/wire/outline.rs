//! The messages of a SavedModel with the operators of its main graphs alone, which say whether it has variables.
//! Functions, attributes and signatures are skipped: whoever asks for the files that a model needs does not wait.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SavedModel {
    #[prost(message, repeated, tag = "2")]
    pub(crate) meta_graphs: Vec<MetaGraphDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetaGraphDef {
    #[prost(message, optional, tag = "2")]
    pub(crate) graph_def: Option<GraphDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "2")]
    pub(crate) op: String,
}
