//! What a `config.json` describes: an architecture that knows its sizes and writes its graph.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::families;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::Graph;
use serde_json::{Map, Value};

/// What the class of a model ends with that continues a text.
const CAUSAL: [&str; 2] = ["ForCausalLM", "LMHeadModel"];

/// What a graph is written for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Version of the standard's operators.
    pub(crate) opset: i64,
    /// Whether the model is for ONNX Runtime GenAI, with the operators that it expects.
    pub(crate) is_genai: bool,
    /// Whether a decoder takes and gives keys and values of earlier calls.
    pub(crate) has_cache: bool,
    /// Tokens that a sequence may have, where the file says it.
    pub(crate) context: Option<usize>,
}

impl Target {
    /// The standard's operators of this version, with the cache.
    pub(crate) fn plain(opset: i64) -> Target {
        Target { opset, is_genai: false, has_cache: true, context: None }
    }
}

/// A model with its sizes, read from `config.json`.
pub(crate) trait Architecture {
    /// What names of weights may have in front, the longest first.
    fn prefixes(&self) -> &'static [&'static str];

    /// Writes the graph.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph>;

    /// What `genai_config.json` says of the model, if ONNX Runtime GenAI runs its kind.
    fn genai(&self, _config: &Config, _generation: &Map<String, Value>) -> Option<String> {
        None
    }

    /// Facts for the report, by names that `hf.` is put before.
    fn card(&self) -> Vec<(&'static str, String)>;
}

/// A kind of families, with how one of them reads `config.json`.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    /// Continues a text.
    Decoder(families::Family),
}

/// The family of a checkpoint.
pub(crate) fn family(config: &Config) -> Result<Family> {
    let kind = config.word("model_type")?;
    let kind = kind.ok_or_else(|| config.wrong("model_type", "the name of a family"))?;
    named(kind).ok_or_else(|| {
        config
            .unknown("model_type", "which is no family that is known; no code of the folder is run")
    })
}

fn named(kind: &str) -> Option<Family> {
    families::named(kind).map(Family::Decoder)
}

impl Family {
    /// The architecture that the fields of `config` describe.
    ///
    /// # Errors
    /// A field or a class of the model that is not known.
    pub(crate) fn describe(self, config: &Config) -> Result<Box<dyn Architecture>> {
        match self {
            Family::Decoder(describe) => {
                class(config, &CAUSAL, "which is no class that continues a text")?;
                Ok(Box::new(describe(config)?))
            }
        }
    }
}

/// The class of the model must have one of these endings, where the file names one.
fn class(config: &Config, ends: &[&str], why: &str) -> Result<()> {
    let classes = config.words("architectures")?.unwrap_or_default();
    match classes.first() {
        Some(class) if !ends.iter().any(|end| class.ends_with(end)) => {
            Err(config.unknown("architectures", why))
        }
        _ => Ok(()),
    }
}
