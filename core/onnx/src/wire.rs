//! A walk over the protobuf structure of a model before it is decoded: it names the byte where a
//! damaged file stops making sense, and bounds the memory that decoding would take.

use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnx;
use std::mem::size_of;

/// Messages inside each other; the decoder has the same limit.
const NESTING_MAX: usize = 100;
/// Memory of the decoded structure, tensor data not counted. A few bytes of protobuf become
/// hundreds in memory, so a small file could otherwise exhaust the machine.
const STRUCTURE_BYTES_MAX: usize = 1 << 29;
/// Local functions. Each is a graph with tables of its own, which take far more than the function's
/// message; exporters write some thousands.
const FUNCTIONS_MAX: usize = 100_000;
/// Nodes of all graphs and functions together; large language models have some 10,000. A conversion
/// takes about 2 KiB for each.
const NODES_MAX: usize = 250_000;
/// Bytes of a name: of values, nodes, operators, domains, attributes and sizes. Messages repeat names.
const NAME_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    TensorType,
    WrapperType,
    MapType,
    Shape,
    Dimension,
    Function,
    Training,
    Annotation,
    OperatorSet,
    Entry,
}

use Message::*;

/// The message that field `number` of `parent` holds.
fn child(parent: Message, number: u32) -> Option<Message> {
    Some(match (parent, number) {
        (Model, 7) | (Attribute, 6 | 11) | (Training, 1 | 2) => Graph,
        (Model, 8) | (Function, 9) => OperatorSet,
        (Model, 14) | (Graph, 16) | (Node, 9) | (Function, 14) | (ValueInfo, 4) => Entry,
        (Tensor, 13 | 16) | (Annotation, 2) | (Training, 3 | 4) => Entry,
        (Model, 20) => Training,
        (Model, 25) => Function,
        (Graph, 1) | (Function, 7) => Node,
        (Graph, 5) | (Attribute, 5 | 10) | (SparseTensor, 1 | 2) => Tensor,
        (Graph, 15) | (Attribute, 22 | 23) => SparseTensor,
        (Graph, 11..=13) | (Function, 12) => ValueInfo,
        (Graph, 14) => Annotation,
        (Node, 5) | (Function, 11) => Attribute,
        (Attribute, 14 | 15) | (ValueInfo, 2) | (WrapperType, 1) | (MapType, 2) => Type,
        (Type, 1 | 8) => TensorType,
        (Type, 4 | 9) => WrapperType,
        (Type, 5) => MapType,
        (TensorType, 2) => Shape,
        (Shape, 1) => Dimension,
        _ => return None,
    })
}

/// Whether field `number` of `parent` is a name.
fn is_name(parent: Message, number: u32) -> bool {
    match parent {
        Node => matches!(number, 1..=4 | 7 | 8),
        Attribute => matches!(number, 1 | 21),
        Graph => number == 2,
        ValueInfo | OperatorSet => number == 1,
        Tensor => number == 8,
        Dimension => number == 2,
        Function => matches!(number, 1 | 4 | 5 | 6 | 10),
        _ => false,
    }
}

/// Bytes one message takes in memory, the messages inside it not counted.
fn footprint(message: Message) -> usize {
    match message {
        Model => size_of::<onnx::ModelProto>(),
        Graph => size_of::<onnx::GraphProto>(),
        Node => size_of::<onnx::NodeProto>(),
        Attribute => size_of::<onnx::AttributeProto>(),
        Tensor => size_of::<onnx::TensorProto>(),
        SparseTensor => size_of::<onnx::SparseTensorProto>(),
        ValueInfo => size_of::<onnx::ValueInfoProto>(),
        Type => size_of::<onnx::TypeProto>(),
        TensorType | WrapperType | MapType | Shape => size_of::<onnx::type_proto::Tensor>(),
        Dimension => size_of::<onnx::tensor_shape_proto::Dimension>(),
        Function => size_of::<onnx::FunctionProto>(),
        Training => size_of::<onnx::TrainingInfoProto>(),
        Annotation => size_of::<onnx::TensorAnnotation>(),
        OperatorSet => size_of::<onnx::OperatorSetIdProto>(),
        Entry => size_of::<onnx::StringStringEntryProto>(),
    }
}

/// Bytes that one string, byte array or number takes in memory, beside its content.
const LEAF_BYTES: usize = size_of::<bytes::Bytes>();

