//! What a quantization did, told to the report.

use crate::{bound, params};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{Attempt, Counts, QuantizeContext, QuantizedLayer, QuantizedTensor};
use onnxd_qdq::weight::saturating;
use onnxd_qdq::{Done, Folded};

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
    let asked = [idle(cx), unmeasured(cx), computed(cx)].into_iter().flatten();
    for note in asked.chain(done.notes) {
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

/// That what was asked for had nothing to try, or nothing to measure on.
fn unmeasured(cx: &QuantizeContext) -> Option<Diagnostic> {
    let (why, help) = match params::key(cx, "mode").as_str() {
        Some("weight_only") => ("mode weight_only has nothing to try", "Leave the param out."),
        Some("dynamic") if cx.calibration().is_empty() => {
            ("there are no samples to measure on", "Drop samples, or leave the param out.")
        }
        _ => return None,
    };
    without_effect(cx, why, help)
}

/// That what was asked for changes nothing for that reason.
fn without_effect(cx: &QuantizeContext, why: &str, help: &'static str) -> Option<Diagnostic> {
    let auto = params::key(cx, "accuracy").as_str() == Some("auto");
    let bounds = bound::PARAMS.into_iter().filter(|name| !params::key(cx, name).is_null());
    let bounds = bounds.map(|name| format!("`quantization.{name}`"));
    let auto = auto.then(|| "`quantization.accuracy` = \"auto\"".to_owned());
    let asked: Vec<String> = auto.into_iter().chain(bounds).collect();
    let verb = if asked.len() > 1 { "change" } else { "changes" };
    let text = format!("{} {verb} nothing: {why}", asked.join(" and "));
    let note = Diagnostic::new(Code::QuantizationLoss, text).help(help);
    (!asked.is_empty()).then_some(note)
}

/// What a model that is quantized already makes of the params.
///
/// # Errors
/// For what takes a float model.
pub fn quantized_already(cx: &mut QuantizeContext) -> Result<(), Diagnostic> {
    params::nearest_alone(cx, "takes a float model, and this one has its integers")?;
    let why = "the model has its integers already, and keeps them";
    if let Some(note) = without_effect(cx, why, "Drop the float model, or leave the param out.") {
        cx.note(note);
    }
    Ok(())
}

/// That products of two computed factors stay in float where they were asked for.
fn computed(cx: &QuantizeContext) -> Option<Diagnostic> {
    let inc = params::key(cx, "format").as_str().is_some_and(|format| format.starts_with("inc-"));
    let why = match params::key(cx, "mode").as_str() {
        Some("weight_only") => "mode weight_only knows weights alone",
        Some("dynamic") => return None,
        _ if inc => "the format has products with constant weights alone",
        _ => return None,
    };
    let text = format!("`quantization.matmul_const_b_only` = false changes nothing: {why}");
    let note = Diagnostic::new(Code::QuantizationLoss, text).help("Leave the param out.");
    (params::key(cx, "matmul_const_b_only").as_bool() == Some(false)).then_some(note)
}

/// That operators were chosen which do not become integers.
fn idle(cx: &QuantizeContext) -> Option<Diagnostic> {
    let mut request = params::request(cx).ok()?;
    let format = params::key(cx, "format").as_str().unwrap_or_default();
    request.products_alone = format.starts_with("inc-");
    let mode = params::key(cx, "mode").as_str().unwrap_or("static");
    let idle = request.idle_types(mode);
    let named = |op: &&str| format!("`{}`", shown(op));
    let list = idle.iter().map(named).collect::<Vec<_>>().join(", ");
    let text = format!("`op_types` names {list}: mode {mode} makes no integers of that");
    let note = Diagnostic::new(Code::QuantizationLoss, text);
    (!idle.is_empty()).then_some(note)
}

/// Says what ONNX Runtime will make of pairs on some processors.
pub fn saturation(model: &Model, cx: &mut QuantizeContext) {
    let count = saturating(&model.graph);
    if count > 0 {
        // Signed activations take signed weights.
        let way = match params::key(cx, "activation_type").as_str() {
            Some("int8") => "`quantization.reduce_range`",
            _ => "`quantization.weight_type` = \"uint8\"",
        };
        let text = format!(
            "{count} weights of int8 are beyond 64 steps: with its optimizations, ONNX Runtime on \
             x86-64 without VNNI lets sums of their products saturate; {way} avoids that"
        );
        cx.metadata("quantization.saturation", text);
    }
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
