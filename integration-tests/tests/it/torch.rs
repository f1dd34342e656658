//! PyTorch models through the watched folder, and quantized in one step with their conversion.

use crate::site::{self, Site, report};
use onnxd_arrays::Arrays;
use onnxd_integration_tests::{PLUGINS, converted, folder_with, numbers, root};
use onnxd_ir::{Model, Tensor};
use std::fs;
use std::path::{Path, PathBuf};

/// The models that torch.onnx's document names, in small versions.
const MODELS: [&str; 8] = [
    "alexnet", "dcgan", "densenet", "inception", "resnet", "super-resolution", "vgg",
    "word-language-model",
];

fn case(name: &str) -> PathBuf {
    root().join("integration-tests/corpus/torch").join(name)
}

/// What is wrong with what a model computes, beside what torch computed.
fn wrong(model: &Path, case: &Path) -> Option<String> {
    let model = onnxd_onnx::load(model).unwrap().model;
    let array = |name: &str| onnxd_arrays::read(&case.join(name)).unwrap();
    let wanted = tensors(array("expected.outputs.npz"));
    numbers::wrong(&numbers::outputs(&model, &array("expected.inputs.npz")), &wanted, 1e-5)
}

fn tensors(arrays: Arrays) -> Vec<Tensor> {
    arrays.into_iter().map(|(_, tensor)| tensor).collect()
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
        let wrong = wrong(&result.join("model.onnx"), &case(&format!("model-{name}")));
        assert_eq!(wrong, None, "{name}");
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
    let float = numbers::outputs(&float, &inputs);
    for (format, operator) in
        [("QDQ", "QuantizeLinear"), ("QLinear", "QLinearConv"), ("N2D2", "ConvInteger")]
    {
        let (model, report) = convert(format, &[&format!("quantization.format={format}")]);
        let findings = onnxd_ir::verify(&model, onnxd_ir::VerifyLevel::Full);
        assert!(findings.0.is_empty(), "{format}: {findings}");
        let has = model.graph.nodes().any(|(_, node)| node.op == operator);
        let ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
        assert!(has, "{format}: {ops:?}");
        if format != "N2D2" {
            assert_eq!(report["quantization"]["quality"]["quantized"], 2, "{format}: {report}");
        }
        let found = match format {
            "N2D2" => integer_outputs(&model, &inputs),
            _ => numbers::outputs(&model, &inputs),
        };
        // Probabilities.
        assert_eq!(numbers::wrong(&found, &float, 0.05), None, "{format}");
    }
}

/// The outputs of a model whose input is integers, in the steps that its metadata name. Probabilities stay real.
fn integer_outputs(model: &Model, inputs: &Arrays) -> Vec<Tensor> {
    let said = model.metadata.iter().find(|(key, _)| key == "onnxd.quantization.input.x");
    let step: f64 = said.unwrap().1.rsplit(' ').next().unwrap().parse().unwrap();
    let reals = inputs[0].1.to_reals().unwrap();
    let steps = reals.values.iter().map(|x| (x / step).round().clamp(-128.0, 127.0) as i8);
    let integers = Tensor::from_vec(reals.dims, steps.collect::<Vec<i8>>());
    numbers::outputs(model, &vec![("x".into(), integers)])
}

/// What a module keeps between calls goes from call to call, beginning with the file beside the model.
#[test]
fn ten_calls_with_their_state_give_what_torch_gave() {
    for (name, net) in
        [("stream", "net.pt"), ("stream-traced", "net.pt"), ("stream-exported", "net.pt2")]
    {
        let case = case(name);
        let folder = folder_with(&PLUGINS);
        let at = folder.path();
        for file in [net, "params.toml"] {
            fs::copy(case.join(file), at.join(file)).unwrap();
        }
        let (status, stderr, report) = converted(at, "out", &[net, "params.toml"], &[]);
        assert_eq!(status, 0, "{name}: {stderr}");
        let outputs = report["outputs"].as_array().unwrap();
        let file = outputs.iter().find(|file| file["role"] == "state").unwrap();
        assert_eq!(file["path"], "model.state.npz", "{name}: {outputs:?}");
        let manifest = fs::read_to_string(at.join("out/manifest.sha256")).unwrap();
        assert!(manifest.contains("model.state.npz"), "{name}: {manifest}");
        let receipt = fs::read_to_string(at.join("out/receipt.txt")).unwrap();
        assert!(receipt.contains("first values: model.state.npz"), "{name}: {receipt}");

        let model = onnxd_onnx::load(&at.join("out/model.onnx")).unwrap().model;
        let graph = &model.graph;
        assert!(graph.inputs().iter().all(|v| graph[*v].initializer().is_none()), "{name}");
        let states = numbers::states(&report);
        for (input, output) in &states {
            let key = format!("onnxd.state.{input}");
            let said = model.metadata.iter().find(|(k, _)| *k == key);
            assert_eq!(said.unwrap().1, *output, "{name}");
        }
        let kept = onnxd_arrays::read(&at.join("out/model.state.npz")).unwrap();
        assert_eq!(kept.len(), states.len(), "{name}");
        let wrong = numbers::wrong_call(&model, &states, kept, &case.join("calls.npz"));
        assert_eq!(wrong, None, "{name}");
    }
}

/// A state is an input like others for quantizers: nobody takes its first value for a constant.
#[test]
fn states_stay_inputs_of_a_quantized_model() {
    let (case, folder) = (case("stream"), folder_with(&PLUGINS));
    let at = folder.path();
    for file in ["net.pt", "params.toml"] {
        fs::copy(case.join(file), at.join(file)).unwrap();
    }
    let sets = ["quantization.format=QDQ", "quantization.mode=dynamic"];
    let (status, stderr, _) = converted(at, "out", &["net.pt", "params.toml"], &sets);
    assert_eq!(status, 0, "{stderr}");
    let model = onnxd_onnx::load(&at.join("out/model.onnx")).unwrap().model;
    let graph = &model.graph;
    let inputs: Vec<&str> = graph.inputs().iter().map(|v| graph[*v].name.as_str()).collect();
    assert_eq!(inputs, ["x", "steps", "cache", "mean"]);
    assert!(graph.nodes().any(|(_, node)| node.op == "DynamicQuantizeLinear"));
    let kept = onnxd_arrays::read(&at.join("out/model.state.npz")).unwrap();
    assert_eq!(kept.len(), 3);
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
