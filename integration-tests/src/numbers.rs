//! The outputs of converted models, beside those that their sources computed.

use onnxd_arrays::Arrays;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor};

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
