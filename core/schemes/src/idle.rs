//! Params that have no effect, told with the reason.

use crate::bound;
use crate::params;
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::shown;
use onnxd_plugin_sdk::ir::Model;
use onnxd_quantize::plan::Request;

/// Params that count in these modes alone, and why.
const OF_MODES: [(&str, &[&str], &str); 5] = [
    ("block_size", &["weight_only"], "only mode weight_only shares scales by blocks"),
    ("activation_type", &["static", "qat"], "only mode static says how activations are held"),
    ("per_channel", &["static", "dynamic", "qat"], "mode weight_only shares scales by blocks"),
    ("matmul_const_b_only", &["static", "dynamic", "qat"], "mode weight_only knows weights alone"),
    ("recipe", &["static", "qat"], "only mode static follows recipes"),
];

/// Tells which params the mode, or the form, leaves without effect.
pub(crate) fn of_mode(cx: &QuantizeContext, mode: &str) {
    for (name, modes, why) in OF_MODES {
        if !modes.contains(&mode) {
            without_effect(cx, name, why);
            of_nodes(cx, name, why);
        }
    }
    let format = params::key(cx, "format").as_str().unwrap_or_default();
    if format.starts_with("inc-") && mode != "dynamic" {
        let why = "the format has products with constant weights alone";
        without_effect(cx, "matmul_const_b_only", why);
    }
}

/// Tells for which nodes a param is set that has no effect.
fn of_nodes(cx: &QuantizeContext, name: &str, why: &str) {
    let nodes = params::key(cx, "overrides").as_object().into_iter().flatten();
    for (node, _) in nodes.filter(|(_, keys)| !keys[name].is_null()) {
        let text = format!("sets `{name}` of `{}`, which has no effect: {why}", shown(node));
        cx.without_effect("quantization.overrides", text);
    }
}

/// That what was asked for has nothing to try or to measure on, for that reason.
pub(crate) fn search(cx: &QuantizeContext, why: &str) {
    for name in ["accuracy"].into_iter().chain(bound::PARAMS) {
        without_effect(cx, name, why);
    }
}

/// A param of the section `quantization`.
pub(crate) fn without_effect(cx: &QuantizeContext, name: &str, why: &str) {
    cx.without_effect(&format!("quantization.{name}"), format!("has no effect: {why}"));
}

/// Tells which names of nodes and operators the model does not have, and which operators do not
/// become integers in the mode.
pub fn unmatched(model: &Model, request: &Request, cx: &QuantizeContext) {
    let absent = request.unmatched(model);
    let mode = params::key(cx, "mode").as_str().unwrap_or("static");
    let format = params::key(cx, "format").as_str().unwrap_or_default();
    let asked = Request { products_alone: format.starts_with("inc-"), ..request.clone() };
    let idle =
        asked.idle_types(mode).into_iter().filter(|op| absent.iter().all(|a| a.entry != *op));
    for op in idle {
        let why = format!("names `{}`, of which mode {mode} makes no integers", shown(op));
        cx.without_effect("quantization.op_types", why);
    }
    for found in absent {
        let what = if found.list == "op_types" { "operator" } else { "node" };
        let near: Vec<String> = found.near.iter().map(|n| format!("`{}`", shown(n))).collect();
        let there = match near.as_slice() {
            [] => format!("there is no {what}"),
            near => format!("{what}s that it has: {}", near.join(", ")),
        };
        let entry = shown(&found.entry);
        let why = format!("names `{entry}`, and the model has no such {what}; {there}");
        cx.without_effect(&format!("quantization.{}", found.list), why);
    }
}
