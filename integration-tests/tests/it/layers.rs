//! Dependency direction: a crate may use only what its row lists. Adding an edge means editing the row here.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What every crate may use: it is how errors are told.
const EVERYWHERE: &str = "diagnostics";

/// Each crate (without prefix), and which others it may use outside its tests, and for what. Crates stand below all
/// that they use. ARCHITECTURE.md shows this list.
const ALLOWED: &[(&str, &[(&str, &str)])] = &[
    ("diagnostics", &[]),
    ("files", &[]),
    ("proto", &[]),
    ("plugin-abi", &[]),
    ("params", &[]),
    ("config", &[("params", "the params that all conversions have")]),
    ("ir", &[]),
    ("build", &[("ir", "graphs, the operator table and inference")]),
    ("formulas", &[("build", "the nodes of a formula"), ("ir", "constants of formulas")]),
    ("pickle", &[("ir", "tensors")]),
    ("image", &[]),
    ("preprocess", &[("image", "decoded pictures")]),
    ("eval", &[("ir", "models and tensors"), ("image", "the operator `ImageDecoder`")]),
    ("arrays", &[("ir", "tensors")]),
    (
        "rewrite",
        &[
            ("ir", "graphs and typed operator views"),
            ("build", "what a rule puts in place of a pattern"),
            ("eval", "running a model before and after a change"),
        ],
    ),
    (
        "quantize",
        &[
            ("ir", "graphs"),
            ("build", "the nodes that quantization adds"),
            ("eval", "running float and quantized graphs on samples"),
            ("rewrite", "equalization as a pass"),
            ("params", "params in types"),
            ("proto", "rows of the report"),
        ],
    ),
    ("onnx", &[("ir", "models"), ("proto", "ONNX's messages")]),
    (
        "lowering",
        &[
            ("ir", "types, and operators of foreign domains"),
            ("build", "the graph that rows add to"),
            ("rewrite", "a table as a pass"),
        ],
    ),
    ("opset", &[("ir", "models and the operator table"), ("build", "formulas of adapters")]),
    (
        "engine-ort",
        &[
            ("ir", "tensors"),
            ("eval", "the trait that engines implement"),
            ("onnx", "models as ONNX Runtime reads them"),
            ("proto", "ONNX's messages"),
        ],
    ),
    ("jobs", &[("proto", "jobs and events as they are stored")]),
    ("intake", &[("files", "drops, which others can change")]),
    ("report", &[("proto", "the report as a message")]),
    (
        "plugin-sdk",
        &[
            ("plugin-abi", "the interface that it wraps"),
            ("proto", "what crosses the interface"),
            ("params", "the macro that declares params, and their values"),
            ("ir", "graphs"),
            ("onnx", "graphs as bytes"),
            ("build", "graphs of front-ends"),
            ("formulas", "functions that front-ends have in common"),
            ("pickle", "objects and tensors of `torch.save`"),
            ("lowering", "tables of operators and their driver"),
            ("opset", "conversion for passes"),
            ("eval", "running models, for quantizers and passes"),
            ("rewrite", "passes and rules"),
            ("arrays", "calibration data; shapes and types of dropped arrays"),
            ("image", "calibration pictures"),
            ("preprocess", "calibration pictures"),
            ("quantize", "what quantizers share"),
        ],
    ),
    (
        "plugin-host",
        &[
            ("plugin-abi", "the interface that it offers"),
            ("proto", "what crosses the interface"),
            ("config", "what a descriptor may say"),
            ("params", "params that it hands on"),
            ("files", "inputs, which others can change"),
            ("ir", "tensors, held and derived"),
        ],
    ),
    (
        "worker",
        &[
            ("proto", "requests, results and reports"),
            ("plugin-host", "calls of plugins"),
            ("files", "inputs, which others can change"),
            ("config", "what plugins declare"),
            ("params", "params in types"),
            ("plugin-abi", "names of artifacts"),
            ("ir", "verification and inference between stages"),
            ("onnx", "reading graphs and writing the result"),
            ("opset", "`export.opset`"),
            ("eval", "references, and the commands `eval` and `compare`"),
            ("engine-ort", "the same in ONNX Runtime"),
            ("rewrite", "comparing models before and after passes"),
            ("quantize", "quantized inputs and outputs as reals"),
            ("arrays", "references and inputs"),
        ],
    ),
    (
        "daemon",
        &[
            ("config", "settings and params"),
            ("params", "params in types"),
            ("proto", "jobs, requests and reports"),
            ("jobs", "the queue"),
            ("intake", "the inbox"),
            ("files", "files of droppers, and copies of them"),
            ("worker", "the parent's side of a worker, and its own side when it is one"),
            ("plugin-host", "inspecting libraries"),
            ("report", "results for people"),
        ],
    ),
    ("hugging-face", &[SDK]),
    ("frontend-onnx", &[SDK]),
    ("frontend-n2d2", &[SDK]),
    ("frontend-torch", &[SDK]),
    ("frontend-tensorflow", &[SDK]),
    ("frontend-hf", &[SDK, HUGGING_FACE]),
    ("passes-cleanup", &[SDK]),
    ("passes-fusion", &[SDK]),
    ("passes-layout", &[SDK]),
    ("passes-mediapipe", &[SDK]),
    ("quant-n2d2", &[SDK, ("quantize", "statistics, ranges and rounding")]),
    (
        "quant-inc",
        &[SDK, ("quantize", "all but the policy"), ("opset", "`quantization.inc.opset`")],
    ),
    (
        "quant-onnx",
        &[SDK, ("quantize", "all but the policy"), ("opset", "operators of newer opsets")],
    ),
    ("plugin-example", &[SDK]),
    ("plugin-example-operator", &[SDK]),
    ("plugin-example-architecture", &[SDK, HUGGING_FACE]),
    ("hostile-plugins", &[SDK]),
    (
        "integration-tests",
        &[
            ("ir", "models of tests"),
            ("onnx", "models of tests as files"),
            ("eval", "running models of tests"),
            ("arrays", "inputs and outputs of tests"),
            ("config", "params as they are resolved"),
            ("plugin-host", "what the built plugins declare"),
        ],
    ),
];

