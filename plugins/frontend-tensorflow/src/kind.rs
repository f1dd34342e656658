//! What a file is, told by its name and its first bytes.

use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::ArchiveKind;
use prost::Message;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// `saved_model.pb`
    SavedModel,
    /// `saved_model.pbtxt`
    SavedText,
    /// A zip or tar archive
    Archive,
    /// GraphDef
    Graph,
    /// GraphDef as text
    GraphText,
    /// The graph of a checkpoint (`.meta`)
    Checkpoint,
    /// `.tflite`
    Lite,
    /// `.keras`
    Keras,
    /// `.h5`
    Hdf5,
}

impl FileKind {
    pub(crate) fn words(self) -> &'static str {
        match self {
            FileKind::SavedModel => "a SavedModel",
            FileKind::SavedText => "a SavedModel as text",
            FileKind::Archive => "an archive",
            FileKind::Graph => "a graph of TensorFlow",
            FileKind::GraphText => "a graph of TensorFlow as text",
            FileKind::Checkpoint => "the graph of a checkpoint of TensorFlow",
            FileKind::Lite => "a TFLite model",
            FileKind::Keras => "a Keras model",
            FileKind::Hdf5 => "a Keras model in HDF5",
        }
    }
}

/// The kind of a file.
pub(crate) fn file_kind(name: &str, bytes: &[u8]) -> Option<FileKind> {
    let name = name.rsplit('/').next().unwrap_or(name);
    if bytes.get(4..8) == Some(b"TFL3") {
        return Some(FileKind::Lite);
    }
    match bytes {
        [0x89, b'H', b'D', b'F', ..] => Some(FileKind::Hdf5),
        [b'P', b'K', 3, 4, ..] if has_ending(name, &[".keras"]) => Some(FileKind::Keras),
        [0x08, ..] if name == "saved_model.pb" => Some(FileKind::SavedModel),
        [0x0a, ..] if has_ending(name, &[".pb"]) && begins_with_node(bytes) => {
            Some(FileKind::Graph)
        }
        [0x0a, ..] if has_ending(name, &[".meta"]) => Some(FileKind::Checkpoint),
        _ if name == "saved_model.pbtxt" => Some(FileKind::SavedText),
        _ if has_ending(name, &[".pbtxt"]) && text_begins_with_node(bytes) => {
            Some(FileKind::GraphText)
        }
        _ if has_ending(name, &[".zip", ".tar", ".tar.gz", ".tgz"]) => {
            ArchiveKind::of(bytes).map(|_| FileKind::Archive)
        }
        _ => None,
    }
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// As [`begins_with_node`], of a message as text. Networks of other frameworks are written in the same way.
fn text_begins_with_node(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let lines = head.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut words = lines.filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let first = words.next().map(|word| word.trim_end_matches(['{', ':']));
    matches!(first, Some("node" | "versions" | "library")) && head.contains("op:")
}

/// Whether the first field of a message is a node, with a name and an operator. Files beside a SavedModel begin like a
/// graph, too.
fn begins_with_node(mut bytes: &[u8]) -> bool {
    let mut field = || {
        let (key, _) = prost::encoding::decode_key(&mut bytes).ok()?;
        let length = prost::encoding::decode_varint(&mut bytes).ok()?;
        let (data, _) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        Some((key, data))
    };
    let Some((1, data)) = field() else { return false };
    let is_word = |op: &str| {
        let mut chars = op.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') && !op.contains(' ')
    };
    NodeDef::decode(data).is_ok_and(|node| !node.name.is_empty() && is_word(&node.op))
}

#[cfg(test)]
mod tests;
