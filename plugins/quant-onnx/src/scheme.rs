//! The flow of a quantization: request, ranges, placement, form, report.

use crate::{params, search, weights};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{QuantizeContext, QuantizedLayer, QuantizedTensor, Quantizer};
use onnxd_qdq::{Done, Form, quantize_dynamic};

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

fn report(done: Done, cx: &mut QuantizeContext) {
    if done.layers.is_empty() {
        let text = "nothing was quantized: the model has no product with constant weights that \
                    the params choose";
        cx.note(Diagnostic::new(Code::NumericsMismatch, text));
    }
    for note in done.notes {
        cx.note(note);
    }
    for t in done.tensors {
        cx.tensor(QuantizedTensor {
            name: t.name,
            element_type: t.dtype.to_string(),
            scales: t.scales,
            zero_points: t.zero_points,
            range: t.range,
            method: t.method,
            ..QuantizedTensor::default()
        });
    }
    for l in done.layers {
        cx.layer(QuantizedLayer {
            name: l.name,
            op: l.op,
            rescaling: l.written_as,
            sqnr_db: l.sqnr_db,
            ..QuantizedLayer::default()
        });
    }
    for left in done.left_in_float {
        cx.left_in_float(left.name, left.reason);
    }
}
