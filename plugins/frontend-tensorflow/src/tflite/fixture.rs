//! Small TFLite files for tests.

use super::network::{Asked, import};
use bytes::Bytes;
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::ir::text::print_graph;

/// A field of a table.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    I8(i8),
    Bool(bool),
    I32(i32),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Bytes(Vec<u8>),
    Text(String),
    Table(Fields),
    Tables(Vec<Fields>),
    /// An offset that leads where it says.
    Offset(u32),
}

/// Fields by their numbers.
pub(crate) type Fields = Vec<(usize, Field)>;

fn table(out: &mut Vec<u8>, fields: &Fields) -> usize {
    let slots = fields.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let vtable = out.len();
    out.resize(vtable + 4 + 2 * slots, 0);
    let at = out.len();
    out.extend(((at - vtable) as i32).to_le_bytes());
    let mut open = vec![];
    for (slot, field) in fields {
        let place = ((out.len() - at) as u16).to_le_bytes();
        out[vtable + 4 + 2 * slot..][..2].copy_from_slice(&place);
        match field {
            Field::I8(x) => out.extend(x.to_le_bytes()),
            Field::Bool(x) => out.push(u8::from(*x)),
            Field::I32(x) => out.extend(x.to_le_bytes()),
            Field::Offset(x) => out.extend(x.to_le_bytes()),
            other => {
                open.push((out.len(), other));
                out.extend([0; 4]);
            }
        }
    }
    let sizes = [(4 + 2 * slots) as u16, (out.len() - at) as u16];
    out[vtable..vtable + 2].copy_from_slice(&sizes[0].to_le_bytes());
    out[vtable + 2..vtable + 4].copy_from_slice(&sizes[1].to_le_bytes());
    for (place, field) in open {
        let to = target(out, field);
        point(out, place, to);
    }
    at
}

fn point(out: &mut [u8], place: usize, to: usize) {
    out[place..place + 4].copy_from_slice(&((to - place) as u32).to_le_bytes());
}

