//! What a file is that no front-end takes, by its content: whoever dropped it should read its name,
//! not a guess about its ending.
//!
//! Looks at the first and last bytes of a file and at the names in an archive, never at more.

mod members;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use onnxd_files::own_regular;

/// What is read of a file's begin.
const BEGIN_BYTES: usize = 64 * 1024;
/// Entries of a folder that are looked at, and how deep.
const ENTRIES_MAX: usize = 64;
const DEPTH_MAX: usize = 2;

/// What lies at `path`, a file or a folder, in the words of its framework; `None` if that is not
/// known, or if it cannot be read.
pub fn recognise(path: &Path) -> Option<&'static str> {
    look(path, 0).map(|(what, _)| what)
}

/// The sentence that goes with it. A network that is read under the right name is told that name; one
/// that has it needs no words.
pub fn sentence(path: &Path) -> Option<String> {
    let (what, file) = look(path, 0)?;
    if [PACKED, COMPRESSED].contains(&what) {
        return Some(format!("it is {what}: unpack it"));
    }
    if what == POINTER {
        let why = "and not the file that it names: run `git lfs pull` in the repository";
        return Some(format!("it is {what}, {why}"));
    }
    if what == VARIABLES {
        return Some(format!("it is {what}: `saved_model.pb` is missing"));
    }
    if what == TENSORS {
        return Some(match file.with_file_name("config.json").is_file() {
            true => format!("it is {what}: name the folder that it lies in"),
            false => format!("it is {what}: `config.json` beside it is missing"),
        });
    }
    if what == CHECKPOINT {
        let graph = file.with_extension("meta");
        let graph = graph.file_name().unwrap_or_default().to_string_lossy();
        return Some(format!("it is {what}: its graph `{graph}` is missing"));
    }
    let Some((_, endings)) = READ.iter().find(|(known, _)| *known == what) else {
        return Some(format!("it is {what}; not read by this version"));
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_whole = |ending: &str| ending.starts_with("saved_model.");
    let named = |ending: &&str| match is_whole(ending) {
        // TensorFlow looks for this very name.
        true => name == **ending,
        false => name.to_lowercase().ends_with(&format!(".{ending}")),
    };
    let wanted = endings.first().filter(|_| !endings.iter().any(named))?;
    Some(match is_whole(wanted) {
        true => format!("it is {what} under another name: call it `{wanted}`"),
        false => format!("it is {what} under another name: give it the ending `.{wanted}`"),
    })
}

const PROGRAM: &str = "an exported PyTorch program (`torch.export`, .pt2)";
const SCRIPT: &str = "a TorchScript archive";
const ONNX: &str = "an ONNX model";
const PACKED: &str = "an archive with a network in it";
const COMPRESSED: &str = "a file that gzip compressed";

const SAVED: &str = "a TensorFlow SavedModel";
const SAVED_ALONE: &str = "a TensorFlow SavedModel (saved_model.pb, without its folder)";
const SAVED_TEXT: &str = "a TensorFlow SavedModel as text";
const SAVED_ZIP: &str = "a TensorFlow SavedModel in a zip archive";
const SAVED_TAR: &str = "a TensorFlow SavedModel in a tar archive";
const POINTER: &str = "a pointer of Git LFS";
const VARIABLES: &str = "the checkpoint of a TensorFlow SavedModel";
const TENSORS: &str = "a safetensors file (weights without a network)";
const CHECKPOINT: &str = "a TensorFlow checkpoint, weights without a network";
const GRAPH: &str = "a TensorFlow graph (GraphDef, frozen or not)";
const GRAPH_TEXT: &str = "a TensorFlow graph (GraphDef as text)";
const META: &str = "the graph of a TensorFlow checkpoint (MetaGraphDef)";
const LITE: &str = "a TensorFlow Lite model";
const GGUF: &str = "a GGUF file (llama.cpp)";
const KERAS: &str = "a Keras model (.keras)";
const KERAS_HDF5: &str = "a Keras model or its weights (HDF5)";

/// What a SavedModel may be packed as. Its reader tells an archive by its content.
const ARCHIVES: &[&str] = &["zip", "tar", "tar.gz", "tgz"];

/// Networks that front-ends take by the endings of their names, or by a name. A folder needs none.
const READ: [(&str, &[&str]); 15] = [
    (PROGRAM, &["pt2", "pt", "pth", "ts"]),
    (SCRIPT, &["pt", "pth", "ts", "pt2"]),
    (ONNX, &["onnx"]),
    (SAVED, &[]),
    (SAVED_ALONE, &["saved_model.pb"]),
    (SAVED_TEXT, &["saved_model.pbtxt"]),
    (SAVED_ZIP, ARCHIVES),
    (SAVED_TAR, &["tar", "tar.gz", "tgz", "zip"]),
    (GRAPH, &["pb"]),
    (GRAPH_TEXT, &["pbtxt"]),
    (META, &["meta"]),
    (LITE, &["tflite"]),
    (GGUF, &["gguf"]),
    (KERAS, &["keras"]),
    (KERAS_HDF5, &["h5", "hdf5"]),
];

/// What it is, and the file or folder that tells.
fn look(path: &Path, depth: usize) -> Option<(&'static str, PathBuf)> {
    let kind = fs::symlink_metadata(path).ok()?;
    if kind.is_file() {
        return of_file(path).map(|what| (what, path.into()));
    }
    if !kind.is_dir() || depth > DEPTH_MAX {
        return None;
    }
    if path.join("saved_model.pb").is_file() || path.join("saved_model.pbtxt").is_file() {
        return Some((SAVED, path.into()));
    }
    if path.join("Data/com.apple.CoreML").is_dir() {
        return Some(("a Core ML package", path.into()));
    }
    let mut entries: Vec<_> =
        fs::read_dir(path).ok()?.filter_map(Result::ok).take(ENTRIES_MAX).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    checkpoint(&entries).or_else(|| entries.iter().find_map(|entry| look(&entry.path(), depth + 1)))
}

/// The index of a checkpoint among the files of a folder, with data beside it and no graph.
fn checkpoint(entries: &[fs::DirEntry]) -> Option<(&'static str, PathBuf)> {
    let names = || entries.iter().map(fs::DirEntry::file_name);
    let is_data = |name: &OsStr, of: &str| {
        let rest = name.to_str().and_then(|name| name.strip_prefix(of));
        rest.is_some_and(|rest| rest.starts_with(".data-") && rest.contains("-of-"))
    };
    entries.iter().find_map(|entry| {
        let file = entry.file_name();
        let prefix = file.to_str()?.strip_suffix(".index")?;
        let has_graph = names().any(|name| name == *format!("{prefix}.meta"));
        let has_data = names().any(|name| is_data(&name, prefix));
        let what = if prefix == "variables" { VARIABLES } else { CHECKPOINT };
        (has_data && !has_graph).then(|| (what, entry.path()))
    })
}

fn of_file(path: &Path) -> Option<&'static str> {
    let mut file = own_regular(path).ok()?;
    let bytes = file.metadata().ok()?.len();
    let mut begin = Vec::new();
    (&mut file).take(BEGIN_BYTES as u64).read_to_end(&mut begin).ok()?;
    if begin.starts_with(b"PK\x03\x04") {
        return of_archive(&members::of_zip(&mut file, bytes)?, SAVED_ZIP);
    }
    if members::is_tar(&begin) {
        return of_archive(&members::of_tar(&mut file), SAVED_TAR);
    }
    of_content(&begin, bytes)
}

