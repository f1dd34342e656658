//! House rules over the repository's own text.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 120;

/// Calls that are banned outside tests, where they may stand, and why.
const BANNED: &[(&str, &[&str], &str)] = &[
    (
        "println!",
        &["core/daemon/src/cli", "core/daemon/src/main.rs"],
        "output belongs to the command line",
    ),
    ("process::exit", &["core/daemon/src", "integration-tests"], "only `main` ends the process"),
    (".unwrap()", &["integration-tests", "core/rewrite/src/check.rs"], "say which invariant holds"),
    ("todo!(", &[], "nothing unfinished is merged"),
    ("unimplemented!(", &[], "nothing unfinished is merged"),
];

/// Crates that are pure functions over graphs.
const PURE: &[&str] = &["core/ir/src", "core/rewrite/src", "core/eval/src", "core/quantize/src"];
const IMPURE: &[&str] = &["std::fs", "std::net", "std::thread", "std::time::Instant", "std::env"];

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &[
    "core/plugin-abi", "core/plugin-sdk", "core/plugin-host", "core/worker",
    "core/onnx/src/mapped.rs", "core/onnx/src/stream.rs", "core/eval/src/gemm.rs",
    "core/engine-ort", "core/files/src/lease.rs", "core/daemon/src/run/own_crash.rs",
    "core/eval/src/parallel.rs", "core/quantize/tests/memory.rs", "core/rewrite/tests/linear.rs",
    "proto/tests/counting", "integration-tests",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every source file of ours, relative to the root, with its text.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut pending: Vec<PathBuf> =
        ["proto", "config", "core", "plugins", "integration-tests"].map(|d| root.join(d)).into();
    let mut found = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("generated") {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs" || e == "c" || e == "h") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The text without its tests: up to the first test module, nothing of test files.
fn code(name: &str, text: &str) -> String {
    let is_test = name.contains("/tests/")
        || name.ends_with("tests.rs")
        || name.ends_with("testing.rs")
        || name.ends_with("suite.rs")
        || name.contains("/benches/")
        || name.contains("build.rs");
    if is_test {
        return String::new();
    }
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

#[test]
fn files_and_lines_are_short() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        if lines > LINES_MAX && !name.contains("/tests/") {
            wrong.push(format!("{name} has {lines} lines"));
        }
        for (i, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !line.contains("http") {
                wrong.push(format!("{name}:{} has {columns} columns", i + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn banned_calls() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let code = code(&name, &text);
        for (call, allowed, why) in BANNED {
            let may = allowed.iter().any(|place| name.starts_with(place));
            for (i, line) in code.lines().enumerate() {
                let comment = line.trim_start().starts_with("//");
                if line.contains(call) && !may && !comment {
                    wrong.push(format!("{name}:{}: {call} ({why})", i + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn pure_crates_stay_pure() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        if PURE.iter().any(|place| name.starts_with(place)) {
            let code = code(&name, &text);
            wrong.extend(
                IMPURE.iter().filter(|word| code.contains(**word)).map(|w| format!("{name}: {w}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_stands_where_it_is_reviewed() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let may = UNSAFE.iter().any(|place| name.starts_with(place));
        for (i, line) in code(&name, &text).lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            if line.contains("unsafe ") && !comment && !may {
                wrong.push(format!("{name}:{}", i + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The compiler does not look at a file that no `mod` line names.
#[test]
fn every_file_of_tests_is_run() {
    let folder = root().join("integration-tests/tests/it");
    let main = fs::read_to_string(folder.join("main.rs")).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_module = |path: &PathBuf| {
        path.join("mod.rs").exists() || path.extension().is_some_and(|e| e == "rs")
    };
    let names = files.filter(is_module).map(|path| path.file_stem().unwrap().to_owned());
    let names = names.map(|name| name.into_string().unwrap()).filter(|name| name != "main");
    let missing: Vec<_> =
        names.filter(|name| !main.lines().any(|line| line == format!("mod {name};"))).collect();
    assert!(missing.is_empty(), "main.rs lacks {missing:?}");
}

/// A rewrite rule's file begins with the graph before and after.
#[test]
fn judges_are_in_the_table() {
    let table = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let judges = fs::read_dir(root().join("integration-tests/judges")).unwrap();
    let names = judges.map(|judge| judge.unwrap().file_name().into_string().unwrap());
    let missing: Vec<_> = names.filter(|name| !table.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md lacks {missing:?}");
}

#[test]
fn rules_show_what_they_do() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let is_rule = name.starts_with("plugins/")
            && text.contains("-> Rewrite {")
            && text.contains("doc_example(");
        if is_rule && text.matches("//! ```onnx").count() != 2 {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
