//! What the verdict says of a quantized network, through the built program.

use onnxd_integration_tests::{converted, folder_with};
use onnxd_ir::{Model, Tensor, text};
use onnxd_onnx::{WriteOptions, write_model};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

const NETWORK: &str = "net (float[n,2,6,6] x) => (float[n,8] y)
<float[4,2,3,3] w1, float[4,4,3,3] w2, float[16,8] w3> {
  c1 = Conv <pads = [1,1,1,1]> (x, w1)
  r1 = Relu (c1)
  c2 = Conv (r1, w2)
  p = AveragePool <kernel_shape = [2,2], strides = [2,2]> (c2)
  f = Flatten (p)
  y = MatMul (f, w3)
}";

/// Numbers from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn initializers_among_the_inputs_are_weights() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let at = folder.path().join("net.onnx");
    let mut model = onnxd_onnx::load(&at).unwrap().model;
    for name in ["w1", "w2", "w3"] {
        let v = model.graph.value_named(name).unwrap();
        model.graph.mark_input(v);
    }
    write_model(&model, &at, &WriteOptions::default()).unwrap();
    for way in [&["format=QDQ"][..], &["format=inc-qdq"], &["format=QLinear", "mode=dynamic"]] {
        let (status, found, quality) = quantized(&folder, true, way);
        assert!(status == 0 || found.contains("without VNNI"), "{way:?}: {found} {quality}");
        assert_eq!(quality["quantized"], 3, "{way:?}: {quality}");
    }
}

/// A folder with a network of three products, the first of which has weights times `gains`.
fn network(gains: [f32; 4]) -> TempDir {
    let folder = folder_with(&[
        "libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so", "libonnxd_quant_inc.so",
        "libonnxd_quant_n2d2.so",
    ]);
    let mut graph = text::parse_graph(NETWORK).unwrap();
    for (seed, (name, dims)) in
        (1u64..).zip([("w1", vec![4, 2, 3, 3]), ("w2", vec![4, 4, 3, 3]), ("w3", vec![16, 8])])
    {
        let v = graph.value_named(name).unwrap();
        let mut values = numbers(dims.iter().product(), seed);
        let each = values.len() / 4;
        match name {
            "w1" => values.iter_mut().enumerate().for_each(|(i, w)| *w *= gains[i / each]),
            "w2" => values.iter_mut().enumerate().for_each(|(i, w)| *w /= gains[i / 9 % 4]),
            _ => {}
        }
        graph.set_initializer(v, Some(Tensor::from_vec(dims, values)));
    }
    let model = Model::new(graph, 8, 17);
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    folder
}

fn samples(folder: &TempDir, count: usize, of: impl Fn(f32) -> f32) {
    let values = numbers(count * 72, 9).into_iter().map(of).collect::<Vec<f32>>();
    let samples = Tensor::from_vec(vec![count, 2, 6, 6], values);
    onnxd_arrays::write(&folder.path().join("calib.npz"), &vec![("x".into(), samples)]).unwrap();
}

/// Exit status, findings and quality of a quantization.
fn quantized(folder: &TempDir, data: bool, sets: &[&str]) -> (i32, String, Value) {
    let files = if data { &["net.onnx", "calib.npz"][..] } else { &["net.onnx"] };
    let sets: Vec<String> = sets.iter().map(|set| format!("quantization.{set}")).collect();
    let mut sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    sets.push("passes.profile=none");
    // The same on every machine, where nothing else says it.
    let decided = ["processor", "weight_type", "mode", "N2D2", "inc-"];
    if !sets.iter().any(|set| decided.iter().any(|word| set.contains(word))) {
        sets.push("quantization.processor=any");
    }
    let (status, stderr, report) = converted(folder.path(), "out", files, &sets);
    assert!(report.is_object(), "{stderr}");
    let all = report["diagnostics"].as_array().unwrap();
    let found = all.iter().filter(|d| d["code"] == "N0606");
    let text = found.map(|d| format!("{}; ", d["message"].as_str().unwrap())).collect();
    (status, text, report["quantization"]["quality"].clone())
}