/// All that a plugin sees.
const SDK: (&str, &str) = ("plugin-sdk", "all that it needs");

/// What plugins for checkpoints share.
const HUGGING_FACE: (&str, &str) = ("hugging-face", "the front-end, and families as data");

/// Libraries that one crate alone may use, because it is the one place to change when they are replaced.
const ONE_USER: &[(&str, &str)] =
    &[("sled", "jobs"), ("notify", "intake"), ("libloading", "plugin-host"), ("toml", "config")];

#[test]
fn crates_use_only_what_lies_above_them() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let allowed: BTreeMap<&str, &[(&str, &str)]> = ALLOWED.iter().copied().collect();
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
                Some(used)
                    if used != EVERYWHERE && may.iter().all(|(crate_, _)| *crate_ != used) =>
                {
                    wrong.push(format!("{name} uses {used}"));
                }
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
        let uses =
            |used: &str| package.dependencies.iter().any(|d| d.name == format!("onnxd-{used}"));
        let idle = may.iter().filter(|(used, _)| !uses(used));
        wrong.extend(idle.map(|(used, _)| format!("{name} does not use {used}")));
        seen.insert(name);
    }
    for (at, (name, may)) in ALLOWED.iter().enumerate() {
        let above = |used: &str| ALLOWED[..at].iter().any(|(crate_, _)| *crate_ == used);
        let below = may.iter().filter(|(used, _)| !above(used));
        wrong.extend(below.map(|(used, _)| format!("{name} stands above {used}")));
    }
    let stale = ALLOWED.iter().filter(|(name, _)| !seen.contains(*name));
    wrong.extend(stale.map(|(name, _)| format!("the row {name} has no crate")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `UPDATE_EXPECT=1 cargo test -p onnxd-integration-tests --test it layers::` writes it.
#[test]
fn architecture_shows_the_list() {
    const BEGIN: &str = "<!-- begin: who uses whom -->\n";
    const END: &str = "<!-- end: who uses whom -->\n";
    let mut table = "| crate | uses | for |\n| --- | --- | --- |\n".to_owned();
    for (name, may) in ALLOWED.iter().filter(|(_, may)| !may.is_empty() && may[0] != SDK) {
        for (i, (used, why)) in may.iter().enumerate() {
            let name = if i == 0 { format!("`{name}`") } else { String::new() };
            table += &format!("| {name} | `{used}` | {why} |\n");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert!(shown == table, "stale: run UPDATE_EXPECT=1 cargo test --test it layers::");
}

#[test]
fn the_walk_leads_to_functions_that_exist() {
    const STOPS: usize = 10;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, walk) = text.split_once("### Follow a dropped").unwrap();
    let rows = walk.split("\n#").next().unwrap().lines().filter_map(|line| {
        let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`'));
        cells.nth(1)?.parse::<usize>().ok()?;
        Some((cells.next()?, cells.next()?))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    assert_eq!(rows.len(), STOPS);
    for (file, function) in rows {
        let code = fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(code.contains(&format!("fn {function}(")), "no function {function} in {file}");
    }
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
