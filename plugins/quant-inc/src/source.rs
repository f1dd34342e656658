//! Models that are quantized already, by training or by another tool: their integers, scales and
//! zero points are carried over, and only the form changes.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{Model, infer};
use onnxd_plugin_sdk::words::Mode;
use onnxd_plugin_sdk::{QuantizeContext, QuantizedLayer};
use onnxd_quantize::emit::recipes::{self, Recipe};
use onnxd_quantize::emit::{fold, fold_fake_quantization, unfold};
use onnxd_quantize::report::{Form, Report};

/// Writes a quantized model in the form and with the recipe that are asked for. What was quantized
/// stays so, and nothing else becomes it.
pub(crate) fn carry(
    model: &mut Model,
    recipe: Recipe,
    form: Form,
    cx: &QuantizeContext,
    report: &mut Report,
) {
    // All forms lead to pairs, and from there to each other.
    let mut told = unfold(model);
    let folded = fold_fake_quantization(model);
    // What is wrong with the types is found when the result is verified.
    let _ = infer(model);
    let recipe = recipes::apply(model, recipe, true);
    if form == Form::QLinear {
        let _ = infer(model);
        // What only passed through the other form did not change.
        let folded = fold(model);
        told.folded = folded.folded;
        told.left.extend(folded.left);
    }
    for (name, op, rescaling) in told.folded.into_iter().chain(recipe.folded) {
        report.layers.push(QuantizedLayer { name, op, rescaling, ..QuantizedLayer::default() });
    }
    for (name, why) in told.left.into_iter().chain(recipe.left) {
        report.leave(&name, why);
    }
    report.fact("quantized", "the model was so already; its scales and zero points are kept");
    if !folded.is_empty() {
        let text = format!("{} constants became the integers that training chose", folded.len());
        report.fact("quantized.trained", text);
    }
    if cx.quantization().mode() == Mode::Dynamic {
        let text = "the model is quantized already: `quantization.mode` = \"dynamic\" has no say";
        report.notes.push(Diagnostic::new(Code::FeatureUnsupported, text));
    }
}
