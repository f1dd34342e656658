//! Quantizers through the built program: one works, one is missing, and what they say is in the report.

use onnxd_eval::{Executor, RunOptions};
use onnxd_integration_tests::{
    command, converted, folder_with, library, outcome, small_model, with_plugins_of,
    write_small_model,
};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A plugin declares params of its own: they are checked, explained and waited for like those of all conversions.
#[test]
fn a_plugin_has_params_of_its_own() {
    let folder = prepared();
    let of = |out: &str, sets: &[&str]| {
        let own = ["passes.profile=none", "quantization.format=round-weights"];
        converted(folder.path(), out, &["net.onnx"], &[&own, sets].concat())
    };
    let scales =
        |report: &Value| report["quantization"]["tensors"][0]["scales"][0].as_f64().unwrap();
    let (status, stderr, report) = of("plain", &[]);
    assert!(status < 2, "{stderr}");
    assert_ne!(scales(&report).log2().fract(), 0.0, "{report}");
    let (_, _, report) = of("powers", &["quantization.round-weights.power_of_two=true"]);
    assert_eq!(scales(&report).log2().fract(), 0.0);
    let (_, _, report) = of("option", &["power-of-two=1"]);
    assert_eq!(scales(&report).log2().fract(), 0.0);
    let asked = report["params"].as_array().unwrap().iter().find(|p| p["origin"] != "default");
    assert!(asked.is_some());
    let (_, _, report) = of("kept", &["quantization.round-weights.keep=w"]);
    assert_eq!(report["quantization"]["tensors"], json!([]));
    let measured = ["quantization.round-weights.measure=true"];
    let (status, stderr, _) = of("measured", &measured);
    assert_eq!(status, 0, "{stderr}");
    fs::remove_file(folder.path().join("calib.npz")).unwrap();
    for (set, why) in [
        ("quantization.round-weights.keap=w", "did you mean `quantization.round-weights.keep`?"),
        ("quantization.round-weights.power_of_two=2", "must be true | false, not 2"),
        (measured[0], "calibration data `calib.npz` is missing"),
    ] {
        let (status, stderr, _) = of("wrong", &[set]);
        assert!(status == 2 && stderr.contains(why), "{set}: {status} {stderr}");
    }
    // A conversion without the quantizer has no use for them.
    let sets = ["passes.profile=none", "quantization.round-weights.power_of_two=true"];
    let (status, stderr, _) = converted(folder.path(), "float", &["net.onnx"], &sets);
    assert!(status == 1 && stderr.contains("has no effect in this conversion"), "{stderr}");
    // Without the plugin no row has the key.
    let alone = folder_with(&["libonnxd_frontend_onnx.so"]);
    write_small_model(&alone.path().join("net.onnx"), "float");
    let (status, stderr, _) = converted(alone.path(), "out", &["net.onnx"], &sets);
    assert!(status == 2 && stderr.contains("unknown key"), "{stderr}");
    // A library that is named for one conversion brings its params, too.
    let mut named = command(alone.path());
    with_plugins_of(&mut named, &alone.path().join("plugins"));
    named.args(["convert", "--plugin"]).arg(library("libexample_plugin.so"));
    named.arg(alone.path().join("net.onnx")).arg("--out").arg(alone.path().join("named"));
    for set in ["quantization.format=round-weights", sets[0], sets[1]] {
        named.args(["--set", set]);
    }
    let (status, stderr) = outcome(&named.output().unwrap());
    assert!(status < 2, "{stderr}");
    let mut explain = command(folder.path());
    with_plugins_of(&mut explain, &folder.path().join("plugins"));
    explain.args(["explain", "--all"]).arg(folder.path().join("net.onnx"));
    let text = String::from_utf8(explain.output().unwrap().stdout).unwrap();
    assert!(
        text.contains("quantization.round-weights.keep") && text.contains("stay as they are"),
        "{text}"
    );
}

/// A folder with the example's plugin, the small model, and seven calibration samples.
fn prepared() -> TempDir {
    let folder = folder_with(&["libexample_plugin.so", "libonnxd_frontend_onnx.so"]);
    write_small_model(&folder.path().join("net.onnx"), "to be quantized");
    let samples: Vec<f32> = (0..28).map(|i| i as f32 / 4.0 - 2.0).collect();
    let samples = Tensor::from_vec(vec![7, 4], samples);
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    folder
}

