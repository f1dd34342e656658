//! Nodes of any operator on any inputs: attributes and tensors are chosen by the bytes, with a
//! preference for what is at an edge.

use onnxd_ir::schema::{self, OpSchema};
use onnxd_ir::{Attr, DataType, Graph, Node, Tensor};
use std::sync::OnceLock;

const INTS: [i64; 16] =
    [0, 1, 2, 3, 1, 2, -1, 4, -2, 7, 64, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN];
const FLOATS: [f32; 12] =
    [0.0, 1.0, 2.0, 0.5, -1.0, 3.0, 100.0, 1e30, -1e30, 1e-30, f32::INFINITY, f32::NAN];
const WORDS: &str = "constant reflect edge wrap nearest linear cubic bilinear NOTSET SAME_UPPER \
    SAME_LOWER VALID ij,jk->ik ...i,i-> ii->i forward reverse bidirectional Tanh Relu mean sum \
    none DCR CRD asymmetric align_corners half_pixel tf_crop_and_resize floor ceil add mul max \
    TF TFIDF IDF LOWER [a-z]+ \\w L1 LINEAR avg output_half_pixel pytorch_half_pixel";

pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn int(&mut self) -> i64 {
        INTS[self.byte() % INTS.len()]
    }

    fn float(&mut self) -> f32 {
        FLOATS[self.byte() % FLOATS.len()]
    }

    fn word(&mut self) -> bytes::Bytes {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        words[self.byte() % words.len()].to_owned().into()
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % 6).map(|_| item(self)).collect()
    }

    fn tensor(&mut self) -> Option<Tensor> {
        let kind = self.byte();
        let mut dims: Vec<usize> = (0..kind / 16 % 5).map(|_| self.byte() % 5).collect();
        if kind >= 240 && dims.contains(&0) {
            dims.push(1 << 40); // no elements, yet a size to walk along
        }
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let count = if dims.contains(&0) { 0 } else { count? };
        let dtype = match kind % 8 {
            0..=2 => DataType::Float,
            3..=5 => DataType::Int64,
            _ => DataType::from_number(1 + (self.byte() % 16) as i32)?,
        };
        match dtype {
            DataType::Float => {
                Some(Tensor::from_vec(dims, (0..count).map(|_| self.float()).collect()))
            }
            DataType::Int64 => {
                Some(Tensor::from_vec(dims, (0..count).map(|_| self.int()).collect()))
            }
            DataType::String => {
                let strings = (0..count).map(|_| self.word()).collect();
                Tensor::strings(dims, strings).ok()
            }
            _ => {
                let bytes = (0..dtype.byte_len(count)?).map(|_| self.byte() as u8);
                Tensor::new(dtype, dims, bytes.collect::<Vec<u8>>().into()).ok()
            }
        }
    }

    /// A value of the attribute type with this number.
    fn attr(&mut self, kind: i32) -> Option<Attr> {
        Some(match kind {
            1 => Attr::Float(self.float()),
            2 => Attr::Int(self.int()),
            3 => Attr::Str(self.word()),
            4 => Attr::Tensor(self.tensor()?),
            6 => Attr::Floats(self.list(Self::float)),
            7 => Attr::Ints(self.list(Self::int)),
            8 => Attr::Strs(self.list(Self::word)),
            _ => return None,
        })
    }
}

fn operators() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names: Vec<&str> = schema::operators("").collect();
        names.sort_unstable();
        names
    })
}

/// A node, the graph that it is in, and what it reads.
// Each target reads its own part.
#[allow(dead_code)]
pub struct Applied {
    pub graph: Graph,
    pub node: Node,
    pub schema: &'static OpSchema,
    pub opset: i64,
    pub inputs: Vec<Option<Tensor>>,
}

/// A node as the bytes say, not yet added to its graph.
pub fn applied(source: &mut Source) -> Option<Applied> {
    let op = operators()[(source.byte() | source.byte() << 8) % operators().len()];
    let opset = schema::max_opset() - (source.byte() % schema::max_opset() as usize) as i64;
    let schema = schema::find("", op, opset)?;
    let mut graph = Graph::new("g");
    let most = schema.inputs_max.min(schema.inputs_min + 3).max(schema.inputs_min);
    let count = schema.inputs_min + source.byte() % (most - schema.inputs_min + 1);
    let inputs: Vec<Option<Tensor>> = (0..count)
        .map(|i| {
            if i < schema.inputs_min || !source.byte().is_multiple_of(4) {
                source.tensor()
            } else {
                None
            }
        })
        .collect();
    let names = (0..).map(|i| format!("x{i}"));
    let ins = inputs.iter().zip(names).map(|(x, n)| x.as_ref().map(|_| graph.add_value(&n, None)));
    let ins = ins.collect();
    let count = schema.outputs_max.min(4);
    let outs: Vec<_> = (0..count).map(|i| graph.add_value(&format!("y{i}"), None)).collect();
    let mut node = Node { inputs: ins, ..Node::new(op, [], outs) };
    for known in &schema.attributes {
        if (known.required || source.byte().is_multiple_of(2))
            && let Some(value) = source.attr(known.kind)
        {
            node.attrs.push((known.name.to_owned(), value));
        }
    }
    Some(Applied { graph, node, schema, opset, inputs })
}
