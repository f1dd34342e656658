//! The form of a quantized graph: pairs of `QuantizeLinear` and `DequantizeLinear` around operators
//! on floats, or operators on integers.

use onnxd_plugin_sdk::QuantizedLayer;
use onnxd_plugin_sdk::ir::{Model, infer};
use onnxd_quantize::emit::Folded;
use onnxd_quantize::emit::recipes::{self, Recipe};
use onnxd_quantize::report::{Form, Report};

/// Writes a model that is quantized already in the form that is asked for. Its integers, scales and
/// zero points stay; calibration data, types and the choice of nodes have no say.
pub(crate) fn reform(model: &mut Model, form: Form, report: &mut Report) {
    let told = match form {
        Form::Qdq => onnxd_quantize::emit::unfold(model),
        Form::QLinear => onnxd_quantize::emit::fold(model),
    };
    let Folded { folded, left } = told;
    let text = format!("the model was so already; {} nodes changed form", folded.len());
    report.fact("quantized", text);
    for (name, op, written_as) in folded {
        let rescaling = written_as;
        report.layers.push(QuantizedLayer { name, op, rescaling, ..QuantizedLayer::default() });
    }
    for (name, why) in left {
        report.leave(&name, why);
    }
}

/// Writes the Linear layers of what was just quantized as a recipe says.
pub(crate) fn linear(model: &mut Model, recipe: Recipe, exact: bool, report: &mut Report) {
    recipes::apply(model, recipe, exact).report(report, "as the recipe says");
}

/// Writes what was just quantized with operators on integers.
pub(crate) fn fold(model: &mut Model, exact: bool, report: &mut Report) {
    // The types of what quantization added; what is wrong is found when the result is verified.
    let _ = infer(model);
    onnxd_quantize::emit::fold_for(model, exact).report(report, "between integers");
}
