//! BART, and what mBART, Marian and Pegasus do otherwise.

use super::{TABLE_MAX, activation, begin, projections};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::problem::over_limit;
use crate::seq2seq::{
    AttentionNames, Embedding, EncoderDecoder, Head, Norm, Positions, Source, Stack,
};

const OWN: AttentionNames = projections(
    "self_attn_layer_norm",
    ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"],
);
const CROSS: AttentionNames = projections(
    "encoder_attn_layer_norm",
    ["encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj", "encoder_attn.out_proj"],
);

/// Heads, and elements of one.
const HEADS_MAX: usize = 1 << 16;

/// How families differ.
struct Kind {
    /// Whether norms come before branches, and one behind each stack.
    is_norm_first: bool,
    has_embedding_norm: bool,
    /// The row of the first position; `None` where positions are sines and cosines.
    first: Option<usize>,
}

/// The first two rows of the table are of no position.
const FIRST: Option<usize> = Some(2);

pub(super) fn bart(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    described(c, &Kind { is_norm_first: false, has_embedding_norm: true, first: FIRST })
}

pub(super) fn mbart(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    described(c, &Kind { is_norm_first: true, has_embedding_norm: true, first: FIRST })
}

pub(super) fn pegasus(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    c.pass_over(&["extra_pos_embeddings"]);
    described(c, &Kind { is_norm_first: true, has_embedding_norm: false, first: None })
}

/// The decoder may have words of its own.
pub(super) fn marian(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    c.pass_over(&["extra_pos_embeddings"]);
    let mut d =
        described(c, &Kind { is_norm_first: false, has_embedding_norm: false, first: None })?;
    let words = c.optional_size("decoder_vocab_size")?;
    if !c.flag("share_encoder_decoder_embeddings", true)? {
        d.embedding.shared = None;
        d.words = words.unwrap_or(d.words);
    }
    Ok(d)
}

fn described(c: &Config, kind: &Kind) -> Result<EncoderDecoder, Diagnostic> {
    begin(c)?;
    // Older files say what the family does anyway.
    c.only("normalize_before", kind.is_norm_first)?;
    c.only("add_final_layer_norm", kind.is_norm_first)?;
    c.only("normalize_embedding", kind.has_embedding_norm)?;
    c.only("static_position_embeddings", kind.first.is_none())?;
    c.only("add_bias_logits", false)?;
    c.only("do_blenderbot_90_layernorm", false)?;
    if kind.first.is_some() && c.optional_size("extra_pos_embeddings")?.is_some_and(|n| n != 2) {
        return Err(c.unknown("extra_pos_embeddings", "where 2 rows are known"));
    }
    let hidden = c.size("d_model")?;
    let rows = c.optional_size("max_position_embeddings")?.unwrap_or(1024);
    if kind.first.is_none() && rows.saturating_mul(hidden) > TABLE_MAX {
        let message = format!("a table of {rows} positions, of {TABLE_MAX} elements at most");
        return Err(over_limit(message));
    }
    let first = kind.first.unwrap_or(0);
    let positions =
        Positions::Table { rows: rows + first, first, is_sinusoidal: kind.first.is_none() };
    let scale = if c.flag("scale_embedding", false)? { (hidden as f64).sqrt() } else { 1.0 };
    let norm = kind.has_embedding_norm.then_some("layernorm_embedding");
    Ok(EncoderDecoder {
        embedding: Embedding { shared: Some("shared"), scale, norm },
        ..base(c, positions, kind.is_norm_first)?
    })
}

/// What the fields say that all families of this kind have: stacks for words, with a table of words each.
pub(super) fn base(
    c: &Config,
    positions: Positions,
    is_norm_first: bool,
) -> Result<EncoderDecoder, Diagnostic> {
    let final_norm = is_norm_first.then_some("layer_norm");
    let side = Side { positions, final_norm };
    let (encoder, decoder) = (stack(c, "encoder", &side)?, stack(c, "decoder", &side)?);
    let (hidden, words) = (c.size("d_model")?, c.size("vocab_size")?);
    let size = head(c, "encoder_attention_heads", hidden, encoder.heads)?;
    if head(c, "decoder_attention_heads", hidden, decoder.heads)? != size {
        let why = "which is not supported beside another `encoder_attention_heads`";
        return Err(c.unknown("decoder_attention_heads", why));
    }
    let word = c.word("activation_function")?.unwrap_or("gelu");
    let is_tied = c.flag("tie_word_embeddings", true)?;
    Ok(EncoderDecoder {
        prefixes: &["model."],
        hidden,
        head: size,
        scale: (size as f64).powf(-0.5),
        encoder,
        decoder: Stack { cross: Some(CROSS), ..decoder },
        source: Source::Words(words),
        words,
        embedding: Embedding { shared: None, scale: 1.0, norm: None },
        norm: Norm { is_rms: false, epsilon: 1e-5, is_first: is_norm_first },
        activation: activation(c, "activation_function", word)?,
        logits_scale: 1.0,
        lm_head: "lm_head",
        whose_head: if is_tied { Head::OfWords } else { Head::Own },
    })
}

/// Elements of each head, where `key` says how many there are.
fn head(c: &Config, key: &str, hidden: usize, heads: usize) -> Result<usize, Diagnostic> {
    if heads > HEADS_MAX || !hidden.is_multiple_of(heads) || hidden / heads > HEADS_MAX {
        return Err(c.wrong(key, &format!("a divisor of `d_model`, which is {hidden}")));
    }
    Ok(hidden / heads)
}

/// What a stack has beside its sizes.
struct Side {
    positions: Positions,
    final_norm: Option<&'static str>,
}

/// The sizes of a stack by its name.
fn stack(c: &Config, name: &'static str, side: &Side) -> Result<Stack, Diagnostic> {
    let key = |what: &str| format!("{name}_{what}");
    Ok(Stack {
        name,
        list: "layers",
        layers: c.layers(&key("layers"))?,
        heads: c.size(&key("attention_heads"))?,
        inner: c.size(&key("ffn_dim"))?,
        attention: OWN,
        cross: None,
        mlp_norm: "final_layer_norm",
        gate: None,
        up: "fc1",
        down: "fc2",
        positions: side.positions,
        final_norm: side.final_norm,
    })
}