/// What a file of `bytes` bytes is that begins like this.
pub fn of_content(begin: &[u8], bytes: u64) -> Option<&'static str> {
    of_magic(begin, bytes).or_else(|| of_text(begin)).or_else(|| of_protobuf(begin))
}

/// What an archive with these members is; `saved` if it is a SavedModel.
fn of_archive(names: &[String], saved: &'static str) -> Option<&'static str> {
    let any = |end: &str| names.iter().any(|n| n == end || n.ends_with(&format!("/{end}")));
    let inside = |folder: &str| names.iter().any(|n| n.split('/').any(|part| part == folder));
    Some(if any("serialized_exported_program.json") || any("archive_format") {
        PROGRAM
    } else if any("bytecode.pkl") {
        "a TorchScript archive for mobile devices"
    } else if any("constants.pkl")
        || (any("data.pkl") || any("attributes.pkl") || any("model.json")) && inside("code")
    {
        SCRIPT
    } else if any("data.pkl") {
        "a file of `torch.save` (pickled Python objects)"
    } else if any("config.json") && (any("model.weights.h5") || any("metadata.json")) {
        KERAS
    } else if any("saved_model.pb") || any("saved_model.pbtxt") {
        saved
    } else if inside("com.apple.CoreML") {
        "a Core ML package in an archive"
    } else if any("keras_metadata.pb") {
        "a Keras model in an archive"
    } else if names.iter().any(|name| is_network(name)) {
        PACKED
    } else {
        return None;
    })
}

/// Whether a file of this name may be a network that is read.
fn is_network(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    let endings = READ.iter().flat_map(|(_, endings)| endings.iter()).chain(&["ini"]);
    let mut endings = endings.filter(|read| !ARCHIVES.contains(read));
    ending.is_some_and(|ending| endings.any(|read| *read == ending))
}

fn of_magic(begin: &[u8], bytes: u64) -> Option<&'static str> {
    let has = |text: &str| contains(begin, text);
    Some(match begin {
        [_, _, _, _, b'T', b'F', b'L', b'3', ..] => LITE,
        [0x89, b'H', b'D', b'F', b'\r', b'\n', 0x1a, b'\n', ..] => {
            match has("keras") || has("layer_names") || has("model_weights") {
                true => KERAS_HDF5,
                false => "an HDF5 file, as Keras writes models and weights",
            }
        }
        [0x1f, 0x8b, 8, ..] => COMPRESSED,
        [b'G', b'G', b'U', b'F', ..] => GGUF,
        [b'p' | b'f', b't', b'r', b't', ..] => "a TensorRT engine",
        [0x80, 2..=5, ..] => of_pickle(begin),
        _ if is_safetensors(begin, bytes) => TENSORS,
        _ => return None,
    })
}

