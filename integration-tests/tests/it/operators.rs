//! Operators that plugins add to all front-ends, through the built program: in Rust and in C, for a front-end with
//! tables and for ONNX models.

use onnxd_eval::{Executor, RunOptions};
use onnxd_integration_tests::{
    command, converted, folder_with, library, outcome, root, with_plugins_of,
};
use onnxd_ir::{Attr, Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const LINE: &str = "libexample_plugin.so";
const OPERATORS: &str = "libexample_operator.so";
const TORCH: &str = "libonnxd_frontend_torch.so";

/// The plugin in C, with `from` as `to`.
fn in_c(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let source = fs::read_to_string(root().join("plugins/example-c/swish.c")).unwrap();
    assert!(source.contains(from), "{from}");
    compiled(folder, name, &source.replace(from, to))
}

fn compiled(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (code, built) = (folder.join("plugin.c"), folder.join("plugins").join(name));
    fs::write(&code, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-I"])
        .arg(root().join("core/plugin-abi"))
        .arg("-o")
        .args([&built, &code])
        .status();
    assert!(compiled.unwrap().success());
    built
}

/// A conversion of a line file, without passes of a profile.
fn lines(folder: &TempDir, text: &str) -> (i32, String, Value) {
    fs::write(folder.path().join("net.line"), text).unwrap();
    converted(folder.path(), "out", &["net.line"], &["passes.profile=none"])
}

fn operators(folder: &TempDir) -> Vec<String> {
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    assert!(!model.opsets.contains_key("my"), "{:?}", model.opsets);
    nodes(folder)
}

/// As [`operators`], where a plugin in C may leave an import behind.
fn nodes(folder: &TempDir) -> Vec<String> {
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    model.graph.nodes().map(|(_, node)| node.op.clone()).collect()
}

#[test]
fn operators_of_rust_and_c_become_operators_of_onnx() {
    let folder = folder_with(&[LINE, OPERATORS]);
    in_c(folder.path(), "libswish.so", "my::swish", "my::swish");
    let text = "scale 1 2\nmy::swish 1.5\nmy::gelu_tanh\nclip 0 5\nmy::hard_shrink\n";
    let (status, stderr, report) = lines(&folder, text);
    assert_eq!(status, 0, "{stderr}");
    let expected = "Add Mul Mul Sigmoid Mul Mul Mul Mul Add Mul Tanh Mul Add Mul Clip Shrink";
    let mut found = operators(&folder);
    let mut wanted: Vec<&str> = expected.split(' ').collect();
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    // All lowered nodes know the line that they come from.
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    let places = model.graph.nodes().flat_map(|(_, n)| n.layers.iter().map(|l| l.place.clone()));
    let places: Vec<String> = places.collect();
    assert_eq!(places.iter().filter(|place| *place == "net.line:2").count(), 3, "{places:?}");
    assert_eq!(places.iter().filter(|place| *place == "net.line:3").count(), 9, "{places:?}");
    let x = Tensor::vector(vec![-2.0f32, 0.1, 0.6]);
    let feeds = [("x".to_owned(), x.clone())].into();
    let found = Executor::new(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
    let wanted = x.to_reals().unwrap().values.into_iter().map(|x| {
        let x = (x + 1.0) * 2.0;
        let x = x / (1.0 + (-1.5 * x).exp());
        let x = x / 2.0 * (1.0 + (0.797_884_56 * (x + 0.044_715 * x.powi(3))).tanh());
        let x = x.clamp(0.0, 5.0);
        if x > 0.5 { x } else { 0.0 }
    });
    for (y, wanted) in found[0].1.to_reals().unwrap().values.into_iter().zip(wanted) {
        assert!((y - wanted).abs() < 1e-5, "{y} {wanted}");
    }
    let passes: Vec<(&str, u64)> =
        report["passes"].as_array().unwrap().iter().map(passed).collect();
    assert_eq!(passes, [("swish", 1), ("my-operators", 2)]);
}

fn passed(pass: &Value) -> (&str, u64) {
    (pass["name"].as_str().unwrap(), pass["rewrites"].as_u64().unwrap())
}

#[test]
fn an_operator_that_nothing_knows_is_one_finding() {
    let folder = folder_with(&[LINE, OPERATORS]);
    let text = "my::gelu_tanh\nmy::turn 1\nbend 2\nmy::turn 3\nclip 5\n";
    let (status, stderr, report) = lines(&folder, text);
    assert_eq!(status, 3, "{stderr}");
    let found: Vec<&str> = report["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["message"].as_str().unwrap())
        .collect();
    let wanted = [
        "`bend` is not known to this front-end.",
        "`my::turn` is not known to this front-end (2 places).", "the argument `max` is missing.",
    ];
    assert_eq!(found, wanted);
    assert_eq!(report["diagnostics"][1]["place"], "net.line:2");

    // Without the plugin its operators are unknown, too.
    let (status, stderr, _) = lines(&folder_with(&[LINE]), "my::gelu_tanh\n");
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("`my::gelu_tanh` is not known"), "{stderr}");
}

#[test]
fn a_wrong_argument_names_its_line() {
    let folder = folder_with(&[LINE, OPERATORS]);
    let text = "my::hard_shrink low\nmy::gelu_tanh\nmy::hard_shrink high\n";
    let (status, stderr, report) = lines(&folder, text);
    assert_eq!(status, 2, "{stderr}");
    let found = report["diagnostics"].as_array().unwrap();
    let places: Vec<&str> = found.iter().map(|d| d["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["net.line:1", "net.line:3"], "{found:?}");
    assert!(stderr.contains("the argument `lambda` must be a number, found a word"), "{stderr}");

    let (status, stderr, report) = lines(&folder, "my::gelu_tanh 2\n");
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(report["diagnostics"][0]["code"], "N0216");
    assert!(
        stderr.contains("argument 2 has no effect") && stderr.contains("net.line:1"),
        "{stderr}"
    );

    in_c(folder.path(), "libswish.so", "my::swish", "my::swish");
    let (status, stderr, _) = lines(&folder, "my::swish low\n");
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("line1: `beta` of my::swish must be a number"), "{stderr}");
}

#[test]
fn two_plugins_for_an_operator_are_named() {
    let folder = folder_with(&[LINE, OPERATORS]);
    in_c(folder.path(), "libswish.so", "my::swish", "my::gelu_tanh");
    let (status, stderr, report) = lines(&folder, "scale 1 2\nmy::gelu_tanh\n");
    assert_eq!(status, 75, "{stderr}");
    let both = "`org.onnxd.example-operator/my-operators`";
    assert!(
        stderr.contains(both) && stderr.contains("`org.onnxd.example-c-swish/swish`"),
        "{stderr}"
    );
    assert_eq!(report["diagnostics"][0]["place"], "net.line:2");

    let listed = plugins(&folder, &["list"]);
    assert_eq!(listed.0, 1);
    assert!(listed.2.contains("it lowers `my::gelu_tanh`, as"), "{}", listed.2);

    let (status, stderr, _) = lines(&folder, "scale 1 2\n");
    assert_eq!(status, 0, "a network without the operator is none of it: {stderr}");
}

#[test]
fn an_operator_that_its_pass_leaves_is_an_error() {
    let folder = folder_with(&[LINE]);
    in_c(folder.path(), "libswish.so", "\"swish\")) continue;", "\"swosh\")) continue;");
    let (status, stderr, report) = lines(&folder, "my::swish\nmy::swish\n");
    assert_eq!(status, 3, "{stderr}");
    let told = "`my::swish` was left (2 places) by the pass swish of plugin org.onnxd.example-c-swish 0.1.0";
    assert!(stderr.contains("N0203") && stderr.contains(told), "{stderr}");
    assert_eq!(report["diagnostics"][0]["place"], "net.line:1");
}

#[test]
fn a_descriptor_with_a_wrong_name_is_refused() {
    let folder = folder_with(&[LINE]);
    let built = in_c(folder.path(), "libswish.so", "['my::swish']", "['swish']");
    let (status, _, stderr) = plugins(&folder, &["inspect", built.to_str().unwrap()]);
    assert_eq!(status, 75, "{stderr}");
    let told = "component `swish`: `swish` in `lowers`: expected an operator like `my::op`";
    assert!(stderr.contains("N0403") && stderr.contains(told), "{stderr}");
}

#[test]
fn operators_of_an_onnx_model_are_lowered() {
    let folder = folder_with(&["libonnxd_frontend_onnx.so", OPERATORS]);
    let graph = "g (float[2] x, bool c) => (float[2] y) {
        a = my.hard_shrink<lambda = 0.3>(x)
        b = Relu(a)
        y = If<then_branch = t () => (float[2] p) { p = my.gelu_tanh(b) },
               else_branch = e () => (float[2] q) { q = Neg(b) }>(c)
    }";
    let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
    model.opsets.insert("my".into(), 1);
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    let (status, stderr, _) =
        converted(folder.path(), "out", &["net.onnx"], &["passes.profile=none"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(operators(&folder), ["Shrink", "Relu", "If"]);
}

/// A model of torch's with operators that `torch.library` declares, beside what torch makes of `custom.npz`.
fn torch(file: &str) -> (TempDir, i32, String) {
    let folder = folder_with(&[TORCH, OPERATORS]);
    in_c(folder.path(), "libswish.so", "my::swish", "my::swish");
    torch_in(folder, file)
}

/// As [`torch`], where the operators are lowered in C.
fn torch_in_c(file: &str) -> (TempDir, i32, String) {
    let folder = folder_with(&[TORCH]);
    forms_in_c(folder.path());
    torch_in(folder, file)
}

fn forms_in_c(folder: &Path) {
    let source = fs::read_to_string(root().join("plugins/example-c/forms.c")).unwrap();
    compiled(folder, "libforms.so", &source);
}

fn torch_in(folder: TempDir, file: &str) -> (TempDir, i32, String) {
    let models = root().join("plugins/example-operator/models");
    fs::copy(models.join(file), folder.path().join(file)).unwrap();
    let sets = ["passes.profile=none", "export.input_shapes=[[4, 3]]"];
    let (status, stderr, _) = converted(folder.path(), "out", &[file], &sets);
    (folder, status, stderr)
}

#[test]
fn operators_of_torch_files_become_operators_of_onnx() {
    let arrays = onnxd_arrays::read(&root().join("plugins/example-operator/models/custom.npz"));
    let arrays = arrays.unwrap();
    for file in ["custom.pt", "custom.pt2"] {
        let (folder, status, stderr) = torch(file);
        assert_eq!(status, 0, "{file}: {stderr}");
        assert!(operators(&folder).contains(&"Shrink".to_owned()));
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let feeds = [arrays[0].clone()].into();
        let found = Executor::new(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
        for ((name, y), (_, wanted)) in found.iter().zip(&arrays[1..]) {
            let (y, wanted) = (y.to_reals().unwrap().values, wanted.to_reals().unwrap().values);
            let near = y.iter().zip(&wanted).all(|(y, w)| (y - w).abs() < 1e-5);
            assert!(near && y.len() == wanted.len(), "{file} {name}: {y:?} {wanted:?}");
        }
    }
}

#[test]
fn an_operator_of_a_torch_file_becomes_a_function_of_the_model() {
    let both = |file| [torch(file), torch_in_c(file)];
    for (folder, status, stderr) in ["gated.pt", "gated.pt2"].into_iter().flat_map(both) {
        assert_eq!(status, 0, "{stderr}");
        assert_eq!(nodes(&folder), ["Gated", "Gated", "Relu"]);
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let names: Vec<&str> = model.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["Gated"]);
        let (name, x) = (model.graph[model.graph.inputs()[0]].name.clone(), [-3.0f32, 0.5, 2.0]);
        let feeds = [(name, Tensor::from_vec([4, 3], [x; 4].concat()))].into();
        let found = Executor::new(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
        let gated = |x: f32| x / (1.0 + (-x).exp());
        let wanted = [x; 4].concat().into_iter().map(|x| gated(gated(x)).max(0.0));
        let found = found[0].1.to_reals().unwrap().values;
        assert!(found.iter().zip(wanted).all(|(y, w)| (*y as f32 - w).abs() < 1e-6), "{found:?}");
    }
}

#[test]
fn an_operator_of_a_line_becomes_one_of_onnx_in_c() {
    let folder = folder_with(&[LINE]);
    forms_in_c(folder.path());
    let (status, stderr, _) = lines(&folder, "my::hard_shrink 0.25\n");
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(nodes(&folder), ["Shrink"]);
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    let (_, node) = model.graph.nodes().next().unwrap();
    assert!(matches!(node.attr("lambd"), Some(Attr::Float(x)) if *x == 0.25), "{node:?}");
}

#[test]
fn an_operator_of_a_torch_file_stays_in_a_domain_of_its_own() {
    let both = |file| [(file, torch(file)), (file, torch_in_c(file))];
    for (file, (folder, status, stderr)) in ["warped.pt", "warped.pt2"].into_iter().flat_map(both) {
        assert_eq!(status, 0, "{file}: {stderr}");
        assert_eq!(nodes(&folder), ["Warp", "Relu"], "{file}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        assert_eq!(model.opsets.get("com.example"), Some(&1), "{file}");
        let warp = model.graph.nodes().find(|(_, node)| node.op == "Warp").unwrap().1;
        let by = warp.attr("by");
        assert!(matches!(by, Some(Attr::Floats(by)) if *by == [2.0, 0.5]), "{file}: {by:?}");
    }
}

#[test]
fn a_plugin_in_c_lowers_an_operator_of_a_torch_file() {
    for file in ["swished.pt", "swished.pt2"] {
        let (folder, status, stderr) = torch(file);
        assert_eq!(status, 0, "{file}: {stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let nodes = model.graph.topological().unwrap().into_iter().map(|id| &model.graph[id]);
        let nodes: Vec<&str> = nodes.map(|node| node.op.as_str()).collect();
        assert_eq!(nodes, ["Mul", "Sigmoid", "Mul", "Relu"], "{file}");
    }
}

#[test]
fn users_see_which_operators_a_plugin_lowers() {
    let folder = folder_with(&[LINE, OPERATORS]);
    let (status, listed, _) = plugins(&folder, &["list"]);
    assert_eq!(status, 0);
    let row = listed.lines().find(|line| line.contains("my::gelu_tanh")).expect(&listed);
    assert!(row.contains("operator") && row.contains("Lowered by my-operators"), "{row}");
    let (_, inspected, _) = plugins(&folder, &["inspect", "org.onnxd.example-operator"]);
    assert!(inspected.contains("my::hard_shrink"), "{inspected}");

    fs::write(folder.path().join("net.line"), "scale 1 2\n").unwrap();
    let mut run = command(folder.path());
    with_plugins_of(&mut run, &folder.path().join("plugins"));
    let explained = run.args(["explain", "--json"]).arg(folder.path().join("net.line")).output();
    let explained: Value = serde_json::from_slice(&explained.unwrap().stdout).unwrap();
    let wanted = serde_json::json!({
        "op": "my::gelu_tanh", "plugin": "org.onnxd.example-operator", "pass": "my-operators",
    });
    assert_eq!(explained["lowered"][0], wanted);
}

/// `plugins check` takes a pass like any other.
#[test]
fn an_author_checks_a_plugin_of_operators() {
    let folder = folder_with(&[LINE]);
    let mut run = command(folder.path());
    run.args(["plugins", "check"]).arg(library(OPERATORS));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
}

/// Status, standard output and standard error of a command about plugins.
fn plugins(folder: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let mut run = command(folder.path());
    with_plugins_of(&mut run, &folder.path().join("plugins"));
    let output = run.arg("plugins").args(arguments).output().unwrap();
    let (status, stderr) = outcome(&output);
    (status, String::from_utf8_lossy(&output.stdout).into_owned(), stderr)
}
