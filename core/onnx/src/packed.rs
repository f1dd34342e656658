//! A model whose main graph keeps its nodes and value infos encoded: as messages they take twenty
//! times the memory, so they are read, and made, one at a time.

use crate::wire;
use bytes::{BufMut, Bytes};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnx::{GraphProto, ModelProto, NodeProto, ValueInfoProto};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use std::collections::{BTreeSet, VecDeque};

/// `ModelProto.graph`.
const GRAPH: u32 = 7;
/// `GraphProto.node`.
const NODE: u32 = 1;
/// `GraphProto.initializer`.
const INITIALIZER: u32 = 5;
/// `TensorProto.name`.
const TENSOR_NAME: u32 = 8;
/// `GraphProto.value_info`.
const VALUE_INFO: u32 = 13;

/// Messages from this size on stay messages: they may hold tensors, which are not to be copied.
pub(crate) const LARGE_BYTES: usize = 16 << 10;

fn malformed(error: &prost::DecodeError) -> Diagnostic {
    Diagnostic::new(Code::OnnxMalformed, error.to_string())
}

/// Some messages of one kind, encoded or not.
pub(crate) enum Repeated<M> {
    Encoded(VecDeque<Bytes>),
    Plain(VecDeque<M>),
}

impl<M: Message + Default> Repeated<M> {
    /// Takes the first message.
    ///
    /// # Errors
    /// If it is malformed.
    pub(crate) fn next(&mut self) -> Option<Result<M, Diagnostic>> {
        match self {
            Repeated::Encoded(list) => {
                let bytes = list.pop_front()?;
                Some(M::decode(bytes).map_err(|error| malformed(&error)))
            }
            Repeated::Plain(list) => list.pop_front().map(Ok),
        }
    }

    /// As `next`, with a form in which the message takes little memory.
    pub(crate) fn next_kept(&mut self) -> Option<Result<(M, KeptMessage<M>), Diagnostic>>
    where
        M: Clone,
    {
        match self {
            Repeated::Encoded(list) => {
                let bytes = list.pop_front()?;
                let message = M::decode(bytes.clone()).map_err(|error| malformed(&error));
                Some(message.map(|message| (message, KeptMessage::Encoded(bytes))))
            }
            Repeated::Plain(list) => {
                let message = list.pop_front()?;
                Some(Ok((message.clone(), KeptMessage::Plain(Box::new(message)))))
            }
        }
    }

    /// Calls `f` for all that are left.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&M)) {
        match self {
            // What is malformed is found when it is taken.
            Repeated::Encoded(list) => {
                list.iter().filter_map(|b| M::decode(b.clone()).ok()).for_each(|m| f(&m));
            }
            Repeated::Plain(list) => list.iter().for_each(f),
        }
    }
}

/// A message that is needed later.
pub(crate) enum KeptMessage<M> {
    Encoded(Bytes),
    Plain(Box<M>),
}

impl<M: Message + Default> KeptMessage<M> {
    pub(crate) fn open(self) -> M {
        match self {
            KeptMessage::Encoded(bytes) => M::decode(bytes).expect("it was decoded before"),
            KeptMessage::Plain(message) => *message,
        }
    }
}

impl<M> From<Vec<M>> for Repeated<M> {
    fn from(list: Vec<M>) -> Repeated<M> {
        Repeated::Plain(list.into())
    }
}

/// A model as it is read: its graph has neither nodes nor value infos.
pub(crate) struct PackedModel {
    pub(crate) model: ModelProto,
    pub(crate) nodes: Repeated<NodeProto>,
    pub(crate) value_info: Repeated<ValueInfoProto>,
}

