//! Conversions through the built program: what comes out computes what went in, and the report says what happened.

use onnxd_eval::{Executor, RunOptions};
use onnxd_integration_tests::{
    command, converted, copy_program, folder_with, onnxd, outcome, small_model,
};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{External, WriteOptions, write_model};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Case {
        Case { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn convert(&self, paths: &[&Path], settings: &[&str]) -> (i32, String) {
        let mut run = command(self.folder.path());
        run.arg("convert").args(paths).arg("--out").arg(self.path("out"));
        for setting in settings {
            run.args(["--set", setting]);
        }
        outcome(&run.output().unwrap())
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("out/report.json")).unwrap()).unwrap()
    }

    fn model(&self) -> Model {
        onnxd_onnx::load(&self.path("out/model.onnx")).unwrap().model
    }
}

fn write(model: &Model, path: &Path) {
    write_model(model, path, &WriteOptions::default()).unwrap();
}

fn run(model: &Model, x: &Tensor) -> Tensor {
    let name = model.graph[model.graph.inputs()[0]].name.clone();
    let feeds = BTreeMap::from([(name, x.clone())]);
    let executor = Executor::new(model).unwrap();
    executor.run(&feeds, RunOptions::default()).unwrap().remove(0).1
}

const BLOCK: &str = "block (float[N,1,4,4] x) => (float[N,2,4,4] y)
<float[2,1,3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3},
 float[2] gamma = {4.0, 5.0}, float[2] beta = {6.0, 7.0}, float[2] mean = {1.0, 1.0}, float[2] var = {4.0, 1.0},
 int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}>
{
  p = Pad(x, pads)
  c = Conv(p, w)
  n = BatchNormalization(c, gamma, beta, mean, var)
  d = Dropout(n)
  i = Identity(d)
  y = Relu(i)
}";

#[test]
fn passes_leave_the_numbers_alone() {
    let case = Case::new();
    let source = Model::new(text::parse_graph(BLOCK).unwrap(), 8, 17);
    write(&source, &case.path("net.onnx"));
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &[]);
    assert_eq!(status, 0, "{stderr}");
    let model = case.model();
    let ops: Vec<String> = model.graph.nodes().map(|(_, n)| n.op.clone()).collect();
    assert_eq!(ops, ["Conv", "Relu"]);
    let x = Tensor::from_vec(vec![1, 1, 4, 4], (0..16).map(|i| i as f32 / 8.0 - 1.0).collect());
    let (want, got) = (run(&source, &x).to_reals().unwrap(), run(&model, &x).to_reals().unwrap());
    assert_eq!(want.dims, got.dims);
    for (a, b) in want.values.iter().zip(&got.values) {
        assert!((a - b).abs() < 1e-4 * a.abs().max(1.0), "{a} became {b}");
    }
    let report = case.report();
    assert_eq!(report["verdict"], "succeeded");
    let fused = report["passes"].as_array().unwrap().iter();
    let fused = fused.filter(|p| p["rewrites"].as_u64() > Some(0)).count();
    assert_eq!(fused, 4, "{:#}", report["passes"]);
}

