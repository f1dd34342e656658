//! Weights alone become integers, so that no ranges of activations are needed.

use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::eval::Builtin;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::words::Rounding;
use onnxd_quantize::accuracy::{Held, SampleSet};
use onnxd_quantize::observe::{Feeds, Limits};
use onnxd_quantize::plan::QuantizeRequest;
use onnxd_quantize::report::{Form, Report};
use onnxd_quantize::search::{Data, WeightMethods, mixed_precision, quantize_weights};
use onnxd_quantize::session::OwnMemory;
use std::cell::Cell;

/// The oldest operator set whose `DequantizeLinear` has blocks.
const BLOCKS_SINCE: i64 = 21;

/// Weights alone; samples help to round them, if there are any. Those that had no say grade the result, which are all
/// where nothing was made of samples.
pub(crate) fn quantize(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
    cx: &QuantizeContext,
) -> Result<(Report, Option<Held>), Diagnostics> {
    if form == Form::Qdq && model.opset() < BLOCKS_SINCE {
        onnxd_opset::convert(model, BLOCKS_SINCE)?;
    }
    let mut held =
        (cx.calibration().samples() > 0).then(|| Held::last_of_few(&SampleSet::of(cx), model));
    let (request, tried) = mixed_precision(model, request, form, held.as_ref(), cx)?;
    let (mut done, had_a_say) = match methods(cx)?.zip(held.as_mut()) {
        Some((methods, held)) => (rounded(model, &request, form, (methods, held), cx)?, true),
        None => (quantize_weights(model, &request, form, None, cx)?, !tried.tried.is_empty()),
    };
    done.append(tried);
    Ok((done, held.filter(|_| had_a_say)))
}

/// Rounds as samples say that are not held out, or to the nearest where that loses less on those that are.
fn rounded(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
    (methods, held): (WeightMethods, &mut Held),
    cx: &QuantizeContext,
) -> Result<Report, Diagnostics> {
    let calibration = cx.calibration();
    let size = calibration.batch_size().max(1);
    let most = held.calibrating(&SampleSet::of(cx));
    let readings = Cell::new(0);
    let samples = || -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + '_> {
        readings.set(readings.get() + 1);
        let noun = match readings.get() {
            1 => "calibration, sample".to_owned(),
            reading => format!("calibration (reading {reading}), sample"),
        };
        Box::new(calibration.batches(size, most).zip(0u64..).map(move |(batch, done)| {
            cx.count(&noun, done * size as u64, most)?;
            batch
        }))
    };
    let progress = |done, total| cx.count("weighted operator", done, total);
    let data = Data {
        engine: &Builtin,
        samples: &samples,
        limits: Limits::of_floats(),
        methods,
        progress: &progress,
    };
    let float = model.clone();
    let mut done = quantize_weights(model, request, form, Some(&data), cx)?;
    if has_few_bits(request) {
        let mut nearest = float.clone();
        let rounded = quantize_weights(&mut nearest, request, form, None, &OwnMemory)?;
        let set = SampleSet::of(cx);
        let db = held.db((&float, &nearest), &set)?;
        // What samples were to help with, and what did not help where none were seen, is left out.
        if db > held.db((&float, model), &set)? && cx.quantization().rounding().is_none() {
            (*model, done) = (nearest, rounded);
            done.fact(
                "quantization.rounding", "to the nearest, which loses least on held-out samples",
            );
            return Ok(done);
        }
        done.quality.nearest_db = Some(db);
    }
    if methods.awq {
        let scaled = done.tensors.iter().filter(|t| t.method.starts_with("AWQ")).count();
        let text = format!(
            "{scaled} of {} weights; before the others nothing takes factors, or they do not help",
            done.tensors.len()
        );
        done.fact("quantization.scaled_inputs", text);
    }
    Ok(done)
}

/// Whether weights have so few bits that no floor holds for the outputs.
fn has_few_bits(request: &QuantizeRequest) -> bool {
    request.settings.weight.bits() <= 4
}

/// Weights of few bits are graded beside those that are rounded to the nearest, which these may be.
pub(crate) fn judge(request: &QuantizeRequest, done: &mut Report) {
    let quality = &mut done.quality;
    if has_few_bits(request) && quality.nearest_db.is_none() && quality.sqnr_db.is_some() {
        quality.nearest_db = Some(quality.worst_db);
    }
}

/// What samples are used for; `None` for nothing.
fn methods(cx: &QuantizeContext) -> Result<Option<WeightMethods>, Diagnostic> {
    let rounding = cx.quantization().rounding();
    let (gptq, awq) = match rounding {
        Some(Rounding::Nearest) => return Ok(None),
        Some(Rounding::Gptq) => (true, false),
        Some(Rounding::Awq) => (false, true),
        Some(Rounding::Adaround) | None => (true, true),
    };
    if !cx.calibration().is_empty() {
        return Ok(Some(WeightMethods { gptq, awq }));
    }
    let Some(rounding) = rounding else { return Ok(None) };
    let text = format!("`quantization.rounding` = \"{rounding}\" takes calibration data");
    let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, or leave the \
                param out.";
    Err(Diagnostic::new(Code::FileMissing, text).help(help))
}
