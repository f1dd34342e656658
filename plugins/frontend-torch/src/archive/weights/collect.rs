//! Finds the tensors of what `torch.save` wrote, with the names that they have in the module.

use super::super::over_limit;
use super::super::pickle::Pickled;
use super::NamedTensors;
use crate::diag::{Diagnostic, refuse};

/// Values that are looked at. Shared ones count wherever they are.
const STEPS_MAX: usize = 1 << 22;
/// Bytes of all names together.
const NAMES_MAX: usize = 256 << 20;
/// Keys of checkpoints that have the module's state among other things; the first one counts.
const STATES: &[&str] =
    &["state_dict", "model_state_dict", "model", "module", "network", "net", "params"];

pub(super) fn weights(root: &Pickled) -> Result<NamedTensors, Diagnostic> {
    let mut found = walk(root)?;
    // Beside the state of the module, checkpoints have the state of the optimizer.
    let is_flat = |(_, tensor): &(Pickled, Pickled)| matches!(tensor, Pickled::Tensor(_));
    if let Pickled::Dict(items) = root
        && !items.borrow().iter().any(is_flat)
    {
        for key in STATES {
            let Some(state) = root.get(key) else { continue };
            let inner = weights_below(&state)?;
            if !inner.is_empty() {
                found = inner;
                break;
            }
        }
    }
    Ok(found)
}

/// As [`walk`]; some checkpoints have their `state_dict` one level lower.
fn weights_below(state: &Pickled) -> Result<NamedTensors, Diagnostic> {
    match state.get("state_dict") {
        Some(inner @ Pickled::Dict(_)) => walk(&inner),
        _ => walk(state),
    }
}

fn walk(root: &Pickled) -> Result<NamedTensors, Diagnostic> {
    let (mut tensors, mut steps, mut bytes) = (Vec::new(), 0usize, 0usize);
    let mut open = vec![(String::new(), root.clone())];
    while let Some((name, value)) = open.pop() {
        steps += 1;
        let first = open.len();
        let mut add = |key: &str, value: &Pickled| {
            bytes = bytes.saturating_add(name.len() + key.len());
            if !is_leaf(value) && bytes <= NAMES_MAX {
                open.push((joined(&name, key), value.clone()));
            }
        };
        match &value {
            Pickled::Tensor(tensor) => tensors.push((name, tensor.clone())),
            Pickled::Dict(items) => {
                items.borrow().iter().for_each(|(key, value)| add(&word(key), value));
            }
            Pickled::Tuple(_) | Pickled::List(_) => {
                let items = value.items().unwrap_or_default();
                items.iter().enumerate().for_each(|(i, item)| add(&i.to_string(), item));
            }
            Pickled::Object(object) => {
                // A pickled module keeps its state in these dicts, whose names are not in those of its state dict.
                let parts = ["_parameters", "_buffers", "_modules"];
                parts.iter().filter_map(|part| object.attribute(part)).for_each(|p| add("", &p));
            }
            _ => {}
        }
        open[first..].reverse();
        refuse!(steps.saturating_add(open.len()) > STEPS_MAX || bytes > NAMES_MAX =>
            over_limit("the file has too many values, or one that contains itself"));
    }
    Ok(tensors)
}

fn is_leaf(value: &Pickled) -> bool {
    use Pickled::{Dict, List, Object, Tensor, Tuple};
    !matches!(value, Tensor(_) | Dict(_) | Tuple(_) | List(_) | Object(_))
}

fn word(key: &Pickled) -> String {
    match key {
        Pickled::Text(text) => text.to_string(),
        Pickled::Int(number) => number.to_string(),
        other => other.kind().to_owned(),
    }
}

fn joined(name: &str, key: &str) -> String {
    match (name, key) {
        ("", _) => key.to_owned(),
        (_, "") => name.to_owned(),
        _ => format!("{name}.{key}"),
    }
}
