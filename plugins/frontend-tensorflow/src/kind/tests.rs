use super::*;
use crate::graph::fixture::{graph, placeholder};

#[test]
fn kinds_are_told_by_name_and_content() {
    let frozen = graph(vec![placeholder("x", &[1])], vec![]).encode_to_vec();
    assert_eq!(of("a/frozen.pb", &frozen), Some(Kind::Graph));
    assert_eq!(of("saved_model.pb", b"\x08\x01\x12\x00"), Some(Kind::SavedModel));
    assert_eq!(of("x.tflite", b"\x1c\0\0\0TFL3"), Some(Kind::Lite));
    assert_eq!(of("x.keras", b"PK\x03\x04"), Some(Kind::Keras));
    assert_eq!(of("x.Keras", b"PK\x03\x04"), Some(Kind::Keras));
    assert_eq!(of("x.zip", b"PK\x03\x04"), Some(Kind::Archive));
    assert_eq!(of("saved_model.pbtxt", b"meta_graphs {"), Some(Kind::SavedText));
    assert_eq!(of("g.pbtxt", b"# a graph\nnode {\n op: \"Add\" }"), Some(Kind::GraphText));
    assert_eq!(of("net.pbtxt", b"name: \"net\"\nlayer { }"), None);
    assert_eq!(of("model.ckpt-7.meta", b"\x0a\x02\x22\x00"), Some(Kind::Checkpoint));
    // Files beside a SavedModel: a checksum, and nodes without operators.
    assert_eq!(of("fingerprint.pb", b"\x08\x9a\x91\xbc"), None);
    assert_eq!(of("keras_metadata.pb", b"\x0a\x08\x10\x01\x1a\x04root"), None);
    for bytes in [&b""[..], b"\x0a", b"\x0a\xff\xff\xff\xff\xff", b"\x0a\x00", b"PK"] {
        assert_eq!(of("x.pb", bytes), None);
    }
}
