//! What a `config.json` describes: an architecture that knows its sizes and writes its graph.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::{families, seq2seq};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::Graph;

/// What the class of a model ends with that continues a text.
const CAUSAL: [&str; 2] = ["ForCausalLM", "LMHeadModel"];

/// What the class of a model ends with that writes a sequence by one that it reads.
const GENERATING: [&str; 3] = ["ForConditionalGeneration", "WithLMHeadModel", "MarianMTModel"];

/// A model with its sizes, read from `config.json`.
pub(crate) trait Architecture {
    /// What names of weights may have in front, the longest first.
    fn prefixes(&self) -> &'static [&'static str];

    /// Name of the model's file without its ending, where there are several.
    fn file(&self) -> &'static str {
        ""
    }

    /// Writes the graph for version `opset` of the standard's operators.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape.
    fn graph(&self, weights: &Checkpoint, opset: i64) -> Result<Graph>;

    /// Writes the graphs of further models, by the names of their files.
    ///
    /// # Errors
    /// As [`Architecture::graph`].
    fn further(&self, _weights: &Checkpoint, _opset: i64) -> Result<Vec<(&'static str, Graph)>> {
        Ok(vec![])
    }

    /// Facts for the report, by names that `hf.` is put before.
    fn card(&self) -> Vec<(&'static str, String)>;
}

/// A kind of families, with how one of them reads `config.json`.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    /// Continues a text.
    Decoder(families::Family),
    /// Writes a text by what it reads or hears.
    EncoderDecoder(seq2seq::Family),
}

/// The family of a checkpoint, where the form of the weights is known.
pub(crate) fn family(config: &Config) -> Result<Family> {
    if let Some(quantization) = config.section("quantization_config")? {
        return Err(quantization
            .unknown("quant_method", "and weights that come quantized are not read yet"));
    }
    let kind = config.word("model_type")?;
    let kind = kind.ok_or_else(|| config.wrong("model_type", "the name of a family"))?;
    named(kind).ok_or_else(|| {
        config
            .unknown("model_type", "which is no family that is known; no code of the folder is run")
    })
}

fn named(kind: &str) -> Option<Family> {
    let decoder = families::named(kind).map(Family::Decoder);
    decoder.or_else(|| seq2seq::named(kind).map(Family::EncoderDecoder))
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
            Family::EncoderDecoder(describe) => {
                class(config, &GENERATING, "which is no class that writes a text by another")?;
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
