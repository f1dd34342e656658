//! Quantizers through the built program: one works, one is missing, and what they say is in the report.

use onnxd_integration_tests::{command, library, outcome, small_model, write_small_model};
use onnxd_ir::Tensor;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with the example's plugin, the small model, and seven calibration samples.
fn prepared() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    for name in ["libexample_plugin.so", "libonnxd_frontend_onnx.so"] {
        fs::copy(library(name), plugins.join(name)).unwrap();
    }
    write_small_model(&folder.path().join("net.onnx"), "to be quantized");
    let samples: Vec<f32> = (0..28).map(|i| i as f32 / 4.0 - 2.0).collect();
    let samples = Tensor::from_vec(vec![7, 4], samples);
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

/// Exit status, standard error and report of a conversion with `sets`.
fn convert(folder: &Path, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let out = folder.join("out");
    let mut run = command(folder);
    run.env("ONNXD_PLUGINS_PATH", folder.join("plugins")).arg("convert");
    run.args(files.iter().map(|f| folder.join(f))).arg("--out").arg(&out);
    run.args(["--set", "passes.profile=none"]);
    for set in sets {
        run.args(["--set", set]);
    }
    let (status, stderr) = outcome(&run.output().unwrap());
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    (status, stderr, serde_json::from_slice(&report).unwrap_or(Value::Null))
}

#[test]
fn a_quantizer_changes_the_graph_and_fills_the_report() {
    let folder = prepared();
    let sets = ["quantization.format=round-weights", "quantization.weight_type=int4"];
    let files = ["net.onnx", "calib.npz"];
    let batch = [sets[0], sets[1], "calibration.batch_size=3", "calibration.samples=5"];
    let (status, stderr, report) = convert(folder.path(), &files, &batch);
    assert_eq!(status, 0, "{stderr}");
    let said = &report["quantization"];
    assert_eq!(
        (&said["format"], &said["quantizer"]),
        (&"round-weights".into(), &"round-weights".into())
    );
    assert_eq!((&said["plugin"], &said["samples"]), (&"org.onnxd.example".into(), &5.into()));
    assert_eq!(said["tensors"][0]["name"], "w");
    assert_eq!(said["tensors"][0]["scales"][0], 4.0 / 7.0);
    let db = said["layers"][0]["sqnr_db"].as_f64().unwrap();
    assert!((10.0..40.0).contains(&db), "{db}");
    let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
    let weights = |model: &onnxd_ir::Model| {
        let graph = &model.graph;
        let mut all = graph.value_ids().filter_map(|v| graph[v].initializer().cloned());
        all.next().unwrap().to_reals().unwrap().values
    };
    let expected: Vec<f64> = weights(&small_model())
        .iter()
        .map(|w| f64::from(((w * 7.0 / 4.0).round() * 4.0 / 7.0) as f32))
        .collect();
    assert_eq!(weights(&model), expected);
}

#[test]
fn a_format_that_nobody_offers_is_refused_before_any_work() {
    let folder = prepared();
    let (status, stderr, report) =
        convert(folder.path(), &["net.onnx", "calib.npz"], &["quantization.format=QDQ"]);
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("N0602") && stderr.contains("round-weights"), "{stderr}");
    assert_eq!(report["stages"].as_array().map_or(0, Vec::len), 0, "{report}");
}

#[test]
fn calibration_data_that_does_not_fit_is_named() {
    let folder = prepared();
    let wide = Tensor::from_vec(vec![2, 5], vec![0f32; 10]);
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), wide)]).unwrap();
    let sets = ["quantization.format=round-weights"];
    let (status, stderr, _) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0507") && stderr.contains("calib.npz"), "{stderr}");
    fs::write(folder.path().join("calib.npz"), b"PK\x03\x04 no archive").unwrap();
    let (status, stderr, _) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0508"), "{stderr}");
}

#[test]
fn a_network_waits_for_calibration_data_that_its_params_ask_for() {
    let folder = prepared();
    fs::remove_file(folder.path().join("calib.npz")).unwrap();
    let mut run = command(folder.path());
    run.env("ONNXD_PLUGINS_PATH", folder.path().join("plugins")).arg("explain");
    let output =
        run.arg(folder.path().join("net.onnx")).args(["--set", "nbbits=8"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("waiting for 1 files"), "{text}");
    assert!(text.contains("calib.npz") && text.contains("calibration data"), "{text}");
}
