use super::*;

/// `{"a": 3, "b": 0.5, "c": [true, "hi"]}`
const MAP: &[u8] = &[
    b'a', 0, b'b', 0, b'c', 0, // keys
    2, b'h', b'i', 0, // a text behind its length
    2, 1, 5, 0x68,
    0x14, // how many values, a truth value and the place of the text, their kinds
    3, 16, 15, 14, 0, // how many keys, and their places
    4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, // where the places are, their width, how many values
    3, 0, 0, 0, 0, 0, 0, 0x3f, 29, 0, 0, 0, // values
    0x06, 0x0e, 0x28, // their kinds
    15, 0x26, 1, // where the values are, the kind of the whole, width of the former
];

#[test]
fn values_of_a_map() {
    let flex = read(&Bytes::from_static(MAP)).unwrap();
    assert_eq!(field(&flex, "a"), Some(&Flex::Int(3)));
    assert_eq!(field(&flex, "b"), Some(&Flex::Float(0.5)));
    let list = vec![Flex::Bool(true), Flex::Text(Bytes::from_static(b"hi"))];
    assert_eq!(field(&flex, "c"), Some(&Flex::List(list)));
    assert_eq!(field(&flex, "d"), None);
}

#[test]
fn bytes_are_no_text() {
    // `"hi"` as a text, and as bytes.
    let of = |kind: u8| read(&Bytes::copy_from_slice(&[2, b'h', b'i', 0, 3, kind << 2, 1]));
    assert_eq!(of(5), Some(Flex::Text(Bytes::from_static(b"hi"))));
    assert_eq!(of(25), Some(Flex::Bytes(Bytes::from_static(b"hi"))));
}

#[test]
fn damaged_buffers_are_told() {
    for length in 0..MAP.len() {
        let _ = read(&Bytes::copy_from_slice(&MAP[length..]));
        let _ = read(&Bytes::copy_from_slice(&MAP[..length]));
    }
    for at in 0..MAP.len() {
        for byte in [0, 1, 0x28, 0x7f, 0xff] {
            let mut bytes = MAP.to_vec();
            bytes[at] = byte;
            let _ = read(&bytes.into());
        }
    }
}

/// Keys may share their bytes, so that long ones would take much more room than the file.
#[test]
fn keys_have_an_end() {
    let of = |length: usize| {
        let mut bytes = vec![b'k'; length];
        bytes.push(0);
        let to = bytes.len() as u32;
        // The offset to the key; where the offsets are, their width and their number; the value and its kind.
        bytes.extend(to.to_le_bytes());
        bytes.extend([4u32, 4, 1, 7].map(u32::to_le_bytes).concat());
        bytes.extend([1 << 2, 5, 9 << 2 | 2, 1]);
        read(&bytes.into()).map(|found| matches!(found, Flex::Map(all) if all.len() == 1))
    };
    assert_eq!(of(200), Some(true));
    assert_eq!(of(1 << 16), None);
}