#[test]
fn without_passes_the_graph_stays() {
    let case = Case::new();
    write(&Model::new(text::parse_graph(BLOCK).unwrap(), 8, 17), &case.path("net.onnx"));
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &["passes.profile=none"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(case.model().graph.node_count(), 6);
}

#[test]
fn rewrites_can_be_bisected() {
    let case = Case::new();
    write(&Model::new(text::parse_graph(BLOCK).unwrap(), 8, 17), &case.path("net.onnx"));
    let mut counts = Vec::new();
    for limit in ["1", "2", "9"] {
        let mut run = command(case.folder.path());
        run.arg("convert").arg(case.path("net.onnx")).arg("--out").arg(case.path("out"));
        run.args(["--stop-after-rewrite", limit]);
        let (status, stderr) = outcome(&run.output().unwrap());
        assert_eq!(status, 0, "{stderr}");
        counts.push(case.model().graph.node_count());
    }
    assert_eq!(counts, [5, 4, 2]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let bytes = [0, 1].map(|_| {
        let case = Case::new();
        write(&Model::new(text::parse_graph(BLOCK).unwrap(), 8, 17), &case.path("net.onnx"));
        assert_eq!(case.convert(&[&case.path("net.onnx")], &[]).0, 0);
        fs::read(case.path("out/model.onnx")).unwrap()
    });
    assert!(bytes[0] == bytes[1]);
}

#[test]
fn external_data_in_and_out() {
    let case = Case::new();
    let mut source = small_model();
    source.graph.name = "external".into();
    let w = source.graph.value_named("w").unwrap();
    source.graph.set_initializer(w, Some(Tensor::from_vec(vec![512, 4], vec![0.5f32; 2048])));
    source.graph[w].ty = None;
    for v in source.graph.value_ids() {
        if source.graph[v].name != "w" {
            let dims = [512i64, 4];
            source.graph[v].ty = Some(onnxd_ir::ValueType::tensor(onnxd_ir::DataType::Float, dims));
        }
    }
    let options = WriteOptions { external: External::Always, ..WriteOptions::default() };
    fs::create_dir(case.path("drop")).unwrap();
    let written = write_model(&source, &case.path("drop/net.onnx"), &options).unwrap();
    assert_eq!(written.files.len(), 2);
    let (status, stderr) = case.convert(&[&case.path("drop")], &["export.external_data=always"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(case.path("out/model.onnx.data").exists());
    let model = case.model();
    let kept = model.graph.value_ids().filter_map(|v| model.graph[v].initializer()).next().unwrap();
    assert_eq!(kept.len(), 2048);

    fs::remove_file(&written.files[1].0).unwrap();
    let (status, stderr) = case.convert(&[&case.path("drop")], &[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("net.onnx.data"), "{stderr}");
}

#[test]
fn names_and_axes_as_asked_for() {
    let case = Case::new();
    write(&small_model(), &case.path("net.onnx"));
    let settings = [
        "export.input_names=[\"pixels\"]", "export.output_names=[\"score\"]",
        "export.dynamic_axes={pixels = {\"1\" = \"width\"}}",
    ];
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &settings);
    assert_eq!(status, 0, "{stderr}");
    let graph = case.model().graph;
    let x = &graph[graph.inputs()[0]];
    assert_eq!(
        (x.name.as_str(), x.ty.as_ref().unwrap().to_string().as_str()),
        ("pixels", "float[n,width]")
    );
    assert_eq!(graph[graph.outputs()[0]].name, "score");

    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &["export.opest=17"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("opset"), "{stderr}");
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &["export.opset=18"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(case.model().opset(), 18);
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &["export.opset=30"]);
    assert_eq!(status, 3, "{stderr}");
    // What no component reads is told.
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &["export.export_params=false"]);
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("N0111") && stderr.contains("export.export_params"), "{stderr}");
    let (status, stderr) =
        case.convert(&[&case.path("net.onnx")], &["quantization.format=none-such"]);
    assert_eq!(status, 3, "{stderr}");
    let (status, stderr) =
        case.convert(&[&case.path("net.onnx")], &["passes.enable=[\"fuse-pd\"]"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("fuse-pad"), "{stderr}");
}

/// A two-dimensional array of 32-bit floats in NumPy's format, alone in a stored zip archive.
fn npz(name: &str, dims: [usize; 2], values: &[f32], folder: &Path) -> PathBuf {
    let script = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
        dims[0], dims[1]
    );
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend_from_slice(&(script.len() as u16 + 1).to_le_bytes());
    npy.extend_from_slice(script.as_bytes());
    npy.push(b'\n');
    npy.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    let path = folder.join(format!("{name}.npy"));
    fs::write(&path, npy).unwrap();
    path
}

#[test]
fn eval_and_compare() {
    let case = Case::new();
    write(&small_model(), &case.path("net.onnx"));
    let x = npz("x", [1, 4], &[1.0, 1.0, 1.0, 5.0], case.folder.path());
    let mut run = command(case.folder.path());
    run.arg("eval").arg(case.path("net.onnx")).arg("--inputs").arg(&x);
    run.arg("--out").arg(case.path("y.npz"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    let bytes = fs::read(case.path("y.npz")).unwrap();
    let want: Vec<u8> = [2.0f32, 0.0, 4.0, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert!(bytes.windows(16).any(|w| w == want), "the outputs are in the archive");

    let mut other = small_model();
    let w = other.graph.value_named("w").unwrap();
    other.graph.set_initializer(w, Some(Tensor::vector(vec![1.0f32, -2.0, 3.0, -4.5])));
    write(&other, &case.path("other.onnx"));
    let made_up = command(case.folder.path())
        .arg("compare")
        .args([case.path("net.onnx"), case.path("net.onnx")])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&made_up.stdout).contains("made up by a fixed rule"));
    for (second, status) in [("net.onnx", 0), ("other.onnx", 1)] {
        let mut run = command(case.folder.path());
        run.arg("compare").arg(case.path("net.onnx")).arg(case.path(second)).arg("--json");
        run.arg("--inputs").arg(&x);
        let output = run.output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_program_can_be_moved() {
    let case = Case::new();
    let folder = case.path("moved");
    fs::create_dir(&folder).unwrap();
    copy_program(&folder.join("onnxd"));
    for entry in fs::read_dir(onnxd().parent().unwrap()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("libonnxd_") && name.ends_with(".so") {
            fs::copy(entry.path(), folder.join(name)).unwrap();
        }
    }
    write(&small_model(), &case.path("net.onnx"));
    let mut run = std::process::Command::new(folder.join("onnxd"));
    run.env_clear().env("HOME", case.folder.path()).env("ONNXD_STATE_DIR", case.path("state"));
    run.arg("convert").arg(case.path("net.onnx")).arg("--out").arg(case.path("out"));
    let (status, stderr) = outcome(&run.output().unwrap());
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(case.model().graph.node_count(), 2);
}

/// Runtimes run it, so it is converted; the written model says what is true.
#[test]
fn declared_shapes_that_are_wrong_are_settled() {
    let source = text::parse_model(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        net (float[2,3] x) => (float[9] y) <float[3,2] a> { [first] a = Relu(x) y = Neg(a) }"#,
    );
    let case = Case::new();
    write(&source.unwrap(), &case.path("net.onnx"));
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &[]);
    assert_eq!(status, 0, "{stderr}");
    let model = case.model();
    let y = model.graph.outputs()[0];
    assert_eq!(model.graph[y].ty.as_ref().unwrap().to_string(), "float[2,3]");
    let report = case.report();
    let said = report["diagnostics"].as_array().unwrap().iter();
    let layers: Vec<&str> = said
        .filter(|d| d["code"] == "N0511" && d["severity"] == "warning")
        .filter_map(|d| d["layer"].as_str().or(d["layer"]["name"].as_str()))
        .collect();
    assert_eq!(layers.len(), 2, "{report}");
    assert_eq!(layers[0], "first");
}

/// Classical machine learning and what no table lists go through as they are, attributes included.
#[test]
fn operators_of_other_domains_pass() {
    let source = text::parse_model(
        r#"<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1, "own" : 7]>
        net (float[3] x) => (float[3] y, float[3] z, float[3] u) {
          s = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)
          i = Identity(s)
          y = com.microsoft.Gelu(i)
          z = com.microsoft.Unheard<depth = 3>(i)
          u = own.Op(i)
        }"#,
    )
    .unwrap();
    let case = Case::new();
    write(&source, &case.path("net.onnx"));
    let (status, stderr) = case.convert(&[&case.path("net.onnx")], &[]);
    assert_eq!(status, 0, "{stderr}");
    let model = case.model();
    let mut kept: Vec<String> =
        model.graph.nodes().map(|(_, n)| format!("{}.{} {:?}", n.domain, n.op, n.attrs)).collect();
    let mut given: Vec<String> = source
        .graph
        .nodes()
        .filter(|(_, n)| !n.is_standard())
        .map(|(_, n)| format!("{}.{} {:?}", n.domain, n.op, n.attrs))
        .collect();
    kept.sort();
    given.sort();
    assert_eq!(kept, given);
    assert_eq!(model.opsets, source.opsets);
}

#[test]
fn the_front_ends_say_which_file_of_a_folder_is_the_network() {
    let case = Case::new();
    let folder = case.path("net");
    fs::create_dir(&folder).unwrap();
    write(&small_model(), &folder.join("part.onnx"));
    let ini = "DefaultModel=Frame\n[sp]\nSizeX=1\nSizeY=1\nNbChannels=4\n\
               [onnx]\nInput=sp\nType=ONNX\nFile=part.onnx\n\
               [soft]\nInput=y\nType=Softmax\n[soft.Target]\n";
    fs::write(folder.join("network.ini"), ini).unwrap();
    fs::write(folder.join("desk.ini"), "[.ShellClassInfo]\nIconIndex=0\n").unwrap();
    let (status, stderr) = case.convert(&[&folder], &[]);
    assert_eq!(status, 0, "{stderr}");
    let explained = command(case.folder.path()).arg("explain").arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.status.success() && text.contains("network.ini"), "{text}");
    write(&small_model(), &folder.join("other.onnx"));
    let (status, stderr) = case.convert(&[&folder], &[]);
    assert!(status == 2 && stderr.contains("`network.ini`, `other.onnx`"), "{stderr}");
}

#[test]
fn the_runtime_that_is_named_says_which_opset_is_lowered() {
    let folder = folder_with(&["libonnxd_frontend_onnx.so"]);
    let at = folder.path();
    let text = "net (float[2,8] x) => (float[2,8] y) <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1}> {
        y = RMSNormalization (x, s)
    }";
    let model = onnxd_ir::Model::new(onnxd_ir::text::parse_graph(text).unwrap(), 11, 23);
    onnxd_onnx::write_model(&model, &at.join("net.onnx"), &Default::default()).unwrap();
    for (runtime, opset, operator) in [
        (None, ", opset 21 (lowered from 23)", false),
        (Some("export.runtime=onnxruntime-1.23"), ", opset 23,", true),
        (Some("export.runtime=onnxruntime-1.17"), ", opset 20 (lowered from 23)", false),
    ] {
        let sets: Vec<&str> = runtime.into_iter().chain(["passes.profile=none"]).collect();
        let (status, stderr, report) = converted(at, "out", &["net.onnx"], &sets);
        assert_eq!(status, 0, "{stderr}");
        let receipt = fs::read_to_string(at.join("out/receipt.txt")).unwrap();
        assert!(receipt.contains(opset), "{receipt}");
        if runtime.is_some_and(|name| name.ends_with("1.17")) {
            assert_eq!(report["model"]["ir_version"], 9, "what it reads");
        }
        let counts = report["model"]["op_counts"].as_array().unwrap();
        let kept = counts.iter().any(|row| row["op"] == "RMSNormalization" && row["final"] == 1);
        assert_eq!(kept, operator, "{counts:?}");
    }
    let sets = ["export.runtime=tensorrt-10", "passes.profile=none"];
    let (status, stderr, _) = converted(at, "out", &["net.onnx"], &sets);
    assert!(status == 2 && stderr.contains("N0105"), "{status} {stderr}");
}
