//! From the IR to an ONNX model. Nodes are written in topological order, and only what is used.

mod graph;
mod node;
mod types;

use crate::metadata::to_entries;
use crate::packed::{Encoded, Fields};
use crate::sink::TensorSink;
use bytes::Bytes;
use graph::GraphLevel;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Function, Model, Opsets};
use onnxd_proto::onnx::{FunctionProto, ModelProto, OperatorSetIdProto};

/// The model as a message; tensor data goes where `sink` wants it.
///
/// Names of values are kept, but for a name of a sub-graph that is already taken around it, which
/// gets a number. A graph without a name is called `graph`. A sub-graph that lists a captured value
/// as its output gets an `Identity`, because ONNX allows only values of its own there.
///
/// # Errors
/// What the sink answers; N0901 if the graph has a cycle or reads what nothing produces; N0213 if
/// graphs are nested too deep to be read again.
pub fn to_proto(model: &Model, sink: &mut dyn TensorSink) -> Result<ModelProto, Diagnostic> {
    let mut encoder = Encoder { sink, levels: Vec::new() };
    let graph = Some(encoder.graph(&model.graph)?);
    Ok(ModelProto { graph, ..encoder.around(model)? })
}

/// As [`to_proto`], in a form that takes little memory.
pub(crate) fn to_packed(model: &Model, sink: &mut dyn TensorSink) -> Result<Encoded, Diagnostic> {
    let mut encoder = Encoder { sink, levels: Vec::new() };
    let mut fields = Fields::default();
    let graph = encoder.graph_into(&model.graph, &mut fields)?;
    Ok(Encoded { model: encoder.around(model)?, graph, fields })
}

/// The encoded message of [`to_proto`].
///
/// # Errors
/// As [`to_proto`].
pub fn encode_to_bytes(model: &Model, sink: &mut dyn TensorSink) -> Result<Bytes, Diagnostic> {
    let encoded = to_packed(model, sink)?;
    let mut bytes = Vec::with_capacity(encoded.encoded_len());
    encoded.encode(&mut bytes);
    Ok(Bytes::from(bytes))
}

/// The state of one encoding.
struct Encoder<'a, 's> {
    sink: &'s mut dyn TensorSink,
    /// The graphs that are being written, outermost first.
    levels: Vec<GraphLevel<'a>>,
}

impl<'a> Encoder<'a, '_> {
    /// The model without its graph.
    fn around(&mut self, model: &'a Model) -> Result<ModelProto, Diagnostic> {
        let functions = model.functions.iter().map(|f| self.function(f));
        Ok(ModelProto {
            functions: functions.collect::<Result<_, _>>()?,
            ir_version: Some(model.ir_version),
            opset_import: opsets(&model.opsets),
            producer_name: text(&model.producer_name),
            producer_version: text(&model.producer_version),
            domain: text(&model.domain),
            model_version: Some(model.model_version).filter(|v| *v != 0),
            doc_string: text(&model.doc),
            metadata_props: to_entries(&model.metadata),
            ..ModelProto::default()
        })
    }

    fn function(&mut self, function: &'a Function) -> Result<FunctionProto, Diagnostic> {
        self.open(&function.graph)?;
        let inputs = self.define_inputs();
        if inputs.iter().any(|id| graph::has_data(&function.graph, *id)) {
            let text = format!("an input of function `{}` has an initializer", function.name);
            return Err(broken(text));
        }
        let (initializers, sparse) = self.initializers()?;
        // A function cannot hold initializers, so they become `Constant` nodes.
        let mut nodes = node::constants(initializers, sparse);
        self.nodes(&mut |node| nodes.push(node))?;
        let outputs = self.outputs(&mut |node| nodes.push(node))?;
        let mut proto = FunctionProto {
            name: text(&function.name),
            domain: text(&function.domain),
            overload: text(&function.overload),
            input: inputs.iter().map(|id| self.name(*id).to_owned()).collect(),
            output: outputs.into_iter().map(|(_, name)| name).collect(),
            attribute: function.attributes.clone(),
            attribute_proto: self.attributes(&function.defaults)?,
            node: nodes,
            doc_string: text(&function.doc),
            opset_import: opsets(&function.opsets),
            value_info: Vec::new(),
            metadata_props: to_entries(&function.metadata),
        };
        self.close(&mut |info| proto.value_info.push(info));
        Ok(proto)
    }
}

/// The text, absent if empty.
fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn opsets(opsets: &Opsets) -> Vec<OperatorSetIdProto> {
    let import = |(domain, version): (&String, &i64)| OperatorSetIdProto {
        domain: Some(domain.clone()),
        version: Some(*version),
    };
    opsets.iter().map(import).collect()
}

fn broken(text: String) -> Diagnostic {
    Diagnostic::new(Code::InvariantBroken, text)
}
