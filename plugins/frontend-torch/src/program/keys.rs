//! Keys of dicts that a program gives, from the tree that it saves of its results.

use crate::outputs::key_path;
use serde::Deserialize;
use serde_json::Value;

/// Results inside each other.
const DEPTH_MAX: usize = 64;

/// A module that the program was exported from; the first one is the whole.
#[derive(Debug, Deserialize)]
pub(super) struct ModuleCall {
    signature: Option<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    #[serde(default)]
    out_spec: Value,
}

/// The names of the results, as far as they are in dicts; nothing if the tree is not understood.
pub(super) fn of_calls(calls: &[ModuleCall]) -> Vec<String> {
    let text = calls.first().and_then(|call| call.signature.as_ref()?.out_spec.as_str());
    let tree: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    let mut names = vec![];
    match tree.as_ref().and_then(|tree| named(tree.get(1)?, "", 0, &mut names)) {
        Some(()) => names,
        None => vec![],
    }
}

fn named(tree: &Value, path: &str, depth: usize, names: &mut Vec<String>) -> Option<()> {
    let parts = tree.get("children_spec")?.as_array().filter(|_| depth < DEPTH_MAX)?;
    let Some(kind) = tree.get("type")?.as_str() else {
        names.push(path.to_owned());
        return Some(());
    };
    let keys: Vec<String> = match kind {
        "builtins.dict" | "collections.OrderedDict" | "collections.defaultdict" => {
            let context: Value = serde_json::from_str(tree.get("context")?.as_str()?).ok()?;
            let keys = context.as_array()?.iter().map(|key| match key {
                Value::String(key) => key_path(path, key),
                other => key_path(path, &other.to_string()),
            });
            keys.collect()
        }
        _ if path.is_empty() => vec![String::new(); parts.len()],
        _ => (0..parts.len()).map(|i| key_path(path, &i.to_string())).collect(),
    };
    if keys.len() != parts.len() {
        return None;
    }
    parts.iter().zip(&keys).try_for_each(|(part, key)| named(part, key, depth + 1, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_in_dicts_have_their_keys() {
        let leaf = json!({"type": null, "context": null, "children_spec": []});
        let tree = json!([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
            leaf,
            {"type": "builtins.dict", "context": "[\"a\", \"b\"]", "children_spec": [
                leaf,
                {"type": "builtins.list", "context": "null", "children_spec": [leaf, leaf]},
            ]},
        ]}]);
        let call = |tree: &Value| {
            let call = json!({"fqn": "", "signature": {"out_spec": tree.to_string()}});
            of_calls(&[serde_json::from_value(call).unwrap()])
        };
        assert_eq!(call(&tree), ["", "a", "b.0", "b.1"]);
        assert_eq!(call(&json!([1, {"type": "x"}])), [""; 0]);
        assert_eq!(of_calls(&[]), [""; 0]);
    }
}
