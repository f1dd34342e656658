//! PyTorch models through the watched folder, and quantized in one step with their conversion.

mod site;

use onnxd_eval::{Executor, RunOptions};
use onnxd_integration_tests::{converted, folder_with, root};
use onnxd_ir::{Model, Tensor};
use site::{Site, report};
use std::fs;
use std::path::{Path, PathBuf};

/// The models that torch.onnx's document names, in small versions.
const MODELS: [&str; 8] = [
    "alexnet",
    "dcgan",
    "densenet",
    "inception",
    "resnet",
    "super-resolution",
    "vgg",
    "word-language-model",
];

fn case(name: &str) -> PathBuf {
    root().join("integration-tests/corpus/torch").join(name)
}

/// All outputs, one after the other, as the built-in executor computes them.
fn outputs(model: &Model, inputs: &[(String, Tensor)]) -> Vec<f64> {
    let graph = &model.graph;
    let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    let feeds = fed.zip(inputs).map(|(v, (_, t))| (graph[*v].name.clone(), t.clone())).collect();
    let found = Executor::new(model).unwrap().run(&feeds, RunOptions::default()).unwrap();
    found.iter().flat_map(|(_, tensor)| tensor.to_reals().unwrap().values).collect()
}

/// Largest difference between what a model computes and what torch computed.
fn difference(model: &Path, case: &Path) -> f64 {
    let model = onnxd_onnx::load(model).unwrap().model;
    let inputs = onnxd_arrays::read(&case.join("expected.inputs.npz")).unwrap();
    let wanted = onnxd_arrays::read(&case.join("expected.outputs.npz")).unwrap();
    let wanted: Vec<f64> = wanted.iter().flat_map(|(_, t)| t.to_reals().unwrap().values).collect();
    let found = outputs(&model, &inputs);
    assert_eq!(found.len(), wanted.len());
    found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn models_of_the_document_pass_through_the_watched_folder() {
    let site = Site::new();
    let daemon = site.start();
    for name in MODELS {
        let case = case(&format!("model-{name}"));
        fs::copy(case.join("params.toml"), site.inbox().join(format!("{name}.params.toml")))
            .unwrap();
        fs::copy(case.join("net.pt"), site.inbox().join(format!("{name}.pt"))).unwrap();
    }
    for name in MODELS {
        site.wait_for(name, "succeeded");
        let result = site.outbox().join(name);
        let said = report(&result);
        assert_eq!(said["verdict"], "succeeded", "{name}: {said}");
        assert_eq!(said["diagnostics"].as_array().map_or(0, Vec::len), 0, "{name}: {said}");
        let worst = difference(&result.join("model.onnx"), &case(&format!("model-{name}")));
        assert!(worst < 1e-5, "{name} differs by {worst}");
    }
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Refused files get a receipt that says what to do.
#[test]
fn weights_without_a_network_are_answered_in_the_receipt() {
    let site = Site::new();
    let daemon = site.start();
    fs::copy(case("refused-state-dict").join("net.pt"), site.inbox().join("weights.pt")).unwrap();
    let job = site.wait_for("weights", "failed");
    let folder = site.at("failed").join(format!("weights.{}", job["job"].as_str().unwrap()));
    let read = || fs::read_to_string(folder.join("receipt.txt")).ok();
    let receipt = site::wait("the receipt", read);
    assert!(receipt.contains("a state dict: weights alone, without a network"), "{receipt}");
    assert!(receipt.contains("torch.jit.save"), "{receipt}");
    assert_eq!(daemon.stop().code(), Some(0));
}

/// A small CNN with calibration samples beside it becomes integers in each format, and stays near to torch's numbers.
#[test]
fn a_dropped_network_is_quantized_in_one_step() {
    const PLUGINS: [&str; 7] = [
        "libonnxd_frontend_torch.so",
        "libonnxd_passes_cleanup.so",
        "libonnxd_passes_fusion.so",
        "libonnxd_passes_layout.so",
        "libonnxd_quant_onnx.so",
        "libonnxd_quant_inc.so",
        "libonnxd_quant_n2d2.so",
    ];
    let case = case("scripted-cnn");
    let folder = folder_with(&PLUGINS);
    let at = folder.path();
    fs::copy(case.join("net.pt"), at.join("net.pt")).unwrap();
    let inputs = onnxd_arrays::read(&case.join("expected.inputs.npz")).unwrap();
    onnxd_arrays::write(&at.join("calib.npz"), &vec![("x".into(), samples())]).unwrap();
    let shape = "export.input_shapes=[[\"batch\",1,8,8]]";
    let convert = |out: &str, sets: &[&str]| {
        let sets = [&[shape][..], sets].concat();
        let (status, stderr, report) = converted(at, out, &["net.pt", "calib.npz"], &sets);
        assert_eq!(status, 0, "{out}: {stderr}");
        (onnxd_onnx::load(&at.join(out).join("model.onnx")).unwrap().model, report)
    };
    let (float, _) = convert("float", &["quantization.format=none"]);
    let float = outputs(&float, &inputs);
    for (format, operator) in
        [("QDQ", "QuantizeLinear"), ("QLinear", "QLinearConv"), ("N2D2", "ConvInteger")]
    {
        let (model, report) = convert(format, &[&format!("quantization.format={format}")]);
        let findings = onnxd_ir::verify(&model, onnxd_ir::Level::Full);
        assert!(findings.0.is_empty(), "{format}: {findings}");
        let has = model.graph.nodes().any(|(_, node)| node.op == operator);
        let ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
        assert!(has, "{format}: {ops:?}");
        if format != "N2D2" {
            assert_eq!(report["quantization"]["quality"]["quantized"], 2, "{format}: {report}");
        }
        let found = match format {
            "N2D2" => integer_outputs(&model, &inputs),
            _ => outputs(&model, &inputs),
        };
        assert_eq!(found.len(), float.len(), "{format}");
        let worst = found.iter().zip(&float).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 0.05, "{format}: probabilities differ by {worst}");
    }
}

/// The outputs of a model whose input is integers, in the steps that its metadata name. Probabilities stay real.
fn integer_outputs(model: &Model, inputs: &[(String, Tensor)]) -> Vec<f64> {
    let said = model.metadata.iter().find(|(key, _)| key == "onnxd.quantization.input.x");
    let step: f64 = said.unwrap().1.rsplit(' ').next().unwrap().parse().unwrap();
    let reals = inputs[0].1.to_reals().unwrap();
    let steps = reals.values.iter().map(|x| (x / step).round().clamp(-128.0, 127.0) as i8);
    let integers = Tensor::from_vec(reals.dims, steps.collect::<Vec<i8>>());
    outputs(model, &[("x".into(), integers)])
}

/// Numbers like those that the case was recorded with: normal ones, nearly.
fn samples() -> Tensor {
    let mut state = 7u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let values = (0..32 * 64).map(|_| (0..12).map(|_| next()).sum()).collect::<Vec<f32>>();
    Tensor::from_vec(vec![32, 1, 8, 8], values)
}
