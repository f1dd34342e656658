use crate::testing::{try_run, word};
use bytes::Bytes;
use onnxd_ir::{Attr, Tensor};

fn tokens(list: &[&str], least: i64, mark: i64, how: (&str, Attr)) -> Result<Tensor, String> {
    let list: Vec<Bytes> = list.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
    let x = Tensor::strings(vec![list.len()], list).unwrap();
    let attrs = [
        ("mincharnum", Attr::Int(least)),
        ("mark", Attr::Int(mark)),
        ("pad_value", word("#")),
        how,
    ];
    try_run("com.microsoft.Tokenizer", 1, &attrs, &[&x]).map_err(|d| d.to_string())
}

#[test]
fn strings_are_cut_at_separators() {
    let by = |list: &[&'static str]| {
        ("separators", Attr::Strs(list.iter().map(|s| Bytes::from(*s)).collect()))
    };
    let y = tokens(&["I, too", "é"], 1, 0, by(&[" ", ","])).unwrap();
    assert_eq!(y.dims(), [2, 2]);
    assert_eq!(y.as_strings().unwrap(), ["I", "too", "é", "#"]);
    let y = tokens(&["I, too", "é"], 2, 1, by(&[" ", ","])).unwrap();
    assert_eq!(y.as_strings().unwrap(), ["\x02", "too", "\x03", "\x02", "\x03", "#"]);
    assert_eq!(tokens(&["", ","], 1, 1, by(&[","])).unwrap().dims(), [2, 0]);
    let y = tokens(&["éa"], 1, 0, by(&[""])).unwrap();
    assert_eq!(y.as_strings().unwrap(), ["é", "a"]);
}

#[test]
fn tokens_match_a_pattern() {
    let like = |pattern: &str| ("tokenexp", word(pattern));
    let y = tokens(&["a bc, def"], 2, 0, like("[a-z]+")).unwrap();
    assert_eq!(y.as_strings().unwrap(), ["bc", "def"]);
    assert!(tokens(&["a"], 1, 0, like("a|ab")).unwrap_err().contains("alternatives"));
    assert!(tokens(&["a"], 1, 0, like("[a|b]+[?]")).is_ok());
}
