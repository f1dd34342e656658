//! Layers as the description of a model has them, and calls of them.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use serde_json::{Map, Value as Json};

/// What to do with code that is not in the file.
pub(crate) const EXPORT: &str =
    "Export the model with `model.export(\"folder\")`, or as TFLite, and convert that.";

/// What stands before the start, stop and step of a slice.
pub(crate) const SLICE: &str = "__slice__";

/// A layer, or a model inside of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct KerasLayer {
    /// The name of its row: the class, `ops.Add` for `keras.ops`, `tf.math.add` for functions of TensorFlow.
    pub(crate) class: String,
    pub(crate) name: String,
    pub(crate) config: Map<String, Json>,
    pub(crate) calls: Vec<LayerCall>,
    /// Its layers, if it is a model.
    pub(crate) network: Option<KerasNetwork>,
    /// Layers that it holds, by the names of the keys of `config`; a list counts on: `cells.0`.
    pub(crate) parts: NamedLayers,
    /// Why it cannot be converted, if its code is not part of Keras.
    pub(crate) foreign: Option<String>,
    /// Keras counts it through in a session: a file may have it by another name.
    pub(crate) is_unnamed: bool,
    /// Tensors of the file that are its weights, in the order in which Keras made them.
    pub(crate) weights: Vec<String>,
}

/// Layers by the names of what holds them in files.
pub(crate) type NamedLayers = Vec<(String, KerasLayer)>;

/// The layers of a model, and what goes in and comes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct KerasNetwork {
    pub(crate) layers: Vec<KerasLayer>,
    /// One layer after the other; then nothing else is said of calls.
    pub(crate) is_sequence: bool,
    pub(crate) inputs: Argument,
    pub(crate) outputs: Argument,
    /// The shape that a sequence was built for.
    pub(crate) built: Option<Json>,
    /// Whether Keras counts the making of the model as its first call: in version 2 everywhere, in version 3 only where
    /// outputs are listed.
    pub(crate) counts_making: bool,
}

/// An output of a call of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallOutput {
    pub(crate) layer: String,
    pub(crate) call: usize,
    pub(crate) output: usize,
}

/// An argument of a call, or the inputs or outputs of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Argument {
    Place(CallOutput),
    List(Vec<Argument>),
    /// Sorted by keys, as Keras has them.
    Dict(Vec<(String, Argument)>),
    /// A constant with its element type.
    Constant(Json, String),
    /// Numbers, words and the like.
    Plain(Json),
    #[default]
    Nothing,
}

/// A call of a layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LayerCall {
    pub(crate) positional: Vec<Argument>,
    pub(crate) named: Vec<(String, Argument)>,
}

impl KerasLayer {
    /// A layer that it holds.
    pub(crate) fn part(&self, key: &str) -> Option<&KerasLayer> {
        self.parts.iter().find(|(found, _)| found == key).map(|(_, part)| part)
    }

    /// Whether a setting is said to be true.
    pub(crate) fn is(&self, key: &str) -> bool {
        self.config.get(key).and_then(Json::as_bool) == Some(true)
    }

    /// A setting that is true unless it is said to be false.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.config.get(key).and_then(Json::as_bool) != Some(false)
    }

    pub(crate) fn int(&self, key: &str) -> Option<i64> {
        self.config.get(key)?.as_i64()
    }

    pub(crate) fn real(&self, key: &str) -> Option<f64> {
        self.config.get(key)?.as_f64()
    }

    pub(crate) fn word(&self, key: &str) -> Option<&str> {
        self.config.get(key)?.as_str()
    }
}

impl LayerCall {
    /// A call on one argument.
    pub(crate) fn of(x: Argument) -> LayerCall {
        LayerCall { positional: vec![x], named: vec![] }
    }

    /// The call with a further argument by its name.
    pub(crate) fn with(mut self, name: &str, argument: &Argument) -> LayerCall {
        self.named.push((name.to_owned(), argument.clone()));
        self
    }
}

impl Argument {
    /// All that is not a list or dict, in Keras' order.
    pub(crate) fn leaves<'a>(&'a self, to: &mut Vec<&'a Argument>) {
        match self {
            Argument::List(items) => items.iter().for_each(|item| item.leaves(to)),
            Argument::Dict(items) => items.iter().for_each(|(_, item)| item.leaves(to)),
            leaf => to.push(leaf),
        }
    }
}

/// The finding for a description that does not hold together.
pub(crate) fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what)
}
