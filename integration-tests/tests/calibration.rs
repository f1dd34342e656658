//! Calibration through the built program: where samples come from, and what is kept of them.

use onnxd_integration_tests::{command, library, outcome};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Consecutive convolutions, and a normalization whose gains may differ, before a product.
const NETWORK: &str = "
net (float[N,2,6,6] x) => (float[N,5] y)
<float[4,2,3,3] w1, float[4,4,1,1] w2, float[64] g, float[64] h, float[64,5] w3>
{
  c1 = Conv<kernel_shape = [3, 3]>(x, w1)
  r1 = Relu(c1)
  c2 = Conv<kernel_shape = [1, 1]>(r1, w2)
  r2 = Relu(c2)
  f1 = Flatten(r2)
  n1 = LayerNormalization(f1, g, h)
  y = MatMul(n1, w3)
}";

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i + seed) * 7919 % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// A folder with a network whose first channel and whose first gain are so many times as large as
/// the others (the weights that read the channel are as much smaller), and the plugins that it takes.
fn network(channel: f32, gain: f32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plugins = folder.path().join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    for name in ["libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so"] {
        fs::copy(library(name), plugins.join(name)).unwrap();
    }
    let mut graph = text::parse_graph(NETWORK).unwrap();
    for (name, dims, large, factor) in [
        ("w1", vec![4, 2, 3, 3], 18, channel),
        ("w2", vec![4, 4, 1, 1], 0, 1.0),
        ("g", vec![64], 1, gain),
        ("h", vec![64], 0, 1.0),
        ("w3", vec![64, 5], 0, 1.0),
    ] {
        let v = graph.value_named(name).unwrap();
        let mut data = values(dims.iter().product(), dims.len());
        data[..large].iter_mut().for_each(|w| *w *= factor);
        if name == "w2" {
            data.iter_mut().step_by(4).for_each(|w| *w /= channel);
        }
        graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let at = folder.path();
    write_model(&Model::new(graph, 8, 17), &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let samples = Tensor::from_vec(vec![24, 2, 6, 6], values(24 * 72, 3));
    onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

/// Exit status, standard error and report of a conversion into `out`.
fn convert(folder: &Path, out: &str, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let out = folder.join(out);
    let mut run = command(folder);
    run.env("ONNXD_PLUGINS_PATH", folder.join("plugins")).arg("convert");
    run.args(files.iter().map(|f| folder.join(f))).arg("--out").arg(&out);
    for set in ["passes.profile=none"].iter().chain(sets) {
        run.args(["--set", set]);
    }
    let (status, stderr) = outcome(&run.output().unwrap());
    let report = fs::read(out.join("report.json")).unwrap_or_default();
    (status, stderr, serde_json::from_slice(&report).unwrap_or(Value::Null))
}

#[test]
fn saved_statistics_make_the_same_model_without_samples() {
    let (even, uneven, outlier) = (network(1.0, 1.0), network(60.0, 1.0), network(1.0, 80.0));
    for (folder, sets, change) in [
        (&even, &["format=QDQ"][..], ""),
        (&even, &["format=QLinear", "calibration.method=entropy"], ""),
        (&even, &["format=QDQ", "calibration.method=percentile", "calibration.percentile=99"], ""),
        (&even, &["format=QDQ", "calibration.method=mse"], ""),
        (&even, &["format=QDQ", "calibration.method=moving_average"], ""),
        (&even, &["format=QDQ", "sqnr_db_min=45"], ""),
        (&even, &["format=inc-qdq"], ""),
        (&even, &["format=inc-qlinear"], ""),
        (&uneven, &["format=QDQ"], "equalized weights"),
        (&outlier, &["format=QDQ", "per_channel=false"], "smoothed activations"),
    ] {
        let section = |set: &&str| match set.contains('.') {
            true => (*set).to_owned(),
            false => format!("quantization.{set}"),
        };
        let sets: Vec<String> = sets.iter().map(section).collect();
        let mut sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let at = folder.path();
        let (status, stderr, _) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{sets:?}: {stderr}");
        let saved = fs::read(at.join("out/calibration.json")).unwrap();
        let found: Value = serde_json::from_slice(&saved).unwrap();
        assert_eq!(found["choice"]["change"], change, "{sets:?}: {}", found["choice"]);
        fs::write(at.join("calibration.json"), &saved).unwrap();
        sets.push("calibration.reload=true");
        let (status, stderr, report) =
            convert(at, "again", &["net.onnx", "calibration.json"], &sets);
        assert!(status <= 1, "{sets:?}: {stderr}");
        let model = |out: &str| {
            let mut model = onnxd_onnx::load(&at.join(out).join("model.onnx")).unwrap().model;
            model.metadata.clear();
            let path = at.join("bare.onnx");
            write_model(&model, &path, &WriteOptions::default()).unwrap();
            fs::read(path).unwrap()
        };
        assert!(model("out") == model("again"), "{sets:?}");
        let said = report["metadata"].to_string();
        assert!(
            said.contains("of 24 samples, reloaded") && said.contains("not measured"),
            "{said}"
        );
    }
}

#[test]
fn statistics_of_another_model_or_for_another_method_are_refused() {
    let folder = network(1.0, 1.0);
    let (at, files) = (folder.path(), ["net.onnx", "calibration.json"]);
    let (status, stderr, _) =
        convert(at, "out", &["net.onnx", "calib.npz"], &["quantization.format=QDQ"]);
    assert!(status <= 1, "{stderr}");
    fs::copy(at.join("out/calibration.json"), at.join("calibration.json")).unwrap();
    let reload = |sets: &[&str]| {
        let sets = [&["quantization.format=QDQ", "calibration.reload=true"], sets].concat();
        let (status, stderr, _) = convert(at, "again", &files, &sets);
        (status, stderr)
    };
    assert_eq!(reload(&[]).0, 0);
    assert_eq!(reload(&["quantization.weight_type=uint8", "quantization.format=QLinear"]).0, 0);
    for (set, why) in [
        ("calibration.method=entropy", "no usable counts of `"),
        ("quantization.accuracy=auto", "accuracy: unknown, now auto"),
        ("quantization.sqnr_db_min=40", "sqnr_db_min: unknown, now 40"),
    ] {
        let (status, stderr) = reload(&[set]);
        assert_eq!(status, 2, "{set}: {stderr}");
        assert!(stderr.contains("N0603") && stderr.contains(why), "{set}: {stderr}");
    }
    let other = network(1.0, 2.0);
    fs::copy(other.path().join("net.onnx"), at.join("net.onnx")).unwrap();
    let (status, stderr) = reload(&[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0603") && stderr.contains("another model"), "{stderr}");
    fs::write(at.join("calibration.json"), "{").unwrap();
    assert!(reload(&[]).1.contains("N0603"));
}

/// Only what takes samples differs.
#[test]
fn what_takes_samples_is_left_out_and_said() {
    let folder = network(1.0, 1.0);
    let at = folder.path();
    let sets = ["quantization.format=QDQ", "quantization.accuracy=auto"];
    let (status, stderr, _) = convert(at, "out", &["net.onnx", "calib.npz"], &sets);
    assert!(status <= 1, "{stderr}");
    let saved = fs::read_to_string(at.join("out/calibration.json")).unwrap();
    let mut saved: Value = serde_json::from_str(&saved).unwrap();
    saved["choice"]["correct_biases"] = true.into();
    fs::write(at.join("calibration.json"), saved.to_string()).unwrap();
    let sets = [sets[0], sets[1], "calibration.reload=true"];
    let (status, stderr, report) = convert(at, "again", &["net.onnx", "calibration.json"], &sets);
    assert!(status <= 1, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(said.contains("N0604") && said.contains("biases were not corrected"), "{said}");
    let both = ["net.onnx", "calibration.json", "calib.npz"];
    let (status, stderr, report) = convert(at, "both", &both, &sets);
    assert!(status <= 1, "{stderr}");
    assert!(!report["diagnostics"].to_string().contains("N0604"), "{report}");
    assert!(report["quantization"]["layers"][0]["sqnr_db"].is_number(), "{report}");
}