/// Exit status, standard error and report of a conversion with `sets`.
fn convert(folder: &Path, files: &[&str], sets: &[&str]) -> (i32, String, Value) {
    let sets = [&["passes.profile=none"][..], sets].concat();
    converted(folder, "out", files, &sets)
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
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("N0105") && stderr.contains("round-weights"), "{stderr}");
    assert_eq!(report["stages"].as_array().map_or(0, Vec::len), 0, "{report}");
    let (status, stderr, report) =
        convert(folder.path(), &["net.onnx", "calib.npz"], &["quantization.format=qdq"]);
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
    with_plugins_of(&mut run, &folder.path().join("plugins"));
    run.arg("explain");
    run.arg(folder.path().join("net.onnx")).args(["--set", "quantization.format=round-weights"]);
    run.args(["--set", "quantization.round-weights.measure=true"]);
    let output = run.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("waiting for 1 files"), "{text}");
    assert!(text.contains("calib.npz") && text.contains("calibration data"), "{text}");
}

/// A convolution, a clamp, a pool, and both kinds of fully connected layers.
const NETWORK: &str = "
net (float[2,2,6,6] x) => (float[2,5] y)
<float[4,2,3,3] w1, float[16,8] w2, float[8] b2, float[8,5] w3>
{
  c1 = Conv<kernel_shape = [3, 3]>(x, w1)
  r1 = Relu(c1)
  p1 = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r1)
  f1 = Flatten(p1)
  g1 = Gemm(f1, w2, b2)
  y = MatMul(g1, w3)
}";

fn weights(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i + seed) * 7919 % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// A folder with the network, samples, and the plugins of this project's own quantizers.
fn network() -> (TempDir, Model) {
    let folder = folder_with(&[
        "libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so",
    ]);
    let mut graph = text::parse_graph(NETWORK).unwrap();
    for (name, dims) in
        [("w1", vec![4, 2, 3, 3]), ("w2", vec![16, 8]), ("b2", vec![8]), ("w3", vec![8, 5])]
    {
        let v = graph.value_named(name).unwrap();
        let values = weights(dims.iter().product(), dims.len());
        graph.set_initializer(v, Some(Tensor::from_vec(dims, values)));
    }
    let model = Model::new(graph, 8, 17);
    let at = folder.path();
    write_model(&model, &at.join("net.onnx"), &WriteOptions::default()).unwrap();
    let samples = Tensor::from_vec(vec![12, 2, 6, 6], weights(12 * 72, 3));
    onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    (folder, model)
}

/// Signal-to-noise ratio of the written model against the float one on samples of their own.
fn ratio(float: &Model, found: &Model) -> f64 {
    let x = Tensor::from_vec(vec![2, 2, 6, 6], weights(144, 11));
    let run = |model: &Model| {
        let feeds = BTreeMap::from([("x".to_owned(), x.clone())]);
        let outputs = Executor::new(model).unwrap().run(&feeds, RunOptions::default()).unwrap();
        outputs[0].1.to_reals().unwrap().values
    };
    let (wanted, found) = (run(float), run(found));
    let signal: f64 = wanted.iter().map(|x| x * x).sum();
    let noise: f64 = wanted.iter().zip(&found).map(|(x, y)| (x - y) * (x - y)).sum();
    10.0 * (signal / noise).log10()
}

