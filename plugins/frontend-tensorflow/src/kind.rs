//! What a file is, told by its name and its first bytes.

use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::ArchiveKind;
use prost::Message;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `saved_model.pb`
    SavedModel,
    /// `saved_model.pbtxt`
    SavedText,
    /// A zip or tar archive
    Archive,
    /// GraphDef
    Graph,
    /// `.tflite`
    Lite,
    /// `.keras`
    Keras,
    /// `.h5`
    Hdf5,
}

impl Kind {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::SavedModel => "a SavedModel",
            Kind::SavedText => "a SavedModel as text",
            Kind::Archive => "an archive",
            Kind::Graph => "a graph of TensorFlow",
            Kind::Lite => "a TFLite model",
            Kind::Keras => "a Keras model",
            Kind::Hdf5 => "a Keras model in HDF5",
        }
    }
}

/// The kind of a file.
pub(crate) fn of(name: &str, bytes: &[u8]) -> Option<Kind> {
    let name = name.rsplit('/').next().unwrap_or(name);
    if bytes.get(4..8) == Some(b"TFL3") {
        return Some(Kind::Lite);
    }
    match bytes {
        [0x89, b'H', b'D', b'F', ..] => Some(Kind::Hdf5),
        [b'P', b'K', 3, 4, ..] if name.ends_with(".keras") => Some(Kind::Keras),
        [0x08, ..] if name == "saved_model.pb" => Some(Kind::SavedModel),
        [0x0a, ..] if has_ending(name, &[".pb"]) && begins_with_node(bytes) => Some(Kind::Graph),
        _ if name == "saved_model.pbtxt" => Some(Kind::SavedText),
        _ if has_ending(name, &[".zip", ".tar", ".tar.gz", ".tgz"]) => {
            ArchiveKind::of(bytes).map(|_| Kind::Archive)
        }
        _ => None,
    }
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
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
