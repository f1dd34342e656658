//! Models of `keras_hub` whose files say only how large they are: the layers that follow from it.
//!
//! A backbone is a functional model of its own class. Its description has no list of layers but the arguments of its
//! constructor. Each family (`bert`, `resnet` and so on) makes the list from them; what follows is as for other models.
//! `layers` says what the layers of the package hold; `rows::hub` says what they compute.

mod bart;
mod bert;
mod densenet;
mod efficientnet;
mod gemma;
mod gpt2;
mod layers;
mod llama;
mod order;
mod resnet;
mod vgg;
mod vit;
mod xception;

pub(super) use layers::{GELU, is_layer, with_parts};

use super::dtype;
use super::layer::{
    Argument, CallOutput, KerasLayer, KerasNetwork, LayerCall, NamedLayers, damaged,
};
use super::values::problem;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_plugin_sdk::ir::DataType;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

/// Blocks of layers that all descriptions in a file stand for: a few numbers would fill the memory.
const LAYERS_MAX: i64 = 1024;
/// No axis is larger.
const SIZE_MAX: i64 = i32::MAX as i64;

/// A tensor of a graph that is made.
type ArgumentResult = Result<Argument, Diagnostic>;

/// Makes a family's layers.
type Family = fn(&Settings<'_>) -> Result<KerasNetwork, Diagnostic>;

const FAMILIES: [(&str, Family); 22] = [
    ("BertBackbone", bert::bert),
    ("DistilBertBackbone", bert::distil_bert),
    ("RobertaBackbone", bert::roberta),
    ("XLMRobertaBackbone", bert::roberta),
    ("ElectraBackbone", bert::electra),
    ("AlbertBackbone", bert::albert),
    ("BartBackbone", bart::bart),
    ("GPT2Backbone", gpt2::gpt2),
    ("OPTBackbone", gpt2::opt),
    ("GemmaBackbone", gemma::gemma),
    ("LlamaBackbone", llama::llama),
    ("Llama3Backbone", llama::llama),
    ("MistralBackbone", llama::mistral),
    ("Phi3Backbone", llama::phi3),
    ("QwenBackbone", llama::qwen),
    ("Qwen3Backbone", llama::qwen3),
    ("VGGBackbone", vgg::vgg),
    ("ResNetBackbone", resnet::resnet),
    ("ViTBackbone", vit::vit),
    ("DenseNetBackbone", densenet::densenet),
    ("EfficientNetBackbone", efficientnet::efficientnet),
    ("XceptionBackbone", xception::xception),
];

/// Whether an object of a description is of the package.
pub(super) fn is_of_package(json: &Json) -> bool {
    json.get("module").and_then(Json::as_str).is_some_and(|module| module.starts_with("keras_hub."))
}

/// Checks how many blocks the models and layers of the package in a description stand for, before they are made.
///
/// # Errors
/// `N0213` if there are too many.
pub(super) fn check(json: &Json) -> Result<(), Diagnostic> {
    let count = blocks(json);
    if count <= LAYERS_MAX {
        return Ok(());
    }
    let message = format!("The model has {count} blocks of layers, and may have {LAYERS_MAX}.");
    Err(Diagnostic::new(Code::SourceLimit, message))
}

/// Blocks of everything of the package in a value.
fn blocks(json: &Json) -> i64 {
    let inner: &mut dyn Iterator<Item = &Json> = match json {
        Json::Object(parts) => &mut parts.values(),
        Json::Array(items) => &mut items.iter(),
        _ => return 0,
    };
    let inner = inner.map(blocks).fold(0, i64::saturating_add);
    let config = json.get("config").filter(|_| is_of_package(json));
    let number = |key: &str| config.and_then(|config| config.get(key)?.as_i64()).unwrap_or(1);
    let sum = |key: &str| {
        let list = config.and_then(|config| config.get(key)?.as_array());
        let numbers = list.into_iter().flatten().filter_map(Json::as_i64);
        numbers.fold(0, |sum: i64, n| sum.saturating_add(n.max(0)))
    };
    if config.is_none() {
        return inner;
    }
    let own = number("num_layers").max(1).saturating_mul(number("num_inner_repetitions").max(1));
    let own = own.saturating_add(sum("stackwise_num_blocks"));
    let depths = config.and_then(|config| config.get("stackwise_depth_coefficients")?.as_array());
    let depths = depths.into_iter().flatten().filter_map(Json::as_f64);
    let deepest = depths.fold(1.0, f64::max).ceil() as i64;
    let repeats = sum("stackwise_num_repeats").saturating_mul(deepest);
    inner.saturating_add(own).saturating_add(repeats)
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
) -> Result<Option<KerasNetwork>, Diagnostic> {
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

    /// Families whose layers have the type of the session, whatever that of the model is.
    fn only_float32(&self) -> Result<(), Diagnostic> {
        refuse!(dtype::computed(self.config) != DataType::Float =>
            self.wrong("dtype", "only `float32` is converted"));
        Ok(())
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

    /// Numbers of elements, one for each of several layers.
    fn sizes(&self, key: &str) -> Result<Vec<i64>, Diagnostic> {
        let must = format!("it must be a list of up to {LAYERS_MAX} numbers from 1 to {SIZE_MAX}");
        let list = self.config.get(key).and_then(Json::as_array);
        let list = list.filter(|list| list.len() as i64 <= LAYERS_MAX);
        let size = |json: &Json| json.as_i64().filter(|n| (1..=SIZE_MAX).contains(n));
        list.and_then(|list| list.iter().map(size).collect()).ok_or_else(|| self.wrong(key, &must))
    }

    /// Numbers of blocks, or whatever `what` calls them, in each of several stacks.
    fn stacks(&self, key: &str, what: &str) -> Result<Vec<i64>, Diagnostic> {
        let counts = self.sizes(key)?;
        refuse!(counts.iter().sum::<i64>() > LAYERS_MAX =>
            self.wrong(key, &format!("it must be {LAYERS_MAX} {what} at most")));
        Ok(counts)
    }

    /// Numbers of elements along two axes.
    fn pair(&self, key: &str) -> Result<[i64; 2], Diagnostic> {
        match (self.config.get(key).is_some_and(Json::is_i64), self.size(key)) {
            (true, Ok(size)) => Ok([size, size]),
            _ => <[i64; 2]>::try_from(self.sizes(key)?)
                .map_err(|_| self.wrong(key, "it must be two numbers")),
        }
    }

    /// Height, width and channels of pictures, the first two of which may vary. Files do not say whether channels come
    /// last; they do so unless somebody set Keras to something else.
    fn image_shape(&self) -> Result<Vec<Json>, Diagnostic> {
        self.shape_of("image_shape")
    }

    fn shape_of(&self, key: &str) -> Result<Vec<Json>, Diagnostic> {
        let is_size = |json: &Json| json.as_i64().is_some_and(|n| (1..=SIZE_MAX).contains(&n));
        match self.config.get(key).and_then(Json::as_array).map(Vec::as_slice) {
            Some(shape @ [height, width, channels])
                if [height, width].iter().all(|n| n.is_null() || is_size(n))
                    && is_size(channels) =>
            {
                Ok(shape.to_vec())
            }
            _ => Err(self.wrong(key, "it must be height, width and a known number of channels")),
        }
    }

    fn word(&self, key: &str) -> Result<&str, Diagnostic> {
        let word = self.config.get(key).and_then(Json::as_str);
        word.ok_or_else(|| self.wrong(key, "it must be a word"))
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, Diagnostic> {
        match self.config.get(key) {
            None => Ok(default),
            Some(json) => json.as_f64().ok_or_else(|| self.wrong(key, "it must be a number")),
        }
    }

    /// A number, or nothing.
    fn optional(&self, key: &str) -> Result<Option<f64>, Diagnostic> {
        match self.config.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(_) => self.number(key, 0.0).map(Some),
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
fn made(class: &str, name: &str, config: Json, dtype: &Json) -> Result<KerasLayer, Diagnostic> {
    let mut config = if let Json::Object(config) = config { config } else { Map::new() };
    // Functions have no type of their own.
    if !class.starts_with("ops.") {
        config.insert("dtype".to_owned(), dtype.clone());
    }
    let (class, name) = (class.to_owned(), name.to_owned());
    with_parts(KerasLayer { class, name, config, ..KerasLayer::default() })
}

/// Layers that another one holds: the name that files have for each, its class, its own name and its configuration.
fn parts(list: Vec<(&str, &str, &str, Json)>, dtype: &Json) -> Result<NamedLayers, Diagnostic> {
    let part = |(key, class, name, config): (&str, &str, &str, Json)| {
        Ok((key.to_owned(), made(class, name, config, dtype)?))
    };
    list.into_iter().map(part).collect()
}

/// The configuration of a convolution without bias, by square windows.
fn conv([filters, kernel, stride]: [i64; 3], padding: &str) -> Json {
    json!({
        "filters": filters, "kernel_size": [kernel, kernel], "strides": [stride, stride], "padding": padding,
        "use_bias": false,
    })
}

/// The configuration of a pool by square windows.
fn pool([size, stride]: [i64; 2], padding: &str) -> Json {
    json!({ "pool_size": [size, size], "strides": [stride, stride], "padding": padding })
}

/// A list of layers with their calls that grows.
struct Graph {
    layers: Vec<KerasLayer>,
    /// How many layers there are of those that the family gives no names.
    unnamed: HashMap<String, usize>,
    /// The type of layers that have no other.
    dtype: Json,
}

impl Graph {
    fn new(settings: &Settings<'_>) -> Graph {
        Graph { layers: vec![], unnamed: HashMap::new(), dtype: settings.dtype() }
    }

    /// An input; `shape` is without the batch.
    fn input(&mut self, name: &str, dtype: &str, shape: &[Json]) -> Argument {
        let batch_shape = [&[Json::Null], shape].concat();
        let config = json!({ "batch_shape": batch_shape, "dtype": dtype });
        let config = if let Json::Object(config) = config { config } else { Map::new() };
        let (class, name) = ("InputLayer".to_owned(), name.to_owned());
        let place = place(&name);
        self.layers.push(KerasLayer { class, name, config, ..KerasLayer::default() });
        place
    }

    /// An input to which Keras gives a name.
    fn unnamed_input(&mut self, dtype: &str, shape: &[Json]) -> Argument {
        let place = self.input("input_layer", dtype, shape);
        self.layers.iter_mut().rev().take(1).for_each(|layer| layer.is_unnamed = true);
        place
    }

    /// A layer to which Keras gives a name: counted, in a session from its first model on.
    fn unnamed(&mut self, class: &str, name: &str, config: Json, x: Argument) -> ArgumentResult {
        let count = self.unnamed.entry(name.to_owned()).or_insert(0);
        let name = if *count == 0 { name.to_owned() } else { format!("{name}_{count}") };
        *count += 1;
        let place = self.add(class, &name, config, x)?;
        self.layers.iter_mut().rev().take(1).for_each(|layer| layer.is_unnamed = true);
        Ok(place)
    }

    /// A layer that is called on a single argument.
    fn add(&mut self, class: &str, name: &str, config: Json, x: Argument) -> ArgumentResult {
        self.call(class, name, config, LayerCall::of(x))
    }

    /// The sum of tensors.
    fn sum(&mut self, name: &str, terms: Vec<Argument>) -> ArgumentResult {
        self.add("Add", name, json!({}), Argument::List(terms))
    }

    /// A convolution without bias, by square windows.
    fn conv(
        &mut self,
        name: &str,
        [filters, kernel, stride]: [i64; 3],
        padding: &str,
        x: Argument,
    ) -> ArgumentResult {
        self.add("Conv2D", name, conv([filters, kernel, stride], padding), x)
    }

    /// A norm of channels.
    fn normed(&mut self, name: &str, epsilon: f64, x: Argument) -> ArgumentResult {
        self.add("BatchNormalization", name, json!({ "axis": -1, "epsilon": epsilon }), x)
    }

    fn activated(&mut self, name: &str, activation: &str, x: Argument) -> ArgumentResult {
        self.add("Activation", name, json!({ "activation": activation }), x)
    }

    /// Zeros around a picture.
    fn padded(&mut self, name: &str, pad: i64, x: Argument) -> ArgumentResult {
        self.add("ZeroPadding2D", name, json!({ "padding": [[pad, pad], [pad, pad]] }), x)
    }

    fn call(&mut self, class: &str, name: &str, config: Json, call: LayerCall) -> ArgumentResult {
        let mut layer = made(class, name, config, &self.dtype)?;
        layer.calls = vec![call];
        self.layers.push(layer);
        Ok(place(name))
    }

    /// A layer that has been called before.
    fn again(&mut self, name: &str, call: LayerCall) -> ArgumentResult {
        let layer = self.layers.iter_mut().rev().find(|layer| layer.name == name);
        let layer =
            layer.ok_or_else(|| damaged(format!("There is no layer `{}`.", shown(name))))?;
        layer.calls.push(call);
        let (layer, call) = (name.to_owned(), layer.calls.len() - 1);
        Ok(Argument::Place(CallOutput { layer, call, output: 0 }))
    }

    fn network(self, inputs: Argument, outputs: Argument) -> KerasNetwork {
        let (layers, counts_making) = (order::ordered(self.layers, &outputs), true);
        KerasNetwork { layers, inputs, outputs, counts_making, ..KerasNetwork::default() }
    }
}

/// The first output of the first call of a layer.
fn place(layer: &str) -> Argument {
    Argument::Place(CallOutput { layer: layer.to_owned(), call: 0, output: 0 })
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
