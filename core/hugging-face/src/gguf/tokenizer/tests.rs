use super::super::fixture::File;
use super::super::read;
use super::files;
use serde_json::{Value as Json, json};

fn made(file: &File) -> (Vec<(String, Json)>, Option<String>) {
    let metadata = read("m.gguf", &file.bytes()).unwrap().metadata;
    let (files, note) = files(&metadata).unwrap();
    let parsed = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or(Json::Null);
    let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), parsed(bytes))).collect();
    (files, note.map(|note| note.message.clone()))
}

fn kinds(kinds: &[i32]) -> Vec<Vec<u8>> {
    kinds.iter().map(|kind| kind.to_le_bytes().to_vec()).collect()
}

fn by_bytes() -> File {
    File::default()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "qwen2")
        .texts("tokenizer.ggml.tokens", &["a", "b", "ab", "<end>"])
        .list("tokenizer.ggml.token_type", 5, &kinds(&[1, 1, 1, 3]))
        .texts("tokenizer.ggml.merges", &["a b"])
        .size("tokenizer.ggml.eos_token_id", 3)
}

#[test]
fn merges_of_bytes() {
    let (files, note) = made(&by_bytes().text("tokenizer.chat_template", "{{ x }}"));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "chat_template.jinja", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
    ];
    assert_eq!((names, note), (wanted.to_vec(), None));
    let tokenizer = &files[1].1;
    assert_eq!(tokenizer["model"]["vocab"], json!({ "a": 0, "b": 1, "ab": 2, "<end>": 3 }));
    assert_eq!(tokenizer["model"]["merges"], json!(["a b"]));
    assert_eq!(tokenizer["normalizer"]["type"], "NFC");
    assert_eq!(tokenizer["added_tokens"][0]["content"], "<end>");
    assert_eq!(tokenizer["post_processor"]["type"], "ByteLevel");
    assert_eq!(files[2].1["eos_token"], "<end>");
    assert_eq!(files[3].1, json!({ "eos_token_id": 3 }));
}

/// Pieces that are two others are merges, of greater scores first.
#[test]
fn pieces_with_scores() {
    let scores = [0f32, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0].map(|s| s.to_le_bytes().to_vec());
    let file = File::default()
        .text("tokenizer.ggml.model", "llama")
        .texts(
            "tokenizer.ggml.tokens",
            &["<unk>", "<s>", "<0x41>", "a", "b", "\u{2581}", "ab", "\u{2581}ab"],
        )
        .list("tokenizer.ggml.token_type", 5, &kinds(&[2, 3, 6, 1, 1, 1, 1, 1]))
        .list("tokenizer.ggml.scores", 6, &scores)
        .size("tokenizer.ggml.bos_token_id", 1)
        .size("tokenizer.ggml.unknown_token_id", 0);
    let (files, note) = made(&file);
    assert_eq!(note, None);
    let tokenizer = &files[0].1;
    assert_eq!(tokenizer["model"]["merges"], json!(["a b", "\u{2581} ab"]));
    assert_eq!(tokenizer["model"]["byte_fallback"], true);
    let first = &tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"];
    assert_eq!(first, "<s>");
    let plain = file.flag("tokenizer.ggml.add_space_prefix", false);
    assert_eq!(made(&plain).0[0].1["normalizer"]["type"], "Replace");
}

/// No file is better than a wrong one.
#[test]
fn what_is_not_known_is_told() {
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    for (file, words) in [
        (by_bytes().without(&key("pre")), "`tokenizer.ggml.pre`, which says"),
        (by_bytes().without(&key("pre")).text(&key("pre"), "wild"), "is `wild`"),
        (by_bytes().without(&key("model")).text(&key("model"), "rwkv"), "the kind `rwkv`"),
        (by_bytes().without(&key("merges")), "`tokenizer.ggml.merges` is no list"),
        (by_bytes().without(&key("merges")).texts(&key("merges"), &["a c"]), "the merge `a c`"),
        (by_bytes().without(&key("tokens")).texts(&key("tokens"), &["a", "a"]), "one twice"),
        (by_bytes().without(&key("model")).text(&key("model"), "llama"), "scores` is absent"),
    ] {
        let (files, note) = made(&file);
        let note = note.unwrap();
        assert!(files.is_empty() && note.contains(words), "{note}: {words}");
    }
    assert!(made(&File::default()).1.is_none());
}
