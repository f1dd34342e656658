//! What the params of a conversion ask for, and which of them have no effect.

use crate::plan::request::{Overrides, Request, Settings};
use crate::range::Method;
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{DataType, Model};
use serde_json::Value;

/// The params that demand something of the outputs.
pub(crate) const DEMANDS: [&str; 2] = ["sqnr_db_min", "top1_loss_max"];

/// Settings, exceptions and the choice of nodes; `weighted_only` for a form that has no other integers.
///
/// # Errors
/// A type that values are not quantized to, or a rounding that the mode does not have.
pub fn request(cx: &dyn Session, weighted_only: bool) -> Result<Request, Diagnostic> {
    let mode = cx.key("mode").as_str().unwrap_or("static");
    of_mode(cx, mode, weighted_only);
    let wanted = match cx.key("rounding").as_str() {
        Some("adaround") if mode == "dynamic" => mode,
        Some("adaround") => "static",
        Some("gptq" | "awq") => "weight_only",
        _ => mode,
    };
    if wanted != mode {
        nearest_alone(cx, &format!("takes `quantization.mode` = \"{wanted}\""))?;
    }
    let defaults = Settings::default();
    let flag = |name: &str, default: bool| cx.key(name).as_bool().unwrap_or(default);
    let settings = Settings {
        activation: dtype(cx.key("activation_type"))?.unwrap_or(defaults.activation),
        weight: dtype(cx.key("weight_type"))?.unwrap_or(defaults.weight),
        per_channel: flag("per_channel", defaults.per_channel),
        symmetric: flag("symmetric", defaults.symmetric),
        reduce_range: flag("reduce_range", defaults.reduce_range),
        block_size: count(cx.key("block_size")).unwrap_or(defaults.block_size),
        // What is named in the params is taken at its word.
        exact: cx.key("weight_type").is_null() && cx.key("reduce_range").is_null(),
        named: !cx.key("weight_type").is_null(),
        ..defaults
    };
    let mut request = Request {
        settings,
        op_types: texts(cx.key("op_types")),
        include: texts(cx.key("include")),
        exclude: texts(cx.key("exclude")),
        matmul_const_b_only: flag("matmul_const_b_only", true),
        weighted_only,
        linear_outputs: cx.key("recipe").as_str() == Some("QDQ_OP_FP32_BIAS_QDQ"),
        ..Request::default()
    };
    for (glob, table) in cx.key("overrides").as_object().into_iter().flatten() {
        request.overrides.insert(glob.clone(), overrides(table)?);
    }
    Ok(request)
}

fn overrides(table: &Value) -> Result<Overrides, Diagnostic> {
    Ok(Overrides {
        activation: dtype(&table["activation_type"])?,
        weight: dtype(&table["weight_type"])?,
        per_channel: table["per_channel"].as_bool(),
        symmetric: table["symmetric"].as_bool(),
        reduce_range: table["reduce_range"].as_bool(),
        block_size: count(&table["block_size"]),
    })
}

/// Whether integers of weights are to be learned from samples.
pub(crate) fn learns(cx: &dyn Session) -> bool {
    cx.key("rounding").as_str() == Some("adaround")
}

