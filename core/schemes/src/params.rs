//! What the params of a conversion ask for.

use crate::idle;
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::serde_json::Value;
use onnxd_quantize::plan::{Overrides, Request, Settings};
use onnxd_quantize::range::Method;

/// Settings, exceptions and the choice of nodes.
///
/// # Errors
/// A type that values are not quantized to, or a rounding that the mode does not have.
pub fn request(cx: &QuantizeContext) -> Result<Request, Diagnostic> {
    let mode = key(cx, "mode").as_str().unwrap_or("static");
    idle::of_mode(cx, mode);
    let wanted = match key(cx, "rounding").as_str() {
        Some("adaround") if mode == "dynamic" => mode,
        Some("adaround") => "static",
        Some("gptq" | "awq") => "weight_only",
        _ => mode,
    };
    if wanted != mode {
        nearest_alone(cx, &format!("takes `quantization.mode` = \"{wanted}\""))?;
    }
    let defaults = Settings::default();
    let flag = |name: &str, default: bool| key(cx, name).as_bool().unwrap_or(default);
    let settings = Settings {
        activation: dtype(key(cx, "activation_type"))?.unwrap_or(defaults.activation),
        weight: dtype(key(cx, "weight_type"))?.unwrap_or(defaults.weight),
        per_channel: flag("per_channel", defaults.per_channel),
        symmetric: flag("symmetric", defaults.symmetric),
        reduce_range: flag("reduce_range", defaults.reduce_range),
        block_size: count(key(cx, "block_size")).unwrap_or(defaults.block_size),
        // What is asked for by name is taken at its word.
        exact: key(cx, "weight_type").is_null() && key(cx, "reduce_range").is_null(),
        named: !key(cx, "weight_type").is_null(),
        ..defaults
    };
    let mut request = Request {
        settings,
        op_types: texts(key(cx, "op_types")),
        include: texts(key(cx, "include")),
        exclude: texts(key(cx, "exclude")),
        matmul_const_b_only: flag("matmul_const_b_only", true),
        linear_outputs: key(cx, "recipe").as_str() == Some("QDQ_OP_FP32_BIAS_QDQ"),
        ..Request::default()
    };
    for (glob, table) in key(cx, "overrides").as_object().into_iter().flatten() {
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
pub(crate) fn learns(cx: &QuantizeContext) -> bool {
    key(cx, "rounding").as_str() == Some("adaround")
}

/// Refuses any other rounding than to the nearest, which `why` continues.
///
/// # Errors
/// If the params ask for one.
pub(crate) fn nearest_alone(cx: &QuantizeContext, why: &str) -> Result<(), Diagnostic> {
    let asked = key(cx, "rounding").as_str().filter(|rounding| *rounding != "nearest");
    let Some(rounding) = asked else { return Ok(()) };
    let text = format!("`quantization.rounding` = \"{rounding}\" {why}");
    Err(Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out."))
}

/// How ranges follow from calibration data.
pub fn method(cx: &QuantizeContext) -> Method {
    match cx.text("calibration.method") {
        Some("entropy") => Method::Entropy,
        Some("percentile") => Method::Percentile(percentile(cx)),
        Some("mse") => Method::Mse,
        Some("moving_average") => Method::MovingAverage,
        _ => Method::MinMax,
    }
}

/// The share of values that percentiles keep.
pub(crate) fn percentile(cx: &QuantizeContext) -> f64 {
    cx.real("calibration.percentile").unwrap_or(99.999)
}

/// A param of the section `quantization`.
pub fn key<'c>(cx: &'c QuantizeContext, name: &str) -> &'c Value {
    cx.param(&format!("quantization.{name}"))
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