/// Writes what an offset leads to.
fn target(out: &mut Vec<u8>, field: &Field) -> usize {
    let (count, bytes): (usize, Vec<u8>) = match field {
        Field::Table(fields) => return table(out, fields),
        Field::Tables(all) => {
            let at = out.len();
            out.extend((all.len() as u32).to_le_bytes());
            out.resize(at + 4 + 4 * all.len(), 0);
            for (i, fields) in all.iter().enumerate() {
                let to = table(out, fields);
                point(out, at + 4 + 4 * i, to);
            }
            return at;
        }
        Field::Ints(all) => (all.len(), all.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Field::Longs(all) => (all.len(), all.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Field::Floats(all) => (all.len(), all.iter().flat_map(|x| x.to_le_bytes()).collect()),
        Field::Bytes(all) => (all.len(), all.clone()),
        Field::Text(text) => (text.len(), text.as_bytes().to_vec()),
        other => unreachable!("{other:?} is no offset"),
    };
    let at = out.len();
    out.extend((count as u32).to_le_bytes());
    out.extend(bytes);
    at
}

/// A file.
pub(crate) fn file(root: &Fields) -> Bytes {
    let mut out = b"\0\0\0\0TFL3".to_vec();
    let at = table(&mut out, root);
    point(&mut out, 0, at);
    out.into()
}

/// A model: graphs, the codes that their operators have, constants (their numbers count from 1 on) and signatures.
#[derive(Default)]
pub(crate) struct Lite {
    pub(crate) codes: Vec<(i32, &'static str)>,
    pub(crate) constants: Vec<Vec<u8>>,
    pub(crate) graphs: Vec<Fields>,
    pub(crate) signatures: Vec<Fields>,
}

impl Lite {
    pub(crate) fn bytes(&self) -> Bytes {
        let code = |(code, custom): &(i32, &str)| {
            let old = i8::try_from(*code).unwrap_or(127);
            vec![(0, Field::I8(old)), (1, Field::Text((*custom).into())), (3, Field::I32(*code))]
        };
        let empty = vec![vec![]];
        let constants = self.constants.iter().map(|data| vec![(0, Field::Bytes(data.clone()))]);
        file(&vec![
            (0, Field::I32(3)),
            (1, Field::Tables(self.codes.iter().map(code).collect())),
            (2, Field::Tables(self.graphs.clone())),
            (4, Field::Tables(empty.into_iter().chain(constants).collect())),
            (7, Field::Tables(self.signatures.clone())),
        ])
    }
}

pub(crate) const FLOAT: i8 = 0;
pub(crate) const INT32: i8 = 2;
pub(crate) const UINT8: i8 = 3;
pub(crate) const INT64: i8 = 4;
pub(crate) const BOOL: i8 = 6;
pub(crate) const INT16: i8 = 7;
pub(crate) const INT8: i8 = 9;
pub(crate) const RESOURCE: i8 = 13;

/// A tensor; `constant` is its number, 0 for none.
pub(crate) fn tensor(name: &str, dtype: i8, dims: &[i32], constant: i32) -> Fields {
    vec![
        (0, Field::Ints(dims.to_vec())),
        (1, Field::I8(dtype)),
        (2, Field::I32(constant)),
        (3, Field::Text(name.into())),
        (8, Field::Bool(true)),
    ]
}

/// A tensor with scales and zero points along an axis.
pub(crate) fn quantized(mut tensor: Fields, scales: &[f32], zeros: &[i64], axis: i32) -> Fields {
    let fields = vec![
        (2, Field::Floats(scales.to_vec())),
        (3, Field::Longs(zeros.to_vec())),
        (6, Field::I32(axis)),
    ];
    tensor.push((4, Field::Table(fields)));
    tensor
}

/// An operator by the place of its code, with options.
pub(crate) fn operator(code: i32, inputs: &[i32], outputs: &[i32], options: Fields) -> Fields {
    vec![
        (0, Field::I32(code)),
        (1, Field::Ints(inputs.to_vec())),
        (2, Field::Ints(outputs.to_vec())),
        (4, Field::Table(options)),
    ]
}

pub(crate) fn graph(
    tensors: Vec<Fields>,
    [inputs, outputs]: [&[i32]; 2],
    operators: Vec<Fields>,
) -> Fields {
    vec![
        (0, Field::Tables(tensors)),
        (1, Field::Ints(inputs.to_vec())),
        (2, Field::Ints(outputs.to_vec())),
        (3, Field::Tables(operators)),
        (4, Field::Text("main".into())),
    ]
}

/// A signature of the first graph: names and tensors that go in and come out.
pub(crate) fn signature(key: &str, inputs: &[(&str, i32)], outputs: &[(&str, i32)]) -> Fields {
    let entries = |all: &[(&str, i32)]| {
        let entry = |(name, index): &(&str, i32)| {
            vec![(0, Field::Text((*name).into())), (1, Field::I32(*index))]
        };
        Field::Tables(all.iter().map(entry).collect())
    };
    vec![(0, entries(inputs)), (1, entries(outputs)), (2, Field::Text(key.into()))]
}

/// A converted file as text, or its findings.
pub(crate) fn converted(bytes: &Bytes, opset: i64) -> Result<String, String> {
    let mut options = ExportOptions::of_shapes(opset, vec![]);
    let asked = Asked { opset_is_set: true, ..Asked::default() };
    let read = import(bytes, asked, &mut options);
    let shown = |all: Vec<_>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    read.map(|done| print_graph(&done.model.graph)).map_err(|found| shown(found.0))
}

pub(crate) fn text(lite: &Lite) -> String {
    converted(&lite.bytes(), 18).expect("a file that converts")
}

/// The one finding of a file.
pub(crate) fn problem(lite: &Lite) -> String {
    let found = converted(&lite.bytes(), 18).unwrap_err();
    assert_eq!(found.lines().count(), 1, "{found}");
    found
}

/// A graph of one operator that reads the first tensor and gives the last one; those between are constants.
pub(crate) fn single(
    code: i32,
    tensors: Vec<Fields>,
    constants: Vec<Vec<u8>>,
    options: Fields,
) -> Lite {
    let last = tensors.len() as i32 - 1;
    let inputs: Vec<i32> = (0..last).collect();
    let node = operator(0, &inputs, &[last], options);
    Lite {
        codes: vec![(code, "")],
        constants,
        graphs: vec![graph(tensors, [&[0], &[last]], vec![node])],
        ..Lite::default()
    }
}

pub(crate) fn int32s(all: &[i32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub(crate) fn int64s(all: &[i64]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}