/// The head of a pickle names the modules that its objects come from.
fn of_pickle(begin: &[u8]) -> &'static str {
    let has = |text: &str| contains(begin, text);
    // Files of `torch.save` before its archives begin with a number of their own.
    if begin
        .get(2..)
        .is_some_and(|b| b.starts_with(b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"))
    {
        "a file of `torch.save` in its old form (pickled Python objects)"
    } else if has("sklearn") {
        "a pickled scikit-learn model"
    } else if has("xgboost") {
        "a pickled XGBoost model"
    } else if has("lightgbm") {
        "a pickled LightGBM model"
    } else if has("torch.") || has("torch\n") {
        "pickled PyTorch objects"
    } else {
        "a file of pickled Python objects"
    }
}

/// A length, and JSON of that length that says where tensors lie.
fn is_safetensors(begin: &[u8], bytes: u64) -> bool {
    let Some((length, rest)) = begin.split_first_chunk::<8>() else { return false };
    let length = u64::from_le_bytes(*length);
    let fits = (2..=bytes.saturating_sub(8)).contains(&length);
    fits && rest.starts_with(b"{\"") && contains(rest, "data_offsets")
}

fn of_text(begin: &[u8]) -> Option<&'static str> {
    // A character may be cut at the end.
    let text = match str::from_utf8(begin) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => str::from_utf8(&begin[..e.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let head = text.trim_start_matches('\u{feff}').trim_start();
    let has = |word: &str| text.contains(word);
    let layers = ["layer {", "layer{", "layers {", "layers{"].iter().any(|l| has(l));
    Some(if text.starts_with("version https://git-lfs.github.com/spec/") {
        POINTER
    } else if head.starts_with('<') && has("<net ") && has("<layers>") {
        "an OpenVINO network (XML, with weights in a .bin file)"
    } else if layers && has("type:") && (has("bottom:") || has("top:")) {
        "a Caffe network (prototxt)"
    } else if head.starts_with('{') && has("\"modelTopology\"") {
        "a TensorFlow.js model"
    } else if head.starts_with('{') && has("\"learner\"") && has("gradient_booster") {
        "an XGBoost model (JSON)"
    } else if head.starts_with("tree\n") && has("version=") {
        "a LightGBM model (text)"
    } else if has("[net]") && has("[convolutional]") {
        "a Darknet network (cfg)"
    } else if head.starts_with("7767517\n") {
        "an ncnn network (param)"
    } else if has("meta_graphs {") && has("meta_info_def {") {
        SAVED_TEXT
    } else if begins_with_graph(text) && has("op:") {
        GRAPH_TEXT
    } else {
        return None;
    })
}

/// Whether the first word that is no comment is a field of GraphDef.
fn begins_with_graph(text: &str) -> bool {
    let mut words =
        text.lines().filter(|l| !l.trim().starts_with('#')).flat_map(str::split_whitespace);
    let first = words.next().map(|word| word.trim_end_matches(['{', ':']));
    matches!(first, Some("node" | "versions" | "library"))
}

/// The messages of frameworks differ in the numbers of their fields.
fn of_protobuf(begin: &[u8]) -> Option<&'static str> {
    let fields = fields(begin);
    let has = |number: u64, wire: u64| fields.iter().any(|f| (f.number, f.wire) == (number, wire));
    let first = fields.first()?;
    let says = |text: &str| contains(begin, text);
    Some(match (first.number, first.wire) {
        (1, 0) if fields.iter().any(|f| f.number >= 200 && f.wire == 2) || says("coremltools") => {
            "a Core ML model"
        }
        (1, 0)
            if says("VarHandleOp")
                || says("saved_model_main_op")
                || says("StatefulPartitionedCall") =>
        {
            SAVED_ALONE
        }
        (1, 0)
            if fields
                .get(1)
                .is_some_and(|f| (f.number, f.wire) == (2, 2) && is_meta(f.payload)) =>
        {
            SAVED_ALONE
        }
        // The version of the format is a small number.
        (1, 0) if first.payload.len() == 1 && (has(7, 2) || (has(8, 2) && says("ai.onnx"))) => ONNX,
        (1, 2) if is_graph_def(first.payload) => GRAPH,
        (1, 2) if is_meta(begin) => META,
        (1, 2) if has(100, 2) || (has(2, 2) && says("InnerProduct")) => {
            "weights of a Caffe network (caffemodel)"
        }
        _ => return None,
    })
}

fn is_plain(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_graphic)
}

