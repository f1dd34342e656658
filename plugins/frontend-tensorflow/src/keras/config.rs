//! The description of a Keras model: layers, their calls, and what comes out. It is JSON, in the forms of Keras 2
//! and 3.

mod calls;

use super::hub;
use super::layer::{KerasLayer, KerasNetwork, damaged};
use super::weights::snake_case;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::json;
use serde_json::{Map, Value as Json};

/// Bytes of a description.
const CONFIG_MAX: usize = 64 << 20;
/// Values in it, each of which takes much more memory than text.
const VALUES_MAX: usize = 1 << 19;
/// Models inside of models.
const DEPTH_MAX: usize = 32;

/// Reads the description of a whole model.
///
/// # Errors
/// `N0201` if it is none.
pub(crate) fn read(text: &[u8], is_keras2: bool) -> Result<KerasLayer, Diagnostic> {
    refuse!(text.len() > CONFIG_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("The description of the model has {} bytes.", text.len())));
    let (text, values) = json::quoted(text);
    refuse!(values > VALUES_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("The description of the model has more than {VALUES_MAX} values.")));
    let json: Json = serde_json::from_slice(&text).map_err(|e| {
        damaged(format!("The description of the model is no JSON: {}.", shown(&e.to_string())))
    })?;
    hub::check(&json)?;
    layer(&json, is_keras2, 0)
}

fn text<'j>(json: &'j Json, key: &str) -> Option<&'j str> {
    json.get(key)?.as_str()
}

/// Whether an object describes a layer.
fn is_layer(json: &Json) -> bool {
    let is_helper = text(json, "module").is_some_and(|module| {
        [
            "initializers", "regularizers", "constraints", "activations", "optimizers", "losses",
            "dtype",
        ]
        .iter()
        .any(|part| module.contains(part))
    });
    let class = text(json, "class_name");
    let is_plain =
        class.is_some_and(|c| c.starts_with("__") || c == "DTypePolicy" || c == "function");
    class.is_some() && json.get("config").is_some_and(Json::is_object) && !is_helper && !is_plain
}

fn layer(json: &Json, is_keras2: bool, depth: usize) -> Result<KerasLayer, Diagnostic> {
    refuse!(depth > DEPTH_MAX =>
        Diagnostic::new(Code::SourceLimit, format!("The model has models inside of models {DEPTH_MAX} times over.")));
    let (Some(class), Some(config)) =
        (text(json, "class_name"), json.get("config").and_then(Json::as_object))
    else {
        return Err(damaged("A layer of the model has no class or no configuration."));
    };
    let name = text(json, "name").or_else(|| config.get("name")?.as_str());
    let mut layer =
        KerasLayer { class: class.to_owned(), is_unnamed: name.is_none(), ..KerasLayer::default() };
    // Some classes of `keras_hub` leave their names out. Keras then makes one of the class.
    layer.name = name.map_or_else(|| snake_case(class), str::to_owned);
    layer.calls = calls::calls(json.get("inbound_nodes"))?;
    layer.foreign = foreign(json, class);
    if let Some(network) = hub::backbone(json, class, &layer.name, config)? {
        layer.network = Some(network);
        layer.foreign = None;
        return Ok(layer);
    }
    let is_network = matches!(class, "Sequential" | "Functional" | "Model")
        && config.get("layers").is_some_and(Json::is_array);
    if is_network {
        layer.network = Some(network(class, config, is_keras2, depth)?);
        return Ok(layer);
    }
    layer.class = row(json, class, config);
    if is_operator(json, &layer) {
        layer.class = format!("ops.{class}");
    }
    for (key, value) in config {
        match value {
            Json::Object(_) if is_layer(value) => {
                layer.parts.push((key.clone(), self::layer(value, is_keras2, depth + 1)?));
            }
            Json::Array(items) if !items.is_empty() && items.iter().all(is_layer) => {
                for (i, item) in items.iter().enumerate() {
                    layer
                        .parts
                        .push((format!("{key}.{i}"), self::layer(item, is_keras2, depth + 1)?));
                }
            }
            _ => {}
        }
    }
    layer.config = config.clone();
    if class == "Bidirectional" {
        both_ways(&mut layer)?;
    }
    if layer.foreign.is_none() && hub::is_layer(class) {
        layer = hub::with_parts(layer)?;
    }
    Ok(layer)
}

