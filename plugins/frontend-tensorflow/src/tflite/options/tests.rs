use super::*;

#[test]
fn every_line_is_read() {
    for line in OPTIONS.lines() {
        let (name, fields) = parse(line).unwrap_or_else(|| panic!("{line}"));
        for field in fields {
            let plain = ["i8", "i32", "i64", "u32", "f32", "bool", "type", "text", "bytes"];
            let known = plain.contains(&field.kind)
                || WORDS.iter().any(|(word, _)| *word == field.kind)
                || ["[i32]", "[i64]", "[u32]", "[f32]", "[bool]"].contains(&field.kind);
            assert!(known, "{name}: {field:?}");
        }
    }
}

#[test]
fn defaults_of_a_table_that_is_missing() {
    let conv = read("Conv2DOptions", None).unwrap();
    let get = |name: &str| conv.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    assert_eq!(get("padding"), Some("SAME".into()));
    assert_eq!(get("dilation_w_factor"), Some(1.into()));
    assert_eq!(get("fused_activation_function"), Some("NONE".into()));
    assert_eq!(get("quantized_bias_type"), Some(1.into()));
}