/// Refuses any other rounding than to the nearest, which `why` continues.
///
/// # Errors
/// If the params ask for one.
pub(crate) fn nearest_alone(cx: &dyn Session, why: &str) -> Result<(), Diagnostic> {
    let opted_in = cx.key("rounding").as_str().filter(|rounding| *rounding != "nearest");
    let Some(rounding) = opted_in else { return Ok(()) };
    let text = format!("`quantization.rounding` = \"{rounding}\" {why}");
    Err(Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out."))
}

/// How ranges follow from calibration data.
pub fn method(cx: &dyn Session) -> Method {
    match cx.param("calibration.method").as_str() {
        Some("entropy") => Method::Entropy,
        Some("percentile") => Method::Percentile(percentile(cx)),
        Some("mse") => Method::Mse,
        Some("moving_average") => Method::MovingAverage,
        _ => Method::MinMax,
    }
}

/// The share of values that percentiles keep.
pub(crate) fn percentile(cx: &dyn Session) -> f64 {
    cx.param("calibration.percentile").as_f64().unwrap_or(99.999)
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn dtype(value: &Value) -> Result<Option<DataType>, Diagnostic> {
    let Some(name) = value.as_str() else { return Ok(None) };
    let types = [
        DataType::Uint8,
        DataType::Int8,
        DataType::Uint16,
        DataType::Int16,
        DataType::Uint4,
        DataType::Int4,
    ];
    match types.into_iter().find(|t| t.to_string() == name) {
        Some(dtype) => Ok(Some(dtype)),
        None => {
            let text = format!("`{name}` is no type that values are quantized to");
            Err(Diagnostic::new(Code::FeatureUnsupported, text))
        }
    }
}

/// Params that count in these modes alone, and why.
const OF_MODES: [(&str, &[&str], &str); 5] = [
    ("block_size", &["weight_only"], "only mode weight_only shares scales by blocks"),
    ("activation_type", &["static", "qat"], "only mode static says how activations are held"),
    ("per_channel", &["static", "dynamic", "qat"], "mode weight_only shares scales by blocks"),
    ("matmul_const_b_only", &["static", "dynamic", "qat"], "mode weight_only knows weights alone"),
    ("recipe", &["static", "qat"], "only mode static follows recipes"),
];

/// Tells which params the mode leaves without effect, or a form that has products with constant weights alone.
pub(crate) fn of_mode(cx: &dyn Session, mode: &str, weighted_only: bool) {
    for (name, modes, why) in OF_MODES {
        if !modes.contains(&mode) {
            without_effect(cx, name, why);
            of_nodes(cx, name, why);
        }
    }
    if weighted_only && mode != "dynamic" {
        let why = "the format has products with constant weights alone";
        without_effect(cx, "matmul_const_b_only", why);
    }
}

/// Tells for which nodes a param is set that has no effect.
fn of_nodes(cx: &dyn Session, name: &str, why: &str) {
    let nodes = cx.key("overrides").as_object().into_iter().flatten();
    for (node, _) in nodes.filter(|(_, keys)| !keys[name].is_null()) {
        let text = format!("sets `{name}` of `{}`, which has no effect: {why}", shown(node));
        cx.without_effect("quantization.overrides", text);
    }
}

/// That what was asked for has nothing to try or to measure on, for that reason.
pub(crate) fn without_search(cx: &dyn Session, why: &str) {
    for name in ["accuracy"].into_iter().chain(DEMANDS) {
        without_effect(cx, name, why);
    }
}

/// A param of the section `quantization`.
pub(crate) fn without_effect(cx: &dyn Session, name: &str, why: &str) {
    cx.without_effect(&format!("quantization.{name}"), format!("has no effect: {why}"));
}

/// Tells which names of nodes and operators the model does not have, and which operators are
/// not quantized in the mode.
pub fn unmatched(model: &Model, request: &Request, cx: &dyn Session) {
    let absent = request.unmatched(model);
    let mode = cx.key("mode").as_str().unwrap_or("static");
    let idle =
        request.idle_types(mode).into_iter().filter(|op| absent.iter().all(|a| a.entry != *op));
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

/// What a model that is quantized already makes of the params.
///
/// # Errors
/// For what takes a float model.
pub fn quantized_already(cx: &dyn Session) -> Result<(), Diagnostic> {
    nearest_alone(cx, "takes a float model, and this one has its integers")?;
    without_search(cx, "the model has its integers already, and keeps them");
    Ok(())
}

/// Says which params have nothing to try, or nothing to measure on, in the mode.
pub fn unsearched(cx: &dyn Session) {
    match cx.text("mode") {
        Some("weight_only") => without_search(cx, "mode weight_only has nothing to try"),
        Some("dynamic") if cx.calibration().samples() == 0 => {
            without_search(cx, "there are no samples to measure on");
        }
        _ => {}
    }
}
