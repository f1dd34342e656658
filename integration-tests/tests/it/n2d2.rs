//! Quantization in N2D2's way through the built program, with all that lies beside the model.

use onnxd_integration_tests::{converted, folder_with};
use onnxd_ir::Tensor;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const NETWORK: &str = "
DefaultModel=Frame
[env]
SizeX=6
SizeY=6
NbChannels=1
BatchSize=4
[conv1]
Input=env
Type=Conv
KernelDims=3 3
NbOutputs=4
ActivationFunction=Rectifier
[pool1]
Input=conv1
Type=Pool
PoolDims=2 2
StrideDims=2 2
NbOutputs=4
Mapping.Size=1
Pooling=Max
[fc1]
Input=pool1
Type=Fc
NbOutputs=3
ActivationFunction=Linear
[fc1.Target]
";

/// Samples of 6 by 6 pixels, the same in every run.
fn pictures(count: usize, seed: usize) -> Tensor {
    let values = (0..count * 36).map(|i| ((i + seed) * 7919 % 1009) as f32 / 1008.0);
    Tensor::from_vec(vec![count, 1, 6, 6], values.collect())
}

fn write_npz(path: &Path, arrays: &[(String, Tensor)]) {
    onnxd_arrays::write(path, &arrays.to_vec()).unwrap();
}

/// A folder with the plugins, the network and ten calibration samples.
fn prepared() -> TempDir {
    let folder = folder_with(&["libonnxd_frontend_n2d2.so", "libonnxd_quant_n2d2.so"]);
    fs::write(folder.path().join("net.ini"), NETWORK).unwrap();
    write_npz(&folder.path().join("calib.npz"), &[("env".into(), pictures(10, 0))]);
    folder
}

/// Exit status, standard error and report of a conversion of `files` to the folder `out`.
fn convert(folder: &Path, out: &str, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let sets = [&["passes.profile=none", "source.random=true", "nbbits=8"][..], sets].concat();
    converted(folder, out, files, &sets)
}

/// The written model, apart from what it says about its making.
fn model(folder: &Path, out: &str) -> String {
    let mut model = onnxd_onnx::load(&folder.join(out).join("model.onnx")).unwrap().model;
    model.metadata.clear();
    onnxd_ir::text::print_model(&model)
}

#[test]
fn saved_statistics_stand_for_the_samples() {
    let folder = prepared();
    let at = folder.path();
    for mode in ["MSE", "KL-Divergence", "Quantile", "None"] {
        let set = format!("act-clipping-mode={mode}");
        let (status, stderr, report) = convert(at, "first", &["net.ini", "calib.npz"], &[&set]);
        // Random weights lose much: that is a finding.
        assert!(status <= 1, "{stderr}");
        let outputs = report["outputs"].as_array().unwrap();
        assert_eq!(outputs[0]["path"], "model.onnx");
        assert_eq!(outputs[1]["path"], "calibration.json");
        assert_eq!(outputs[1]["role"], "artifact");
        fs::copy(at.join("first/calibration.json"), at.join("calibration.json")).unwrap();
        let files = ["net.ini", "calibration.json"];
        let (status, stderr, report) = convert(at, "again", &files, &[&set, "calib-reload=1"]);
        // Nothing was compared, which is a finding.
        assert_eq!(status, 1, "{stderr}");
        assert_eq!(report["quantization"]["samples"], 0);
        assert_eq!(model(at, "first"), model(at, "again"), "{mode}");
    }
}

#[test]
fn samples_beyond_the_declared_range_are_named() {
    let folder = prepared();
    let at = folder.path();
    let warned = |stderr: &str, report: &Value| {
        stderr.contains("N0604") || report["diagnostics"].to_string().contains("beyond the range")
    };
    let (status, stderr, report) = convert(at, "within", &["net.ini", "calib.npz"], &[]);
    assert!(status == 0 && !warned(&stderr, &report), "{stderr} {}", report["diagnostics"]);
    // Pictures of bytes are declared to lie in [0, 1].
    let wide = Tensor::from_vec(vec![1, 1, 6, 6], (0..36).map(|i| i as f32).collect());
    write_npz(&at.join("calib.npz"), &[("env".into(), wide)]);
    let (status, stderr, report) = convert(at, "beyond", &["net.ini", "calib.npz"], &[]);
    assert!(status <= 1 && warned(&stderr, &report), "{stderr} {}", report["diagnostics"]);
    let data = ["quantization.n2d2.stimuli_range=data"];
    let (status, stderr, report) = convert(at, "data", &["net.ini", "calib.npz"], &data);
    assert!(status <= 1 && !warned(&stderr, &report), "{stderr} {}", report["diagnostics"]);
}

