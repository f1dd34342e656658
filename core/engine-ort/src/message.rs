//! The model as ONNX Runtime reads it: weights beside the message, and more outputs if asked for.

use crate::value::held;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::Model;
use onnxd_onnx::{Inline, to_proto};
use onnxd_proto::onnx::tensor_proto::DataLocation;
use onnxd_proto::onnx::{ModelProto, StringStringEntryProto, TensorProto, ValueInfoProto};
use ort::value::DynValue;
use prost::Message as _;
use std::collections::HashSet;
use std::sync::Arc;

/// Weights of at least this size are given beside the message; smaller ones may describe shapes,
/// which have to be in it.
const EXTERNAL_BYTES_MIN: usize = 4 << 10;

/// A model in parts.
pub(crate) struct Message {
    proto: ModelProto,
    /// Weights that are not in the message.
    pub(crate) weights: Vec<(String, Arc<DynValue>)>,
}

impl Message {
    pub(crate) fn new(model: &Model) -> Result<Message, Diagnostic> {
        let mut proto = to_proto(model, &mut Inline)?;
        let mut weights = Vec::new();
        if let Some(graph) = &mut proto.graph {
            let inputs: HashSet<&str> =
                graph.input.iter().filter_map(|v| v.name.as_deref()).collect();
            for tensor in &mut graph.initializer {
                let Some(name) = tensor.name.clone() else { continue };
                let large = tensor.raw_data.as_ref().is_some_and(|d| d.len() >= EXTERNAL_BYTES_MIN);
                let id = model.graph.value_named(&name).filter(|_| large);
                let Some(data) = id.and_then(|v| model.graph[v].initializer()) else { continue };
                if inputs.contains(&*name) {
                    continue;
                }
                if let Some(value) = held(data)? {
                    make_external(tensor, data.byte_len());
                    weights.push((name, Arc::new(value)));
                }
            }
        }
        Ok(Message { proto, weights })
    }

    /// The message of a model with these outputs, and with its own first if `own`.
    pub(crate) fn with_outputs(&self, own: bool, more: &[String]) -> Vec<u8> {
        let mut proto = self.proto.clone();
        if let Some(graph) = &mut proto.graph {
            if !own {
                graph.output.clear();
            }
            for name in more {
                let known = graph.value_info.iter().find(|v| v.name.as_ref() == Some(name));
                let unknown = || ValueInfoProto { name: Some(name.clone()), ..Default::default() };
                graph.output.push(known.cloned().unwrap_or_else(unknown));
            }
        }
        proto.encode_to_vec()
    }
}

/// Takes the data out of the message.
fn make_external(tensor: &mut TensorProto, bytes: usize) {
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    tensor.raw_data = None;
    tensor.external_data =
        vec![entry("location", "given"), entry("offset", "0"), entry("length", &bytes.to_string())];
    tensor.data_location = Some(DataLocation::External as i32);
}
