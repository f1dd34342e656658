//! Which tensors of a file are the weights of which layer. `.keras` files have them by paths, which follow from the
//! classes and their order; `.h5` files name them for each layer.

pub(crate) mod names;

use super::hdf5::Hdf5;
use super::layer::{KerasLayer, KerasNetwork, damaged};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use std::collections::{HashMap, HashSet};

/// Weights of a group times the layers in it, which are compared by name.
const PAIRS_MAX: usize = 20_000_000;

/// Finds the weights of all layers of a `.keras` file.
///
/// # Errors
/// `N0201` for layers whose groups have other names, and groups that no layer has.
pub(crate) fn by_paths(file: &Hdf5, model: &mut KerasLayer) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::default();
    if let Some(network) = &mut model.network {
        within(file, "", network, &mut found);
    }
    found.or_ok(())
}

/// The group of an object in a list: its class in snake case, with a number from the second on.
#[derive(Default)]
struct GroupNames(HashMap<String, usize>);

impl GroupNames {
    fn next(&mut self, class: &str) -> String {
        let name = snake_case(class);
        let count = self.0.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}_{}", *count - 1) }
    }
}

/// As Keras spells it: `PReLU` is `p_re_lu`.
pub(super) fn snake_case(class: &str) -> String {
    let letters: Vec<char> = class.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
    let is_small =
        |i: Option<usize>| i.and_then(|i| letters.get(i)).is_some_and(char::is_ascii_lowercase);
    let mut name = String::new();
    for (i, c) in letters.iter().enumerate() {
        // A capital begins a word if a small letter is on either side.
        if i > 0 && c.is_ascii_uppercase() && (is_small(i.checked_sub(1)) || is_small(Some(i + 1)))
        {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Whether Keras writes a group for it: operators and, in sequences, inputs have none.
fn has_group(layer: &KerasLayer, is_sequence: bool) -> bool {
    !layer.class.starts_with("ops.") && (layer.class != "InputLayer" || !is_sequence)
}

/// The name of the class, from which that of the group follows.
fn class(layer: &KerasLayer) -> &str {
    match layer.class.strip_prefix("tf.") {
        Some("__operators__.getitem") => "SlicingOpLambda",
        Some(_) => "TFOpLambda",
        None if layer.class == "Model" => "Functional",
        // Keras exports it by another name.
        None if layer.class == "GroupQueryAttention" => "GroupedQueryAttention",
        None => &layer.class,
    }
}

fn within(file: &Hdf5, base: &str, network: &mut KerasNetwork, problems: &mut Diagnostics) {
    let mut names = GroupNames::default();
    let folder = join(base, "layers");
    // Keras before 2.13 had another name for the folder.
    let folder =
        if file.has_group(&folder) { folder } else { join(base, "_layer_checkpoint_dependencies") };
    let is_sequence = network.is_sequence;
    for layer in network.layers.iter_mut().filter(|layer| has_group(layer, is_sequence)) {
        let path = join(&folder, &names.next(class(layer)));
        let written = file.text(&join(&path, "vars"), "name");
        if let Some(written) = written.filter(|w| *w != layer.name && !layer.is_unnamed) {
            let message = format!(
                "The weights `{}` are those of the layer `{}`, not of `{}`.",
                shown(&path),
                shown(&written),
                shown(&layer.name)
            );
            problems.push(damaged(message));
            continue;
        }
        match paths(file, &path, layer, problems) {
            Ok(weights) => layer.weights = weights,
            Err(e) => problems.push(e),
        }
    }
}

/// The path of what has a name in `base`.
pub(crate) fn join(base: &str, name: &str) -> String {
    if base.is_empty() { name.to_owned() } else { format!("{base}/{name}") }
}

/// Objects that a layer makes for itself, in their order.
fn own_parts(class: &str) -> &'static [&'static str] {
    match class {
        "MultiHeadAttention" | "GroupQueryAttention" | "GroupedQueryAttention" => {
            &["query_dense", "key_dense", "value_dense", "gate_dense", "output_dense"]
        }
        "LSTM" | "GRU" | "SimpleRNN" | "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D" => &["cell"],
        _ => &[],
    }
}

/// The weights of a layer in the order in which Keras made them. Layers that it holds have their own.
fn paths(
    file: &Hdf5,
    base: &str,
    layer: &mut KerasLayer,
    problems: &mut Diagnostics,
) -> Result<Vec<String>, Diagnostic> {
    if let Some(network) = &mut layer.network {
        within(file, base, network, problems);
        return Ok(vec![]);
    }
    let mut all = vec![];
    for part in own_parts(&layer.class) {
        // Some classes hide what they hold.
        let hidden = join(base, &format!("_{part}"));
        let place = if file.has_group(&hidden) { hidden } else { join(base, part) };
        all.extend(vars(file, &place)?);
    }
    let mut names: HashMap<String, GroupNames> = HashMap::new();
    for (key, part) in &mut layer.parts {
        let place = match key.split_once('.') {
            Some((list, _)) => {
                let name = names.entry(list.to_owned()).or_default().next(class(part));
                join(&join(base, list), &name)
            }
            None => join(base, key),
        };
        part.weights = paths(file, &place, part, problems)?;
    }
    all.extend(vars(file, base)?);
    Ok(all)
}

/// `vars/0`, `vars/1` and so on.
fn vars(file: &Hdf5, base: &str) -> Result<Vec<String>, Diagnostic> {
    let folder = join(base, "vars");
    let mut names = file.tensors(&folder);
    names.sort_by_key(|name| name.parse::<usize>().unwrap_or(usize::MAX));
    let all: Vec<String> = names.iter().map(|name| join(&folder, name)).collect();
    match names.iter().enumerate().all(|(i, name)| name.parse() == Ok(i)) {
        true => Ok(all),
        // Quantized layers name what they hold.
        false if names.iter().all(|name| name.parse::<usize>().is_err()) => Ok(all),
        false => Err(damaged(format!("Weights of `{}` are missing.", shown(base)))),
    }
}

/// Finds the weights of all layers of an `.h5` file.
///
/// # Errors
/// `N0201` for layers without a group, and weights that are not clearly those of one layer.
pub(crate) fn by_names(file: &Hdf5, model: &mut KerasLayer) -> Result<(), Diagnostics> {
    let base = if file.has_group("model_weights") { "model_weights" } else { "" };
    let mut found = Diagnostics::default();
    let Some(names) = file.list(base, "layer_names") else {
        return Err(damaged("The file does not say which layers have weights.").into());
    };
    let names: HashSet<String> = names.into_iter().collect();
    let layers = model.network.iter_mut().flat_map(|network| &mut network.layers);
    for layer in layers {
        if !names.contains(&layer.name) {
            continue;
        }
        let group = join(base, &layer.name);
        let mut weights = file.list(&group, "weight_names").unwrap_or_default();
        // What `SpectralNormalization` has beside the weights of its layer matters only to training.
        weights.retain(|name| !is_last(name, "vector_u"));
        if let Err(e) = share_out(layer, &group, weights) {
            found.push(e);
        }
    }
    found.or_ok(())
}

/// Whether the last part of a name is this one, counted or not.
fn is_last(name: &str, part: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next() == Some(part)
}

/// Gives the weights of a group to the layers in it.
fn share_out(layer: &mut KerasLayer, group: &str, weights: Vec<String>) -> Result<(), Diagnostic> {
    let mut leaves = vec![];
    collect(layer, &mut vec![], &mut leaves);
    if let [(_, only)] = &mut leaves[..] {
        only.weights = weights.iter().map(|name| join(group, name)).collect();
        in_order(only);
        return Ok(());
    }
    refuse!(leaves.len().saturating_mul(weights.len()) > PAIRS_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("`{}` has too many layers and weights.", shown(group))));
    for weight in weights {
        let parts: Vec<&str> = weight.split('/').collect();
        let parts = &parts[..parts.len() - 1];
        let has = |name: &String| {
            let name: Vec<&str> = name.split('/').collect();
            parts.windows(name.len()).any(|window| window == name)
        };
        let fits = |(models, leaf): &(Vec<String>, &mut KerasLayer)| {
            has(&leaf.name).then(|| 1 + models.iter().filter(|name| has(name)).count())
        };
        let best = leaves.iter().filter_map(fits).max();
        let mut best: Vec<&mut (Vec<String>, &mut KerasLayer)> =
            leaves.iter_mut().filter(|leaf| best.is_some() && fits(leaf) == best).collect();
        match &mut best[..] {
            [(_, leaf)] => leaf.weights.push(join(group, &weight)),
            _ => {
                let message = format!(
                    "It is not clear which layer has the weight `{}` of `{}`.",
                    shown(&weight),
                    shown(group)
                );
                let help = "Save the model as `.keras`, which has the weights of each layer apart.";
                return Err(damaged(message).help(help));
            }
        }
    }
    leaves.into_iter().for_each(|(_, layer)| in_order(layer));
    Ok(())
}

/// Puts the weights of attention in the order in which rows take them: files of names have a gate before the value.
fn in_order(layer: &mut KerasLayer) {
    const PARTS: [&str; 5] = ["query", "key", "value", "gate", "attention_output"];
    if own_parts(&layer.class).len() == PARTS.len() {
        let part =
            |place: &String| PARTS.iter().position(|part| place.split('/').any(|p| p == *part));
        layer.weights.sort_by_key(part);
    }
}

/// The layers that have weights of their own, with the names of the models around them.
fn collect<'l>(
    layer: &'l mut KerasLayer,
    models: &mut Vec<String>,
    to: &mut Vec<(Vec<String>, &'l mut KerasLayer)>,
) {
    let is_model = layer.network.is_some();
    if !is_model {
        let wraps =
            layer.parts.len() == 1 && layer.parts[0].0 == "layer" && layer.class != "Bidirectional";
        if wraps {
            collect(&mut layer.parts[0].1, models, to);
        } else {
            to.push((models.clone(), layer));
        }
        return;
    }
    models.push(layer.name.clone());
    for inner in layer.network.iter_mut().flat_map(|network| &mut network.layers) {
        collect(inner, models, to);
    }
    models.pop();
}

#[cfg(test)]
mod tests;