#[test]
fn statistics_of_something_else_are_refused() {
    let folder = prepared();
    let at = folder.path();
    let (status, stderr, _) = convert(at, "first", &["net.ini", "calib.npz"], &[]);
    assert_eq!(status, 0, "{stderr}");
    fs::copy(at.join("first/calibration.json"), at.join("calibration.json")).unwrap();
    let files = ["net.ini", "calibration.json"];
    for (set, expected) in [
        ("source.seed=2", "another network"),
        ("no-cle=1", "no_cle: false, now true"),
        ("act-clipping-mode=Quantile", "bins of the histograms: 16384, now 65536"),
    ] {
        let (status, stderr, _) = convert(at, "out", &files, &["calib-reload=1", set]);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("N0603") && stderr.contains(expected), "{stderr}");
    }
    fs::write(at.join("calibration.json"), b"{").unwrap();
    let (status, stderr, _) = convert(at, "out", &files, &["calib-reload=1"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0603") && stderr.contains("calibration.json"), "{stderr}");
    fs::remove_file(at.join("calibration.json")).unwrap();
    let (status, stderr, _) = convert(at, "out", &["net.ini"], &["calib-reload=1"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("statistics of a calibration `calibration.json`"), "{stderr}");
}

#[test]
fn the_folder_of_n2d2_has_all_files() {
    let folder = prepared();
    let at = folder.path();
    let sets = ["export.naming=N2D2", "nbbits=4"];
    let (status, stderr, report) = convert(at, "out", &["net.ini", "calib.npz"], &sets);
    assert!(status <= 1, "{stderr}");
    for (row, name) in ["model.onnx", "calibration.json"].iter().enumerate() {
        let path = format!("export_ONNX_int4/{name}");
        assert_eq!(report["outputs"][row]["path"], path.as_str());
        assert!(at.join("out").join(path).is_file());
    }
}

/// Bytes of a picture behind its header of three lines.
fn pixels(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at);
    let head = ends.take(3).last().unwrap() + 1;
    assert_eq!(&bytes[..head], b"P5\n6 6\n255\n");
    bytes[head..].to_vec()
}

#[test]
fn stimuli_are_written_as_the_network_takes_them() {
    let folder = prepared();
    let at = folder.path();
    let files = ["net.ini", "calib.npz"];
    let sets = ["db-export=-1", "export.naming=N2D2"];
    let (status, stderr, report) = convert(at, "out", &files, &sets);
    assert_eq!(status, 0, "{stderr}");
    let out = at.join("out/export_ONNX_int8");
    let list = fs::read_to_string(out.join("stimuli.list")).unwrap();
    let names: Vec<&str> = list.lines().collect();
    assert_eq!((names.len(), names[0], names[9]), (10, "stimuli/env0.pgm", "stimuli/env9.pgm"));
    let samples: Vec<f32> = pictures(10, 0).as_slice::<f32>().unwrap().to_vec();
    for (name, sample) in names.iter().zip(samples.chunks(36)) {
        let expected: Vec<u8> = sample.iter().map(|x| (x * 255.0).trunc() as u8).collect();
        let found = pixels(&out.join(name));
        assert_eq!((&found[..36], &found[36..]), (expected.as_slice(), &[255u8; 4][..]));
    }
    let listed = report["outputs"].as_array().unwrap();
    assert_eq!(listed.len(), 1 + 1 + 10 + 1);
    let text = fs::read_to_string(at.join("out/report.txt")).unwrap();
    let folder = text.contains("stimuli/") && !text.contains("env3.pgm");
    assert!(folder, "{text}");

    let labels = Tensor::from_vec(vec![12], (0..12i64).collect());
    let arrays = [("env".into(), pictures(12, 5)), ("labels".into(), labels)];
    write_npz(&at.join("test.npz"), &arrays);
    let files = ["net.ini", "calib.npz", "test.npz"];
    let (status, stderr, _) = convert(at, "tested", &files, &["db-export=11"]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(pixels(&at.join("tested/stimuli/env10.pgm"))[36..], [10, 0, 0, 0]);
    assert!(!at.join("tested/stimuli/env11.pgm").exists());
}

#[test]
fn the_accuracy_of_both_networks_is_in_the_report() {
    let folder = prepared();
    let at = folder.path();
    let samples = pictures(9, 77);
    // The classes that the float network names, but for two samples.
    let float = ["nbbits=-32", "quantization.format=none"];
    let (status, stderr, _) = convert(at, "float", &["net.ini"], &float);
    assert_eq!(status, 0, "{stderr}");
    let model = onnxd_onnx::load(&at.join("float/model.onnx")).unwrap().model;
    let executor = onnxd_eval::Executor::new(&model).unwrap();
    let feeds = [("env".to_owned(), samples.clone())].into();
    let found = executor.run(&feeds, onnxd_eval::RunOptions::default()).unwrap();
    let values = found[0].1.as_slice::<f32>().unwrap().to_vec();
    let class =
        |row: &[f32]| (0..3i64).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize]));
    let mut labels: Vec<i64> = values.chunks(3).map(|row| class(row).unwrap()).collect();
    for label in &mut labels[..2] {
        *label = (*label + 1) % 3;
    }
    let labels = Tensor::from_vec(vec![9], labels);
    let arrays = [("env".to_owned(), samples), ("labels".to_owned(), labels)];
    write_npz(&at.join("test.npz"), &arrays);
    let files = ["net.ini", "calib.npz", "test.npz"];
    let (status, stderr, report) = convert(at, "out", &files, &["test=1"]);
    assert_eq!(status, 0, "{stderr}");
    let facts: Vec<&str> =
        report["metadata"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let of = |key: &str| {
        let start = format!("quantization.test.{key} = ");
        facts.iter().find_map(|f| f.strip_prefix(&start)).unwrap_or_else(|| panic!("{facts:?}"))
    };
    assert_eq!((of("data"), of("samples"), of("float_top1")), ("test.npz", "9", "77.78%"));
    let share = |key: &str| of(key).trim_end_matches('%').parse::<f64>().unwrap();
    assert!(share("agreement") > 60.0 && share("integer_top1") > 40.0, "{facts:?}");
    assert!(of("score").starts_with(&format!("recognition rate: {}", of("integer_top1"))));

    fs::remove_file(at.join("test.npz")).unwrap();
    let (status, stderr, _) = convert(at, "out", &["net.ini", "calib.npz"], &["test=1"]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("labelled test data `test.npz`"), "{stderr}");
    write_npz(&at.join("calib.npz"), &arrays);
    let (status, stderr, report) = convert(at, "out", &["net.ini", "calib.npz"], &["test=1"]);
    assert_eq!(status, 0, "{stderr}");
    let notes = report["diagnostics"].to_string();
    assert!(notes.contains("measured on the calibration data"), "{notes}");
}
