//! Nodes and their attributes.

use super::Decoder;
use crate::findings::{ModelPath, PathLink};
use crate::metadata::{from_entries, take_layers};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{Attr, Node, ValueId};
use onnxd_proto::onnx::attribute_proto::AttributeType as Kind;
use onnxd_proto::onnx::{AttributeProto, NodeProto};
use std::collections::HashSet;

/// Most inputs and most outputs of a node: rewrites take time in the square of them.
const SLOTS_MAX: usize = 1 << 14;

impl Decoder<'_> {
    /// Adds the node to the graph that is being read.
    pub(super) fn node(&mut self, index: usize, proto: NodeProto, parent: &ModelPath<'_>) {
        let name = proto.name.unwrap_or_default();
        let op = proto.op_type.unwrap_or_default();
        let place = parent.at(PathLink::Node { index, name: &name, op: &op });
        if op.is_empty() {
            self.found.push(Code::OnnxInvalid, &place, "the node has no operator type");
        }
        let slots = proto.input.len().max(proto.output.len());
        if slots > SLOTS_MAX {
            let text = format!("the node has {slots} inputs or outputs, the limit is {SLOTS_MAX}");
            self.found.push(Code::SourceLimit, &place, text);
        }
        if !proto.device_configurations.is_empty() {
            self.found.note("the device configuration of a node is not kept");
        }
        let inputs = proto.input.iter().map(|name| self.read(name, &place)).collect();
        let attrs = self.attributes(proto.attribute, &place);
        let outputs = proto.output.iter().map(|name| self.output_slot(name, &place)).collect();
        let mut metadata = from_entries(proto.metadata_props);
        let layers = take_layers(&mut metadata);
        let node = Node {
            inputs,
            outputs,
            attrs,
            metadata,
            layers,
            domain: proto.domain.unwrap_or_default(),
            overload: proto.overload.unwrap_or_default(),
            doc: proto.doc_string.unwrap_or_default(),
            op,
            name,
        };
        self.graph().add_node(node);
    }

    fn read(&mut self, name: &str, place: &ModelPath<'_>) -> Option<ValueId> {
        if name.is_empty() { None } else { Some(self.resolve_or_report(name, place)) }
    }

    fn output_slot(&mut self, name: &str, place: &ModelPath<'_>) -> Option<ValueId> {
        if name.is_empty() { None } else { Some(self.define(name, place)) }
    }

    /// The attributes, in order, without those that are wrong.
    pub(super) fn attributes(
        &mut self,
        protos: Vec<AttributeProto>,
        place: &ModelPath<'_>,
    ) -> Vec<(String, Attr)> {
        let mut seen = HashSet::new();
        let mut attrs = Vec::with_capacity(protos.len());
        for mut proto in protos {
            let name = proto.name.take().unwrap_or_default();
            let place = place.at(PathLink::Attribute(&name));
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, &place, "the attribute has no name");
            }
            if !seen.insert(name.clone()) {
                self.found.push(Code::OnnxInvalid, &place, "the attribute is given twice");
            }
            if proto.doc_string.as_ref().is_some_and(|d| !d.is_empty()) {
                self.found.note("the doc_string of an attribute is not kept");
            }
            if let Some(attr) = self.attribute(proto, &place) {
                attrs.push((name, attr));
            }
        }
        attrs
    }

    fn attribute(&mut self, proto: AttributeProto, place: &ModelPath<'_>) -> Option<Attr> {
        let used = used_fields(&proto);
        if let Some(name) = proto.ref_attr_name.as_ref().filter(|name| !name.is_empty()) {
            return self.reference(name, &proto, !used.is_empty(), place);
        }
        let kind = match (proto.r#type, &used[..]) {
            // Files of IR version 1 do not say the type; the only field in use does.
            (None | Some(0), [(kind, _)]) => *kind,
            (None | Some(0), []) => {
                self.found.push(Code::OnnxInvalid, place, "the attribute has no value");
                return None;
            }
            (Some(number), [] | [_]) => match Kind::try_from(number) {
                Ok(kind) => kind,
                Err(_) => {
                    let text = format!("attribute type {number} is not known");
                    self.found.push(Code::OnnxVersion, place, text);
                    return None;
                }
            },
            _ => {
                let names: Vec<&str> = used.iter().map(|(_, name)| *name).collect();
                let text = format!("the attribute has several values: {}", names.join(", "));
                self.found.push(Code::OnnxInvalid, place, text);
                return None;
            }
        };
        if let Some((_, name)) = used.first().filter(|(used, _)| *used != kind) {
            let text =
                format!("the attribute says type {}, but has field {name}", kind.as_str_name());
            self.found.push(Code::OnnxInvalid, place, text);
            return None;
        }
        let attr = self.attribute_value(kind, proto, place);
        if used.is_empty() && attr.is_none() {
            let text = format!("the attribute says type {}, but has no value", kind.as_str_name());
            self.found.push(Code::OnnxInvalid, place, text);
        }
        attr
    }

    fn reference(
        &mut self,
        name: &str,
        proto: &AttributeProto,
        has_value: bool,
        place: &ModelPath<'_>,
    ) -> Option<Attr> {
        let kind = proto.r#type.unwrap_or(0);
        let fault = if !self.in_function {
            format!("refers to attribute `{}` of a function, but is in none", shown(name))
        } else if has_value {
            "has both a value and a reference to an attribute of the function".to_owned()
        } else if kind == 0 || Kind::try_from(kind).is_err() {
            format!("refers to `{}` without a valid type", shown(name))
        } else {
            return Some(Attr::Ref { name: name.to_owned(), kind });
        };
        self.found.push(Code::OnnxInvalid, place, fault);
        None
    }

    /// The value; an absent number or string is the default that proto3 does not write.
    fn attribute_value(
        &mut self,
        kind: Kind,
        proto: AttributeProto,
        place: &ModelPath<'_>,
    ) -> Option<Attr> {
        Some(match kind {
            Kind::Undefined => return None,
            Kind::Float => Attr::Float(proto.f.unwrap_or_default()),
            Kind::Int => Attr::Int(proto.i.unwrap_or_default()),
            Kind::String => Attr::Str(proto.s.unwrap_or_default()),
            Kind::Tensor => Attr::Tensor(self.tensor(proto.t?, place)?),
            Kind::Graph => Attr::Graph(Box::new(self.whole_graph(proto.g?, place))),
            Kind::SparseTensor => {
                Attr::Sparse(Box::new(self.sparse_tensor(proto.sparse_tensor?, place)?))
            }
            Kind::TypeProto => Attr::Type(Box::new(self.attribute_type(proto.tp?, place)?)),
            Kind::Floats => Attr::Floats(proto.floats),
            Kind::Ints => Attr::Ints(proto.ints),
            Kind::Strings => Attr::Strs(proto.strings),
            Kind::Tensors => Attr::Tensors(
                proto.tensors.into_iter().filter_map(|t| self.tensor(t, place)).collect(),
            ),
            Kind::Graphs => {
                Attr::Graphs(proto.graphs.into_iter().map(|g| self.whole_graph(g, place)).collect())
            }
            Kind::SparseTensors => Attr::Sparses(
                proto
                    .sparse_tensors
                    .into_iter()
                    .filter_map(|t| self.sparse_tensor(t, place))
                    .collect(),
            ),
            Kind::TypeProtos => Attr::Types(
                proto
                    .type_protos
                    .into_iter()
                    .filter_map(|t| self.attribute_type(t, place))
                    .collect(),
            ),
        })
    }

    fn attribute_type(
        &mut self,
        proto: onnxd_proto::onnx::TypeProto,
        place: &ModelPath<'_>,
    ) -> Option<onnxd_ir::ValueType> {
        if proto.value.is_none() {
            self.found.push(Code::OnnxInvalid, place, "the type says nothing");
        }
        self.value_type(proto, place)
    }
}

