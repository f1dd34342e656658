//! What a quantization did, told to the report.

use crate::{idle, params};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::{Attempt, Counts, QuantizeContext, QuantizedLayer, QuantizedTensor};
use onnxd_quantize::emit::Folded;
use onnxd_quantize::report::Done;

/// Fills the report.
pub fn report(done: Done, cx: &mut QuantizeContext) {
    if done.layers.is_empty() {
        let text = "nothing was quantized: the model has no product with constant weights that \
                    the params choose";
        cx.note(Diagnostic::new(Code::QuantizationLoss, text));
    }
    if done.signed > 0 {
        let text = format!(
            "no kernel multiplies signed activations by unsigned weights: the weights of {} \
             products are signed",
            done.signed
        );
        cx.note(Diagnostic::new(Code::QuantizationLoss, text));
    }
    unmeasured(cx);
    for note in done.notes {
        cx.note(note);
    }
    if !done.statistics.is_empty() {
        cx.statistics(done.statistics);
    }
    for a in done.tried {
        cx.tried(Attempt { what: a.what, sqnr_db: a.sqnr_db, chosen: a.chosen });
    }
    let mut all = done.seen;
    for t in done.tensors {
        let seen = all.remove(&t.name);
        let counts = seen.as_ref().and_then(|seen| seen.counts.clone());
        cx.tensor(QuantizedTensor {
            seen: seen.and_then(|seen| seen.range),
            counts: counts.map(|(low, high, counts)| Counts { low, high, counts }),
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

/// Says which params had nothing to try, or nothing to measure on.
fn unmeasured(cx: &QuantizeContext) {
    match params::key(cx, "mode").as_str() {
        Some("weight_only") => idle::search(cx, "mode weight_only has nothing to try"),
        Some("dynamic") if cx.calibration().is_empty() => {
            idle::search(cx, "there are no samples to measure on");
        }
        _ => {}
    }
}

/// What a model that is quantized already makes of the params.
///
/// # Errors
/// For what takes a float model.
pub fn quantized_already(cx: &QuantizeContext) -> Result<(), Diagnostic> {
    params::nearest_alone(cx, "takes a float model, and this one has its integers")?;
    idle::search(cx, "the model has its integers already, and keeps them");
    Ok(())
}

/// Takes into `done` what became of nodes that changed form; `what` tells which form those that did
/// not were to get.
pub fn written(Folded { folded, left }: Folded, done: &mut Done, what: &str) {
    for (name, _, written_as) in folded {
        if let Some(layer) = done.layers.iter_mut().find(|layer| layer.name == name) {
            layer.written_as = written_as;
        }
    }
    for (name, why) in left {
        done.leave(&name, format!("{what}: {why}"));
    }
}