#[test]
fn the_whole_network_is_measured_on_samples_kept_apart() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    for way in [
        &["format=QDQ"][..],
        &["format=QLinear"],
        &["format=inc-qdq"],
        &["format=QDQ", "mode=dynamic"],
        &["format=QDQ", "accuracy=auto"],
        &["format=QDQ", "sqnr_db_min=30"],
    ] {
        let (status, found, quality) = quantized(&folder, true, way);
        // Its form saturates on some processors.
        let saturates = way[0].starts_with("format=inc");
        assert_eq!(
            (status, found.contains("without VNNI")),
            (i32::from(saturates), saturates),
            "{way:?}"
        );
        assert_eq!(quality["origin"], "apart", "{way:?}: {quality}");
        assert!(quality["sqnr_db"].as_f64().unwrap() > 25.0, "{way:?}: {quality}");
        assert_eq!(
            (&quality["products"], &quality["weights"]),
            (&3.into(), &1.0.into()),
            "{way:?}"
        );
        let receipt = fs::read_to_string(folder.path().join("out/receipt.txt")).unwrap();
        assert!(receipt.contains("held-out samples"), "{receipt}");
        let processors = ["on every processor", "with VNNI"];
        assert!(receipt.contains(processors[usize::from(way[0] == "format=inc-qdq")]), "{receipt}");
    }
    let (_, _, quality) = quantized(&folder, false, &["format=QDQ", "mode=dynamic"]);
    assert_eq!(quality["origin"], "random", "{quality}");
    for way in [&["format=QDQ"][..], &["format=QDQ", "accuracy=auto"], &["format=inc-qlinear"]] {
        for count in [2, 8] {
            samples(&folder, count, |x| x);
            let (status, found, quality) = quantized(&folder, true, way);
            assert!(status == 0 || found.contains("without VNNI"), "{way:?} {found}");
            let origin = (&quality["origin"], &quality["samples"]);
            assert_eq!(origin, (&"folds".into(), &count.into()), "{way:?}");
        }
    }
    for way in ["mode=dynamic", "mode=weight_only"] {
        let (_, _, quality) = quantized(&folder, true, &["format=QDQ", way]);
        assert_eq!(
            (&quality["origin"], &quality["samples"]),
            (&"apart".into(), &2.into()),
            "{way}"
        );
    }
}

#[test]
fn what_ranges_were_made_of_does_not_grade_them() {
    let folder = network([1.0; 4]);
    // The second sample lies far beyond the range of the first.
    let beyond = std::cell::Cell::new(0);
    samples(&folder, 2, |x| {
        beyond.set(beyond.get() + 1);
        if beyond.get() > 72 { x * 9.0 } else { x }
    });
    let (status, found, quality) = quantized(&folder, true, &["format=QDQ", "sqnr_db_floor=-300"]);
    assert_eq!((status, found.as_str()), (0, ""));
    let held_out = quality["worst_db"].as_f64().unwrap();
    samples(&folder, 1, |x| x);
    let (status, found, quality) = quantized(&folder, true, &["format=QDQ"]);
    assert!(status == 1 && found.contains("graded on its own samples"), "{found}");
    assert_eq!(quality["origin"], "calibration");
    let own = quality["worst_db"].as_f64().unwrap();
    assert!(held_out < own - 10.0, "{held_out} dB held out, {own} dB on its own sample");
}

