//! Holds `src/generated` equal to the `.proto` files. `UPDATE_EXPECT=1 cargo test -p onnxd-proto` rewrites them.

use std::{env, fs, path::Path};

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    let own = ["report", "plugin", "worker", "job"].map(|n| format!("onnxd/{n}.proto"));
    let files: Vec<String> = own.into_iter().chain(["onnx/onnx.proto".into()]).collect();
    let set = protox::compile(&files, [root]).unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .bytes(["."])
        .btree_map(["."])
        .disable_comments([".onnx"])
        .type_attribute(".onnxd", "#[derive(serde::Serialize, serde::Deserialize)]")
        .message_attribute(".onnxd", "#[serde(default)]")
        .compile_fds(set)
        .unwrap();
    for name in ["onnx.rs", "onnxd.rs"] {
        let fresh = fs::read_to_string(out.path().join(name)).unwrap();
        let path = root.join("src/generated").join(name);
        if env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept == fresh, "{name} is stale: run UPDATE_EXPECT=1 cargo test -p onnxd-proto");
    }
}
