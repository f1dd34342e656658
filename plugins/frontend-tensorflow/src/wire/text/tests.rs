use super::*;
use crate::wire::proto::{Attr, GraphDef, SavedModel};
use prost::Message;

fn graph(text: &str) -> Result<GraphDef, Diagnostic> {
    Ok(GraphDef::decode(encoded(text.as_bytes(), "GraphDef")?.as_slice()).expect("a message"))
}

#[test]
fn fields_have_their_values() {
    let graph = graph(
        r#"
        # A comment
        node { name: "x" "\x79\172\n" op: 'Const' input: ["a", "^b"]
          attr < key: "dtype" value: { type: DT_FLOAT_REF } >
          attr { key: "i" value { i: -2 } }; attr { key: "f" value { f: 1.5e-1f } }
          attr { key: "b" value { b: true } },
          attr { key: "t" value { tensor { dtype: DT_HALF float_val: [-inf, 2] tensor_content: "\001\377\"" } } }
          unknown: 3 other { deep { a: "x" } [ext.of/it]: 7 } experimental_debug_info { } }
        versions { producer: 27 }"#,
    )
    .unwrap();
    let node = &graph.node[0];
    assert_eq!((node.name.as_str(), node.op.as_str()), ("xyz\n", "Const"));
    assert_eq!(node.input, ["a", "^b"]);
    let attr = |name: &str| node.attr[name].value.clone().unwrap();
    assert_eq!(attr("dtype"), Attr::Type(101));
    assert_eq!(attr("i"), Attr::I(-2));
    assert_eq!(attr("f"), Attr::F(0.15));
    assert_eq!(attr("b"), Attr::B(true));
    let Attr::Tensor(tensor) = attr("t") else { panic!("no tensor") };
    assert_eq!((tensor.dtype, tensor.float_val), (19, vec![f32::NEG_INFINITY, 2.0]));
    assert_eq!(&*tensor.tensor_content, b"\x01\xff\"");
    assert_eq!(graph.versions.unwrap().producer, 27);
}

/// Every field of the table is one of a message that is decoded.
#[test]
fn kinds_are_messages() {
    for (message, fields) in MESSAGES {
        for name in fields.split(',').filter_map(|f| f.split_whitespace().next()) {
            let (_, kind) = field(message, name).unwrap();
            let known = MESSAGES.iter().any(|(name, _)| *name == kind);
            assert!(
                known || matches!(kind, "int" | "text" | "float" | "double"),
                "{message}.{name}"
            );
        }
    }
    let text = "meta_graphs { meta_info_def { tags: 'serve' } graph_def { node { name: 'a' } } }";
    let saved = SavedModel::decode(encoded(text.as_bytes(), "SavedModel").unwrap().as_slice());
    let meta = &saved.unwrap().meta_graphs[0];
    assert_eq!(meta.meta_info_def.as_ref().unwrap().tags, ["serve"]);
}

#[test]
fn what_is_no_message_is_told_with_its_line() {
    for (text, what) in [
        ("node {\n name: 'a'", "Line 2: a message does not end."),
        ("node { name: }", "Line 1: a name or value is missing."),
        ("node { name: 'a\n' }", "Line 2: a text does not end."),
        ("node { name 'a' }", "Line 1: a value is missing."),
        ("\n\n}", "Line 3: a name or value is missing."),
        ("versions { producer: x }", "Line 1: `x` is no value of this field."),
        ("versions { producer: 'x' }", "Line 1: a number is missing."),
        ("node { name: '\\xq' }", "Line 1: a number of a character is missing."),
        ("node { input: ['a' ", "Line 1: a name or value is missing."),
        ("node { [a", "Line 1: a bracket does not end."),
    ] {
        assert_eq!(graph(text).unwrap_err().message, what, "{text}");
    }
    let deep = "a {".repeat(1_000_000);
    assert_eq!(graph(&deep).unwrap_err().code, Code::SourceLimit.as_str());
}
