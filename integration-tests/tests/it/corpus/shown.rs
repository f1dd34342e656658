//! What a conversion gave as text, without what differs from run to run or from machine to machine.
//!
//! Where ranges were calibrated, numbers have five significant digits: sums of floats differ in their last bits between
//! processors, as `matrixmultiply` takes the widest vectors that there are.

use onnxd_diagnostics::Layer;
use onnxd_ir::text::{PrintOptions, print_model_with};
use onnxd_ir::{Attr, DataType, Graph, Model, Tensor};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Constants of more elements show the first few and a digest.
const ELEMENTS_MAX: usize = 64;
/// Metadata that differ with the version, and digests of sources.
const VOLATILE: [&str; 2] = ["onnxd.version", "onnxd.source.sha256"];

/// The written models, if there are any: metadata, ONNX text, and the source layers of nodes.
pub(crate) fn models(out: &Path, report: &Value) -> Option<String> {
    let outputs = report["outputs"].as_array()?;
    let paths = outputs.iter().filter(|o| o["role"] == "model").filter_map(|o| o["path"].as_str());
    let paths: Vec<&str> = paths.collect();
    match paths.as_slice() {
        [] => None,
        [path] => Some(model(out, path, report)),
        several => Some(
            several.iter().map(|path| format!("{path}\n{}", model(out, path, report))).collect(),
        ),
    }
}

fn model(out: &Path, path: &str, report: &Value) -> String {
    let loaded = onnxd_onnx::load(&out.join(path)).unwrap_or_else(|d| panic!("{path}: {d}"));
    let mut model = loaded.model;
    model.producer_version.clear();
    if is_calibrated(report) {
        round(&mut model);
    }
    let mut text = String::new();
    for (key, value) in std::mem::take(&mut model.metadata) {
        if !VOLATILE.contains(&key.as_str()) {
            writeln!(text, "{key} = {}", said(&value, report)).unwrap();
        }
    }
    let options = PrintOptions { elements_max: Some(ELEMENTS_MAX), digest: Some(digest) };
    text += &print_model_with(&model, &options);
    model.for_each_graph(|graph| provenance(graph, &mut text));
    text
}

fn digest(tensor: &Tensor) -> String {
    let (bytes, strings) = (tensor.bytes(), tensor.as_strings().unwrap_or_default().concat());
    let hash = xxhash_rust::xxh3::xxh3_64(if strings.is_empty() { &bytes } else { &strings });
    format!("{hash:016x}")
}

/// What ONNX text cannot say of nodes: where they come from, and their metadata.
fn provenance(graph: &Graph, text: &mut String) {
    for (_, node) in graph.nodes() {
        let output = node.outputs.iter().flatten().next();
        let name = output.map_or("", |v| graph[*v].name.as_str());
        let layers: Vec<String> = node.layers.iter().map(layer).collect();
        if !layers.is_empty() {
            writeln!(text, "{name}: {}", layers.join(", ")).unwrap();
        }
        for (key, value) in &node.metadata {
            writeln!(text, "{name}: {key} = {value}").unwrap();
        }
        if !node.doc.is_empty() {
            writeln!(text, "{name}: {}", node.doc).unwrap();
        }
    }
}

fn layer(layer: &Layer) -> String {
    format!("{} {} {}", layer.name, layer.kind, layer.place).trim().to_owned()
}

fn is_calibrated(report: &Value) -> bool {
    ["samples", "random_samples"].iter().any(|k| report["quantization"][k].as_u64() > Some(0))
}

/// Every real number of the model with five significant digits.
fn round(model: &mut Model) {
    let mut edited = std::mem::take(&mut model.graph);
    round_graph(&mut edited);
    model.graph = edited;
    for function in &mut model.functions {
        round_graph(&mut function.graph);
    }
}

fn round_graph(graph: &mut Graph) {
    for v in graph.value_ids() {
        if let Some(tensor) = graph[v].initializer().and_then(rounded) {
            graph.set_initializer(v, Some(tensor));
        }
    }
    for id in graph.node_ids() {
        for (_, attr) in &mut graph.node_mut(id).attrs {
            match attr {
                Attr::Float(x) => *x = five_digits(f64::from(*x)) as f32,
                Attr::Floats(xs) => {
                    xs.iter_mut().for_each(|x| *x = five_digits(f64::from(*x)) as f32);
                }
                Attr::Tensor(tensor) => *tensor = rounded(tensor).unwrap_or_else(|| tensor.clone()),
                _ => {}
            }
        }
        graph.edit_subgraphs(id, round_graph);
    }
}

