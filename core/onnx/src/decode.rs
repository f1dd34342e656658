//! From the bytes of an ONNX model to the IR. Everything that is wrong is said at once; weights stay
//! where they are and are shared.

mod graph;
mod node;
mod tensor;
mod types;

use crate::external::TensorLoader;
use crate::findings::{Findings, ModelPath, PathLink};
use crate::metadata::from_entries;
use crate::opset::{IR_VERSION_MAX, IR_VERSION_MIN, IR_VERSION_RAISED, OPSET_MAX};
use crate::packed::PackedModel;
use crate::wire;
use bytes::Bytes;
use graph::GraphDecoder;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Function, Model, Opsets};
use onnxd_proto::onnx::{FunctionProto, ModelProto, OperatorSetIdProto};
use std::collections::HashSet;

/// A decoded model.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The model.
    pub model: Model,
    /// What the file says and the model does not keep, and what was read in a lenient way.
    pub notes: Vec<String>,
}

/// Decodes an encoded `ModelProto`. `raw_data` becomes a slice of `bytes`, not a copy.
///
/// # Errors
/// Everything found wrong, at most 100 findings: N0501 (no protobuf), N0502 (against the standard),
/// N0503 (external data), N0504 (newer than known), N0213 (a limit).
pub fn decode(bytes: Bytes, loader: &mut dyn TensorLoader) -> Result<Decoded, Diagnostics> {
    from_packed(parse(bytes)?, loader)
}

/// Takes an encoded `ModelProto` apart after a check of its structure.
pub(crate) fn parse(bytes: Bytes) -> Result<PackedModel, Diagnostic> {
    wire::check(&bytes)?;
    let packed = PackedModel::decode(bytes)?;
    if packed.model.graph.is_none() && packed.model.ir_version.is_none() {
        let text = "the file holds neither a graph nor an IR version, so it is no ONNX model";
        return Err(Diagnostic::new(Code::OnnxMalformed, text));
    }
    Ok(packed)
}

/// As [`decode`], from a message that is already parsed.
///
/// # Errors
/// As [`decode`].
pub fn from_proto(
    proto: ModelProto,
    loader: &mut dyn TensorLoader,
) -> Result<Decoded, Diagnostics> {
    from_packed(proto.into(), loader)
}

fn from_packed(packed: PackedModel, loader: &mut dyn TensorLoader) -> Result<Decoded, Diagnostics> {
    let mut decoder = Decoder {
        loader,
        found: Findings::default(),
        scopes: Vec::new(),
        ir_version: packed.model.ir_version.unwrap_or(0),
        in_function: false,
    };
    let model = decoder.model(packed);
    let notes = decoder.found.finish()?;
    Ok(Decoded { model, notes })
}

/// The state of one decoding.
struct Decoder<'l> {
    loader: &'l mut dyn TensorLoader,
    found: Findings,
    /// The graphs that are being read, outermost first.
    scopes: Vec<GraphDecoder>,
    ir_version: i64,
    in_function: bool,
}

