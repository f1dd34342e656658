//! Nodes and their attributes.

use super::types::type_to_proto;
use super::{Encoder, text};
use crate::metadata::{layers_entry, to_entries};
use crate::sink::tensor_to_proto;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{Attr, Node, NodeId, SparseTensor, Tensor, ValueId};
use onnxd_proto::onnx::attribute_proto::AttributeType;
use onnxd_proto::onnx::{AttributeProto, NodeProto, SparseTensorProto, TensorProto};

impl<'a> Encoder<'a, '_> {
    pub(super) fn node(&mut self, id: NodeId) -> Result<NodeProto, Diagnostic> {
        let node: &'a Node = &self.level().graph[id];
        let input = node.inputs.iter().map(|v| self.slot(*v)).collect::<Result<_, _>>()?;
        // Sub-graphs see what is defined before this node, so its outputs are named after them.
        let attribute = self.attributes(&node.attrs)?;
        node.outputs.iter().flatten().for_each(|v| self.define(*v));
        let output = node.outputs.iter().map(|v| self.slot(*v)).collect::<Result<_, _>>()?;
        let mut metadata_props = to_entries(&node.metadata);
        metadata_props.extend(layers_entry(&node.layers));
        Ok(NodeProto {
            input,
            output,
            attribute,
            metadata_props,
            name: text(&node.name),
            op_type: Some(node.op.clone()),
            domain: text(&node.domain),
            overload: text(&node.overload),
            doc_string: text(&node.doc),
            ..NodeProto::default()
        })
    }

    /// The name at one position; empty where an optional value is absent.
    fn slot(&self, value: Option<ValueId>) -> Result<String, Diagnostic> {
        value.map_or(Ok(String::new()), |id| self.read(id).map(str::to_owned))
    }

    pub(super) fn attributes(
        &mut self,
        attrs: &'a [(String, Attr)],
    ) -> Result<Vec<AttributeProto>, Diagnostic> {
        attrs.iter().map(|(name, attr)| self.attribute(name, attr)).collect()
    }

    fn attribute(&mut self, name: &str, attr: &'a Attr) -> Result<AttributeProto, Diagnostic> {
        let mut proto = AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(attr.kind()),
            ..AttributeProto::default()
        };
        match attr {
            Attr::Int(i) => proto.i = Some(*i),
            Attr::Float(f) => proto.f = Some(*f),
            Attr::Str(s) => proto.s = Some(s.clone()),
            Attr::Tensor(t) => proto.t = Some(self.tensor(t, None)?),
            Attr::Sparse(s) => proto.sparse_tensor = Some(self.sparse(s, None)?),
            Attr::Graph(g) => proto.g = Some(self.graph(g)?),
            Attr::Type(ty) => proto.tp = Some(type_to_proto(ty)),
            Attr::Ints(list) => proto.ints = list.clone(),
            Attr::Floats(list) => proto.floats = list.clone(),
            Attr::Strs(list) => proto.strings = list.clone(),
            Attr::Tensors(list) => {
                proto.tensors =
                    list.iter().map(|t| self.tensor(t, None)).collect::<Result<_, _>>()?;
            }
            Attr::Sparses(list) => {
                proto.sparse_tensors =
                    list.iter().map(|s| self.sparse(s, None)).collect::<Result<_, _>>()?;
            }
            Attr::Graphs(list) => {
                proto.graphs = list.iter().map(|g| self.graph(g)).collect::<Result<_, _>>()?;
            }
            Attr::Types(list) => proto.type_protos = list.iter().map(type_to_proto).collect(),
            Attr::Ref { name, .. } => proto.ref_attr_name = Some(name.clone()),
        }
        Ok(proto)
    }

    pub(super) fn tensor(
        &mut self,
        tensor: &Tensor,
        name: Option<String>,
    ) -> Result<TensorProto, Diagnostic> {
        tensor_to_proto(tensor, name, self.sink)
    }

    pub(super) fn sparse(
        &mut self,
        sparse: &SparseTensor,
        name: Option<String>,
    ) -> Result<SparseTensorProto, Diagnostic> {
        Ok(SparseTensorProto {
            values: Some(self.tensor(&sparse.values, name)?),
            indices: Some(self.tensor(&sparse.indices, None)?),
            dims: sparse.dims.iter().map(|d| *d as i64).collect(),
        })
    }
}

/// `Constant` nodes in place of initializers.
pub(super) fn constants(
    initializers: Vec<TensorProto>,
    sparse: Vec<SparseTensorProto>,
) -> Vec<NodeProto> {
    let constant = |name: Option<String>, value: AttributeProto| NodeProto {
        output: vec![name.unwrap_or_default()],
        op_type: Some("Constant".to_owned()),
        attribute: vec![value],
        ..NodeProto::default()
    };
    let dense = initializers.into_iter().map(|mut tensor| {
        let name = tensor.name.take();
        let value = AttributeProto {
            name: Some("value".to_owned()),
            r#type: Some(AttributeType::Tensor as i32),
            t: Some(tensor),
            ..AttributeProto::default()
        };
        constant(name, value)
    });
    let mut nodes: Vec<NodeProto> = dense.collect();
    nodes.extend(sparse.into_iter().map(|mut tensor| {
        let name = tensor.values.as_mut().and_then(|v| v.name.take());
        let value = AttributeProto {
            name: Some("sparse_value".to_owned()),
            r#type: Some(AttributeType::SparseTensor as i32),
            sparse_tensor: Some(tensor),
            ..AttributeProto::default()
        };
        constant(name, value)
    }));
    nodes
}
