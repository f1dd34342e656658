//! The hidden states of a decoder without its cache and its scores of words, for vectors of texts.

use super::Decoder;
use super::graph::{embedding, layer_of, shared, without_cache};
use super::weights::Net;
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag;
use crate::layers;
use crate::problem::unsupported;
use crate::sentence::{self, Sentence};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueType};
use serde_json::{Map, Value};

/// A decoder that is asked for its hidden states.
pub(crate) struct States(pub(crate) Decoder);

impl Architecture for States {
    fn prefixes(&self) -> &'static [&'static str] {
        self.0.prefixes()
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        self.written(weights, target, None)
    }

    fn sentences(
        &self,
        weights: &Checkpoint,
        target: &Target,
        sentence: &Sentence,
    ) -> Result<Graph> {
        self.written(weights, target, Some(sentence))
    }

    fn genai(&self, _: &Config, _: &Map<String, Value>) -> Result<String> {
        let why = "ONNX Runtime GenAI runs no model that gives hidden states alone";
        Err(unsupported(why)
            .help("Leave `export.runtime` out, or `source.task` and `modules.json`."))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let facts = self.0.card().into_iter().filter(|(key, _)| *key != "cache_bytes_per_token");
        [("task", "feature-extraction".to_owned())].into_iter().chain(facts).collect()
    }
}

impl States {
    fn written(
        &self,
        weights: &Checkpoint,
        target: &Target,
        sentence: Option<&Sentence>,
    ) -> Result<Graph> {
        layers::graph(weights, target.opset, |layers| {
            write(&Net { layers, d: &self.0, target }, sentence)
        })
    }
}

fn write(net: &Net<'_>, sentence: Option<&Sentence>) -> Result<()> {
    let (b, d) = (net.b, net.d);
    let dims = ["batch_size", "sequence_length"].map(|name| Dim::Symbol(name.into()));
    let input = |name| b.input(name, ValueType::tensor(DataType::Int64, dims.clone()));
    let (ids, mask) = (input("input_ids"), input("attention_mask"));
    let mut all = shared(net, ids, mask)?;
    if !d.attention.is_causal {
        for (window, bias) in &mut all.biases {
            *bias = all.tokens.both(b, *window)?;
        }
    }
    let (mut x, _) = embedding(net, ids, &all.tokens)?;
    for (number, layer) in d.layers.iter().enumerate() {
        let name = format!("{}.{number}", d.names.layers);
        let prefix = format!("{name}.");
        let name = diag::Layer::new(name, "decoder layer");
        let past = without_cache(net, ids, layer)?;
        (x, _) = b.in_layer(name, |_| layer_of(net, &all, x, (number, layer, &prefix, &past)))?;
    }
    if !d.head_of_words.without_norm {
        x = net.norm(x, d.names.final_norm, d.hidden)?;
    }
    sentence::output(b, [x, mask], (sentence, d.hidden))
}

#[cfg(test)]
mod tests;
