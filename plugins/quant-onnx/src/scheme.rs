//! The flow of a quantization: request, ranges, placement, form, report.

use crate::{reform, weights};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::words::Mode;
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::accuracy::{cover, measure};
use onnxd_quantize::emit::{is_quantized, keep_bias_unfused, quantize_dynamic};
use onnxd_quantize::graph::{fix_weights, in_float32};
use onnxd_quantize::plan::params;
use onnxd_quantize::report::{Form, Report};
use onnxd_quantize::search::{search_dynamic, search_static};

/// Quantizes to pairs of `QuantizeLinear` and `DequantizeLinear`, or to operators on integers.
pub(crate) struct Scheme(pub(crate) Form);

impl Quantizer for Scheme {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let mut before = Report::default();
        fix_weights(model, &mut before);
        let float = model.clone();
        if is_quantized(model) {
            params::quantized_already(cx)?;
            reform::reform(model, self.0, &mut before);
            measure(&float, model, None, cx, &mut before)?;
            cx.report(before);
            return Ok(());
        }
        let request = params::request(cx, false)?;
        params::unmatched(model, &request, cx);
        let mode = cx.quantization().mode();
        in_float32(model, &mut before);
        let opset = match mode {
            // Weights alone say themselves what they need.
            Mode::WeightOnly => 0,
            Mode::Dynamic => request.opset_min(),
            _ => request.opset_for(model),
        };
        if model.opset() < opset {
            onnxd_opset::convert(model, opset)?;
        }
        let (mut done, held) = match mode {
            Mode::Dynamic => search_dynamic(model, &request, self.0, cx)?,
            Mode::WeightOnly => weights::quantize(model, &request, self.0, cx)?,
            Mode::Static => {
                let (mut done, held) = search_static(model, &request, cx)?;
                // They take no samples, and lose accuracy to save memory only where params ask.
                if let Some(tables) = request.tables() {
                    done.append(quantize_dynamic(model, &tables, self.0)?);
                }
                reform::linear(model, cx.quantization().recipe(), &mut done);
                match self.0 {
                    Form::QLinear => reform::fold(model, &mut done),
                    Form::Qdq => keep_bias_unfused(model),
                }
                (done, Some(held))
            }
            Mode::Qat => {
                let text = format!(
                    "`quantization.mode` = \"{mode}\" takes a model that was trained with quantizers"
                );
                let help = "Drop the model with its QuantizeLinear and DequantizeLinear nodes.";
                let found = Diagnostic::new(Code::FeatureUnsupported, text).help(help);
                return Err(found.into());
            }
        };
        done.leave_functions(model);
        params::unsearched(cx);
        let mut done = done.finish(before.notes);
        cover(&float, model, &mut done);
        measure(&float, model, held.as_ref(), cx, &mut done)?;
        cx.report(done);
        Ok(())
    }
}
