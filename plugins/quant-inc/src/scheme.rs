//! The flow: what is quantized already keeps its integers, all else gets them.

use crate::source;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::{DataType, Model, infer};
use onnxd_plugin_sdk::words::Mode;
use onnxd_plugin_sdk::{QuantizeContext, Quantizer};
use onnxd_quantize::accuracy::{cover, measure};
use onnxd_quantize::emit::recipes;
use onnxd_quantize::emit::{fold_weighted, is_quantized, keep_bias_unfused};
use onnxd_quantize::graph::{fix_weights, in_float32};
use onnxd_quantize::plan::QuantizeRequest;
use onnxd_quantize::plan::params;
use onnxd_quantize::report::Form;
use onnxd_quantize::report::Report;
use onnxd_quantize::search::{search_dynamic, search_static};

/// Operators that become ones on integers, with ranges known before and found at run time.
const STATIC: [&str; 3] = ["Conv", "Gemm", "MatMul"];
const DYNAMIC: [&str; 3] = ["Gather", "Gemm", "MatMul"];

/// Quantizes to pairs of `QuantizeLinear` and `DequantizeLinear`, or to operators on integers.
pub(crate) struct Scheme(pub(crate) Form);

impl Quantizer for Scheme {
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics> {
        let mut request = params::request(cx, true)?;
        // Weights are `int8`, as Neural Compressor writes them.
        request.settings.exact = false;
        params::unmatched(model, &request, cx);
        let recipe = cx.quantization().recipe();
        let opset = request.opset_for(model);
        if model.opset() < opset {
            onnxd_opset::convert(model, opset)?;
        }
        let mut before = Report::default();
        fix_weights(model, &mut before);
        let float = model.clone();
        if is_quantized(model) {
            params::quantized_already(cx)?;
            source::carry(model, recipe, self.0, cx, &mut before);
            measure(&float, model, None, cx, &mut before)?;
            cx.report(before);
            return Ok(());
        }
        in_float32(model, &mut before);
        let mode = cx.quantization().mode();
        let (mut done, held) = match mode {
            Mode::Static => {
                let request = chosen(request, &STATIC);
                let (mut done, held) = search_static(model, &request, cx)?;
                recipes::apply(model, recipe, true).report(&mut done, "as the recipe says");
                match self.0 {
                    Form::Qdq => keep_bias_unfused(model),
                    Form::QLinear => {
                        // What is wrong with the types is found when the result is verified.
                        let _ = infer(model);
                        fold_weighted(model).report(&mut done, "between integers");
                    }
                }
                (done, Some(held))
            }
            Mode::Dynamic => {
                // Neither the form nor the recipe has a say where ranges are found at run time.
                let mut request = chosen(request, &DYNAMIC);
                // Products of `uint8` and `int8` saturate in 16 bits on processors without
                // instructions for them, those of two `uint8` do not.
                if request.settings.weight == DataType::Int8 {
                    request.settings.weight = DataType::Uint8;
                }
                search_dynamic(model, &request, Form::Qdq, cx)?
            }
            Mode::Qat | Mode::WeightOnly => return Err(refused(mode).into()),
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

/// Products alone, of the operators that the params name, else of these.
fn chosen(mut request: QuantizeRequest, operators: &[&str]) -> QuantizeRequest {
    if request.op_types.is_empty() {
        request.op_types = operators.iter().map(|op| (*op).to_owned()).collect();
    }
    request
}

fn refused(mode: Mode) -> Diagnostic {
    let (why, help) = match mode {
        Mode::Qat => (
            "takes a model that was trained with fake quantization, and this one has no \
             QuantizeLinear",
            "Export the model with its fake quantization, or take `quantization.mode` = \"static\".",
        ),
        _ => ("is no mode of Neural Compressor's export", "Take the format QDQ or QLinear."),
    };
    let text = format!("`quantization.mode` = \"{mode}\" {why}");
    Diagnostic::new(Code::FeatureUnsupported, text).help(help)
}
