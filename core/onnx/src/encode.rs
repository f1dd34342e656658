//! From the IR to an ONNX model. Nodes are written in topological order, and only what is used.

mod graph;
mod node;
mod types;

use crate::metadata::to_entries;
use crate::sink::TensorSink;
use bytes::Bytes;
use graph::Level;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Function, Model, Opsets};
use onnxd_proto::onnx::{FunctionProto, ModelProto, OperatorSetIdProto};
use prost::Message;

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
    Ok(ModelProto {
        ir_version: Some(model.ir_version),
        opset_import: opsets(&model.opsets),
        producer_name: text(&model.producer_name),
        producer_version: text(&model.producer_version),
        domain: text(&model.domain),
        model_version: Some(model.model_version).filter(|v| *v != 0),
        doc_string: text(&model.doc),
        graph: Some(encoder.graph(&model.graph)?),
        metadata_props: to_entries(&model.metadata),
        functions: model.functions.iter().map(|f| encoder.function(f)).collect::<Result<_, _>>()?,
        ..ModelProto::default()
    })
}

/// The encoded message of [`to_proto`].
///
/// # Errors
/// As [`to_proto`].
pub fn encode_to_bytes(model: &Model, sink: &mut dyn TensorSink) -> Result<Bytes, Diagnostic> {
    Ok(Bytes::from(to_proto(model, sink)?.encode_to_vec()))
}

/// The state of one encoding.
struct Encoder<'a, 's> {
    sink: &'s mut dyn TensorSink,
    /// The graphs that are being written, outermost first.
    levels: Vec<Level<'a>>,
}

impl<'a> Encoder<'a, '_> {
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
        nodes.extend(self.nodes()?);
        let outputs = self.outputs(&mut nodes)?;
        Ok(FunctionProto {
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
            value_info: self.close(),
            metadata_props: to_entries(&function.metadata),
        })
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
