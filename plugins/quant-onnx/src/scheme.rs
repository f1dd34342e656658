//! The flow of a quantization: request, ranges, placement, form, report.

use crate::{reform, weights};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::words::{Mode, Processor};
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::accuracy::{cover, measure};
use onnxd_quantize::emit::{is_quantized, keep_bias_unfused, quantize_dynamic};
use onnxd_quantize::graph::{fix_weights, in_float32};
use onnxd_quantize::plan::{Remedies, params};
use onnxd_quantize::report::{Form, Report};
use onnxd_quantize::search::{search_dynamic, search_static};

/// Whether products are asked to be fast on processors with instructions for sums of 8-bit products, rather than exact
/// on all. Where no param says it, this machine does: what is converted here often runs here.
fn runs_on_vnni(cx: &QuantizeContext, mode: Mode) -> bool {
    if mode != Mode::Static {
        return false;
    }
    match cx.quantization().processor() {
        Some(processor) => processor == Processor::Vnni,
        None => has_vnni(),
    }
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni")
}

/// Others add such products in 32 bits.
#[cfg(not(target_arch = "x86_64"))]
fn has_vnni() -> bool {
    true
}

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
        let mut request = params::request(cx, false)?;
        request.remedies = Remedies { wide_activations: self.0 == Form::Qdq, weights_alone: true };
        params::unmatched(model, &request, cx);
        let mode = cx.quantization().mode();
        let fast = runs_on_vnni(cx, mode);
        let exact = request.settings.exact && !fast;
        request.settings.exact = exact;
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
                reform::linear(model, cx.quantization().recipe(), exact, &mut done);
                match self.0 {
                    Form::QLinear => reform::fold(model, exact, &mut done),
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
        if mode == Mode::WeightOnly {
            weights::judge(&request, &mut done);
        }
        cx.report(done);
        Ok(())
    }
}
