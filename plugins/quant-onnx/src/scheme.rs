//! The flow of a quantization: request, ranges, placement, form, report.

use crate::{reform, weights};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::emit::recipes::Recipe;
use onnxd_quantize::report::Form;
use onnxd_schemes as schemes;

/// Quantizes to pairs of `QuantizeLinear` and `DequantizeLinear`, or to operators on integers.
pub(crate) struct Scheme(pub(crate) Form);

impl Quantizer for Scheme {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        schemes::fix_weights(model, cx);
        let float = model.clone();
        if onnxd_quantize::emit::is_quantized(model) {
            schemes::quantized_already(cx)?;
            reform::reform(model, self.0, cx);
            return schemes::measure(&float, model, None, cx);
        }
        let request = schemes::request(cx)?;
        schemes::unmatched(model, &request, cx);
        let mode = schemes::key(cx, "mode").as_str().unwrap_or("static").to_owned();
        schemes::in_float32(model, cx);
        let opset = match mode.as_str() {
            // Weights alone say themselves what they need.
            "weight_only" => 0,
            "dynamic" => request.opset_min(),
            _ => request.opset_for(model),
        };
        if model.opset() < opset {
            onnxd_opset::convert(model, opset)?;
        }
        let (mut done, held) = match mode.as_str() {
            "dynamic" => schemes::quantize_dynamic(model, &request, self.0, cx)?,
            "weight_only" => weights::quantize(model, &request, self.0, cx)?,
            "static" => {
                let (mut done, held) = schemes::quantize(model, &request, cx)?;
                // They take no samples, and lose accuracy to save memory only where somebody asks.
                if let Some(tables) = request.tables() {
                    done.append(onnxd_quantize::emit::quantize_dynamic(model, &tables, self.0)?);
                }
                if let Some(recipe) = schemes::key(cx, "recipe").as_str().and_then(Recipe::named) {
                    reform::linear(model, recipe, &mut done);
                }
                match self.0 {
                    Form::QLinear => reform::fold(model, &mut done),
                    Form::Qdq => onnxd_quantize::emit::keep_sums_apart(model),
                }
                (done, Some(held))
            }
            _ => {
                let text = format!(
                    "`quantization.mode` = \"{mode}\" takes a model that was trained with quantizers"
                );
                let help = "Drop the model with its QuantizeLinear and DequantizeLinear nodes.";
                let found = Diagnostic::new(Code::FeatureUnsupported, text).help(help);
                return Err(found.into());
            }
        };
        done.leave_functions(model);
        schemes::report(done, cx);
        schemes::cover(&float, model, cx);
        schemes::measure(&float, model, held.as_ref(), cx)
    }
}
