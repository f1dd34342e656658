//! The options of Neural Compressor's export to ONNX, section `quantization.inc`: each stands for a
//! key that all conversions have. A key that is stated beside them wins.

use serde_json::Value;

use super::special::{INC_QDQ, INC_QLINEAR};
use crate::source::Reader;
use crate::table::Given;

pub(super) const SECTION: &str = "quantization.inc";
const FORMAT: &str = "quantization.format";
const OPSET: &str = "export.opset";
/// The oldest opset in which a weight has a scale for each channel.
const QDQ_OPSET_MIN: i64 = 13;

/// Options whose values are those of another key.
const SAME: [(&str, &str); 5] = [
    ("opset_version", OPSET),
    ("recipe", "quantization.recipe"),
    ("input_names", "export.input_names"),
    ("output_names", "export.output_names"),
    ("dynamic_axes", "export.dynamic_axes"),
];

/// What the options of a layer stand for, added to it. Where there are any, the model is quantized,
/// to `QDQ` unless they say otherwise.
pub(super) fn implied(reader: &mut Reader, layer: &mut Vec<Given>) {
    let options: Vec<(&str, Value, String)> = layer
        .iter()
        .filter_map(|given| {
            let option = given.row.key.strip_prefix(SECTION)?.strip_prefix('.')?;
            Some((option, given.value.clone(), given.origin.clone()))
        })
        .collect();
    let Some((_, _, first)) = options.first() else { return };
    let last = |name: &str| options.iter().rev().find(|(option, ..)| *option == name);
    let chosen = last("dtype").filter(|(_, dtype, _)| dtype == "fp32").or(last("quant_format"));
    let format = match chosen {
        Some((_, value, _)) if value == "fp32" => "none",
        Some((_, value, _)) if value != "QDQ" => INC_QLINEAR,
        _ => INC_QDQ,
    };
    let origin = chosen.map_or(first, |(.., origin)| origin).clone();
    let mut also = |key: &str, value: Value, origin: String| {
        let row = reader.row(key).expect("the keys of this file are rows; a test asks for all");
        layer.push(Given { row, value, origin, implied: true });
    };
    also(FORMAT, Value::from(format), origin);
    let mut raised = None;
    for (option, value, origin) in &options {
        let Some((_, key)) = SAME.iter().find(|(name, _)| name == option) else { continue };
        let low = *key == OPSET && value.as_i64().is_some_and(|n| n < QDQ_OPSET_MIN);
        match low && format == INC_QDQ {
            true => {
                also(key, Value::from(QDQ_OPSET_MIN), origin.clone());
                raised = Some(format!(
                    "{origin}: `opset_version` = {value} is raised to {QDQ_OPSET_MIN}, the oldest \
                     with a scale for each channel between QuantizeLinear and DequantizeLinear."
                ));
            }
            false => also(key, value.clone(), origin.clone()),
        }
    }
    if let Some(note) = raised {
        reader.note(note);
    }
}