fn rounded(tensor: &Tensor) -> Option<Tensor> {
    let float = matches!(tensor.dtype(), DataType::Float | DataType::Double);
    let reals = float.then(|| tensor.to_reals())??;
    reals.map(five_digits).to_tensor(tensor.dtype())
}

/// Text of the report or of metadata; its numbers are as exact as those of the model.
fn said(text: &str, report: &Value) -> String {
    if is_calibrated(report) { with_five_digits(text) } else { text.to_owned() }
}

/// The text with fractions of more digits rounded, unless they belong to a name.
fn with_five_digits(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let (before, word) = rest.split_at(start);
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let (word, after) = word.split_at(word.find(|c| !inner(c)).unwrap_or(word.len()));
        let fraction = word.split_once('.').filter(|(whole, part)| (whole.len() + part.len()) > 5);
        let number = fraction.and_then(|_| word.parse::<f64>().ok());
        shown += before;
        match number {
            Some(x) => write!(shown, "{}", five_digits(x)).unwrap(),
            None => shown += word,
        }
        rest = after;
    }
    shown + rest
}

fn five_digits(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
}

/// Exit status, verdict, findings in their order, what passes did and why not, what a quantizer left in float, what it
/// tried and how good the result is.
pub(crate) fn diagnostics(status: i32, stderr: &str, report: &Value, folder: &Path) -> String {
    let mut text = format!("exit status {status}");
    match report["verdict"].as_str() {
        Some(verdict) => writeln!(text, ", {verdict}").unwrap(),
        None => writeln!(text, ", no report\n{stderr}").unwrap(),
    }
    let rows = |at: &Value| at.as_array().cloned().unwrap_or_default();
    for d in rows(&report["diagnostics"]) {
        let word = |key: &str| d[key].as_str().unwrap_or_default().to_owned();
        write!(text, "{} {} {}", word("severity"), word("code"), word("class")).unwrap();
        let place = ["layer", "layer_kind", "place"].map(word);
        for part in place.iter().filter(|part| !part.is_empty()) {
            write!(text, " [{part}]").unwrap();
        }
        writeln!(text, ": {}", word("message")).unwrap();
        if !word("help").is_empty() {
            writeln!(text, "  help: {}", word("help")).unwrap();
        }
    }
    let further = rows(&report["further"]);
    let further = further.iter().flat_map(|model| rows(&model["passes"]));
    for pass in rows(&report["passes"]).into_iter().chain(further) {
        let (skipped, notes) = (rows(&pass["skipped"]), rows(&pass["notes"]));
        if pass["rewrites"] == 0 && skipped.is_empty() && notes.is_empty() {
            continue;
        }
        writeln!(text, "pass {}: {} rewrites", pass["name"].as_str().unwrap(), pass["rewrites"])
            .unwrap();
        for skip in skipped {
            writeln!(text, "  not at {}: {}", plain(&skip["at"]), plain(&skip["reason"])).unwrap();
        }
        for note in notes {
            writeln!(text, "  {}", plain(&note)).unwrap();
        }
    }
    for skip in rows(&report["quantization"]["left_in_float"]) {
        writeln!(text, "in float {}: {}", plain(&skip["at"]), plain(&skip["reason"])).unwrap();
    }
    for way in rows(&report["quantization"]["tried"]) {
        let chosen = if way["chosen"] == true { ", chosen" } else { "" };
        writeln!(text, "tried {}{chosen}", plain(&way["what"])).unwrap();
    }
    quality(&report["quantization"]["quality"], &mut text);
    said(&text.replace(&*folder.to_string_lossy(), "<folder>"), report)
}

fn quality(quality: &Value, text: &mut String) {
    if let Some(why) = quality["unmeasured"].as_str().filter(|why| !why.is_empty()) {
        writeln!(text, "quality: not measured, {why}").unwrap();
    }
    if let Some(db) = quality["sqnr_db"].as_f64() {
        let [samples, origin] = ["samples", "origin"].map(|key| &quality[key]);
        writeln!(text, "quality: {db:.0} dB on {samples} samples, {}", plain(origin)).unwrap();
    }
    if let Some(products) = quality["products"].as_u64() {
        writeln!(text, "quantized: {} of {products} weighted operators", quality["quantized"])
            .unwrap();
    }
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn names_keep_their_digits() {
    let text =
        "w.1234567 and conv1.25: one step is 0.00392156862745098, 1.5 of -12.3456789; v1.234567";
    let shown = "w.1234567 and conv1.25: one step is 0.0039216, 1.5 of -12.346; v1.234567";
    assert_eq!(with_five_digits(text), shown);
}
