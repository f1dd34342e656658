//! What a model uses, told without reading its external data.

use crate::decode::parse;
use crate::external::checked_location;
use bytes::Bytes;
use onnxd_diagnostics::Diagnostics;
use onnxd_proto::onnx::tensor_proto::DataLocation;
use onnxd_proto::onnx::{AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto};
use std::collections::BTreeSet;

/// What is told of a model without reading its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Names of the files that hold its data, relative to its folder.
    pub external_files: Vec<String>,
    /// Types of all its operators, those of sub-graphs and functions included.
    pub op_types: BTreeSet<String>,
}

/// What a model uses; nothing of its external data is read.
///
/// # Errors
/// N0501 and N0213 as [`crate::decode()`]; N0503 if a location would leave the folder.
pub fn outline(bytes: Bytes) -> Result<Outline, Diagnostics> {
    let packed = parse(bytes)?;
    let (mut files, mut op_types) = (BTreeSet::new(), BTreeSet::new());
    let mut tensor = |tensor: &TensorProto| {
        let external = tensor.data_location == Some(DataLocation::External as i32);
        let entries = tensor.external_data.iter().filter(|_| external);
        let location = entries.filter(|e| e.key.as_deref() == Some("location"));
        files.extend(location.filter_map(|e| e.value.clone()));
    };
    let mut node = |node: &NodeProto| {
        let op = node.op_type.as_deref().unwrap_or_default();
        if !op_types.contains(op) {
            op_types.insert(op.to_owned());
        }
    };
    let mut visitor = Visitor { tensor: &mut tensor, node: &mut node };
    if let Some(graph) = &packed.model.graph {
        visitor.graph(graph);
    }
    packed.nodes.for_each(|node| visitor.node(node));
    for function in &packed.model.functions {
        function.node.iter().for_each(|node| visitor.node(node));
        visitor.attributes(&function.attribute_proto);
    }
    let mut refusals = Diagnostics::default();
    for location in &files {
        if let Err(refusal) = checked_location(location) {
            refusals.push(refusal);
        }
    }
    refusals.or_ok(Outline { external_files: files.into_iter().collect(), op_types })
}

/// Names of the files that hold data of a model, see [`outline`].
///
/// # Errors
/// As [`outline`].
pub fn external_files(bytes: Bytes) -> Result<Vec<String>, Diagnostics> {
    outline(bytes).map(|outline| outline.external_files)
}

/// Calls a function for every tensor, and one for every node.
struct Visitor<'f> {
    tensor: &'f mut dyn FnMut(&TensorProto),
    node: &'f mut dyn FnMut(&NodeProto),
}

impl Visitor<'_> {
    fn graph(&mut self, graph: &GraphProto) {
        graph.initializer.iter().for_each(&mut *self.tensor);
        graph.sparse_initializer.iter().for_each(|s| self.sparse(s));
        graph.node.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &NodeProto) {
        (self.node)(node);
        self.attributes(&node.attribute);
    }

    fn attributes(&mut self, attributes: &[AttributeProto]) {
        for attribute in attributes {
            attribute.t.iter().chain(&attribute.tensors).for_each(&mut *self.tensor);
            let sparse = attribute.sparse_tensor.iter().chain(&attribute.sparse_tensors);
            sparse.for_each(|s| self.sparse(s));
            attribute.g.iter().chain(&attribute.graphs).for_each(|g| self.graph(g));
        }
    }

    fn sparse(&mut self, sparse: &SparseTensorProto) {
        sparse.values.iter().chain(&sparse.indices).for_each(&mut *self.tensor);
    }
}
