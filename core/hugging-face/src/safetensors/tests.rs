use super::*;

/// A file with this header and so many bytes of data.
fn file(header: &str, data: usize) -> Bytes {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 7);
    bytes.into()
}

fn refusal(bytes: &Bytes) -> String {
    let found = read("m.safetensors", bytes).unwrap_err();
    format!("{} {}", found.code, found.message)
}

#[test]
fn tensors_are_views_of_the_file() {
    let header = r#"{"__metadata__": {"format": "pt"}, "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
        "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "none": {"dtype": "I8", "shape": [0, 5], "data_offsets": [16, 16]}}   "#;
    let bytes = file(header, 16);
    let found = read("m.safetensors", &bytes).unwrap();
    let names: Vec<&str> = found.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "none"]);
    let b = found[1].tensor().unwrap();
    assert_eq!((b.dtype(), b.dims()), (DataType::Bfloat16, &[2, 3][..]));
    let within = bytes.as_ptr_range();
    assert!(within.contains(&b.bytes().as_ptr()), "not copied");
    assert_eq!(found[2].tensor().unwrap().dims(), [0, 5]);
}

/// What is wrong has a code, and words that name the tensor or the place.
#[test]
fn refusals() {
    let one = |body: &str, data| refusal(&file(&format!(r#"{{"w": {{{body}}}}}"#), data));
    let two = |a: &str, b: &str, data| {
        let entry = |name, at: &str| {
            format!(r#""{name}": {{"dtype": "U8", "shape": [4], "data_offsets": {at}}}"#)
        };
        refusal(&file(&format!("{{{}, {}}}", entry("a", a), entry("b", b)), data))
    };
    let f32s = |shape: &str, at: &str| {
        one(&format!(r#""dtype": "F32", "shape": {shape}, "data_offsets": {at}"#), 8)
    };
    let huge = Bytes::from((1u64 << 62).to_le_bytes().to_vec());
    let long = Bytes::from(100u64.to_le_bytes().to_vec());
    let latin = {
        let mut all = 2u64.to_le_bytes().to_vec();
        all.extend(b"{\xff");
        Bytes::from(all)
    };
    let cases = [
        (refusal(&Bytes::from_static(b"abc")), "N0202", "has 3 bytes"),
        (refusal(&huge), "N0213", "4611686018427387904 bytes (offset 0)"),
        (refusal(&long), "N0202", "100 bytes (offset 0), and 0 bytes follow"),
        (refusal(&latin), "N0201", "no UTF-8 at byte 9"),
        (refusal(&file("[1]", 0)), "N0201", "does not begin with `{`"),
        (refusal(&file("{nonsense", 0)), "N0201", "no JSON"),
        (refusal(&file("{} {}", 0)), "N0201", "trailing characters"),
        (refusal(&file(r#"{"w": 1, "w": 2}"#, 0)), "N0201", "invalid type"),
        (
            two("[0, 4]", "[2, 6]", 6),
            "N0201",
            "`b` begins at offset 2, within the tensor before it",
        ),
        (two("[0, 4]", "[5, 9]", 9), "N0201", "a hole from offset 4 to 5 lies before tensor `b`"),
        (two("[0, 4]", "[4, 8]", 6), "N0202", "`b` ends at offset 8, and the file has 6"),
        (two("[0, 4]", "[4, 8]", 9), "N0201", "ends at offset 8, and the file has 9"),
        (f32s("[2]", "[8, 0]"), "N0201", "`w` begins at offset 8, behind its end 0"),
        (f32s("[3]", "[0, 8]"), "N0201", "`w` of type F32 and shape [3] has 8 bytes"),
        (
            f32s("[4294967296, 4294967296]", "[0, 8]"),
            "N0201",
            "`w` has more elements than can be counted",
        ),
        (f32s("[-1]", "[0, 8]"), "N0201", "no JSON"),
        (
            one(r#""dtype": "Q9", "shape": [8], "data_offsets": [0, 8]"#, 8),
            "N0201",
            "`w` has the unknown dtype `Q9`",
        ),
        (
            one(r#""dtype": "U8", "dtype": "I8", "shape": [8], "data_offsets": [0, 8]"#, 8),
            "N0201",
            "duplicate field",
        ),
    ];
    for (said, code, words) in cases {
        assert!(said.starts_with(code) && said.contains(words), "{said}");
    }
    let w = |at: &str| format!(r#""w": {{"dtype": "U8", "shape": [4], "data_offsets": {at}}}"#);
    let twice = format!("{{{}, {}}}", w("[0, 4]"), w("[4, 8]"));
    assert!(refusal(&file(&twice, 8)).contains("`w` is there twice"));
}

#[test]
fn elements_of_less_than_a_byte_have_no_type_yet() {
    let bytes = file(r#"{"w": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}"#, 2);
    let found = read("m.safetensors", &bytes).unwrap();
    let why = found[0].tensor().unwrap_err();
    assert_eq!(why.code, "N0214");
    assert!(why.message.contains("tensor `w` has elements of type `F4`"), "{why}");
}
