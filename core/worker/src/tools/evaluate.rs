//! `onnxd eval`: runs a model with the built-in executor.

use super::arrays::{self, Arrays};
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::Model;
use std::path::Path;

/// What a run gave.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The graph's outputs, in its order.
    pub outputs: Arrays,
    /// Every computed value by name, if asked for.
    pub all: Arrays,
}

/// Runs the model at `path` on the arrays of `inputs`.
///
/// # Errors
/// Everything that is wrong with the model, its operators or the inputs.
pub fn evaluate(path: &Path, inputs: &Path, all: bool) -> Result<Evaluated, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    run(&model, &arrays::read(inputs)?, all)
}

/// Runs `model` on arrays by name; a model with a single input takes a single array of any name.
pub(crate) fn run(model: &Model, inputs: &Arrays, all: bool) -> Result<Evaluated, Diagnostics> {
    let executor = Executor::new(model)?;
    let mut seen: Arrays = Vec::new();
    let mut keep = |name: &str, tensor: &onnxd_ir::Tensor| {
        if all {
            seen.push((name.to_owned(), tensor.clone()));
        }
    };
    let options = RunOptions { observer: Some(&mut keep), ..RunOptions::default() };
    let outputs = executor.run(&arrays::feeds(model, inputs), options)?;
    Ok(Evaluated { outputs, all: seen })
}
