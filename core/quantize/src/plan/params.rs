//! What the params of a conversion ask for, and which of them have no effect.

use crate::plan::request::{Overrides, QuantizeRequest, Settings};
use crate::range::Method;
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{DataType, Model};
use onnxd_params::host::NodeParams;
use onnxd_params::words::{Accuracy, IntegerType, Mode, RangeMethod, Recipe, Rounding};

/// Settings, exceptions and the choice of nodes; `weighted_only` for a form that has no other integers.
///
/// # Errors
/// A rounding that the mode does not have.
pub fn request(cx: &dyn Session, weighted_only: bool) -> Result<QuantizeRequest, Diagnostic> {
    let params = cx.quantization();
    let mode = params.mode();
    of_mode(cx, mode, weighted_only);
    let wanted = match params.rounding() {
        Some(Rounding::Adaround) if mode == Mode::Dynamic => mode,
        Some(Rounding::Adaround) => Mode::Static,
        Some(Rounding::Gptq | Rounding::Awq) => Mode::WeightOnly,
        _ => mode,
    };
    if wanted != mode {
        nearest_alone(cx, &format!("takes `quantization.mode` = \"{wanted}\""))?;
    }
    let (weight_type, reduce_range) = (params.weight_type(), params.reduce_range());
    let defaults = Settings::default();
    let settings = Settings {
        activation: dtype(params.activation_type()),
        weight: weight_type.map_or(defaults.weight, dtype),
        per_channel: params.per_channel(),
        symmetric: params.symmetric(),
        reduce_range: reduce_range.unwrap_or(defaults.reduce_range),
        block_size: params.block_size(),
        // What is named in the params is taken at its word.
        exact: weight_type.is_none() && reduce_range.is_none(),
        named: weight_type.is_some(),
        ..defaults
    };
    let overrides = params.overrides().into_iter().map(|(glob, of)| (glob, overrides(&of)));
    Ok(QuantizeRequest {
        settings,
        op_types: params.op_types(),
        include: params.include(),
        exclude: params.exclude(),
        overrides: overrides.collect(),
        matmul_const_b_only: params.matmul_const_b_only(),
        weighted_only,
        linear_outputs: params.recipe() == Recipe::Fp32BiasQdq,
        ..QuantizeRequest::default()
    })
}

fn overrides(of: &NodeParams) -> Overrides {
    Overrides {
        activation: of.activation_type.map(dtype),
        weight: of.weight_type.map(dtype),
        per_channel: of.per_channel,
        symmetric: of.symmetric,
        reduce_range: of.reduce_range,
        block_size: of.block_size,
    }
}

/// Whether integers of weights are to be learned from samples.
pub(crate) fn learns(cx: &dyn Session) -> bool {
    cx.quantization().rounding() == Some(Rounding::Adaround)
}

/// Whether all is tried that may help.
pub(crate) fn tries_all(cx: &dyn Session) -> bool {
    cx.quantization().accuracy() == Accuracy::Auto
}

/// Refuses any other rounding than to the nearest, which `why` continues.
///
/// # Errors
/// If the params ask for one.
pub fn nearest_alone(cx: &dyn Session, why: &str) -> Result<(), Diagnostic> {
    let rounding = match cx.quantization().rounding() {
        None | Some(Rounding::Nearest) => return Ok(()),
        Some(rounding) => rounding,
    };
    let text = format!("`quantization.rounding` = \"{rounding}\" {why}");
    Err(Diagnostic::new(Code::FeatureUnsupported, text).help("Leave the param out."))
}

/// How ranges follow from calibration data.
pub fn method(cx: &dyn Session) -> Method {
    let params = cx.calibration_params();
    match params.method() {
        RangeMethod::MinMax => Method::MinMax,
        RangeMethod::Entropy => Method::Entropy,
        RangeMethod::Percentile => Method::Percentile(params.percentile()),
        RangeMethod::Mse => Method::Mse,
        RangeMethod::MovingAverage => Method::MovingAverage,
    }
}

fn dtype(of: IntegerType) -> DataType {
    match of {
        IntegerType::Uint8 => DataType::Uint8,
        IntegerType::Int8 => DataType::Int8,
        IntegerType::Uint16 => DataType::Uint16,
        IntegerType::Int16 => DataType::Int16,
        IntegerType::Uint4 => DataType::Uint4,
        IntegerType::Int4 => DataType::Int4,
    }
}

/// Whether a node has a value of its own.
type OfNode = fn(&NodeParams) -> bool;

/// Params that count in these modes alone, and why.
const OF_MODES: [(&str, OfNode, &[Mode], &str); 5] = [
    (
        "block_size",
        |of| of.block_size.is_some(),
        &[Mode::WeightOnly],
        "only mode weight_only shares scales by blocks",
    ),
    (
        "activation_type",
        |of| of.activation_type.is_some(),
        &[Mode::Static, Mode::Qat],
        "only mode static says how activations are held",
    ),
    (
        "per_channel",
        |of| of.per_channel.is_some(),
        &[Mode::Static, Mode::Dynamic, Mode::Qat],
        "mode weight_only shares scales by blocks",
    ),
    (
        "matmul_const_b_only",
        |_| false,
        &[Mode::Static, Mode::Dynamic, Mode::Qat],
        "mode weight_only knows weights alone",
    ),
    ("recipe", |_| false, &[Mode::Static, Mode::Qat], "only mode static follows recipes"),
];

/// Tells which params the mode leaves without effect, or a form that has products with constant weights alone.
fn of_mode(cx: &dyn Session, mode: Mode, weighted_only: bool) {
    for (name, of_node, modes, why) in OF_MODES {
        if modes.contains(&mode) {
            continue;
        }
        without_effect(cx, name, why);
        for (node, _) in cx.quantization().overrides().iter().filter(|(_, of)| of_node(of)) {
            let text = format!("sets `{name}` of `{}`, which has no effect: {why}", shown(node));
            cx.without_effect("quantization.overrides", text);
        }
    }
    if weighted_only && mode != Mode::Dynamic {
        let why = "the format has products with constant weights alone";
        without_effect(cx, "matmul_const_b_only", why);
    }
}

/// That what was asked for has nothing to try or to measure on, for that reason.
pub(crate) fn without_search(cx: &dyn Session, why: &str) {
    for name in ["accuracy", "sqnr_db_min", "top1_loss_max"] {
        without_effect(cx, name, why);
    }
}

/// A param of the section `quantization`.
pub(crate) fn without_effect(cx: &dyn Session, name: &str, why: &str) {
    cx.without_effect(&format!("quantization.{name}"), format!("has no effect: {why}"));
}

/// Tells which names of nodes and operators the model does not have, and which operators are
/// not quantized in the mode.
pub fn unmatched(model: &Model, request: &QuantizeRequest, cx: &dyn Session) {
    let absent = request.unmatched(model);
    let mode = cx.quantization().mode();
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
    match cx.quantization().mode() {
        Mode::WeightOnly => {
            let few = cx.quantization().weight_type().map(dtype).is_some_and(|t| t.bits() <= 4);
            if !few {
                without_effect(cx, "accuracy", "weights of 8 bits have nothing to try");
            }
            for name in ["sqnr_db_min", "top1_loss_max"] {
                without_effect(cx, name, "mode weight_only leaves nothing in floating point");
            }
        }
        Mode::Dynamic if cx.calibration().samples() == 0 => {
            without_search(cx, "there are no samples to measure on");
        }
        _ => {}
    }
}