struct MessageWalk<'a> {
    bytes: &'a [u8],
    structure_bytes: usize,
    functions: usize,
    nodes: usize,
}

impl<'a> MessageWalk<'a> {
    fn new(bytes: &'a [u8]) -> MessageWalk<'a> {
        MessageWalk { bytes, structure_bytes: 0, functions: 0, nodes: 0 }
    }
}

/// Checks the structure of an encoded `ModelProto`.
///
/// # Errors
/// N0501 with the byte offset where the structure breaks, N0213 if it exceeds a limit.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Diagnostic> {
    if bytes.is_empty() {
        return Err(Diagnostic::new(Code::OnnxMalformed, "the file is empty"));
    }
    MessageWalk::new(bytes).message(Model, 0, bytes.len(), 1)
}

/// One field of an encoded message.
pub(crate) struct MessageField {
    pub(crate) number: u32,
    /// With its key and, if it has one, its length.
    pub(crate) whole: Bytes,
    /// Without them.
    pub(crate) content: Bytes,
}

/// The fields of an encoded message whose structure was checked; they share its memory.
pub(crate) fn fields(bytes: Bytes) -> impl Iterator<Item = MessageField> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let (end, walk) = (bytes.len(), MessageWalk::new(&bytes));
        let mut at = start;
        let key = walk.varint(&mut at, end, Model).ok()?;
        let mut content = at;
        match key & 7 {
            0 => walk.varint(&mut at, end, Model).map(drop).ok()?,
            1 => walk.skip(&mut at, 8, end, Model).ok()?,
            5 => walk.skip(&mut at, 4, end, Model).ok()?,
            _ => {
                let length = walk.varint(&mut at, end, Model).ok()?;
                content = at;
                walk.skip(&mut at, length, end, Model).ok()?;
            }
        }
        let (whole, content) = (bytes.slice(start..at), bytes.slice(content..at));
        start = at;
        Some(MessageField { number: (key >> 3) as u32, whole, content })
    })
}

impl MessageWalk<'_> {
    fn message(
        &mut self,
        kind: Message,
        start: usize,
        end: usize,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        if depth > NESTING_MAX {
            return Err(limit(start, &format!("more than {NESTING_MAX} messages are nested")));
        }
        self.count(start, footprint(kind))?;
        self.functions += usize::from(kind == Function);
        if self.functions > FUNCTIONS_MAX {
            return Err(limit(start, &format!("more than {FUNCTIONS_MAX} local functions")));
        }
        self.nodes += usize::from(kind == Node);
        if self.nodes > NODES_MAX {
            return Err(limit(start, &format!("more than {NODES_MAX} nodes")));
        }
        let mut at = start;
        while at < end {
            let field = at;
            let key = self.varint(&mut at, end, kind)?;
            let number = u32::try_from(key >> 3).ok().filter(|n| (1..1 << 29).contains(n));
            let number = number.ok_or_else(|| malformed(field, kind, "is no field number"))?;
            let inner = child(kind, number);
            if inner.is_some() && key & 7 != 2 {
                return Err(malformed(field, kind, "is a number where a message must be"));
            }
            match key & 7 {
                0 => self.varint(&mut at, end, kind).map(drop)?,
                1 => self.skip(&mut at, 8, end, kind)?,
                5 => self.skip(&mut at, 4, end, kind)?,
                2 => {
                    let length = self.varint(&mut at, end, kind)?;
                    let content = at;
                    self.skip(&mut at, length, end, kind)?;
                    if at - content > NAME_BYTES_MAX && is_name(kind, number) {
                        let text = format!("a name of more than {NAME_BYTES_MAX} bytes");
                        return Err(limit(field, &text));
                    }
                    if let Some(inner) = inner {
                        self.message(inner, content, at, depth + 1)?;
                        continue;
                    }
                }
                _ => return Err(malformed(field, kind, "is no protobuf field")),
            }
            self.count(field, LEAF_BYTES)?;
        }
        Ok(())
    }

    fn count(&mut self, at: usize, bytes: usize) -> Result<(), Diagnostic> {
        self.structure_bytes += bytes;
        if self.structure_bytes > STRUCTURE_BYTES_MAX {
            let text = format!("the model's structure takes more than {STRUCTURE_BYTES_MAX} bytes");
            return Err(limit(at, &text));
        }
        Ok(())
    }

    fn varint(&self, at: &mut usize, end: usize, kind: Message) -> Result<u64, Diagnostic> {
        let start = *at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            if *at == end {
                return Err(malformed(start, kind, "is a number that ends early"));
            }
            let byte = self.bytes[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed(start, kind, "is a number of more than 64 bits"))
    }

    fn skip(
        &self,
        at: &mut usize,
        length: u64,
        end: usize,
        kind: Message,
    ) -> Result<(), Diagnostic> {
        let left = (end - *at) as u64;
        if length > left {
            let what = format!("should hold {length} bytes more, but {left} are left");
            return Err(malformed(*at, kind, &what));
        }
        *at += length as usize;
        Ok(())
    }
}