/// The name of an operator of TensorFlow.
fn is_operator(text: &[u8]) -> bool {
    is_plain(text) && (text[0].is_ascii_alphabetic() || text[0] == b'_')
}

/// A node of TensorFlow: a name, then an operator.
fn is_graph_def(node: &[u8]) -> bool {
    matches!(fields(node).as_slice(), [name, op, ..]
        if name.number == 1 && is_plain(name.payload) && op.number == 2 && is_operator(op.payload))
}

/// MetaGraphDef: what is said of the graph comes first. That is a list of operators, or a version of TensorFlow.
fn is_meta(bytes: &[u8]) -> bool {
    let info = first_inside(&fields(bytes));
    let operator = first_inside(&first_inside(&info));
    let is_named = |f: &WireField| f.number == 1 && is_operator(f.payload);
    let is_version = |f: &WireField| {
        (f.number, f.wire) == (4, 2) && f.payload.first().is_some_and(u8::is_ascii_digit)
    };
    operator.first().is_some_and(is_named) || info.iter().any(is_version)
}

/// The fields of a message in the first field, which has the number 1.
fn first_inside<'b>(all: &[WireField<'b>]) -> Vec<WireField<'b>> {
    all.first().filter(|f| (f.number, f.wire) == (1, 2)).map_or(vec![], |f| fields(f.payload))
}

struct WireField<'b> {
    number: u64,
    wire: u64,
    /// As far as it was read.
    payload: &'b [u8],
}

/// The fields at the begin of a message; none after the first that is no field.
fn fields(mut bytes: &[u8]) -> Vec<WireField<'_>> {
    let mut wire_fields = Vec::new();
    while let Some((tag, rest)) = varint(bytes) {
        let (number, wire) = (tag >> 3, tag & 7);
        let (length, rest) = match wire {
            0 => match varint(rest) {
                Some((_, after)) => (rest.len() - after.len(), rest),
                None => break,
            },
            1 => (8, rest),
            2 => match varint(rest) {
                Some((length, after)) => (usize::try_from(length).unwrap_or(usize::MAX), after),
                None => break,
            },
            5 => (4, rest),
            _ => break,
        };
        if number == 0 {
            break;
        }
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        wire_fields.push(WireField { number, wire, payload });
        bytes = rest;
    }
    wire_fields
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * i).min(63);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

#[cfg(test)]
mod tests;