#[test]
fn every_form_and_mode_is_near_the_float_model() {
    let (folder, float) = network();
    let data = ["net.onnx", "calib.npz"];
    for (files, sets, db, operator) in [
        (&data[..], &["format=QDQ"][..], 30.0, "DequantizeLinear"),
        (&data[..], &["format=QDQ", "per_channel=false", "symmetric=true"][..], 25.0, "Conv"),
        (&data[..], &["format=QDQ", "accuracy=auto"][..], 30.0, "QuantizeLinear"),
        (&data[..], &["format=QDQ", "activation_type=int16"][..], 30.0, "QuantizeLinear"),
        (&data[..], &["format=QDQ", "rounding=adaround"][..], 30.0, "DequantizeLinear"),
        (&data[..], &["format=QLinear", "rounding=adaround"][..], 30.0, "QLinearConv"),
        (&data[..], &["format=inc-qdq", "rounding=adaround"][..], 30.0, "QuantizeLinear"),
        (&data[..], &["format=QLinear"][..], 30.0, "QLinearConv"),
        (&data[..], &["format=QLinear", "activation_type=int8"][..], 30.0, "QGemm"),
        (&data[..], &["format=QDQ", "recipe=QDQ_OP_FP32_BIAS_QDQ"][..], 30.0, "MatMul"),
        (&data[..], &["format=inc-qlinear"][..], 30.0, "MatMulIntegerToFloat"),
        (&data[..1], &["format=QDQ", "mode=dynamic"][..], 30.0, "MatMulInteger"),
        (&data[..1], &["format=inc-qdq", "mode=dynamic"][..], 30.0, "MatMulInteger"),
        (
            &data[..],
            &["mode=dynamic", "rounding=adaround", "format=QDQ"][..],
            30.0,
            "MatMulInteger",
        ),
        (&data[..1], &["format=QLinear", "mode=weight_only"][..], 25.0, "MatMulNBits"),
        (&data[..1], &["format=QDQ", "mode=weight_only", "weight_type=uint4"][..], 12.0, "Conv"),
        (&data[..], &["format=QDQ", "mode=weight_only", "rounding=awq"][..], 25.0, "Gemm"),
        (&data[..], &["format=QLinear", "mode=weight_only", "rounding=gptq"][..], 25.0, "Conv"),
    ] {
        let sets: Vec<String> = sets.iter().map(|set| format!("quantization.{set}")).collect();
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let (status, stderr, report) = convert(folder.path(), files, &sets);
        assert!(status <= 1, "{sets:?}: {stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let operators: Vec<&str> = model.graph.nodes().map(|(_, n)| n.op.as_str()).collect();
        assert!(operators.contains(&operator), "{sets:?}: {operators:?}");
        let found = ratio(&float, &model);
        assert!(found > db, "{sets:?}: {found} dB");
        assert!(!report["quantization"]["layers"].as_array().unwrap().is_empty(), "{sets:?}");
    }
}

#[test]
fn auto_without_anything_to_measure_is_told() {
    let (folder, _) = network();
    for (mode, files, told) in [
        ("quantization.mode=dynamic", &["net.onnx"][..], true),
        ("quantization.mode=dynamic", &["net.onnx", "calib.npz"], false),
        ("quantization.mode=weight_only", &["net.onnx"], true),
        ("quantization.mode=static", &["net.onnx", "calib.npz"], false),
    ] {
        let sets = ["quantization.format=QDQ", "quantization.accuracy=auto", mode];
        let (status, stderr, report) = convert(folder.path(), files, &sets);
        assert!(status <= 1, "{stderr}");
        let said = report["diagnostics"].to_string();
        assert_eq!(said.contains("has no effect"), told, "{mode} {files:?} {said}");
        let tried = report["quantization"]["tried"].as_array().cloned().unwrap_or_default();
        let chosen = tried.iter().filter(|way| way["chosen"] == true).count();
        assert_eq!(chosen, usize::from(!told), "{mode} {tried:?}");
    }
    fs::copy(folder.path().join("out/model.onnx"), folder.path().join("done.onnx")).unwrap();
    for format in ["quantization.format=QLinear", "quantization.format=inc-qdq"] {
        let sets = [format, "quantization.accuracy=auto"];
        let (status, stderr, report) = convert(folder.path(), &["done.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{stderr}");
        let said = report["diagnostics"].to_string();
        assert!(said.contains("has no effect: the model has its integers"), "{said}");
    }
}

#[test]
fn products_that_saturate_are_told() {
    let (folder, _) = network();
    // As many as there must be for a verdict without findings.
    let samples = Tensor::from_vec(vec![96, 2, 6, 6], weights(96 * 72, 3));
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    for (set, told) in [
        ("quantization.processor=any", false),
        ("quantization.processor=vnni", true),
        ("quantization.weight_type=int8", true),
        ("quantization.weight_type=uint8", false),
        ("quantization.reduce_range=true", false),
        ("quantization.reduce_range=false", true),
        ("quantization.activation_type=int8", false),
    ] {
        // What a machine has is said where nothing else decides.
        let any = set.contains("activation_type").then_some("quantization.processor=any");
        let sets: Vec<&str> = ["quantization.format=QDQ", set].into_iter().chain(any).collect();
        let (status, stderr, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
        assert_eq!(status, 0, "{stderr}");
        assert_eq!(report.to_string().contains("saturate"), told, "{set}");
    }
    let int8 = ["quantization.activation_type=int8", "quantization.weight_type=int8"];
    let sets = ["quantization.format=QDQ", int8[0], int8[1]];
    let (_, _, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
    let said = report.to_string();
    assert!(said.contains("saturate") && said.contains("x64quantprecision"), "{said}");
}

#[test]
fn learned_rounding_is_told_and_refused_where_nothing_is_rounded_so() {
    let (folder, float) = network();
    let of = |rounding: &str| {
        let sets = ["quantization.format=QDQ", "quantization.weight_type=int4", rounding];
        let (status, stderr, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        (report["quantization"]["tensors"].to_string(), ratio(&float, &model))
    };
    let (nearest, learned) =
        (of("quantization.rounding=nearest"), of("quantization.rounding=adaround"));
    assert!(learned.0.contains("AdaRound") && !nearest.0.contains("AdaRound"));
    assert!(learned.1 > nearest.1, "{} {}", learned.1, nearest.1);
    fs::copy(folder.path().join("out/model.onnx"), folder.path().join("done.onnx")).unwrap();
    for (file, sets) in [
        ("net.onnx", &["format=QLinear", "mode=weight_only"][..]),
        ("done.onnx", &["format=QLinear"][..]),
        ("done.onnx", &["format=inc-qdq"][..]),
    ] {
        let sets: Vec<String> = sets.iter().map(|set| format!("quantization.{set}")).collect();
        let mut sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        sets.push("quantization.rounding=adaround");
        let (status, stderr, _) = convert(folder.path(), &[file, "calib.npz"], &sets);
        assert!(status == 3 && stderr.contains("quantization.rounding"), "{sets:?}: {stderr}");
    }
    let sets = ["quantization.format=QDQ", "quantization.mode=dynamic"];
    let sets = [&sets[..], &["quantization.rounding=adaround"]].concat();
    let (status, stderr, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
    assert!(status <= 1, "{stderr}");
    assert!(report["quantization"]["tensors"].to_string().contains("AdaRound"));
    let (status, stderr, _) = convert(folder.path(), &["net.onnx"], &sets);
    assert!(status > 1 && stderr.contains("takes calibration data"), "{stderr}");
}

#[test]
fn an_export_in_float_refuses_integers() {
    let (folder, _) = network();
    let float = ["quantization.inc.dtype=fp32"];
    let (status, stderr, _) = convert(folder.path(), &["net.onnx"], &float);
    assert_eq!(status, 0, "{stderr}");
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    let quantized = ["quantization.format=QDQ", "quantization.mode=dynamic"];
    let (status, stderr, _) = convert(folder.path(), &["net.onnx"], &quantized);
    assert_eq!(status, 0, "{stderr}");
    fs::copy(folder.path().join("out/model.onnx"), folder.path().join("integers.onnx")).unwrap();
    fs::remove_dir_all(folder.path().join("out")).unwrap();
    let (status, stderr, _) = convert(folder.path(), &["integers.onnx"], &float);
    assert_ne!(status, 0);
    assert!(stderr.contains("the model is quantized"), "{stderr}");
}

#[test]
fn the_fewest_products_stay_in_float_for_a_ratio() {
    let (folder, float) = network();
    let files = ["net.onnx", "calib.npz"];
    let left = |db: &str| {
        let sets = ["quantization.format=QDQ", "quantization.weight_type=int4", db];
        let (status, stderr, report) = convert(folder.path(), &files, &sets);
        assert!(status <= 1, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let left = report["quantization"]["left_in_float"].as_array().map_or(0, Vec::len);
        (left, ratio(&float, &model))
    };
    let (none, low) = left("quantization.sqnr_db_min=-50");
    let (some, middle) = left("quantization.sqnr_db_min=20");
    let (all, high) = left("quantization.sqnr_db_min=120");
    assert_eq!((none, all), (0, 3));
    assert!(
        (1..3).contains(&some) && low < middle && middle < high,
        "{some} {low} {middle} {high}"
    );
}

/// The classes that a model names for the calibration data of [`network`].
fn classes(model: &Model) -> Vec<usize> {
    let values = weights(12 * 72, 3);
    let executor = Executor::new(model).unwrap();
    let of = |batch: &[f32]| {
        let x = Tensor::from_vec(vec![2, 2, 6, 6], batch.to_vec());
        let feeds = BTreeMap::from([("x".to_owned(), x)]);
        let outputs = executor.run(&feeds, RunOptions::default()).unwrap();
        let rows = outputs[0].1.to_reals().unwrap().values;
        let largest = |row: &[f64]| (0..5).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
        rows.chunks(5).map(largest).collect::<Vec<_>>()
    };
    values.chunks(144).flat_map(of).collect()
}

#[test]
fn the_fewest_products_stay_in_float_for_a_loss() {
    let (folder, float) = network();
    let files = ["net.onnx", "calib.npz"];
    let wanted = classes(&float);
    let left = |sets: &[&str]| {
        let few = [
            "quantization.format=QDQ", "quantization.weight_type=int4",
            "quantization.per_channel=false", "quantization.reduce_range=true",
        ];
        let (status, stderr, report) = convert(folder.path(), &files, &[&few[..], sets].concat());
        assert!(status <= 1, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let left = report["quantization"]["left_in_float"].as_array().map_or(0, Vec::len);
        (left, classes(&model), report["metadata"].to_string())
    };
    let same = |found: &[usize]| found.iter().zip(&wanted).filter(|(a, b)| a == b).count();
    let (none, lossy, told) = left(&["quantization.top1_loss_max=100"]);
    assert!(none == 0 && same(&lossy) < 12, "{lossy:?} {wanted:?}");
    assert!(told.contains(&format!("{} of 12 classes as in float", same(&lossy))), "{told}");
    let (some, exact, _) = left(&["quantization.top1_loss_max=0"]);
    assert!(same(&exact) == 12 && (1..3).contains(&some), "{some} {exact:?} {wanted:?}");
    // Labels that the lossy model happens to get right ask for nothing.
    let x = Tensor::from_vec(vec![12, 2, 6, 6], weights(12 * 72, 3));
    let labels: Vec<i64> = lossy.iter().map(|class| *class as i64).collect();
    let arrays = vec![("x".into(), x), ("labels".into(), Tensor::vector(labels))];
    onnxd_arrays::write(&folder.path().join("calib.npz"), &arrays).unwrap();
    let (labelled, _, told) = left(&["quantization.top1_loss_max=0"]);
    assert!(labelled == 0 && told.contains("12 of 12 labels right"), "{labelled} {told}");
}

#[test]
fn samples_round_weights_better_where_ranges_are_found_at_run_time() {
    let (folder, float) = network();
    let samples = Tensor::from_vec(vec![80, 2, 6, 6], weights(80 * 72, 5));
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    let of = |files: &[&str], sets: &[&str]| {
        let mode = ["quantization.format=QDQ", "quantization.mode=dynamic"];
        let (status, stderr, report) = convert(folder.path(), files, &[&mode[..], sets].concat());
        assert!(status <= 1, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let tried = report["quantization"]["tried"].as_array().cloned().unwrap_or_default();
        let chosen = tried.iter().find(|way| way["chosen"] == true).cloned().unwrap_or_default();
        let rows = report["quantization"]["tensors"].to_string();
        (ratio(&float, &model), chosen["what"].to_string(), rows)
    };
    let (without, chosen, _) = of(&["net.onnx"], &[]);
    assert_eq!(chosen, "null");
    for sets in [&[][..], &["quantization.accuracy=auto"]] {
        let (with, chosen, rows) = of(&["net.onnx", "calib.npz"], sets);
        assert!(chosen.contains("AdaRound") && rows.contains("AdaRound"), "{rows}");
        assert!(with > without + 0.5, "{with} {without}");
    }
}

#[test]
fn bounds_hold_where_ranges_are_found_at_run_time() {
    let (folder, float) = network();
    let files = ["net.onnx", "calib.npz"];
    let left = |set: &str| {
        let sets = ["quantization.format=QDQ", "quantization.mode=dynamic", set];
        let (status, stderr, report) = convert(folder.path(), &files, &sets);
        assert!(status <= 1, "{stderr}");
        let model = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let left = report["quantization"]["left_in_float"].as_array().map_or(0, Vec::len);
        (left, ratio(&float, &model), classes(&float) == classes(&model))
    };
    let (none, low, _) = left("quantization.sqnr_db_min=-50");
    // The bound is about the samples at hand, the ratio about others.
    let steps =
        (1..30).map(|step| left(&format!("quantization.sqnr_db_min={}", low + f64::from(step))));
    let (some, middle, _) = steps.into_iter().find(|(left, ..)| *left > 0).unwrap();
    let (all, high, _) = left("quantization.sqnr_db_min=250");
    assert!(none == 0 && (1..3).contains(&some) && all == 3, "{none} {some} {all}");
    assert!(low < middle && middle < high, "{low} {middle} {high}");
    assert!(left("quantization.top1_loss_max=0").2);
    // Without samples, nothing can be kept, which is said.
    let sets = [
        "quantization.format=QDQ", "quantization.mode=dynamic", "quantization.sqnr_db_min=40",
        "quantization.top1_loss_max=1",
    ];
    let (_, _, report) = convert(folder.path(), &files[..1], &sets);
    let said = report["diagnostics"].to_string();
    for name in ["sqnr_db_min", "top1_loss_max"] {
        let told = said.split("N0111").any(|one| one.contains(name) && one.contains("no samples"));
        assert!(told, "{name}: {said}");
    }
}

#[test]
fn a_model_without_products_says_so() {
    let (folder, _) = network();
    write_small_model(&folder.path().join("net.onnx"), "nothing to quantize");
    let samples = Tensor::from_vec(vec![2, 4], weights(8, 1));
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    let (status, stderr, report) =
        convert(folder.path(), &["net.onnx", "calib.npz"], &["quantization.format=QDQ"]);
    assert!(status <= 1, "{stderr}");
    let said = report["diagnostics"].to_string();
    assert!(said.contains("N0604") && said.contains("nothing was quantized"), "{said}");
}

#[test]
fn products_of_computed_factors_are_told_to_stay_where_they_do() {
    let (folder, _) = network();
    for (format, mode, told) in [
        ("QDQ", "static", false),
        ("QDQ", "dynamic", false),
        ("QDQ", "weight_only", true),
        ("inc-qdq", "static", true),
        ("inc-qdq", "dynamic", false),
    ] {
        let sets = [
            &format!("quantization.format={format}"),
            &format!("quantization.mode={mode}"),
            "quantization.matmul_const_b_only=false",
        ];
        let (status, stderr, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{stderr}");
        let said = report["diagnostics"].to_string();
        assert_eq!(said.contains("matmul_const_b_only"), told, "{format} {mode} {said}");
    }
}

#[test]
fn operators_that_are_named_become_integers() {
    let folder = folder_with(&["libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so"]);
    let net = "net (float[2,4,6] x) => (float[2,4,6] y)
        { t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) a = Softmax(s) y = MatMul(a, x) }";
    let mut model = Model::new(text::parse_graph(net).unwrap(), 8, 17);
    for (i, id) in model.graph.node_ids().into_iter().enumerate() {
        model.graph.node_mut(id).name = format!("n{i}");
    }
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    let samples = Tensor::from_vec(vec![12, 4, 6], weights(12 * 24, 3));
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
    let named = "quantization.op_types=[\"MatMul\",\"Softmax\",\"GRU\"]";
    for (format, op, count) in [("QDQ", "QuantizeLinear", 4), ("QLinear", "QLinearSoftmax", 1)] {
        let sets = [
            &format!("quantization.format={format}"),
            named,
            "quantization.matmul_const_b_only=false",
        ];
        let (status, stderr, report) = convert(folder.path(), &["net.onnx", "calib.npz"], &sets);
        assert!(status <= 1, "{stderr}");
        assert!(report["diagnostics"].to_string().contains("`GRU`"), "{report}");
        let layers = report["quantization"]["layers"].as_array().unwrap();
        let near = |l: &Value| l["sqnr_db"].as_f64().is_some_and(|db| db > 20.0);
        assert!(layers.iter().all(near), "{layers:?}");
        assert_eq!(layers.len(), 3);
        let made = onnxd_onnx::load(&folder.path().join("out/model.onnx")).unwrap().model;
        let found = made.graph.nodes().filter(|(_, node)| node.op == op).count();
        assert_eq!(found, count, "{format}");
    }
}
