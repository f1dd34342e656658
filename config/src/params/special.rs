//! Params whose values are more than a word, a number or a list of those.

use std::path::{Component, Path};

use onnxd_diagnostics::{nearest, shown};
use serde_json::{Map, Value};

use super::rows::{ACTIVATION_TYPE, BLOCK_SIZE, WEIGHT_TYPE};
use crate::kind::{Kind, refusal};

/// Largest rank of a tensor that params can describe.
const RANK_MAX: usize = 64;
/// Longest name of a result's folder; the job id is added to it.
const NAME_BYTES_MAX: usize = 200;

/// Keys of `[quantization.overrides."node"]`, with the types of `[quantization]`.
const NODE_KEYS: [(&str, Kind); 6] = [
    ("activation_type", ACTIVATION_TYPE),
    ("weight_type", WEIGHT_TYPE),
    ("per_channel", Kind::Bool),
    ("symmetric", Kind::Bool),
    ("reduce_range", Kind::Bool),
    ("block_size", BLOCK_SIZE),
];

type Checked = Result<Value, String>;

/// A relative path that stays inside the submission, without `.` and doubled or final `/`.
pub(super) fn check_inner_path(value: Value) -> Checked {
    let wanted = "a relative path that stays inside the submission";
    let text = Kind::Text.check(value)?;
    let path = Path::new(text.as_str().unwrap_or_default());
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            _ => return Err(refusal(wanted, &text)),
        }
    }
    if parts.is_empty() {
        return Err(refusal(wanted, &text));
    }
    Ok(Value::from(parts.join("/")))
}

/// One name of a file or folder, fit to be created.
pub(super) fn check_file_name(value: Value) -> Checked {
    let text = Kind::Text.check(value)?;
    let name = text.as_str().unwrap_or_default();
    let special = name.is_empty() || name.starts_with('.') || name.trim() != name;
    if special || name.contains(['/', '\\']) || name.len() > NAME_BYTES_MAX {
        let wanted = "a file name without folders, leading dot or outer blanks, at most 200 bytes";
        return Err(refusal(wanted, &text));
    }
    Ok(text)
}

/// The quantizers of Neural Compressor's forms.
pub(super) const INC_QDQ: &str = "inc-qdq";
pub(super) const INC_QLINEAR: &str = "inc-qlinear";

/// A form in Neural Compressor's words; `QOperator` is what ONNX Runtime calls its second.
pub(super) fn check_inc_format(value: Value) -> Checked {
    const KNOWN: [(&str, &str); 3] =
        [("QDQ", "QDQ"), ("QLinear", "QLinear"), ("QOperator", "QLinear")];
    let text = Kind::Text.check(value)?;
    let format = text.as_str().unwrap_or_default();
    let found = KNOWN.iter().find(|(name, _)| name.eq_ignore_ascii_case(format));
    let found = found.map(|(_, form)| Value::from(*form));
    found.ok_or_else(|| refusal("one of QDQ, QLinear, QOperator", &text))
}

/// A form that these params describe, or a plugin's quantizer: `nibbles`, `org.example.small/nibbles`.
pub(super) fn check_format(value: Value) -> Checked {
    const KNOWN: [&str; 4] = ["none", "QDQ", "QLinear", "N2D2"];
    let text = Kind::Text.check(value)?;
    let format = text.as_str().unwrap_or_default();
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./".contains(c);
    let id = format.starts_with(|c: char| c.is_ascii_lowercase()) && format.chars().all(is_id);
    let misspelt = KNOWN.iter().find(|k| k.eq_ignore_ascii_case(format));
    match misspelt {
        Some(known) => Ok(Value::from(*known)),
        None if id => Ok(text),
        None => Err(refusal("one of none, QDQ, QLinear, N2D2, or the id of a quantizer", &text)),
    }
}

/// The positive bit widths that N2D2 accepts.
pub(super) fn check_nbbits(value: Value) -> Checked {
    match value.as_i64() {
        Some(1..=16 | 32 | 64) => Ok(value),
        _ => Err(refusal("one of 1 to 16, 32, 64", &value)),
    }
}

/// Where the range of the inputs comes from, or what it is.
pub(super) fn check_stimuli_range(value: Value) -> Checked {
    match (value.as_str(), value.as_f64()) {
        (Some("declared" | "data"), _) => Ok(value),
        (_, Some(range)) if range.is_finite() && range > 0.0 => Ok(Value::from(range)),
        _ => Err(refusal("\"declared\", \"data\" or a positive number", &value)),
    }
}