#[test]
fn usable_outputs_are_told_what_gains_how_much() {
    let folder = network([1.0; 4]);
    // A single value is far from all others.
    let first = std::cell::Cell::new(true);
    samples(&folder, 64, |x| if first.replace(false) { 40.0 } else { x });
    let way = ["format=QDQ", "weight_type=int4", "per_channel=false", "sqnr_db_floor=-300"];
    let (status, found, quality) = quantized(&folder, true, &way);
    assert_eq!((status, found.as_str()), (0, ""));
    assert!(quality["worst_db"].as_f64().unwrap() < 20.0, "{quality}");
    let receipt = fs::read_to_string(folder.path().join("out/receipt.txt")).unwrap();
    let next = receipt.lines().find(|line| line.starts_with("next:")).unwrap();
    assert!(next.contains("usable and not good. More samples may help; `quantization."), "{next}");
    assert!(next.contains("sqnr_db_min = 20` gains "), "{next}");
    // What it says is what is had by following it.
    let remedy = quality["remedies"][0].clone();
    let (_, _, better) = quantized(&folder, true, &[&way[..], &["sqnr_db_min=20"]].concat());
    let gain = better["worst_db"].as_f64().unwrap() - quality["worst_db"].as_f64().unwrap();
    assert!((gain - remedy["gain_db"].as_f64().unwrap()).abs() < 0.1, "{gain} {remedy}");
}

#[test]
fn weights_of_few_bits_are_graded_beside_the_nearest() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let way = ["format=QDQ", "mode=weight_only", "weight_type=int4", "block_size=16"];
    let (_, _, quality) = quantized(&folder, true, &way);
    let (worst, nearest) = (quality["worst_db"].as_f64().unwrap(), &quality["nearest_db"]);
    assert!(worst >= nearest.as_f64().unwrap(), "{quality}");
    let receipt = fs::read_to_string(folder.path().join("out/receipt.txt")).unwrap();
    assert!(receipt.contains("rounded to the nearest"), "{receipt}");
}

#[test]
fn what_is_good_for_little_is_a_finding() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    for (way, why) in [
        (&["format=QDQ", "sqnr_db_floor=200"][..], "below 200.0"),
        (&["format=QDQ", "sqnr_db_min=300"], "nothing was quantized"),
        (&["format=QDQ", "exclude=[\"*\"]"], "nothing was quantized"),
        (&["format=QLinear", "mode=weight_only"], "1 of 3 operators with weights"),
        (&["format=inc-qdq", "mode=dynamic"], "1 of 3 operators with weights"),
    ] {
        let (status, found, _) = quantized(&folder, true, way);
        assert!(status == 1 && found.contains(why), "{way:?}: {status} {found}");
    }
    for (of, why) in [
        (&(|_| f32::NAN) as &dyn Fn(f32) -> f32, "the first is number 0 of `calib.npz`, input `x`"),
        (&|_| 0.0, "one and the same number"),
    ] {
        samples(&folder, 64, of);
        let (status, found, quality) = quantized(&folder, true, &["format=QDQ"]);
        assert!(status == 1 && found.contains(why), "{status} {found} {quality}");
        if why.contains("first") {
            assert_eq!(quality["unmeasured"], "samples hold numbers that are not finite");
        }
    }
}

/// A folder with the network of this text, and what is drawn for its weights.
fn small(text: &str, weights: &[(&str, &[usize])]) -> TempDir {
    let folder = folder_with(&["libonnxd_frontend_onnx.so", "libonnxd_quant_onnx.so"]);
    let mut graph = text::parse_graph(text).unwrap();
    for (seed, (name, dims)) in (1u64..).zip(weights) {
        let v = graph.value_named(name).unwrap();
        let values = numbers(dims.iter().product(), seed);
        graph.set_initializer(v, Some(Tensor::from_vec(dims.to_vec(), values)));
    }
    let model = Model::new(graph, 8, 18);
    write_model(&model, &folder.path().join("net.onnx"), &WriteOptions::default()).unwrap();
    folder
}

