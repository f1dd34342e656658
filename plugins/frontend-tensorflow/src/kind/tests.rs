use super::*;
use crate::graph::fixture::{graph, placeholder};

#[test]
fn kinds_are_told_by_name_and_content() {
    let frozen = graph(vec![placeholder("x", &[1])], vec![]).encode_to_vec();
    assert_eq!(file_kind("a/frozen.pb", &frozen), Some(FileKind::Graph));
    assert_eq!(file_kind("saved_model.pb", b"\x08\x01\x12\x00"), Some(FileKind::SavedModel));
    assert_eq!(file_kind("x.tflite", b"\x1c\0\0\0TFL3"), Some(FileKind::Lite));
    assert_eq!(file_kind("x.keras", b"PK\x03\x04"), Some(FileKind::Keras));
    assert_eq!(file_kind("x.Keras", b"PK\x03\x04"), Some(FileKind::Keras));
    assert_eq!(file_kind("x.zip", b"PK\x03\x04"), Some(FileKind::Archive));
    assert_eq!(file_kind("saved_model.pbtxt", b"meta_graphs {"), Some(FileKind::SavedText));
    assert_eq!(
        file_kind("g.pbtxt", b"# a graph\nnode {\n op: \"Add\" }"),
        Some(FileKind::GraphText)
    );
    assert_eq!(file_kind("net.pbtxt", b"name: \"net\"\nlayer { }"), None);
    assert_eq!(file_kind("model.ckpt-7.meta", b"\x0a\x02\x22\x00"), Some(FileKind::Checkpoint));
    // Files beside a SavedModel: a checksum, and nodes without operators.
    assert_eq!(file_kind("fingerprint.pb", b"\x08\x9a\x91\xbc"), None);
    assert_eq!(file_kind("keras_metadata.pb", b"\x0a\x08\x10\x01\x1a\x04root"), None);
    for bytes in [&b""[..], b"\x0a", b"\x0a\xff\xff\xff\xff\xff", b"\x0a\x00", b"PK"] {
        assert_eq!(file_kind("x.pb", bytes), None);
    }
}