impl PackedModel {
    /// Takes an encoded `ModelProto` apart, whose structure was checked.
    pub(crate) fn decode(bytes: Bytes) -> Result<PackedModel, Diagnostic> {
        let mut model = ModelProto::default();
        let (mut nodes, mut infos) = (VecDeque::new(), VecDeque::new());
        for field in wire::fields(bytes) {
            if field.number != GRAPH {
                model.merge(field.whole).map_err(|error| malformed(&error))?;
                continue;
            }
            let graph = model.graph.get_or_insert_default();
            for part in wire::fields(field.content) {
                match part.number {
                    NODE => nodes.push_back(part.content),
                    VALUE_INFO => infos.push_back(part.content),
                    _ => graph.merge(part.whole).map_err(|error| malformed(&error))?,
                }
            }
        }
        let (nodes, value_info) = (Repeated::Encoded(nodes), Repeated::Encoded(infos));
        Ok(PackedModel { model, nodes, value_info })
    }
}

impl From<ModelProto> for PackedModel {
    fn from(mut model: ModelProto) -> PackedModel {
        let graph = model.graph.as_mut();
        let lists = graph.map(|g| (std::mem::take(&mut g.node), std::mem::take(&mut g.value_info)));
        let (nodes, infos) = lists.unwrap_or_default();
        PackedModel { model, nodes: nodes.into(), value_info: infos.into() }
    }
}

/// An encoded `ModelProto` without some initializers of its main graph. Nothing else of it is taken apart.
///
/// # Errors
/// N0501 (no protobuf), N0213 (a limit).
pub fn without_initializers(bytes: Bytes, names: &BTreeSet<&str>) -> Result<Bytes, Diagnostic> {
    wire::check(&bytes)?;
    let mut rest = Vec::with_capacity(bytes.len());
    for field in wire::fields(bytes) {
        if field.number != GRAPH {
            rest.put(field.whole);
            continue;
        }
        let stays =
            |part: &wire::MessageField| part.number != INITIALIZER || !is_named(part, names);
        let parts: Vec<wire::MessageField> = wire::fields(field.content).filter(stays).collect();
        let len: usize = parts.iter().map(|part| part.whole.len()).sum();
        encode_key(GRAPH, WireType::LengthDelimited, &mut rest);
        encode_varint(len as u64, &mut rest);
        parts.into_iter().for_each(|part| rest.put(part.whole));
    }
    Ok(rest.into())
}

/// Whether the encoded tensor of a field has one of these names.
fn is_named(tensor: &wire::MessageField, names: &BTreeSet<&str>) -> bool {
    let name =
        wire::fields(tensor.content.clone()).filter(|part| part.number == TENSOR_NAME).last();
    let name = name.as_ref().and_then(|name| std::str::from_utf8(&name.content).ok());
    names.contains(name.unwrap_or_default())
}

/// Fields of a graph as they are written.
enum Chunk {
    Bytes(Vec<u8>),
    Node(Box<NodeProto>),
}

/// The nodes and value infos of a main graph, as they are written.
#[derive(Default)]
pub(crate) struct Fields {
    chunks: Vec<Chunk>,
    len: usize,
}

impl Fields {
    fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.chunks.last(), Some(Chunk::Bytes(_))) {
            self.chunks.push(Chunk::Bytes(Vec::new()));
        }
        match self.chunks.last_mut() {
            Some(Chunk::Bytes(bytes)) => bytes,
            _ => unreachable!("a chunk of bytes is the last one"),
        }
    }

    pub(crate) fn push_node(&mut self, node: NodeProto) {
        let len = node.encoded_len();
        self.len += message_len(NODE, len);
        if len < LARGE_BYTES {
            put(NODE, &node, len, self.bytes());
        } else {
            self.chunks.push(Chunk::Node(Box::new(node)));
        }
    }

    pub(crate) fn push_value_info(&mut self, info: &ValueInfoProto) {
        let len = info.encoded_len();
        self.len += message_len(VALUE_INFO, len);
        put(VALUE_INFO, info, len, self.bytes());
    }
}

/// A model as it is written: its graph is beside it.
pub(crate) struct Encoded {
    pub(crate) model: ModelProto,
    /// The graph without `fields`.
    pub(crate) graph: GraphProto,
    pub(crate) fields: Fields,
}

