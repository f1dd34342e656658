//! Small files of torch, made by tests.

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};
use bytes::Bytes;
pub(crate) use onnxd_plugin_sdk::pickle::testing::{dict, floats, object, pickle, tensor, text};
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
