//! Small graphs for tests.

use super::frozen;
use super::network;
use crate::wire::proto::{
    ArgDef, Attr, AttrValue, Dim, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef,
    OpDef, TensorProto, TensorShapeProto,
};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{ExportOptions, Imported};

pub(crate) const FLOAT: i32 = 1;

pub(crate) fn node(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
    let input = inputs.iter().map(|&text| text.to_owned()).collect();
    NodeDef { name: name.to_owned(), op: op.to_owned(), input, ..NodeDef::default() }
}

impl NodeDef {
    pub(crate) fn attr(mut self, name: &str, value: Attr) -> NodeDef {
        self.attr.insert(name.to_owned(), AttrValue { value: Some(value) });
        self
    }
}

/// An input of floats; a negative size is unknown.
pub(crate) fn placeholder(name: &str, sizes: &[i64]) -> NodeDef {
    let shape = Attr::Shape(shape(sizes));
    node(name, "Placeholder", &[]).attr("dtype", Attr::Type(FLOAT)).attr("shape", shape)
}

pub(crate) fn shape(sizes: &[i64]) -> TensorShapeProto {
    let dim = |size: &i64| Dim { size: *size, ..Dim::default() };
    TensorShapeProto { dim: sizes.iter().map(dim).collect(), unknown_rank: false }
}

pub(crate) fn floats(name: &str, values: &[f32]) -> NodeDef {
    let tensor_shape = Some(shape(&[values.len() as i64]));
    let float_val = values.to_vec();
    let value = TensorProto { dtype: FLOAT, tensor_shape, float_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("dtype", Attr::Type(FLOAT)).attr("value", Attr::Tensor(value))
}

/// A call of one result.
pub(crate) fn call(name: &str, function: &str, inputs: &[&str]) -> NodeDef {
    let f = NameAttrList { name: function.to_owned(), ..NameAttrList::default() };
    let types = vec![FLOAT];
    let types = crate::wire::proto::ListValue { r#type: types, ..Default::default() };
    node(name, "PartitionedCall", inputs).attr("f", Attr::Func(f)).attr("Tout", Attr::List(types))
}

/// A function with its arguments, and its results with what they refer to.
pub(crate) fn function(
    name: &str,
    args: &[&str],
    results: &[(&str, &str)],
    node_def: Vec<NodeDef>,
) -> FunctionDef {
    let arg = |name: &str| ArgDef { name: name.to_owned(), ..ArgDef::default() };
    let signature = OpDef {
        name: name.to_owned(),
        input_arg: args.iter().map(|name| arg(name)).collect(),
        output_arg: results.iter().map(|(name, _)| arg(name)).collect(),
    };
    let ret = results.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let ret = ret.collect();
    FunctionDef { signature: Some(signature), node_def, ret, ..FunctionDef::default() }
}

pub(crate) fn graph(node: Vec<NodeDef>, function: Vec<FunctionDef>) -> GraphDef {
    let library = Some(FunctionDefLibrary { function });
    GraphDef { node, library, ..GraphDef::default() }
}

pub(crate) fn import(graph: &GraphDef) -> Result<Imported, Diagnostics> {
    let options = ExportOptions::of_shapes(18, vec![]);
    network::import(&frozen::network(graph, &[], &[])?, &options)
}

/// Names of a model's inputs and of its outputs.
pub(crate) fn names(model: &Model) -> [Vec<String>; 2] {
    let graph = &model.graph;
    [graph.inputs(), graph.outputs()]
        .map(|ids| ids.iter().map(|id| graph[*id].name.clone()).collect())
}

/// The codes and messages of what was found.
pub(crate) fn found(result: Result<Imported, Diagnostics>) -> Vec<String> {
    let all = result.err().unwrap_or_default();
    all.0.iter().map(|found| format!("{} {}", found.code, found.message)).collect()
}
