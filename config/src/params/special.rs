//! Params whose values are more than a word, a number or a list of those.

use std::path::{Component, Path};

use onnxd_diagnostics::{nearest, shown};
use serde_json::{Map, Value};

use super::declared::HOST_ROWS;
use crate::kind::{ValueKind, refusal};
use crate::table::toml_text;

/// Largest rank of a tensor that params can describe.
const RANK_MAX: usize = 64;
/// Longest name of a result's folder; the job id is added to it.
const NAME_BYTES_MAX: usize = 200;

/// Kinds with a name of their own in the notation of rows: the name, what people read, and the check.
pub(crate) const KINDS: [(&str, &str, Check); 11] = [
    ("unset", "unset", |value| is_exactly(value, &Value::Null)),
    ("true", "true", |value| is_exactly(value, &Value::Bool(true))),
    ("false", "false", |value| is_exactly(value, &Value::Bool(false))),
    ("path", "a path inside the submission", check_inner_path),
    ("filename", "a file name without folders", check_file_name),
    ("shapes", "a list of shapes, each a list of sizes and names of sizes", check_shapes),
    (
        "axes",
        "a table of tensors, each a list of axes or a table of axis = \"name\"",
        check_dynamic_axes,
    ),
    (
        "constants",
        "a table of inputs, each a number, true, false, a text or a list of these",
        check_constants,
    ),
    ("nodes", "a table of nodes, each a table of keys", check_overrides),
    ("range", "a list of two numbers, the smaller first", check_range),
    ("positive", "a positive number", check_positive),
];

/// Element types of tensors.
pub(crate) const DTYPES: [&str; 16] = [
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool", "string", "complex64", "complex128",
];

/// Keys of `[quantization.overrides."node"]`, with the types of `[quantization]`.
const NODE_KEYS: [&str; 6] =
    ["activation_type", "weight_type", "per_channel", "symmetric", "reduce_range", "block_size"];

type Checked = Result<Value, String>;
type Check = fn(Value) -> Checked;

/// A relative path that stays inside the submission, without `.` and doubled or final `/`.
fn check_inner_path(value: Value) -> Checked {
    let wanted = "a relative path that stays inside the submission";
    let text = ValueKind::Text.check(value)?;
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
fn check_file_name(value: Value) -> Checked {
    let text = ValueKind::Text.check(value)?;
    let name = text.as_str().unwrap_or_default();
    let special = name.is_empty() || name.starts_with('.') || name.trim() != name;
    if special || name.contains(['/', '\\']) || name.len() > NAME_BYTES_MAX {
        let wanted = "a file name without folders, leading dot or outer blanks, at most 200 bytes";
        return Err(refusal(wanted, &text));
    }
    Ok(text)
}

/// `none`, one of the names in any letter case, or an id: `nibbles`, `org.example.small/nibbles`.
pub(crate) fn check_quantizer(names: &[String], value: Value) -> Checked {
    let text = ValueKind::Text.check(value)?;
    let asked = text.as_str().unwrap_or_default();
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./".contains(c);
    let id = asked.starts_with(|c: char| c.is_ascii_lowercase()) && asked.chars().all(is_id);
    let mut known = std::iter::once("none").chain(names.iter().map(String::as_str));
    match known.find(|name| name.eq_ignore_ascii_case(asked)) {
        Some(known) => Ok(Value::from(known)),
        None if id => Ok(text),
        None => {
            let names: String = names.iter().map(|name| format!("{name}, ")).collect();
            Err(refusal(&format!("one of none, {names}or the id of a quantizer"), &text))
        }
    }
}

/// For conditions.
fn is_exactly(value: Value, wanted: &Value) -> Checked {
    if value == *wanted { Ok(value) } else { Err(refusal(&toml_text(wanted), &value)) }
}

/// A number above zero.
fn check_positive(value: Value) -> Checked {
    match value {
        Value::Number(n) if n.as_f64().is_some_and(|x| x > 0.0) => Ok(Value::from(n.as_f64())),
        other => Err(refusal("a positive number", &other)),
    }
}

/// Two numbers.
fn check_range(value: Value) -> Checked {
    let numbers = value.as_array().map(|ends| ends.iter().map(Value::as_f64).collect::<Vec<_>>());
    match numbers.as_deref() {
        Some([Some(low), Some(high)]) if low < high && (high - low).is_finite() => Ok(value),
        _ => Err(refusal("a list of two numbers such as [-1, 1], the smaller first", &value)),
    }
}

/// A list of shapes; a size is a number or the name of a size left open.
fn check_shapes(value: Value) -> Checked {
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

/// The values of inputs.
fn check_constants(value: Value) -> Checked {
    fn is_constant(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().all(is_constant),
            Value::Number(_) | Value::Bool(_) | Value::String(_) => true,
            Value::Null | Value::Object(_) => false,
        }
    }
    match value {
        Value::Object(inputs) if inputs.values().all(is_constant) => Ok(Value::Object(inputs)),
        other => Err(refusal("a table such as { rate = 16000, mode = \"fast\" }", &other)),
    }
}

/// The axes of each tensor. All notations are brought to `tensor = { "AXIS" = "name" }`; axes
/// given without a name get one from tensor and position, as in torch.onnx.
fn check_dynamic_axes(value: Value) -> Checked {
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
fn check_overrides(value: Value) -> Checked {
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
    if !NODE_KEYS.contains(&key.as_str()) {
        let near = nearest(&key, NODE_KEYS).map(|n| format!("; did you mean `{n}`?"));
        return Err(format!(
            "for node `{}` has the unknown key `{}` (known: {}){}",
            shown(node),
            shown(&key),
            NODE_KEYS.join(", "),
            near.unwrap_or_default()
        ));
    }
    let all = format!("quantization.{key}");
    let row = HOST_ROWS.iter().find(|row| row.key == all);
    let kind = &row.expect("the keys of a node are keys of all nodes; a test asks for each").kind;
    let value =
        kind.check(value).map_err(|why| format!("for node `{}`: `{key}` {why}", shown(node)))?;
    Ok((key, value))
}