/// Two numbers.
pub(super) fn check_range(value: Value) -> Checked {
    let numbers = value.as_array().map(|ends| ends.iter().map(Value::as_f64).collect::<Vec<_>>());
    match numbers.as_deref() {
        Some([Some(low), Some(high)]) if low < high && (high - low).is_finite() => Ok(value),
        _ => Err(refusal("a list of two numbers such as [-1, 1], the smaller first", &value)),
    }
}

/// A list of shapes; a size is a number or the name of a size left open.
pub(super) fn check_shapes(value: Value) -> Checked {
    let size = |v: &Value| match v {
        Value::String(name) => is_name(name),
        other => other.as_i64().is_some_and(|n| n >= 0),
    };
    let shape = |v: &Value| {
        v.as_array().is_some_and(|sizes| sizes.len() <= RANK_MAX && sizes.iter().all(size))
    };
    if value.as_array().is_some_and(|shapes| shapes.iter().all(shape)) {
        return Ok(value);
    }
    Err(refusal("a list of shapes such as [[1, 3, 224, 224], [\"batch\", 10]]", &value))
}

/// The axes of each tensor. All notations are brought to `tensor = { "AXIS" = "name" }`; axes
/// given without a name get one from tensor and position, as in torch.onnx.
pub(super) fn check_dynamic_axes(value: Value) -> Checked {
    let Value::Object(tensors) = value else {
        return Err(refusal("a table such as { x = [0], y = { 0 = \"batch\" } }", &value));
    };
    let named = tensors.into_iter().map(|(tensor, axes)| {
        let axes = match axes {
            Value::Array(list) => axes_of_list(&tensor, list)?,
            Value::Object(table) => axes_of_table(&tensor, table)?,
            other => return Err(refusal(&axes_wanted(&tensor), &other)),
        };
        Ok((tensor, Value::Object(axes)))
    });
    named.collect::<Result<Map<_, _>, String>>().map(Value::Object)
}

fn axes_of_list(tensor: &str, list: Vec<Value>) -> Result<Map<String, Value>, String> {
    let mut axes = Map::new();
    for (i, axis) in list.into_iter().enumerate() {
        let Some(number) = axis.as_i64().filter(|n| is_axis(*n)) else {
            return Err(refusal(&axes_wanted(tensor), &axis));
        };
        let name = format!("{tensor}_dynamic_axes_{}", i + 1);
        if axes.insert(number.to_string(), Value::from(name)).is_some() {
            return Err(format!("names axis {number} of `{}` twice", shown(tensor)));
        }
    }
    Ok(axes)
}

fn axes_of_table(tensor: &str, table: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut axes = Map::new();
    for (axis, name) in table {
        let number = axis.parse().ok().filter(|n| is_axis(*n));
        let named = name.as_str().is_some_and(is_name);
        match number {
            Some(number) if named => {
                if axes.insert(number.to_string(), name).is_some() {
                    return Err(format!("names axis {number} of `{}` twice", shown(tensor)));
                }
            }
            Some(_) => return Err(refusal(&axes_wanted(tensor), &name)),
            None => return Err(refusal(&axes_wanted(tensor), &Value::from(axis))),
        }
    }
    Ok(axes)
}

fn axes_wanted(tensor: &str) -> String {
    let max = RANK_MAX - 1;
    format!("a list of axes or a table of axis = \"name\" for `{}`, axes 0 to {max}", shown(tensor))
}

fn is_axis(number: i64) -> bool {
    (0..RANK_MAX as i64).contains(&number)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// Keys of single nodes.
pub(super) fn check_overrides(value: Value) -> Checked {
    let Value::Object(nodes) = value else {
        return Err(refusal(
            "a table of nodes such as { conv1 = { per_channel = false } }",
            &value,
        ));
    };
    let checked = nodes.into_iter().map(|(node, keys)| {
        let Value::Object(keys) = keys else {
            return Err(format!("for node `{}` {}", shown(&node), refusal("a table", &keys)));
        };
        let keys = keys.into_iter().map(|(key, value)| check_node_key(&node, key, value));
        Ok((node.clone(), Value::Object(keys.collect::<Result<_, String>>()?)))
    });
    checked.collect::<Result<Map<_, _>, String>>().map(Value::Object)
}

fn check_node_key(node: &str, key: String, value: Value) -> Result<(String, Value), String> {
    let names = NODE_KEYS.iter().map(|(name, _)| *name);
    let Some((_, kind)) = NODE_KEYS.iter().find(|(name, _)| *name == key) else {
        let near = nearest(&key, names.clone()).map(|n| format!("; did you mean `{n}`?"));
        let known = names.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "for node `{}` has the unknown key `{}` (known: {known}){}",
            shown(node),
            shown(&key),
            near.unwrap_or_default()
        ));
    };
    let value =
        kind.check(value).map_err(|why| format!("for node `{}`: `{key}` {why}", shown(node)))?;
    Ok((key, value))
}
