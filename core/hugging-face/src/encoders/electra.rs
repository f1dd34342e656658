//! ELECTRA: small embeddings, and a discriminator of words that a generator made.

use super::base::{self, BERT, Base, NAMES, dense, kind_of_positions};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Head, Names, Pretraining, Projection, Tasks};
use crate::layers::Activation;

const ELECTRA: Base = Base {
    names: Names { prefixes: &["electra."], projection: "embeddings_project", ..NAMES },
    hidden: ("hidden_size", 256),
    heads: ("num_attention_heads", 4),
    inner: ("intermediate_size", 1024),
    ..BERT
};

pub(super) fn electra(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, &ELECTRA)?;
    kind_of_positions(c, &mut e, "attention.self.distance_embedding")?;
    e.embedding.size = base::size(c, ("embedding_size", 128))?;
    if e.embedding.size != e.hidden {
        e.embedding.projection = Projection::AfterNorm;
    }
    let discriminator = "discriminator_predictions.dense";
    let prediction = "discriminator_predictions.dense_prediction";
    let discriminator = dense(discriminator, e.mlp.activation, prediction);
    let words = Head {
        dense: Some(("generator_predictions.dense", Activation::Gelu)),
        norm: Some("generator_predictions.LayerNorm"),
        out: "generator_lm_head",
    };
    e.tasks = Tasks {
        pooler: None,
        words: (words, "generator_lm_head.bias"),
        sequence: dense("classifier.dense", Activation::Gelu, "classifier.out_proj"),
        pretraining: Pretraining::Discriminator(discriminator),
        ..e.tasks
    };
    Ok(e)
}
