//! What is done to a model before it is quantized: weights are constants, and computed with in
//! `float32`.

use crate::graph::float32::to_float32;
use crate::report::Report;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Model, ValueId};

/// Takes initializers that are inputs for constants: who replaced them when the model runs would
/// replace integers.
pub fn fix_weights(model: &mut Model, report: &mut Report) {
    let graph = &mut model.graph;
    let both = graph.inputs().iter().copied().filter(|v| graph[*v].initializer().is_some());
    let both: Vec<ValueId> = both.collect();
    graph.unmark_inputs(&both);
    if !both.is_empty() {
        let text = format!(
            "{} inputs have initializers, which are taken for constants: they are no inputs any more",
            both.len()
        );
        report.notes.push(Diagnostic::new(Code::QuantizationLoss, text));
    }
}

/// Lets a model of `double` or `bfloat16` compute in `float32`, of which integers can be made.
pub fn in_float32(model: &mut Model, report: &mut Report) {
    let text = match to_float32(model) {
        Ok(types) if types.is_empty() => return,
        Ok(types) => {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            format!(
                "integers are made of float32 alone: what the model computes in {} is computed in \
                 float32, between `Cast` nodes at inputs and outputs, which keep their types",
                types.join(" and ")
            )
        }
        Err(why) => format!("the model cannot be made one of float32: {why}"),
    };
    report.notes.push(Diagnostic::new(Code::QuantizationLoss, text));
}
