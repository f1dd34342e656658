//! Weights that a model lists among its inputs, too, as files of old IR versions do.

use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{Model, ValueId};

/// Takes initializers that are inputs for constants: who replaced them when the model runs would
/// replace integers.
pub fn fix_weights(model: &mut Model, cx: &mut QuantizeContext) {
    let graph = &mut model.graph;
    let both = graph.inputs().iter().copied().filter(|v| graph[*v].initializer().is_some());
    let both: Vec<ValueId> = both.collect();
    both.iter().for_each(|v| graph.unmark_input(*v));
    if !both.is_empty() {
        let text = format!(
            "{} inputs have initializers, which are taken for constants: they are no inputs any more",
            both.len()
        );
        cx.note(Diagnostic::new(Code::QuantizationLoss, text));
    }
}
