//! What a file is, told by its name and its first bytes.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `saved_model.pb`
    SavedModel,
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
        [0x0a, ..] if name.ends_with(".pb") => Some(Kind::Graph),
        _ => None,
    }
}
