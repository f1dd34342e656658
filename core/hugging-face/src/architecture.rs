//! What a `config.json` describes: an architecture that knows its sizes and writes its graph.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::sentence::Sentence;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::Graph;
use serde_json::{Map, Value};

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

    /// Name of the model's file without its ending, where there are several.
    fn file(&self) -> &'static str {
        ""
    }

    /// Writes the graph.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph>;

    /// Whether a decoder is part of it, which may take and give a cache.
    fn has_decoder(&self) -> bool {
        false
    }

    /// What `genai_config.json` says of the model.
    ///
    /// # Errors
    /// That ONNX Runtime GenAI does not run such a model.
    fn genai(&self, config: &Config, _generation: &Map<String, Value>) -> Result<String> {
        Err(not_of_genai(config))
    }

    /// The same with the steps of sentence-transformers behind it.
    ///
    /// # Errors
    /// As before, and that the architecture has no such graph.
    fn sentences(&self, _: &Checkpoint, _: &Target, _: &Sentence) -> Result<Graph> {
        Err(crate::sentence::not_of_texts())
    }

    /// Writes the graphs of further models, by the names of their files.
    ///
    /// # Errors
    /// As [`Architecture::graph`].
    fn further(
        &self,
        _weights: &Checkpoint,
        _target: &Target,
    ) -> Result<Vec<(&'static str, Graph)>> {
        Ok(vec![])
    }

    /// Facts for the report, by names that `hf.` is put before.
    fn card(&self) -> Vec<(&'static str, String)>;
}

/// ONNX Runtime GenAI runs no model of this family.
pub(crate) fn not_of_genai(config: &Config) -> Diagnostic {
    let why = config.unknown("model_type", "of which ONNX Runtime GenAI runs no model");
    why.help("Leave `export.runtime` out.")
}
