//! Weights alone become integers, so that no ranges of activations are needed.

use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval::Builtin;
use onnxd_plugin_sdk::ir::Model;
use onnxd_qdq::{Data, Done, Form, Request, quantize_weights};
use onnxd_quant::{Feeds, Limits};

/// The oldest operator set whose `DequantizeLinear` has blocks.
const BLOCKS_SINCE: i64 = 21;

/// Weights alone; samples help to round them, if there are any.
pub(crate) fn quantize(
    model: &mut Model,
    request: &Request,
    form: Form,
    cx: &QuantizeContext,
) -> Result<Done, Diagnostics> {
    if form == Form::Qdq && model.opset() < BLOCKS_SINCE {
        onnxd_opset::convert(model, BLOCKS_SINCE)?;
    }
    let calibration = cx.calibration();
    if calibration.is_empty() {
        return quantize_weights(model, request, form, None);
    }
    let size = calibration.batch_size().max(1);
    let total = calibration.samples().div_ceil(size as u64);
    let samples = || -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + '_> {
        Box::new(calibration.batches(size, u64::MAX).zip(0u64..).map(move |(batch, done)| {
            cx.progress(done, total)?;
            batch
        }))
    };
    let data = Data { engine: &Builtin, samples: &samples, limits: Limits::default() };
    quantize_weights(model, request, form, Some(&data))
}
