//! The form of a quantized graph: pairs of `QuantizeLinear` and `DequantizeLinear` around operators
//! on floats, or operators on integers.

use onnxd_plugin_sdk::ir::{Model, infer};
use onnxd_plugin_sdk::{QuantizeContext, QuantizedLayer};
use onnxd_quantize::emit::Folded;
use onnxd_quantize::emit::recipes::{self, Recipe};
use onnxd_quantize::report::{Done, Form};
use onnxd_schemes::written;

/// Writes a model that is quantized already in the form that is asked for. Its integers, scales and
/// zero points stay; calibration data, types and the choice of nodes have no say.
pub(crate) fn reform(model: &mut Model, form: Form, cx: &mut QuantizeContext) {
    let told = match form {
        Form::Qdq => onnxd_quantize::emit::unfold(model),
        Form::QLinear => onnxd_quantize::emit::fold(model),
    };
    let Folded { folded, left } = told;
    let text = format!("the model was so already; {} nodes changed form", folded.len());
    cx.metadata("quantized", text);
    for (name, op, written_as) in folded {
        let rescaling = written_as;
        cx.layer(QuantizedLayer { name, op, rescaling, ..QuantizedLayer::default() });
    }
    for (name, why) in left {
        cx.left_in_float(name, why);
    }
}

/// Writes the Linear layers of what was just quantized as a recipe says.
pub(crate) fn linear(model: &mut Model, recipe: Recipe, done: &mut Done) {
    written(recipes::apply(model, recipe), done, "as the recipe says");
}

/// Writes what was just quantized with operators on integers.
pub(crate) fn fold(model: &mut Model, done: &mut Done) {
    // The types of what quantization added; what is wrong is found when the result is verified.
    let _ = infer(model);
    written(onnxd_quantize::emit::fold(model), done, "between integers");
}