fn malformed(at: usize, kind: Message, what: &str) -> Diagnostic {
    let text = format!("the protobuf structure breaks at byte {at}: there, {kind:?} {what}");
    Diagnostic::new(Code::OnnxMalformed, text)
}

fn limit(at: usize, what: &str) -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, format!("{what} (at byte {at})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Vec<u8> {
        (0..levels).fold(Vec::new(), |inner, level| {
            // Attribute.g, Node.attribute, Graph.node: from the inside outwards.
            let key = [0x32u8, 0x2a, 0x0a][level % 3];
            let mut outer = vec![key];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend(inner);
            outer
        })
    }

    fn model(graph: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x3a];
        prost::encoding::encode_varint(graph.len() as u64, &mut bytes);
        bytes.extend(graph);
        bytes
    }

    #[test]
    fn nesting_is_limited() {
        assert_eq!(check(&model(&nested(96))), Ok(()));
        for levels in [99, 102, 900] {
            assert_eq!(check(&model(&nested(levels))).unwrap_err().code, "N0213");
        }
    }

    #[test]
    fn the_offset_of_the_damage_is_named() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "empty"),
            (&[0x3a, 5, 0x0a, 1], "at byte 2"),
            (&[0x08, 0x80], "at byte 1"),
            (&[0x08, 7, 0x3b], "at byte 2"),
            (&[0x38, 7], "at byte 0"),
            (&[0x3a, 2, 0x0a, 9], "at byte 4"),
            (&[0x00, 1], "at byte 0"),
        ];
        for (bytes, part) in cases {
            let error = check(bytes).unwrap_err();
            assert_eq!(error.code, "N0501");
            assert!(error.message.contains(part), "{bytes:?}: {}", error.message);
        }
    }

    #[test]
    fn small_files_cannot_demand_unbounded_memory() {
        let infos = [0x5a, 0].repeat(STRUCTURE_BYTES_MAX / size_of::<onnx::ValueInfoProto>() + 1);
        assert_eq!(check(&model(&infos)).unwrap_err().code, "N0213");
    }

    #[test]
    fn nodes_are_limited() {
        let nodes = |count| model(&[0x0a, 0].repeat(count));
        assert_eq!(check(&nodes(NODES_MAX)), Ok(()));
        let found = check(&nodes(NODES_MAX + 1)).unwrap_err();
        assert_eq!(found.code, "N0213");
        assert!(found.message.contains("250000 nodes"), "{}", found.message);
    }

    #[test]
    fn names_are_limited() {
        let node = |field: u8, bytes: usize| {
            let mut name = vec![field << 3 | 2];
            prost::encoding::encode_varint(bytes as u64, &mut name);
            name.resize(name.len() + bytes, b'n');
            let mut node = vec![0x0a];
            prost::encoding::encode_varint(name.len() as u64, &mut node);
            node.extend(name);
            model(&node)
        };
        for field in [1, 2, 3, 4, 7] {
            assert_eq!(check(&node(field, NAME_BYTES_MAX)), Ok(()));
            let found = check(&node(field, NAME_BYTES_MAX + 1)).unwrap_err();
            assert_eq!(found.code, "N0213", "{}", found.message);
        }
        assert_eq!(check(&node(6, NAME_BYTES_MAX + 1)), Ok(()), "a text is no name");
    }

    #[test]
    fn functions_are_limited() {
        let functions = |count| [0xca, 1, 0].repeat(count);
        assert_eq!(check(&functions(FUNCTIONS_MAX)), Ok(()));
        let found = check(&functions(FUNCTIONS_MAX + 1)).unwrap_err();
        assert_eq!(found.code, "N0213");
        assert!(found.message.contains("100000 local functions"), "{}", found.message);
    }
}