impl Decoder<'_> {
    fn model(&mut self, packed: PackedModel) -> Model {
        let PackedModel { model: proto, nodes, value_info } = packed;
        let place = ModelPath::root(PathLink::Model);
        self.ir_version(proto.ir_version, &place);
        if !proto.training_info.is_empty() {
            self.found.note("training_info is not kept");
        }
        if !proto.configuration.is_empty() {
            self.found.note("the device configurations of the model are not kept");
        }
        let opsets = self.opsets(proto.opset_import, self.ir_version < 3, &place);
        let functions = self.functions(proto.functions, &place);
        let graph = match proto.graph {
            Some(graph) => self.graph_of(graph, nodes, value_info, &place),
            None => {
                self.found.push(Code::OnnxInvalid, &place, "the model has no graph");
                onnxd_ir::Graph::default()
            }
        };
        Model {
            ir_version: self.kept_ir_version(),
            opsets,
            producer_name: proto.producer_name.unwrap_or_default(),
            producer_version: proto.producer_version.unwrap_or_default(),
            domain: proto.domain.unwrap_or_default(),
            model_version: proto.model_version.unwrap_or_default(),
            doc: proto.doc_string.unwrap_or_default(),
            metadata: from_entries(proto.metadata_props),
            graph,
            functions,
        }
    }

    fn ir_version(&mut self, version: Option<i64>, place: &ModelPath<'_>) {
        let (code, text) = match version {
            Some(1..=IR_VERSION_MAX) => return,
            Some(newer) if newer > IR_VERSION_MAX => (
                Code::OnnxVersion,
                format!("IR version {newer} is newer than {IR_VERSION_MAX}, the newest known"),
            ),
            Some(wrong) => (Code::OnnxInvalid, format!("IR version {wrong} does not exist")),
            None => (Code::OnnxInvalid, "the model does not say its IR version".to_owned()),
        };
        self.found.push(code, place, text);
    }

    /// The model's version, unless that demands that initializers are listed as inputs, which they
    /// no longer are.
    fn kept_ir_version(&mut self) -> i64 {
        if self.ir_version >= IR_VERSION_MIN {
            return self.ir_version;
        }
        self.found.note("the IR version is below 4 and was raised to 8");
        IR_VERSION_RAISED
    }

    /// The operator sets; `implied` if the standard's first is meant when none is named.
    fn opsets(
        &mut self,
        protos: Vec<OperatorSetIdProto>,
        implied: bool,
        place: &ModelPath<'_>,
    ) -> Opsets {
        let mut opsets = Opsets::new();
        if protos.is_empty() && implied {
            opsets.insert(String::new(), 1);
        } else if protos.is_empty() && !self.in_function {
            self.found.push(Code::OnnxInvalid, place, "the model imports no operator set");
        }
        for proto in protos {
            let domain = proto.domain.unwrap_or_default();
            let version = proto.version.unwrap_or(0);
            let standard = matches!(domain.as_str(), "" | "ai.onnx");
            if version < 1 {
                let text =
                    format!("version {version} of domain `{}` does not exist", shown(&domain));
                self.found.push(Code::OnnxInvalid, place, text);
            } else if standard && version > OPSET_MAX {
                let text = format!("operator set {version} is newer than {OPSET_MAX}");
                self.found.push(Code::OnnxVersion, place, text);
            }
            let twin = if domain.is_empty() { "ai.onnx" } else { "" };
            // As the checker and the runtimes do.
            let doubled = standard && opsets.remove(twin).is_some();
            if opsets.insert(domain, version).is_some() || doubled {
                self.found.note("a domain is imported twice; the last version named counts");
            }
        }
        opsets
    }

    fn functions(&mut self, protos: Vec<FunctionProto>, place: &ModelPath<'_>) -> Vec<Function> {
        let mut seen = HashSet::new();
        let mut functions = Vec::with_capacity(protos.len());
        self.in_function = true;
        for proto in protos {
            let name = proto.name.clone().unwrap_or_default();
            let place = place.at(PathLink::Function(&name));
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, &place, "the function has no name");
            }
            let function = self.function(proto, &place);
            let key = (function.domain.clone(), name.clone(), function.overload.clone());
            if !seen.insert(key) {
                self.found.push(Code::OnnxInvalid, &place, "the function is defined twice");
            }
            functions.push(function);
        }
        self.in_function = false;
        functions
    }

    fn function(&mut self, proto: FunctionProto, place: &ModelPath<'_>) -> Function {
        let opsets = self.opsets(proto.opset_import, false, place);
        let name = proto.name.as_deref().unwrap_or_default();
        self.open(name, proto.value_info.into(), vec![], place);
        for name in &proto.input {
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, place, "an input of the function has no name");
                continue;
            }
            let id = self.define(name, place);
            if self.graph()[id].origin() == onnxd_ir::Origin::None {
                self.graph().mark_input(id);
            }
        }
        let defaults = self.attributes(proto.attribute_proto, place);
        self.nodes(proto.node.into(), place);
        self.outputs(&proto.output, place);
        Function {
            domain: proto.domain.unwrap_or_default(),
            name: proto.name.unwrap_or_default(),
            overload: proto.overload.unwrap_or_default(),
            attributes: proto.attribute,
            defaults,
            opsets,
            graph: self.close(),
            doc: proto.doc_string.unwrap_or_default(),
            metadata: from_entries(proto.metadata_props),
        }
    }
}
