//! Small files of torch, made by tests.

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};
use bytes::Bytes;
use std::io::{Cursor, Write};

/// An archive of members; names that end with `.py` are deflated.
pub(crate) fn archive(members: &[(&str, &[u8])]) -> Bytes {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let method = match name.ends_with(".py") {
            true => CompressionMethod::Deflated,
            false => CompressionMethod::Stored,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("a buffer takes all of it");
        zip.write_all(bytes).expect("a buffer takes all of it");
    }
    zip.finish().expect("a buffer takes all of it").into_inner().into()
}

/// `torch.Size` and strides as they are pickled.
fn numbers(of: &[u8]) -> Vec<u8> {
    let items = of.iter().flat_map(|n| [b'K', *n]);
    [b'('].into_iter().chain(items).chain([b't']).collect()
}

pub(crate) fn text(of: &str) -> Vec<u8> {
    [&[0x8c, of.len() as u8], of.as_bytes()].concat()
}

/// A tensor of `count` elements in storage `key`.
pub(crate) fn tensor(ty: &str, key: &str, count: u8, place: (u8, &[u8], &[u8])) -> Vec<u8> {
    let global = format!("ctorch {ty}Storage").replace(' ', "\n") + "\n";
    [
        &b"ctorch._utils\n_rebuild_tensor_v2\n(("[..],
        &text("storage"),
        global.as_bytes(),
        &text(key),
        &text("cpu"),
        &[b'K', count, b't', b'Q', b'K', place.0],
        &numbers(place.1),
        &numbers(place.2),
        b"\x89)tR",
    ]
    .concat()
}

/// A dict with text keys.
pub(crate) fn dict(items: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let items = items.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
    b"}(".iter().copied().chain(items).chain([b'u']).collect()
}

/// An instance of a class with attributes.
pub(crate) fn object(module: &str, class: &str, attributes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    [format!("c{module}\n{class}\n)").as_bytes(), &[0x81], &dict(attributes), b"b"].concat()
}

/// A whole pickle.
pub(crate) fn pickle(value: &[u8]) -> Vec<u8> {
    [&[0x80, 2], value, b"."].concat()
}

pub(crate) fn floats(of: &[f32]) -> Vec<u8> {
    of.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A TorchScript archive: a weight, which is stored transposed, tied to another attribute.
pub(crate) fn script() -> Bytes {
    let weight = || tensor("Float", "0", 6, (0, &[3, 2], &[1, 3]));
    let inner = object("__torch__.net", "Inner", &[("weight", weight())]);
    let root = object("__torch__.net", "Net", &[("inner", inner), ("tied", weight())]);
    let constant = [tensor("Float", "0", 2, (1, &[1], &[1])), vec![0x85]].concat();
    archive(&[
        ("net/data.pkl", &pickle(&root)),
        ("net/data/0", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ("net/constants.pkl", &pickle(&constant)),
        ("net/constants/0", &floats(&[7.0, 8.0])),
        (
            "net/code/__torch__/net.py",
            b"class Net(Module):\n  pass\nclass Inner(Module):\n  pass\n",
        ),
        ("net/code/__torch__/net.py.debug_pkl", b"lines"),
        ("net/extra/labels.txt", b"cat"),
        ("net/version", b"3\n"),
    ])
}
