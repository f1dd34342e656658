//! Where the data of a tensor goes when a model is encoded.

use crate::external::HANDLE_KEY;
use crate::metadata::entry;
use bytes::Bytes;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::Tensor;
use onnxd_proto::onnx::tensor_proto::DataLocation;
use onnxd_proto::onnx::{StringStringEntryProto, TensorProto};

/// Where the bytes of one tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the message, as `raw_data` that shares the tensor's memory; a derived tensor is computed.
    Inline,
    /// In the message, by bytes that stand for the elements until they are written.
    StandIn(Bytes),
    /// In a file beside the model.
    External {
        /// Path relative to the model's folder.
        location: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// With the host, under this id.
    Handle(u64),
}

/// Decides where tensors go. It is asked once for every tensor that has at least one element of a
/// fixed size, in the order in which they stand in the message; strings are always inline.
pub trait TensorSink {
    /// Stores the tensor if it is not to be inline, and says where it is.
    ///
    /// # Errors
    /// Why it could not be stored; encoding ends with it.
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic>;
}

impl<F: FnMut(&Tensor) -> Result<Placement, Diagnostic>> TensorSink for F {
    fn place(&mut self, tensor: &Tensor) -> Result<Placement, Diagnostic> {
        self(tensor)
    }
}

/// Keeps all tensors in the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl TensorSink for Inline {
    fn place(&mut self, _: &Tensor) -> Result<Placement, Diagnostic> {
        Ok(Placement::Inline)
    }
}

/// The tensor as a message, its data where the sink wants it.
pub(crate) fn tensor_to_proto(
    tensor: &Tensor,
    name: Option<String>,
    sink: &mut dyn TensorSink,
) -> Result<TensorProto, Diagnostic> {
    let mut proto = TensorProto {
        dims: tensor.dims().iter().map(|d| *d as i64).collect(),
        data_type: Some(tensor.dtype().number()),
        name,
        ..TensorProto::default()
    };
    if let Some(strings) = tensor.as_strings() {
        proto.string_data = strings.to_vec();
        return Ok(proto);
    }
    let placement = if tensor.is_empty() { Placement::Inline } else { sink.place(tensor)? };
    match placement {
        Placement::Inline => proto.raw_data = Some(tensor.bytes()),
        Placement::StandIn(bytes) => proto.raw_data = Some(bytes),
        Placement::External { location, offset, length } => {
            let entries = vec![
                entry("location", location),
                entry("offset", offset.to_string()),
                entry("length", length.to_string()),
            ];
            elsewhere(&mut proto, entries);
        }
        Placement::Handle(id) => elsewhere(&mut proto, vec![entry(HANDLE_KEY, id.to_string())]),
    }
    Ok(proto)
}

fn elsewhere(proto: &mut TensorProto, entries: Vec<StringStringEntryProto>) {
    proto.external_data = entries;
    proto.data_location = Some(DataLocation::External as i32);
}
