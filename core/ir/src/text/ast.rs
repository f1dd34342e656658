//! The syntax tree: names are not resolved yet, since a node may read what the text defines
//! further down.

use crate::{Attr, Opsets, Tensor, ValueType};
use std::borrow::Cow;

/// A name and where it stands, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Name<'a> {
    pub at: usize,
    pub text: Cow<'a, str>,
}

/// `float[2] w = {1, 2}`: a value with what is said about it.
pub(super) struct ValueAst<'a> {
    pub name: Name<'a>,
    pub ty: Option<ValueType>,
    pub data: Option<Tensor>,
}

/// `name (inputs) => (outputs) <infos> { nodes }`
pub(super) struct GraphAst<'a> {
    pub name: Cow<'a, str>,
    pub inputs: Vec<ValueAst<'a>>,
    pub outputs: Vec<ValueAst<'a>>,
    pub infos: Vec<ValueAst<'a>>,
    pub nodes: Vec<NodeAst<'a>>,
}

/// `[name] outputs = domain.op:overload<attrs>(inputs)`
#[derive(Default)]
pub(super) struct NodeAst<'a> {
    pub name: Cow<'a, str>,
    pub domain: String,
    pub op: Cow<'a, str>,
    pub overload: Cow<'a, str>,
    pub inputs: Vec<Name<'a>>,
    pub outputs: Vec<Name<'a>>,
    pub attrs: Vec<(Name<'a>, AttrAst<'a>)>,
}

/// An attribute's value.
pub(super) enum AttrAst<'a> {
    Ready(Attr),
    Graph(Box<GraphAst<'a>>),
    Graphs(Vec<GraphAst<'a>>),
}

/// A local function.
pub(super) struct FunctionAst<'a> {
    pub domain: String,
    pub overload: String,
    pub doc: String,
    pub opsets: Opsets,
    pub attributes: Vec<String>,
    pub defaults: Vec<(Name<'a>, AttrAst<'a>)>,
    pub graph: GraphAst<'a>,
}
