//! Models of `keras_hub` whose files say only how large they are: the layers that follow from it.
//!
//! A backbone is a functional model of its own class. Its description has no list of layers but the arguments of its
//! constructor. Each family (`bert`, `resnet` and so on) makes the list from them; what follows is as for other models.
//! `layers` says what the layers of the package hold; `rows::hub` says what they compute.

mod bert;
mod gpt2;
mod layers;

pub(super) use layers::{GELU, is_layer, with_parts};

use super::config::{Argument, Call, Layer, Network, Place};
use super::values::problem;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use serde_json::{Map, Value as Json, json};

/// Layers of one kind that a model or layer has at most.
const LAYERS_MAX: i64 = 4096;
/// No axis is larger.
const SIZE_MAX: i64 = i32::MAX as i64;

/// Makes a family's layers.
type Family = fn(&Settings<'_>) -> Result<Network, Diagnostic>;

const FAMILIES: [(&str, Family); 5] = [
    ("BertBackbone", bert::bert),
    ("DistilBertBackbone", bert::distil_bert),
    ("RobertaBackbone", bert::roberta),
    ("XLMRobertaBackbone", bert::roberta),
    ("GPT2Backbone", gpt2::gpt2),
];

/// Whether an object of a description is of the package.
pub(super) fn is_of_package(json: &Json) -> bool {
    json.get("module").and_then(Json::as_str).is_some_and(|module| module.starts_with("keras_hub."))
}

/// The layers of a backbone; `None` if it is none that is known.
///
/// # Errors
/// `N0204` for settings that are not known or have values that no model has.
pub(super) fn backbone(
    json: &Json,
    class: &str,
    name: &str,
    config: &Map<String, Json>,
) -> Result<Option<Network>, Diagnostic> {
    let family = FAMILIES.iter().find(|(found, _)| *found == class && is_of_package(json));
    family.map(|(_, family)| family(&Settings { class, name, config })).transpose()
}

/// The arguments that a model or layer was made with.
pub(super) struct Settings<'j> {
    class: &'j str,
    name: &'j str,
    config: &'j Map<String, Json>,
}

impl Settings<'_> {
    fn wrong(&self, key: &str, must: &str) -> Diagnostic {
        let value = match self.config.get(key) {
            Some(value) => format!("is {}", shown(&value.to_string())),
            None => "is missing".to_owned(),
        };
        let message = format!("`{}` {value}; {must}.", shown(key));
        problem(self.name, self.class, Code::LayerParameter, message)
    }

    /// Checks that there are no others than these, those of all layers, and those that matter only to training.
    fn only(&self, keys: &[&str]) -> Result<(), Diagnostic> {
        const ALWAYS: [&str; 3] = ["name", "trainable", "dtype"];
        let is_known = |key: &str| {
            keys.contains(&key) || ALWAYS.contains(&key) || key.ends_with("_initializer")
        };
        match self.config.keys().find(|key| !is_known(key)) {
            Some(key) => Err(self.wrong(key, "it is no setting that is known")),
            None => self.plain_type(),
        }
    }

    /// Quantized models have a type for each layer, by paths.
    fn plain_type(&self) -> Result<(), Diagnostic> {
        let class = self.config.get("dtype").and_then(|dtype| dtype.get("class_name"));
        match class.and_then(Json::as_str) {
            None | Some("DTypePolicy" | "FloatDTypePolicy") => Ok(()),
            Some(_) => Err(self.wrong("dtype", "only one type for all layers is converted")),
        }
    }

    fn dtype(&self) -> Json {
        self.config.get("dtype").cloned().unwrap_or(Json::Null)
    }

    /// A number of elements.
    fn size(&self, key: &str) -> Result<i64, Diagnostic> {
        let size = self.config.get(key).and_then(Json::as_i64);
        size.filter(|n| (1..=SIZE_MAX).contains(n))
            .ok_or_else(|| self.wrong(key, &format!("it must be from 1 to {SIZE_MAX}")))
    }

    /// A number of layers.
    fn count(&self, key: &str) -> Result<i64, Diagnostic> {
        let count = self.config.get(key).and_then(Json::as_i64);
        count
            .filter(|n| (1..=LAYERS_MAX).contains(n))
            .ok_or_else(|| self.wrong(key, &format!("it must be from 1 to {LAYERS_MAX}")))
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, Diagnostic> {
        match self.config.get(key) {
            None => Ok(default),
            Some(json) => json.as_f64().ok_or_else(|| self.wrong(key, "it must be a number")),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, Diagnostic> {
        match self.config.get(key) {
            None => Ok(default),
            Some(json) => json.as_bool().ok_or_else(|| self.wrong(key, "it must be true or false")),
        }
    }
}

/// A layer with its configuration.
fn made(class: &str, name: &str, config: Json, dtype: &Json) -> Result<Layer, Diagnostic> {
    let mut config = if let Json::Object(config) = config { config } else { Map::new() };
    // Functions have no type of their own.
    if !class.starts_with("ops.") {
        config.insert("dtype".to_owned(), dtype.clone());
    }
    let (class, name) = (class.to_owned(), name.to_owned());
    with_parts(Layer { class, name, config, ..Layer::default() })
}

/// A list of layers with their calls that grows.
struct Graph {
    layers: Vec<Layer>,
    /// The type of layers that have no other.
    dtype: Json,
}

impl Graph {
    fn new(settings: &Settings<'_>) -> Graph {
        Graph { layers: vec![], dtype: settings.dtype() }
    }

    /// An input; `shape` is without the batch.
    fn input(&mut self, name: &str, dtype: &str, shape: &[Json]) -> Argument {
        let batch_shape = [&[Json::Null], shape].concat();
        let config = json!({ "batch_shape": batch_shape, "dtype": dtype });
        let config = if let Json::Object(config) = config { config } else { Map::new() };
        let (class, name) = ("InputLayer".to_owned(), name.to_owned());
        let place = place(&name);
        self.layers.push(Layer { class, name, config, ..Layer::default() });
        place
    }

    /// A layer that is called on a single argument.
    fn add(
        &mut self,
        class: &str,
        name: &str,
        config: Json,
        x: Argument,
    ) -> Result<Argument, Diagnostic> {
        self.call(class, name, config, Call { positional: vec![x], named: vec![] })
    }

    fn call(
        &mut self,
        class: &str,
        name: &str,
        config: Json,
        call: Call,
    ) -> Result<Argument, Diagnostic> {
        let mut layer = made(class, name, config, &self.dtype)?;
        layer.calls = vec![call];
        self.layers.push(layer);
        Ok(place(name))
    }

    fn network(self, inputs: Argument, outputs: Argument) -> Network {
        let counts_making = true;
        Network { layers: self.layers, inputs, outputs, counts_making, ..Network::default() }
    }
}

/// The first output of the first call of a layer.
fn place(layer: &str) -> Argument {
    Argument::Place(Place { layer: layer.to_owned(), call: 0, output: 0 })
}

/// Inputs or outputs by their names, which are those of a description in Keras' order.
fn named(items: &[(&str, &Argument)]) -> Argument {
    let mut items: Vec<_> =
        items.iter().map(|(key, item)| ((*key).to_owned(), (*item).clone())).collect();
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    Argument::Dict(items)
}

#[cfg(test)]
mod tests;
