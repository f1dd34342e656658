//! Dependency direction: a crate may use only what its row lists. Adding an edge means editing the row here.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crate (without prefix) and the crates of this workspace that it may use outside its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("diagnostics", &[]),
    ("proto", &[]),
    ("plugin-abi", &[]),
    ("config", &["diagnostics"]),
    ("ir", &["diagnostics"]),
    ("build", &["diagnostics", "ir"]),
    ("image", &[]),
    ("preprocess", &["image"]),
    ("eval", &["diagnostics", "image", "ir"]),
    ("arrays", &["diagnostics", "ir"]),
    ("quantize", &["build", "diagnostics", "ir", "eval", "rewrite"]),
    ("rewrite", &["build", "diagnostics", "ir", "eval"]),
    ("onnx", &["diagnostics", "ir", "proto"]),
    ("opset", &["build", "diagnostics", "ir"]),
    ("engine-ort", &["diagnostics", "ir", "eval", "onnx", "proto"]),
    ("jobs", &["diagnostics", "proto"]),
    ("intake", &["diagnostics"]),
    ("report", &["diagnostics", "proto"]),
    (
        "plugin-sdk",
        &[
            "arrays",
            "build",
            "diagnostics",
            "ir",
            "eval",
            "image",
            "preprocess",
            "quantize",
            "rewrite",
            "onnx",
            "opset",
            "proto",
            "plugin-abi",
        ],
    ),
    ("plugin-host", &["diagnostics", "ir", "proto", "plugin-abi"]),
    (
        "worker",
        &[
            "diagnostics",
            "ir",
            "eval",
            "engine-ort",
            "arrays",
            "quantize",
            "rewrite",
            "onnx",
            "opset",
            "proto",
            "plugin-abi",
            "plugin-host",
        ],
    ),
    (
        "daemon",
        &["config", "diagnostics", "proto", "jobs", "intake", "report", "plugin-host", "worker"],
    ),
    ("frontend-onnx", &["plugin-sdk"]),
    ("frontend-n2d2", &["plugin-sdk"]),
    ("passes-cleanup", &["plugin-sdk"]),
    ("passes-fusion", &["plugin-sdk"]),
    ("quant-n2d2", &["plugin-sdk", "quantize"]),
    ("quant-inc", &["plugin-sdk", "opset", "quantize"]),
    ("quant-onnx", &["plugin-sdk", "opset", "quantize"]),
    ("plugin-example", &["plugin-sdk"]),
    ("hostile-plugins", &["plugin-sdk"]),
    ("integration-tests", &["ir", "onnx"]),
];

/// Libraries that one crate alone may use, because it is the one place to change when they are replaced.
const ONE_USER: &[(&str, &str)] =
    &[("sled", "jobs"), ("notify", "intake"), ("libloading", "plugin-host"), ("toml", "config")];

#[test]
fn crates_use_only_what_lies_above_them() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for package in metadata.workspace_packages() {
        let name = package.name.trim_start_matches("onnxd-").to_owned();
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} has no row"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            match dependency.name.strip_prefix("onnxd-") {
                Some(used) if !may.contains(&used) => wrong.push(format!("{name} uses {used}")),
                None => {
                    let owner = ONE_USER.iter().find(|(library, _)| *library == dependency.name);
                    if let Some((library, owner)) = owner
                        && *owner != name
                    {
                        wrong.push(format!("{name} uses {library}, which is for {owner} alone"));
                    }
                }
                Some(_) => {}
            }
        }
        seen.insert(name);
    }
    let stale = ALLOWED.iter().filter(|(name, _)| !seen.contains(*name));
    wrong.extend(stale.map(|(name, _)| format!("the row {name} has no crate")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rooms of `core/quantize`; each may use those before it.
const ROOMS: &[&str] =
    &["observe", "report", "session", "range", "graph", "plan", "emit", "accuracy", "search"];

#[test]
fn rooms_of_quantize_use_only_rooms_before_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("core/quantize/src");
    let mut wrong = Vec::new();
    let mut pending: Vec<(usize, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        match ROOMS.iter().position(|room| *room == name) {
            Some(at) => pending.push((at, path)),
            None if ["lib", "tests"].contains(&name.as_str()) => {}
            None => wrong.push(format!("{name} is no room")),
        }
    }
    assert_eq!(pending.len(), ROOMS.len());
    while let Some((at, path)) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(path).unwrap().map(|entry| (at, entry.unwrap().path())));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for later in ROOMS[at + 1..].iter().filter(|room| code.contains(&format!("crate::{room}")))
        {
            wrong.push(format!("{} uses {later}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A front-end of a third party is built from what the SDK needs without features.
#[test]
fn the_sdk_of_a_front_end_is_small() {
    const CRATES_MAX: usize = 40;
    let arguments = "tree --offline -p onnxd-plugin-sdk -e normal,build --prefix none --no-dedupe";
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let tree = cargo.args(arguments.split(' ')).args(["-f", "{p}"]).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).unwrap();
    let names: BTreeSet<&str> = text.lines().filter_map(|l| l.split(' ').next()).collect();
    assert!(names.contains("onnxd-build"), "{names:?}");
    for heavy in ["arrays", "eval", "image", "opset", "preprocess", "rewrite"] {
        assert!(!names.contains(format!("onnxd-{heavy}").as_str()), "{heavy} is in {names:?}");
    }
    let crates = text.lines().collect::<BTreeSet<_>>().len();
    assert!(crates <= CRATES_MAX, "{crates} crates: {names:?}");
}
