//! Holds `src/generated` equal to the `.proto` files. `UPDATE_EXPECT=1 cargo test -p onnxd-proto` rewrites them.

use std::{env, fs, path::Path};

mod shapes;

/// Fields that may be infinite or not a number.
const REALS: [&str; 6] = [
    "Numerics.tolerance_abs", "Numerics.tolerance_rel", "OutputNumerics.max_abs",
    "OutputNumerics.mean_abs", "OutputNumerics.cosine", "OutputNumerics.sqnr_db",
];

/// Such fields that may be unset.
const OPTIONAL_REALS: [&str; 3] =
    ["QuantizedLayer.sqnr_db", "PassComparison.worst_sqnr_db", "PassComparison.worst_max_abs"];

/// Fields that hold enums: words in JSON.
const WORDS: [(&str, &str); 2] = [("FileDigest.role", "FileRole"), ("Report.verdict", "Verdict")];

/// Plugins need no JSON of the messages.
const DERIVED: &str =
    "#[cfg_attr(feature = \"serde\", derive(serde::Serialize, serde::Deserialize))]";

fn with(module: &str) -> String {
    format!("#[cfg_attr(feature = \"serde\", serde(with = \"{module}\"))]")
}

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().unwrap();
    let own = ["report", "plugin", "worker", "job"].map(|n| format!("onnxd/{n}.proto"));
    let files: Vec<String> = own.into_iter().chain(["onnx/onnx.proto".into()]).collect();
    let set = protox::compile(&files, [root]).unwrap();
    let mut config = prost_build::Config::new();
    config
        .out_dir(out.path())
        .bytes(["."])
        .btree_map(["."])
        .disable_comments([".onnx"])
        .type_attribute(".onnxd", DERIVED)
        .message_attribute(".onnxd", "#[cfg_attr(feature = \"serde\", serde(default))]");
    for field in REALS {
        config.field_attribute(format!("onnxd.{field}"), with("crate::real"));
    }
    for field in OPTIONAL_REALS {
        config.field_attribute(format!("onnxd.{field}"), with("crate::real::optional"));
    }
    config.field_attribute(
        "onnxd.QuantizedTensor.element_type",
        "#[cfg_attr(feature = \"serde\", serde(rename = \"type\"))]",
    );
    for (field, name) in WORDS {
        let module = format!("crate::word::Word::<super::onnxd::{name}>");
        config.field_attribute(format!("onnxd.{field}"), with(&module));
    }
    fs::write(out.path().join("shapes.rs"), shapes::shapes_of(&set, "onnxd")).unwrap();
    config.compile_fds(set).unwrap();
    for name in ["onnx.rs", "onnxd.rs", "shapes.rs"] {
        let fresh = fs::read_to_string(out.path().join(name)).unwrap();
        let path = root.join("src/generated").join(name);
        if env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap();
        assert!(kept == fresh, "{name} is stale: run UPDATE_EXPECT=1 cargo test -p onnxd-proto");
    }
}
