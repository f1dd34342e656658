use super::*;

#[test]
fn an_index_lists_files_beside_it() {
    let text = r#"{"metadata": {}, "weight_map": {"a": "x.safetensors", "b": "y.safetensors", "c": "x.safetensors"}}"#;
    let found = index("list", text.as_bytes()).unwrap();
    assert_eq!(found["x.safetensors"], ["a", "c"]);
    for bad in ["../x", "/x", "a/b", "", "..", "a\\b", "c:x"] {
        let text = serde_json::json!({ "weight_map": { "w": bad } }).to_string();
        let why = index("list", text.as_bytes()).unwrap_err();
        assert!(why.code == "N0201" && why.message.contains("`w` is in"), "{bad}: {why}");
    }
    for bad in ["", "[]", "{}", r#"{"weight_map": {"w": 1}}"#] {
        assert_eq!(index("list", bad.as_bytes()).unwrap_err().code, "N0201", "{bad}");
    }
}

#[test]
fn a_bias_that_some_layers_lack_is_missing() {
    let checkpoint = Checkpoint::of(HashMap::new());
    checkpoint.note_bias("layers.0.q_proj.bias", false);
    assert!(checkpoint.complete().is_ok(), "no layer has one");
    checkpoint.note_bias("layers.1.q_proj.bias", true);
    let found = checkpoint.complete().unwrap_err();
    assert!(found.message.contains("`layers.0.q_proj.bias` is missing"), "{found}");
}

#[test]
fn a_tensor_that_is_asked_for_twice_is_one() {
    let header = r#"{"w": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    let stored = safetensors::read("m.safetensors", &file.into()).unwrap();
    let checkpoint = Checkpoint::of(stored.into_iter().map(|t| (t.name.clone(), t)).collect());
    let identity = || checkpoint.tensor("w", &[2]).unwrap().identity();
    assert_eq!(identity(), identity());
}
