//! ALBERT: small embeddings, and layers that share weights.

use super::base::{self, BERT, Base, NAMES, kind_of_positions};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{
    Encoder, EncoderLayer, Head, Names, Pretraining, Projection, Relative, Tasks,
};
use crate::layers::Activation;
use crate::problem::over_limit;

/// Layers in all.
const LAYERS_MAX: usize = 4096;

const ALBERT: Base = Base {
    names: Names {
        prefixes: &["albert."],
        projection: "encoder.embedding_hidden_mapping_in",
        q: "attention.query",
        k: "attention.key",
        v: "attention.value",
        o: "attention.dense",
        attention_norm: "attention.LayerNorm",
        up: "ffn",
        down: "ffn_output",
        mlp_norm: "full_layer_layer_norm",
        ..NAMES
    },
    hidden: ("hidden_size", 4096),
    heads: ("num_attention_heads", 64),
    inner: ("intermediate_size", 16384),
    vocabulary: 30000,
    activation: ("hidden_act", "gelu_new"),
    ..BERT
};

pub(super) fn albert(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, &ALBERT)?;
    kind_of_positions(c, &mut e, "attention.distance_embedding")?;
    // Other families scale these products, too.
    if let Relative::Products(products) = &mut e.attention.relative {
        products.scale = 1.0;
    }
    e.embedding.size = base::size(c, ("embedding_size", 128))?;
    e.embedding.projection = Projection::AfterNorm;
    e.layers = layers(c, &e)?;
    let words = Head {
        dense: Some(("predictions.dense", e.mlp.activation)),
        norm: Some("predictions.LayerNorm"),
        out: "predictions.decoder",
    };
    let (linear, output) = ("sop_classifier.classifier", "sop_logits");
    e.tasks = Tasks {
        pooler: Some(("pooler", Activation::Tanh)),
        words: (words, "predictions.bias"),
        pretraining: Pretraining::Words { linear, output, are_next: false },
        ..e.tasks
    };
    Ok(e)
}

/// Layers are in so many groups, and each is as many as its group has.
fn layers(c: &Config, e: &Encoder) -> Result<Vec<EncoderLayer>, Diagnostic> {
    let count = e.layers.len();
    let groups = base::size(c, ("num_hidden_groups", 1))?;
    let inner = base::size(c, ("inner_group_num", 1))?;
    if groups > count || !count.is_multiple_of(groups) {
        return Err(c.wrong("num_hidden_groups", &format!("a divisor of the {count} layers")));
    }
    if inner > LAYERS_MAX / count {
        let message =
            format!("`inner_group_num` is {inner}, of {LAYERS_MAX} layers in all at most");
        return Err(over_limit(message));
    }
    let named = |(number, layer): (usize, &EncoderLayer)| {
        let group = number / (count / groups);
        let prefix = move |i| format!("encoder.albert_layer_groups.{group}.albert_layers.{i}.");
        let layer = layer.clone();
        (0..inner).map(move |i| EncoderLayer { prefix: prefix(i), ..layer.clone() })
    };
    Ok(e.layers.iter().enumerate().flat_map(named).collect())
}