impl Encoded {
    fn graph_len(&self) -> usize {
        self.graph.encoded_len() + self.fields.len
    }

    pub(crate) fn encoded_len(&self) -> usize {
        self.model.encoded_len() + message_len(GRAPH, self.graph_len())
    }

    /// Writes the message, the graph last.
    pub(crate) fn encode(&self, buffer: &mut impl BufMut) {
        self.model.encode_raw(buffer);
        encode_key(GRAPH, WireType::LengthDelimited, buffer);
        encode_varint(self.graph_len() as u64, buffer);
        for chunk in &self.fields.chunks {
            match chunk {
                Chunk::Bytes(bytes) => buffer.put_slice(bytes),
                Chunk::Node(node) => put(NODE, node.as_ref(), node.encoded_len(), buffer),
            }
        }
        self.graph.encode_raw(buffer);
    }
}

/// Bytes of a field that holds a message of `len` bytes.
fn message_len(number: u32, len: usize) -> usize {
    key_len(number) + encoded_len_varint(len as u64) + len
}

fn put(number: u32, message: &impl Message, len: usize, buffer: &mut impl BufMut) {
    encode_key(number, WireType::LengthDelimited, buffer);
    encode_varint(len as u64, buffer);
    message.encode_raw(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnx::TensorProto;

    #[test]
    fn what_is_written_apart_is_read_as_one() {
        let node = |name: &str| NodeProto { name: Some(name.into()), ..NodeProto::default() };
        let graph = GraphProto {
            node: vec![node("a"), node(&"b".repeat(LARGE_BYTES)), node("c")],
            value_info: vec![ValueInfoProto { name: Some("v".into()), ..Default::default() }; 2],
            initializer: vec![TensorProto { name: Some("w".into()), ..Default::default() }],
            ..GraphProto::default()
        };
        let whole =
            ModelProto { graph: Some(graph.clone()), ir_version: Some(8), ..Default::default() };
        let mut fields = Fields::default();
        graph.node.iter().cloned().for_each(|n| fields.push_node(n));
        graph.value_info.iter().for_each(|info| fields.push_value_info(info));
        let rest = GraphProto { node: vec![], value_info: vec![], ..graph };
        let model = ModelProto { graph: None, ..whole.clone() };
        let encoded = Encoded { model, graph: rest.clone(), fields };
        let mut bytes = Vec::new();
        encoded.encode(&mut bytes);
        assert_eq!(bytes.len(), encoded.encoded_len());
        assert_eq!(ModelProto::decode(bytes.as_slice()).unwrap(), whole);

        let mut packed = PackedModel::decode(bytes.into()).unwrap();
        assert_eq!(packed.model.graph, Some(rest));
        let names = std::iter::from_fn(|| packed.nodes.next()).map(|n| n.unwrap().name.unwrap());
        assert_eq!(names.map(|n| n.len()).collect::<Vec<_>>(), [1, LARGE_BYTES, 1]);
    }

    #[test]
    fn initializers_are_taken_out() {
        let tensor = |name: &str| TensorProto {
            name: Some(name.into()),
            raw_data: Some(vec![1; 40].into()),
            ..TensorProto::default()
        };
        let mut graph = GraphProto {
            node: vec![NodeProto { name: Some("a".into()), ..NodeProto::default() }],
            initializer: vec![tensor("a"), tensor("b"), tensor("c")],
            ..GraphProto::default()
        };
        let model = |graph: &GraphProto| ModelProto {
            graph: Some(graph.clone()),
            ir_version: Some(8),
            ..ModelProto::default()
        };
        let bytes: Bytes = model(&graph).encode_to_vec().into();
        let rest = without_initializers(bytes.clone(), &["a", "c"].into()).unwrap();
        graph.initializer.retain(|tensor| tensor.name() == "b");
        assert_eq!(ModelProto::decode(rest).unwrap(), model(&graph));
        let damaged = bytes.slice(..bytes.len() - 3);
        assert!(without_initializers(damaged, &["a"].into()).is_err());
    }
}