/// The value fields that are in use, with the attribute type each stands for.
fn used_fields(proto: &AttributeProto) -> Vec<(Kind, &'static str)> {
    let fields = [
        (Kind::Float, "f", proto.f.is_some()),
        (Kind::Int, "i", proto.i.is_some()),
        (Kind::String, "s", proto.s.is_some()),
        (Kind::Tensor, "t", proto.t.is_some()),
        (Kind::Graph, "g", proto.g.is_some()),
        (Kind::SparseTensor, "sparse_tensor", proto.sparse_tensor.is_some()),
        (Kind::TypeProto, "tp", proto.tp.is_some()),
        (Kind::Floats, "floats", !proto.floats.is_empty()),
        (Kind::Ints, "ints", !proto.ints.is_empty()),
        (Kind::Strings, "strings", !proto.strings.is_empty()),
        (Kind::Tensors, "tensors", !proto.tensors.is_empty()),
        (Kind::Graphs, "graphs", !proto.graphs.is_empty()),
        (Kind::SparseTensors, "sparse_tensors", !proto.sparse_tensors.is_empty()),
        (Kind::TypeProtos, "type_protos", !proto.type_protos.is_empty()),
    ];
    fields.into_iter().filter(|(_, _, used)| *used).map(|(kind, name, _)| (kind, name)).collect()
}
