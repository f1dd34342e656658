//! The outputs of a converted model, beside those that its source computed.

use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor};
use serde_json::Value;
use std::path::Path;

/// Largest difference of an element, beside the largest magnitude of its output or 1.
const TOLERANCE: f64 = 1e-5;

/// What is wrong with the outputs of the written model. Arrays are in the order of inputs and outputs.
pub(crate) fn wrong(case: &Path, out: &Path, report: &Value) -> Option<String> {
    let wanted = case.join("expected.outputs.npz");
    if !wanted.exists() {
        return None;
    }
    let path = report["outputs"].as_array()?.iter().find(|o| o["role"] == "model");
    let Some(path) = path.and_then(|o| o["path"].as_str()) else {
        return Some("no model, whose outputs would be compared".into());
    };
    let model = onnxd_onnx::load(&out.join(path)).unwrap().model;
    let inputs = onnxd_arrays::read(&case.join("expected.inputs.npz")).unwrap();
    let wanted = onnxd_arrays::read(&wanted).unwrap();
    let found = outputs(&model, inputs);
    if found.len() != wanted.len() {
        return Some(format!("{} outputs, not {}", found.len(), wanted.len()));
    }
    found.iter().zip(&wanted).find_map(|(found, (name, wanted))| differs(name, found, wanted))
}

fn outputs(model: &Model, inputs: onnxd_arrays::Arrays) -> Vec<Tensor> {
    let graph = &model.graph;
    let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    let feeds = fed.zip(inputs).map(|(v, (_, tensor))| (graph[*v].name.clone(), tensor)).collect();
    let found = Executor::new(model).unwrap().run(&feeds, RunOptions::default()).unwrap();
    found.into_iter().map(|(_, tensor)| tensor).collect()
}

fn differs(name: &str, found: &Tensor, wanted: &Tensor) -> Option<String> {
    let kind = |tensor: &Tensor| (tensor.dtype(), tensor.dims().to_vec());
    if kind(found) != kind(wanted) {
        return Some(format!("`{name}` is {:?}, not {:?}", kind(found), kind(wanted)));
    }
    let reals = |tensor: &Tensor| tensor.to_reals().unwrap().values;
    let (found, wanted) = (reals(found), reals(wanted));
    let scale = wanted.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    let worst = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let equal = found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= TOLERANCE * scale);
    (!equal).then(|| format!("`{name}` differs by {worst} from what the source computes"))
}