/// The layers of `Bidirectional`, under the names that Keras gives them. The second one is made of the first where the
/// description does not have it.
fn both_ways(layer: &mut KerasLayer) -> Result<(), Diagnostic> {
    let Some(at) = layer.parts.iter().position(|(key, _)| key == "layer") else { return Ok(()) };
    let (_, mut forward) = layer.parts.remove(at);
    // Each level would double what is inside.
    refuse!(holds(&forward, "Bidirectional") => damaged("A `Bidirectional` layer is inside of another one."));
    let bare = forward.name.trim_start_matches("forward_").to_owned();
    let found = layer.parts.iter().position(|(key, _)| key == "backward_layer");
    let backward = match found {
        Some(at) => layer.parts.remove(at).1,
        None => {
            let mut backward = KerasLayer { name: format!("backward_{bare}"), ..forward.clone() };
            let turned = forward.is("go_backwards");
            backward.config.insert("go_backwards".to_owned(), Json::Bool(!turned));
            backward
        }
    };
    forward.name = format!("forward_{bare}");
    layer.parts =
        vec![("forward_layer".to_owned(), forward), ("backward_layer".to_owned(), backward)];
    Ok(())
}

/// Whether a layer is of a class, or holds one that is.
fn holds(layer: &KerasLayer, class: &str) -> bool {
    let inner = layer.network.iter().flat_map(|network| &network.layers);
    let parts = layer.parts.iter().map(|(_, part)| part);
    layer.class == class || inner.chain(parts).any(|layer| holds(layer, class))
}

/// Whether a class that both layers and `keras.ops` have is the operator, where the file names no module: layers that
/// merge take one list, the operators two tensors.
fn is_operator(json: &Json, layer: &KerasLayer) -> bool {
    const BOTH: [&str; 6] = ["Add", "Subtract", "Multiply", "Maximum", "Minimum", "Dot"];
    let takes_two = || layer.calls.iter().all(|call| call.positional.len() == 2);
    let is_open = json.get("module").is_none() && BOTH.contains(&layer.class.as_str());
    is_open && !layer.calls.is_empty() && takes_two()
}

/// The name of a layer's row.
fn row(json: &Json, class: &str, config: &Map<String, Json>) -> String {
    let module = text(json, "module").unwrap_or_default();
    let function = config.get("function").and_then(Json::as_str);
    match (class, function) {
        ("TFOpLambda" | "SlicingOpLambda", Some(function)) => format!("tf.{function}"),
        _ if module.starts_with("keras.src.ops") || module.starts_with("keras.ops") => {
            format!("ops.{class}")
        }
        _ => class.to_owned(),
    }
}

/// Why a class is not one of Keras.
fn foreign(json: &Json, class: &str) -> Option<String> {
    if class == "Lambda" {
        return Some("`Lambda` holds Python code, which is not run".to_owned());
    }
    let module = text(json, "module");
    let registered = text(json, "registered_name").filter(|name| !name.is_empty());
    let is_keras = |module: &str| {
        ["keras", "tf_keras"].iter().any(|own| {
            module.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let is_own = match (module, registered) {
        // Others may have classes of the same name.
        _ if hub::is_layer(class) => hub::is_of_package(json),
        (Some(module), _) if is_keras(module) => true,
        // Where there are no modules, the package that a class was registered in is part of its name.
        (Some("builtins") | None, None) => module.is_none() && !class.contains('>'),
        (None, Some(_)) | (Some(_), _) => false,
    };
    (!is_own).then(|| {
        format!("`{}` is a class of its own, whose Python code is not in the file", shown(class))
    })
}

fn network(
    class: &str,
    config: &Map<String, Json>,
    is_keras2: bool,
    depth: usize,
) -> Result<KerasNetwork, Diagnostic> {
    let all = config.get("layers").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let layers: Result<Vec<KerasLayer>, Diagnostic> =
        all.iter().map(|json| layer(json, is_keras2, depth + 1)).collect();
    let layers = layers?;
    let is_sequence = class == "Sequential";
    let starts = layers.first().is_some_and(|first| first.class == "InputLayer");
    Ok(KerasNetwork {
        is_sequence,
        inputs: calls::places(config.get("input_layers"))?,
        outputs: calls::places(config.get("output_layers"))?,
        built: config.get("build_input_shape").or_else(|| config.get("batch_input_shape")).cloned(),
        counts_making: if is_sequence { is_keras2 && starts } else { true },
        layers,
    })
}

#[cfg(test)]
mod tests {
    use super::foreign;
    use serde_json::json;

    #[test]
    fn classes_of_a_package_are_not_of_keras() {
        let said = |class: &str| foreign(&json!({ "class_name": class, "config": {} }), class);
        assert_eq!(said("Dense"), None);
        assert!(
            said("mine>Own").is_some_and(|why| why.starts_with("`mine>Own` is a class of its own"))
        );
    }
}
