//! The graph of an encoder.

use super::attention::{Shared, bias};
use super::embedding::{Tokens, embedding};
use super::head::outputs;
use super::layer::{convolution, layer};
use super::relative::{Distances, biases};
use super::weights::Net;
use super::{Encoder, EncoderLayer, TASKS};
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::decoder::rotary::Turn;
use crate::diag;
use crate::layers;
use crate::sentence::{self, Sentence};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, ValueType};

impl Architecture for Encoder {
    fn prefixes(&self) -> &'static [&'static str] {
        self.names.prefixes
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

    fn card(&self) -> Vec<(&'static str, String)> {
        let task =
            TASKS.iter().find(|(task, ..)| *task == self.task).map_or("", |(_, name, _)| name);
        vec![
            ("task", task.to_owned()),
            ("layers", self.layers.len().to_string()),
            ("hidden_size", self.hidden.to_string()),
            ("heads", self.heads.to_string()),
            ("head_size", self.head.to_string()),
            ("vocabulary", self.vocabulary.to_string()),
        ]
    }
}

impl Encoder {
    fn written(
        &self,
        w: &Checkpoint,
        target: &Target,
        sentence: Option<&Sentence>,
    ) -> Result<Graph> {
        layers::graph(w, target.opset, |layers| {
            write(&Net { layers, e: self, held: Default::default() }, sentence)
        })
    }
}

/// A matrix of whole numbers for each token.
fn input(b: &GraphBuilder, name: &str) -> Var {
    let dims = ["batch_size", "sequence_length"].map(|name| Dim::Symbol(name.into()));
    b.input(name, ValueType::tensor(DataType::Int64, dims))
}

fn write(net: &Net<'_>, sentence: Option<&Sentence>) -> Result<()> {
    let (b, e) = (net.b, net.e);
    let (ids, mask) = (input(b, "input_ids"), input(b, "attention_mask"));
    let types = (e.embedding.types > 1).then(|| input(b, "token_type_ids"));
    let tokens = Tokens::new(net, ids, mask, types)?;
    let embeddings = embedding(net, &tokens)?;
    let shared = shared(net, &tokens)?;
    let mut x = embeddings;
    for (number, described) in e.layers.iter().enumerate() {
        let name = diag::Layer::new(format!("layer.{number}"), "encoder layer");
        x = b.in_layer(name, |_| layer(net, &shared, x, described))?;
        if let Some(conv) = e.conv.as_ref().filter(|_| number == 0) {
            x = convolution(net, &tokens, [x, embeddings], conv)?;
        }
    }
    if !e.names.final_norm.is_empty() {
        x = net.norm(x, e.names.final_norm, e.hidden)?;
    }
    if sentence.is_some() {
        return sentence::output(b, [x, mask], (sentence, e.hidden));
    }
    let outputs = outputs(net, &tokens, x)?;
    outputs.into_iter().try_for_each(|(name, output)| b.output(output, name))
}

/// Masks, rotations and distances, once for all layers.
fn shared(net: &Net<'_>, tokens: &Tokens) -> Result<Shared> {
    let (b, e) = (net.b, net.e);
    let far = biases(net, tokens)?;
    let mut all: Vec<(Option<usize>, Var)> = vec![];
    for EncoderLayer { reach, .. } in &e.layers {
        if !all.iter().any(|(known, _)| known == reach) {
            let bias = bias(b, tokens, *reach)?;
            all.push((*reach, far.map_or(Ok(bias), |far| b.add(bias, far))?));
        }
    }
    let places = match e.attention.ropes.is_empty() {
        true => tokens.places,
        false => b.expand(tokens.places, b.shape(tokens.ids).one()?)?,
    };
    let turns =
        e.attention.ropes.iter().map(|rope| Turn::new(b, rope, places)).collect::<Result<_>>()?;
    Ok(Shared { turns, biases: all, distances: Distances::new(net, tokens)? })
}
