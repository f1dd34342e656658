//! The flow of a quantization: request, ranges, placement, form, report.

use crate::report::report;
use crate::{params, search, weights};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_qdq::{Form, quantize_dynamic};

/// The oldest operator set whose `DequantizeLinear` has scales for channels.
const OPSET_MIN: i64 = 13;

/// Quantizes to pairs of `QuantizeLinear` and `DequantizeLinear`, or to operators on integers.
pub(crate) struct Scheme(pub(crate) Form);

impl Quantizer for Scheme {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let request = params::request(cx)?;
        if model.opset() < OPSET_MIN {
            onnxd_opset::convert(model, OPSET_MIN)?;
        }
        let done = match params::key(cx, "mode").as_str() {
            Some("dynamic") => quantize_dynamic(model, &request, self.0)?,
            Some("weight_only") => weights::quantize(model, &request, self.0, cx)?,
            None | Some("static") if self.0 == Form::Qdq => search::quantize(model, &request, cx)?,
            mode => {
                let mode = mode.unwrap_or("static");
                let text =
                    format!("`quantization.mode` = \"{mode}\" is not supported in this form");
                return Err(Diagnostic::new(Code::FeatureUnsupported, text).into());
            }
        };
        report(done, cx);
        Ok(())
    }
}
