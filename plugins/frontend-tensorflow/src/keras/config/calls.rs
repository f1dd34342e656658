//! Calls of layers: where their arguments come from.

use crate::keras::layer::{Argument, CallOutput, LayerCall, SLICE, damaged};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, shown};
use serde_json::Value as Json;

/// The calls that `inbound_nodes` lists.
pub(super) fn calls(json: Option<&Json>) -> Result<Vec<LayerCall>, Diagnostic> {
    let all = match json {
        None | Some(Json::Null) => return Ok(vec![]),
        Some(Json::Array(all)) => all,
        Some(_) => return Err(damaged("The calls of a layer are no list.")),
    };
    // Keras 2 leaves lists around a single call out where a layer is called on a single tensor.
    if place(json.unwrap_or(&Json::Null)).is_some() {
        return Ok(vec![old(&Json::Array(all.clone()))?]);
    }
    let call = |json: &Json| match json {
        Json::Object(parts) if parts.contains_key("args") || parts.contains_key("kwargs") => {
            new(json)
        }
        _ => old(json),
    };
    all.iter().map(call).collect()
}

/// A call as Keras 3 writes it.
fn new(json: &Json) -> Result<LayerCall, Diagnostic> {
    let positional = match json.get("args") {
        Some(Json::Array(list)) => list.iter().map(argument).collect::<Result<_, _>>()?,
        _ => vec![],
    };
    let named = match json.get("kwargs") {
        Some(Json::Object(named)) => named
            .iter()
            .map(|(name, json)| Ok((name.clone(), argument(json)?)))
            .collect::<Result<_, Diagnostic>>()?,
        _ => vec![],
    };
    Ok(LayerCall { positional, named })
}

fn argument(json: &Json) -> Result<Argument, Diagnostic> {
    Ok(match json {
        Json::Null => Argument::Nothing,
        Json::Array(list) => Argument::List(list.iter().map(argument).collect::<Result<_, _>>()?),
        Json::Object(object) => match object.get("class_name").and_then(Json::as_str) {
            Some("__keras_tensor__") => {
                let history = object.get("config").and_then(|config| config.get("keras_history"));
                let found = history.and_then(place);
                found.ok_or_else(|| damaged("A call names a tensor that has no history."))?
            }
            Some("__tensor__" | "__numpy__") => {
                let part = |key: &str| object.get("config").and_then(|config| config.get(key));
                let dtype = part("dtype").and_then(Json::as_str).unwrap_or("float32");
                Argument::Constant(part("value").cloned().unwrap_or(Json::Null), dtype.to_owned())
            }
            Some("__slice__" | "slice") => match object.get("config") {
                Some(Json::Object(parts)) => slice(parts, argument)?,
                _ => return Err(damaged("A slice of a call has no parts.")),
            },
            Some(_) => Argument::Plain(json.clone()),
            None => dict(object, argument)?,
        },
        other => Argument::Plain(other.clone()),
    })
}

fn dict(
    object: &serde_json::Map<String, Json>,
    read: impl Fn(&Json) -> Result<Argument, Diagnostic>,
) -> Result<Argument, Diagnostic> {
    let items = object.iter().map(|(key, json)| Ok((key.clone(), read(json)?)));
    let mut items = items.collect::<Result<Vec<_>, Diagnostic>>()?;
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Argument::Dict(items))
}

/// `["layer", 0, 0]`, in Keras 2 with keyword arguments behind.
fn place(json: &Json) -> Option<Argument> {
    let [name, rest @ ..] = json.as_array()?.as_slice() else { return None };
    let name = name.as_str()?;
    let (call, output) = match rest {
        [call, output] | [call, output, Json::Object(_)] => (call, output),
        _ => return None,
    };
    if name == "_CONSTANT_VALUE" && call.as_i64() == Some(-1) {
        return Some(match output {
            Json::Null => Argument::Nothing,
            other => Argument::Plain(other.clone()),
        });
    }
    let number = |json: &Json| usize::try_from(json.as_u64()?).ok();
    Some(Argument::Place(CallOutput {
        layer: name.to_owned(),
        call: number(call)?,
        output: number(output)?,
    }))
}

/// A call as Keras 2 writes it: the tensors of the first argument; the last item of each has the keyword arguments.
fn old(json: &Json) -> Result<LayerCall, Diagnostic> {
    let first = match old_argument(json)? {
        Argument::List(mut list) if list.len() == 1 => list.remove(0),
        other => other,
    };
    let mut named = vec![];
    if let Some(keywords) = keywords(json) {
        for (name, json) in keywords {
            let read = if name == "slice_spec" { old_key } else { old_argument };
            named.push((name.clone(), read(json)?));
        }
    }
    Ok(LayerCall { positional: vec![first], named })
}

fn old_argument(json: &Json) -> Result<Argument, Diagnostic> {
    if let Some(found) = place(json) {
        return Ok(found);
    }
    Ok(match json {
        Json::Null => Argument::Nothing,
        Json::Array(list) => {
            Argument::List(list.iter().map(old_argument).collect::<Result<_, _>>()?)
        }
        Json::Object(object) if object.contains_key("class_name") => argument(json)?,
        Json::Object(object) => dict(object, old_argument)?,
        other => Argument::Plain(other.clone()),
    })
}

/// A key of Keras 2, whose slices are objects with their three parts.
fn old_key(json: &Json) -> Result<Argument, Diagnostic> {
    match json {
        Json::Object(parts) if ["start", "stop", "step"].iter().all(|p| parts.contains_key(*p)) => {
            slice(parts, old_argument)
        }
        Json::Array(list) if place(json).is_none() => {
            Ok(Argument::List(list.iter().map(old_key).collect::<Result<_, _>>()?))
        }
        other => old_argument(other),
    }
}

/// A slice as a list behind [`SLICE`], which tells it from a list of keys.
fn slice(
    parts: &serde_json::Map<String, Json>,
    read: impl Fn(&Json) -> Result<Argument, Diagnostic>,
) -> Result<Argument, Diagnostic> {
    let part = |key: &str| parts.get(key).map_or(Ok(Argument::Nothing), &read);
    let word = Argument::Plain(Json::from(SLICE));
    Ok(Argument::List(vec![word, part("start")?, part("stop")?, part("step")?]))
}

/// The keyword arguments behind the first tensor.
fn keywords(json: &Json) -> Option<&serde_json::Map<String, Json>> {
    match json {
        Json::Array(list) if place(json).is_some() => list.get(3)?.as_object(),
        Json::Array(list) => list.iter().find_map(keywords),
        Json::Object(object) => object.values().find_map(keywords),
        _ => None,
    }
}

/// What `input_layers` and `output_layers` name: a place, a list or a dict of them.
pub(super) fn places(json: Option<&Json>) -> Result<Argument, Diagnostic> {
    let Some(json) = json else { return Ok(Argument::Nothing) };
    let found = old_argument(json)?;
    let mut leaves = vec![];
    found.leaves(&mut leaves);
    if leaves.iter().all(|leaf| matches!(leaf, Argument::Place(_))) {
        return Ok(found);
    }
    Err(damaged(format!("Inputs or outputs of a model are {}.", shown(&json.to_string()))))
}