#[test]
fn random_inputs_are_such_that_the_network_takes_them() {
    let scalar = "net (float[n,16] x, float gain) => (float[n,8] y) <float[16,8] w> {
        p = MatMul (x, w)
        y = Mul (p, gain)
    }";
    // A sum over 40 pixels leaves nothing of 32.
    let pooled = "net (float[n,3,h,v] x) => (float[n,8,1,1] y) <float[8,3,3,3] w> {
        c = Conv (x, w)
        a = AveragePool <kernel_shape = [40,40]> (c)
        y = GlobalAveragePool (a)
    }";
    for (text, dims) in [(scalar, &[16usize, 8][..]), (pooled, &[8, 3, 3, 3])] {
        let folder = small(text, &[("w", dims)]);
        let (_, found, quality) = quantized(&folder, false, &["format=QDQ", "mode=dynamic"]);
        assert_eq!((found.as_str(), &quality["unmeasured"]), ("", &"".into()), "{text}");
        assert_eq!(quality["origin"], "random", "{text}");
    }
}

#[test]
fn samples_may_have_empty_axes() {
    let cached = "net (float[n,4,16] x, float[n,t,8] past) => (float[n,s,8] y) <float[16,8] w> {
        p = MatMul (x, w)
        y = Concat <axis = 1> (past, p)
    }";
    let folder = small(cached, &[("w", &[16, 8])]);
    let x = Tensor::from_vec(vec![64, 4, 16], numbers(64 * 64, 3));
    let past = Tensor::from_vec(vec![64, 0, 8], Vec::<f32>::new());
    let samples = vec![("x".into(), x), ("past".into(), past)];
    onnxd_arrays::write(&folder.path().join("calib.npz"), &samples).unwrap();
    let (status, found, quality) = quantized(&folder, true, &["format=QDQ"]);
    assert_eq!((status, found.as_str(), &quality["origin"]), (0, "", &"apart".into()));
}

/// The receipt of a quantization.
fn receipt(folder: &TempDir, sets: &[&str]) -> String {
    let (status, _, quality) = quantized(folder, true, sets);
    assert!([0, 1].contains(&status), "{sets:?}: {quality}");
    fs::read_to_string(folder.path().join("out/receipt.txt")).unwrap()
}

#[test]
fn receipts_warn_of_what_runtimes_do_and_of_nothing_else() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let without = |receipt: &str| !receipt.contains("VNNI") && !receipt.contains("optimizations");
    for way in [
        &["format=QDQ"][..],
        &["format=QDQ", "activation_type=uint16"],
        &["format=QDQ", "mode=dynamic"],
        &["format=QDQ", "mode=weight_only", "weight_type=int4", "block_size=16"],
        &["format=QLinear", "mode=weight_only", "weight_type=int8"],
        &["format=inc-qlinear"],
    ] {
        let receipt = receipt(&folder, way);
        assert!(without(&receipt), "{way:?}: {receipt}");
    }
    let slow = receipt(&folder, &["format=QDQ", "mode=dynamic"]);
    assert!(slow.contains("slower on the ConvInteger of 2 nodes"), "{slow}");
    let text = receipt(&folder, &["format=QDQ", "processor=vnni"]);
    assert!(text.contains("on ARM and on x86-64 with VNNI"), "{text}");
    let large = receipt(&folder, &["format=QDQ", "weight_type=int8"]);
    let text = "without VNNI, accumulators of int8 in 3 nodes (Conv -> r1_float, Conv -> c2_float, ...) saturate";
    assert!(large.contains(text) && large.contains("x64quantprecision"), "{large}");
    let receipt = receipt(&folder, &["format=QDQ", "mode=weight_only", "weight_type=int8"]);
    assert!(
        receipt.contains(
            "on every processor; ONNX Runtime's optimizations round to 8 bits what 1 node"
        ),
        "{receipt}"
    );
}

