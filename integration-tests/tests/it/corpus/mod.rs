//! The golden corpus: every folder `integration-tests/corpus/<front-end>/<case>` is a case. The built program converts
//! its files, and what it writes and says must be what the case expects.
//!
//! A case may hold inputs and the outputs that its source computes from them (`expected.inputs.npz`,
//! `expected.outputs.npz`): the built-in executor gets the same from the model.
//!
//! `UPDATE_EXPECT=1` writes the expectations anew, `CORPUS=n2d2/conv` takes only cases whose path contains that text.

mod difference;
mod files;
mod shown;

use onnxd_integration_tests::{PLUGINS, command, folder_with, numbers, outcome, with_plugins_of};
use onnxd_ir::Tensor;
use rayon::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MODEL: &str = "expected.onnx.txt";
/// Largest difference of an element, beside the largest magnitude of its output or 1.
const TOLERANCE: f64 = 1e-5;
const DIAGNOSTICS: &str = "expected.diagnostics.txt";

/// What a conversion gave: the model, if one was written, what was said, and outputs that are not as recorded.
struct CaseOutput {
    model: Option<String>,
    diagnostics: String,
    numbers: Option<String>,
}

/// All folders of cases that were asked for, sorted by name.
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folders = |at: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(at).unwrap().map(|e| e.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    };
    let mut cases: Vec<PathBuf> = folders(&root).iter().flat_map(|f| folders(f)).collect();
    cases.sort();
    let wanted = std::env::var("CORPUS").unwrap_or_default();
    cases.retain(|case| name(case).contains(&wanted));
    cases
}

/// `<front-end>/<case>`
fn name(case: &Path) -> String {
    let parts: Vec<_> = case.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    format!("{}/{}", parts[1], parts[0])
}

fn converted(case: &Path, common: &Path) -> CaseOutput {
    let folder = tempfile::tempdir().unwrap();
    let drop = folder.path().join("drop");
    files::prepare(case, &drop);
    let out = folder.path().join("out");
    let mut run = command(common);
    with_plugins_of(&mut run, &common.join("plugins"));
    run.arg("convert").arg(&drop).arg("--out").arg(&out);
    let (status, stderr) = outcome(&run.output().unwrap());
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    let report: Value = serde_json::from_slice(&report).unwrap_or(Value::Null);
    let model = shown::models(&out, &report);
    let numbers = wrong_numbers(case, &out, &report);
    CaseOutput {
        model,
        diagnostics: shown::diagnostics(status, &stderr, &report, folder.path()),
        numbers,
    }
}

/// What is wrong with the outputs of the written model, if it is known what they must be.
fn wrong_numbers(case: &Path, out: &Path, report: &Value) -> Option<String> {
    let array = |name: &str| onnxd_arrays::read(&case.join(name)).unwrap();
    if !case.join("expected.outputs.npz").exists() {
        return None;
    }
    let mut outputs = report["outputs"].as_array().into_iter().flatten();
    let path = outputs.find(|o| o["role"] == "model").and_then(|o| o["path"].as_str());
    let Some(path) = path else {
        return Some("no model, whose outputs would be compared".into());
    };
    let model = onnxd_onnx::load(&out.join(path)).unwrap().model;
    let found = numbers::outputs(&model, &array("expected.inputs.npz"));
    let wanted: Vec<Tensor> = array("expected.outputs.npz").into_iter().map(|(_, t)| t).collect();
    numbers::wrong(&found, &wanted, TOLERANCE)
}

/// What differs from the expectation that `name` holds; rewrites it where that was asked for.
fn compared(case: &Path, file: &str, found: Option<&str>) -> Option<String> {
    let path = case.join(file);
    let wanted = fs::read_to_string(&path).ok();
    if wanted.as_deref() == found {
        return None;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        match found {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        return None;
    }
    let lines = difference::difference_of(wanted.as_deref().unwrap_or(""), found.unwrap_or(""));
    Some(format!("--- {}/{file}\n{lines}", name(case)))
}

#[test]
fn conversions_give_what_is_expected() {
    let common = folder_with(&PLUGINS);
    let cases = cases();
    assert!(!cases.is_empty(), "no case has that name");
    let check = |case: &PathBuf| {
        let given = converted(case, common.path());
        let model = compared(case, MODEL, given.model.as_deref());
        let diagnostics = compared(case, DIAGNOSTICS, Some(&given.diagnostics));
        let numbers = given.numbers.map(|wrong| format!("--- {}\n{wrong}", name(case)));
        [model, diagnostics, numbers].into_iter().flatten().collect::<Vec<String>>()
    };
    let wrong: Vec<String> = cases.par_iter().flat_map_iter(check).collect();
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} expectations differ; if that is intended, UPDATE_EXPECT=1 writes them anew.\n{}",
        wrong.join("\n")
    );
}
