use super::options as options_of;
use super::*;
use crate::wire::proto::{Attr, AttrValue};
use bytes::Bytes;

/// A vector of two texts of less than 256 bytes, as a FlexBuffer.
fn options(op: &str, node: &[u8]) -> Bytes {
    let mut bytes = vec![op.len() as u8];
    bytes.extend(op.as_bytes());
    bytes.push(0);
    let second = bytes.len() + 1;
    bytes.push(node.len() as u8);
    bytes.extend(node);
    bytes.push(0);
    bytes.push(2);
    let start = bytes.len();
    bytes.extend([start as u8 - 1, (start + 1 - second) as u8, 5 << 2, 5 << 2]);
    bytes.extend([bytes.len() as u8 - start as u8, 10 << 2, 1]);
    bytes.into()
}

fn operator(custom: &str, custom_options: Bytes) -> LiteOperator {
    let (inputs, outputs, intermediates, options) = Default::default();
    LiteOperator {
        code: 32,
        custom: custom.into(),
        inputs,
        outputs,
        intermediates,
        options,
        custom_options,
    }
}

#[test]
fn node_of_a_custom_operator() {
    let mut erf = NodeDef { op: "Erf".to_owned(), ..NodeDef::default() };
    erf.attr.insert("T".to_owned(), AttrValue { value: Some(Attr::Type(1)) });
    let bytes = erf.encode_to_vec();
    assert_eq!(node(&operator("FlexErf", options("Erf", &bytes))), Some(erf));
    assert_eq!(node(&operator("FlexExp", options("Exp", &bytes))), None);
    assert_eq!(node(&operator("Erf", options("Erf", &bytes))), None);
    assert_eq!(node(&operator("FlexErf", Bytes::from_static(b"none"))), None);
}

#[test]
fn options_of_other_custom_operators() {
    // `{"k": [6, 5]}`, as FlexBuffers' library writes it.
    let map = [107, 0, 2, 6, 5, 1, 6, 1, 1, 1, 7, 44, 2, 36, 1];
    let list = Value::from([6, 5].map(Value::Int).to_vec());
    assert_eq!(options_of(&Bytes::copy_from_slice(&map)).unwrap(), [("k".to_owned(), list)]);
    let none = options_of(&Bytes::new()).unwrap();
    assert!(none.is_empty());
    let bytes = options_of(&Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0])).unwrap();
    let all = [1, 0, 0, 0, 2, 0, 0, 0].map(Value::Int).to_vec();
    assert_eq!(bytes, [("options".to_owned(), Value::from(all))]);
}

/// A map whose one entry `k` is a value of this kind in one byte.
fn map_of(kind: u8, value: u8) -> Bytes {
    Bytes::copy_from_slice(&[107, 0, 1, 3, 1, 1, 1, value, kind << 2, 2, 36, 1])
}

#[test]
fn odd_options_of_custom_operators_are_kept_or_told() {
    let named = |value: Value| vec![("k".to_owned(), value)];
    assert_eq!(options_of(&map_of(1, 7)).unwrap(), named(Value::Int(7)));
    assert_eq!(options_of(&map_of(0, 0)).unwrap(), named(Value::None));
    assert_eq!(option(Flex::Text(Bytes::from_static(b"a"))), Some(Value::Text("a".into())));
    // Bytes stay numbers, also where they could be letters, and texts become them where they are none.
    let numbers = |all: [i64; 2]| Some(Value::from(all.map(Value::Int).to_vec()));
    assert_eq!(option(Flex::Bytes(Bytes::from_static(b"ab"))), numbers([97, 98]));
    assert_eq!(option(Flex::Text(Bytes::from_static(&[0xff, 1]))), numbers([255, 1]));
    assert_eq!(option(Flex::List(vec![Flex::Map(vec![])])), None);
    let long = options_of(&vec![1; OPTION_BYTES_MAX + 1].into()).unwrap_err();
    assert_eq!(long.code, "N0213", "{long}");
}