#[test]
fn advice_names_the_worst_layer_and_what_the_quantizer_has() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    for (way, advice) in [
        (&["format=N2D2"][..], "act-clipping-mode"),
        (&["format=QDQ", "mode=weight_only"], "block_size"),
        (&["format=QDQ"], "sqnr_db_min"),
    ] {
        let sets = way.iter().chain(&["sqnr_db_floor=200"]);
        let sets: Vec<String> = sets.map(|set| format!("quantization.{set}")).collect();
        let mut sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        sets.push("passes.profile=none");
        let (_, stderr, _) = converted(folder.path(), "out", &["net.onnx", "calib.npz"], &sets);
        let next = stderr.lines().find(|line| line.contains("below 200.0")).expect(&stderr);
        assert!(next.contains("the worst one is `") && next.contains(advice), "{way:?}: {next}");
        for other in ["act-clipping-mode", "block_size", "sqnr_db_min"] {
            assert_eq!(next.contains(other), other == advice, "{way:?}: {next}");
        }
    }
}

#[test]
fn renamed_inputs_and_outputs_keep_their_scales() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let at = folder.path();
    let sets = [
        "quantization.format=N2D2", "passes.profile=none", "export.input_names=pixels",
        "export.output_names=scores",
    ];
    let (status, stderr, _) = converted(at, "out", &["net.onnx", "calib.npz"], &sets);
    assert_eq!(status, 0, "{stderr}");
    let model = onnxd_onnx::load(&at.join("out/model.onnx")).unwrap().model;
    for key in ["input.pixels", "output.scores"] {
        let key = format!("onnxd.quantization.{key}");
        let fact = model.metadata.iter().find(|(known, _)| *known == key);
        assert!(fact.is_some_and(|(_, text)| text.contains("one step is")), "{:?}", model.metadata);
    }
    assert!(!model.metadata.iter().any(|(key, _)| key.ends_with(".x") || key.ends_with(".y")));
}

#[test]
fn a_result_that_was_not_measured_says_what_to_do() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let at = folder.path();
    let (status, _, quality) = quantized(&folder, true, &["format=N2D2"]);
    assert_eq!((status, &quality["unmeasured"]), (0, &"".into()), "{quality}");
    fs::copy(at.join("out/calibration.json"), at.join("calibration.json")).unwrap();
    let sets = ["quantization.format=N2D2", "calibration.reload=true", "passes.profile=none"];
    let files = ["net.onnx", "calibration.json"];
    let (status, stderr, report) = converted(at, "again", &files, &sets);
    let verdict = (1, &"succeeded_with_findings".into());
    assert_eq!((status, &report["verdict"]), verdict, "{stderr}");
    let receipt = fs::read_to_string(at.join("again/receipt.txt")).unwrap();
    assert!(receipt.contains("there are no samples; drop some as `calib.npz`"), "{receipt}");
}

#[test]
fn the_operation_that_ruins_outputs_stays_in_float() {
    // One scale for all weights leaves the channels that count without integers.
    let folder = network([1.0, 4000.0, 4000.0, 4000.0]);
    let way = ["format=QDQ", "mode=dynamic", "per_channel=false"];
    let floor = [&way[..], &["sqnr_db_floor=5"]].concat();
    let (status, found, quality) = quantized(&folder, false, &floor);
    assert_eq!((status, found.as_str()), (0, ""), "{quality}");
    assert!(quality["sqnr_db"].as_f64().unwrap() >= 5.0, "{quality}");
    assert_eq!(quality["quantized"], 2, "{quality}");
    let (status, found, quality) =
        quantized(&folder, false, &[&way[..], &["sqnr_db_floor=-300"]].concat());
    assert_eq!((status, found.as_str(), &quality["quantized"]), (0, "", &3.into()));
    assert!(quality["sqnr_db"].as_f64().unwrap() < 5.0, "{quality}");
}

#[test]
fn an_array_named_beside_a_network_calibrates() {
    let folder = network([1.0; 4]);
    samples(&folder, 64, |x| x);
    let at = folder.path();
    fs::rename(at.join("calib.npz"), at.join("my samples.npz")).unwrap();
    let files = ["net.onnx", "my samples.npz"];
    let sets = ["quantization.format=QDQ", "quantization.processor=any", "passes.profile=none"];
    let (status, stderr, report) = converted(at, "out", &files, &sets);
    assert_eq!((status, &report["quantization"]["samples"]), (0, &56.into()), "{stderr}");
}
