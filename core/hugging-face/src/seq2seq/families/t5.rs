//! T5 and mT5: no biases, norms by the root of the mean square before branches, scores that are not scaled and change
//! by how far keys are.

use super::{activation, begin, projections};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::seq2seq::positions::checked;
use crate::seq2seq::{AttentionNames, Embedding, EncoderDecoder, Head, Norm, Source, Stack};

const OWN: AttentionNames = projections(
    "layer.0.layer_norm",
    [
        "layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v",
        "layer.0.SelfAttention.o",
    ],
);
const CROSS: AttentionNames = projections(
    "layer.1.layer_norm",
    [
        "layer.1.EncDecAttention.q", "layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v",
        "layer.1.EncDecAttention.o",
    ],
);

/// Names of an MLP: its norm, the gate, up and down, and up where there is no gate.
struct MlpNames {
    norm: &'static str,
    gated: [&'static str; 2],
    up: &'static str,
    down: &'static str,
}

const SECOND: MlpNames = MlpNames {
    norm: "layer.1.layer_norm",
    gated: ["layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"],
    up: "layer.1.DenseReluDense.wi",
    down: "layer.1.DenseReluDense.wo",
};
const THIRD: MlpNames = MlpNames {
    norm: "layer.2.layer_norm",
    gated: ["layer.2.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_1"],
    up: "layer.2.DenseReluDense.wi",
    down: "layer.2.DenseReluDense.wo",
};

/// What families do where the file does not say.
struct Kind {
    forward: &'static str,
    is_tied: bool,
    /// Whether version 5 of Transformers scales logits.
    may_scale: bool,
}

pub(super) fn t5(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    described(c, &Kind { forward: "relu", is_tied: true, may_scale: true })
}

pub(super) fn mt5(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    described(c, &Kind { forward: "gated-gelu", is_tied: false, may_scale: false })
}

fn described(c: &Config, kind: &Kind) -> Result<EncoderDecoder, Diagnostic> {
    begin(c)?;
    let hidden = c.optional_size("d_model")?.unwrap_or(512);
    let layers = c.layers("num_layers")?;
    let later = c.optional_size("num_decoder_layers")?.map(|_| c.layers("num_decoder_layers"));
    let later = later.transpose()?.unwrap_or(layers);
    let heads = c.size("num_heads")?;
    let head = c.optional_size("d_kv")?.unwrap_or(64);
    if heads.saturating_mul(head) > 1 << 24 {
        return Err(c.wrong("num_heads", "a number of heads"));
    }
    let buckets = c.optional_size("relative_attention_num_buckets")?.unwrap_or(32);
    let furthest = c.optional_size("relative_attention_max_distance")?.unwrap_or(128);
    let wrong = |must: &str| c.wrong("relative_attention_num_buckets", must);
    let positions = checked(buckets, furthest, wrong)?;
    let words = c.size("vocab_size")?;
    let (is_gated, word, key) = forward_of(c, kind.forward)?;
    let inner = c.size("d_ff")?;
    let stack = |name, layers, mlp: MlpNames| Stack {
        name,
        list: "block",
        layers,
        heads,
        inner,
        attention: OWN,
        cross: None,
        mlp_norm: mlp.norm,
        gate: is_gated.then_some(mlp.gated[0]),
        up: if is_gated { mlp.gated[1] } else { mlp.up },
        down: mlp.down,
        positions,
        final_norm: Some("final_layer_norm"),
    };
    let (is_scaled, whose_head) = logits_of(c, kind)?;
    Ok(EncoderDecoder {
        prefixes: &[],
        hidden,
        head,
        scale: 1.0,
        encoder: stack("encoder", layers, SECOND),
        decoder: Stack { cross: Some(CROSS), ..stack("decoder", later, THIRD) },
        source: Source::Words(words),
        words,
        embedding: Embedding { shared: Some("shared"), scale: 1.0, norm: None },
        norm: Norm {
            is_rms: true,
            epsilon: c.above_zero("layer_norm_epsilon", 1e-6)?,
            is_first: true,
        },
        activation: activation(c, key, &word)?,
        logits_scale: if is_scaled { (hidden as f64).powf(-0.5) } else { 1.0 },
        lm_head: "lm_head",
        whose_head,
    })
}

/// Whether MLPs have a gate, the activation, and the field that says it. `gated-gelu` is the kind by a tangent.
fn forward_of(c: &Config, default: &str) -> Result<(bool, String, &'static str), Diagnostic> {
    let forward = c.word("feed_forward_proj")?.unwrap_or(default);
    let (is_gated, word) = match forward.split_once('-') {
        Some(("gated", "gelu")) => (true, "gelu_new"),
        Some(("gated", word)) => (true, word),
        Some(_) => return Err(c.unknown("feed_forward_proj", "which is no kind that is known")),
        None => (false, forward),
    };
    // What Transformers wrote besides wins there, too.
    let is_gated = c.flag("is_gated_act", is_gated)?;
    let own = c.word("dense_act_fn")?;
    let key = if own.is_some() { "dense_act_fn" } else { "feed_forward_proj" };
    Ok((is_gated, own.unwrap_or(word).to_owned(), key))
}

/// Whether logits are scaled, and what gives them. Transformers 4 scales those of a table of words. Version 5 calls all
/// tables tied, and takes a layer of its own where the file has one. Of T5 it says apart whether logits are scaled, and
/// those of mT5 never are.
fn logits_of(c: &Config, kind: &Kind) -> Result<(bool, Head), Diagnostic> {
    let is_tied = c.flag("tie_word_embeddings", kind.is_tied)?;
    let is_fifth = c.word("transformers_version")?.is_some_and(|version| version.starts_with("5."));
    if c.has("scale_decoder_outputs") {
        return Ok((c.flag("scale_decoder_outputs", is_tied)?, Head::OwnIfThere));
    }
    if is_fifth {
        return Ok((is_tied && kind.may_scale, Head::OwnIfThere));
    }
    Ok((is_tied, if is_tied { Head::OfWords } else { Head::Own }))
}
