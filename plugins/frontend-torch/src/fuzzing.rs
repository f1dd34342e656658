//! The front-end without a host, for the fuzz targets in `fuzz/`: files are byte slices.
//!
//! No promise is made about this module; plugins are used through their header.

use crate::archive::objects::ScriptArchive;
use crate::archive::zip::Archive;
use crate::options::TorchOptions;
use crate::{archive, outputs, program, script};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{Dim, Graph, Model};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const OPSET: i64 = 18;
/// Marks where the pickle of the module begins behind the code, and that of the constants behind it.
const MARK: &[u8] = b"\n==>\n";

/// Reads bytes as every kind of file.
pub fn file(bytes: &[u8]) {
    archive::fuzzing::file(bytes);
}

/// Reads bytes as a pickle.
pub fn pickle(bytes: &[u8]) {
    archive::fuzzing::pickle(bytes);
}

/// Reads bytes as printed code.
pub fn code(bytes: &[u8]) {
    script::parse::parse_any(bytes);
}

/// Reads bytes as the description of an exported program.
pub fn json(bytes: &[u8]) {
    program::json::read_any(bytes);
}

/// Runs code on the module of a pickle, which are the parts of `bytes` between marks.
pub fn scripted(bytes: &[u8]) -> Option<Model> {
    const MODULE: &[u8] = b"\x80\x02c__torch__\nM\n)\x81}b.";
    const NOTHING: &[u8] = b"\x80\x02).";
    let (code, rest) = split(bytes);
    let (module, constants) = rest.map_or((MODULE, None), split);
    let archive = archive_of(&[
        ("net/code/__torch__.py", code),
        ("net/data.pkl", module),
        ("net/constants.pkl", constants.unwrap_or(NOTHING)),
        ("net/version", b"3\n"),
        ("net/data/0", &[0x3f; 256]),
    ])?;
    let archive = ScriptArchive::open(archive).ok()?;
    model(script::import::graph(&archive, &options())?)
}

/// Runs an exported program whose description is `bytes`.
pub fn exported(bytes: &[u8]) -> Option<Model> {
    const MEMBER: &str = "models/model.json";
    const WEIGHTS: &[u8] = b"{\"config\":{}}";
    let archive = archive_of(&[
        ("net/models/model.json", bytes),
        ("net/archive_format", b"pt2"),
        ("net/data/weights/model_weights_config.json", WEIGHTS),
        ("net/data/constants/model_constants_config.json", WEIGHTS),
    ])?;
    model(program::import::graph(&archive, MEMBER, &TorchOptions::of_shapes(OPSET, vec![])).ok()?)
}

fn options() -> TorchOptions {
    TorchOptions::of_shapes(OPSET, vec![vec![Dim::from(2), Dim::from(3)], vec![Dim::from("n")]])
}

fn model(graph: Graph) -> Option<Model> {
    Some(outputs::model(graph, OPSET))
}

fn split(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match bytes.windows(MARK.len()).position(|w| w == MARK) {
        Some(at) => (&bytes[..at], Some(&bytes[at + MARK.len()..])),
        None => (bytes, None),
    }
}

fn archive_of(members: &[(&str, &[u8])]) -> Option<Archive> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in members {
        zip.start_file(*name, stored).ok()?;
        zip.write_all(bytes).ok()?;
    }
    Archive::open(Bytes::from(zip.finish().ok()?.into_inner())).ok()
}

#[cfg(test)]
mod tests;
