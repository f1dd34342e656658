//! Calls of a converted model, one after the other.

use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::{ExportOptions, Imported, Params};

/// Options that ask for states as inputs and outputs.
pub(crate) fn wanting() -> ExportOptions {
    let params = r#"{"export": {"mutations": "outputs"}}"#;
    let mut options = ExportOptions::of_shapes(18, vec![]);
    options.params = Params::parse(params).unwrap();
    options
}

/// The first output in each call, with these inputs in all of them.
pub(crate) fn calls(done: Imported, feeds: &[(&str, Tensor)], count: usize) -> Vec<Vec<f32>> {
    let mut graph = done.model.graph.clone();
    let mut values = vec![];
    for state in &done.states {
        let input = graph.value_named(&state.input).unwrap();
        values.push(graph[input].initializer().unwrap().clone());
        graph.set_initializer(input, None);
    }
    assert!(!values.is_empty(), "the model has states");
    let model = Model { graph, ..done.model };
    let mut results = vec![];
    for _ in 0..count {
        let states = done.states.iter().map(|state| state.input.as_str());
        let feeds = states.zip(values.clone()).chain(feeds.iter().cloned());
        let given = onnxd_plugin_sdk::testing::run(&model, feeds).unwrap();
        let of = |name: &str| given.iter().find(|(found, _)| found == name).unwrap().1.clone();
        values = done.states.iter().map(|state| of(&state.output)).collect();
        results.push(given[0].1.as_slice::<f32>().unwrap().to_vec());
    }
    results
}
