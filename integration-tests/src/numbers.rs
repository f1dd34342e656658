//! The outputs of converted models, beside those that their sources computed.

use onnxd_arrays::Arrays;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The outputs of a model as the built-in executor computes them. Arrays are in the order of the inputs.
///
/// # Panics
/// If there are more or fewer arrays than inputs, or the model cannot be run.
pub fn outputs(model: &Model, inputs: &Arrays) -> Vec<Tensor> {
    let graph = &model.graph;
    let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    let fed: Vec<&String> = fed.map(|v| &graph[*v].name).collect();
    assert_eq!(fed.len(), inputs.len(), "the inputs are {fed:?}");
    let feeds = fed.into_iter().zip(inputs).map(|(name, (_, t))| (name.clone(), t.clone()));
    let found = Executor::new(model).unwrap().run(&feeds.collect(), RunOptions::default()).unwrap();
    found.into_iter().map(|(_, tensor)| tensor).collect()
}

/// What is wrong with outputs; an element may differ by `tolerance` of its output's largest magnitude, which counts as
/// 1 at least.
pub fn wrong(found: &[Tensor], wanted: &[Tensor], tolerance: f64) -> Option<String> {
    if found.len() != wanted.len() {
        return Some(format!("{} outputs, not {}", found.len(), wanted.len()));
    }
    let pairs = found.iter().zip(wanted).enumerate();
    pairs.into_iter().find_map(|(i, (found, wanted))| {
        let wrong = differs(found, wanted, tolerance)?;
        Some(format!("output {i} {wrong}"))
    })
}

fn differs(found: &Tensor, wanted: &Tensor, tolerance: f64) -> Option<String> {
    let kind = |tensor: &Tensor| (tensor.dtype(), tensor.dims().to_vec());
    if kind(found) != kind(wanted) {
        return Some(format!("is {:?}, not {:?}", kind(found), kind(wanted)));
    }
    let reals = |tensor: &Tensor| tensor.to_reals().expect("outputs are numbers").values;
    let (found, wanted) = (reals(found), reals(wanted));
    let scale = wanted.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    // A value that is no number is near to none.
    let near = |(a, b): &(&f64, &f64)| (*a - *b).abs() <= tolerance * scale;
    let (a, b) = found.iter().zip(&wanted).find(|pair| !near(pair))?;
    Some(format!("has {a}, not {b}"))
}

/// Inputs and outputs that a model has for what its network keeps between calls, as the report names them.
pub fn states(report: &Value) -> Vec<(String, String)> {
    let all = report["model"]["states"].as_array();
    let of = |state: &Value, key: &str| state[key].as_str().expect("a state has names").to_owned();
    let names = |state: &Value| (of(state, "input"), of(state, "output"));
    all.into_iter().flatten().map(names).collect()
}

/// What is wrong in the first of ten calls, one after the other, that gives something else than the source. `kept` are
/// the states of the first call; the file `calls` has what goes in (`x0`) and what must come out first (`y0`).
pub fn wrong_call(
    model: &Model,
    states: &[(String, String)],
    mut kept: Arrays,
    calls: &Path,
) -> Option<String> {
    let calls = onnxd_arrays::read(calls).expect("recorded calls");
    let calls: BTreeMap<String, Tensor> = calls.into_iter().collect();
    let x = &model.graph[model.graph.inputs()[0]].name;
    let executor = Executor::new(model).expect("a model that runs");
    (0..10).find_map(|i| {
        let x = (x.clone(), calls[&format!("x{i}")].clone());
        let feeds = kept.iter().cloned().chain([x]).collect();
        let given = executor.run(&feeds, RunOptions::default()).expect("a call");
        let wrong = wrong(&[given[0].1.clone()], &[calls[&format!("y{i}")].clone()], 1e-5);
        let named: BTreeMap<String, Tensor> = given.into_iter().collect();
        kept = states.iter().map(|(input, out)| (input.clone(), named[out].clone())).collect();
        wrong.map(|wrong| format!("call {i}: {wrong}"))
    })
}
