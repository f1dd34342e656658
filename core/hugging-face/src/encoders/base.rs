//! BERT, from which the others differ.

use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::places::Places;
use crate::encoder::{
    Attention, Embedding, Encoder, EncoderLayer, Fused, Head, Mlp, Names, Order, Positions,
    Pretraining, Products, Projection, Relative, Task, Tasks, Vectors,
};
use crate::layers::Activation;

/// Heads, elements of one, and distances that have a row of their own: tables have so many elements.
pub(super) const ROWS_MAX: usize = 1 << 20;

/// Fields that change nothing in what an encoder computes, beside those of decoders.
const INERT: [&str; 33] = [
    "chunk_size_feed_forward", "classifier_dropout_prob", "cls_dropout", "cls_token_id",
    "deterministic_flash_attn", "directionality", "down_scale_factor", "gap_size",
    "hidden_dropout_prob", "initializer_cutoff_factor", "mask_token_id", "mlp_dropout",
    "net_structure_type", "num_memory_blocks", "output_past", "pooler_dropout", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "problem_type", "qa_dropout", "reference_compile", "repad_logits_with_grad",
    "seq_classif_dropout", "sinusoidal_pos_embds", "sparse_pred_ignore_index", "sparse_prediction",
    "summary_last_dropout", "tie_weights_", "torchscript", "use_bfloat16",
];

/// A field of `config.json`, and what holds where it is absent.
pub(super) type Size = (&'static str, usize);

/// What a family's `config.json` is read with.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub(super) names: Names,
    pub(super) hidden: Size,
    pub(super) heads: Size,
    pub(super) layers: Size,
    pub(super) inner: Size,
    pub(super) vocabulary: usize,
    /// Token types where the file does not say; `None` where the family has none.
    pub(super) types: Option<usize>,
    pub(super) epsilon: (&'static str, f64),
    pub(super) activation: (&'static str, &'static str),
}

pub(super) const NAMES: Names = Names {
    prefixes: &["bert."],
    words: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    types: "embeddings.token_type_embeddings",
    embedding_norm: "embeddings.LayerNorm",
    projection: "",
    q: "attention.self.query",
    k: "attention.self.key",
    v: "attention.self.value",
    qkv: "",
    o: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    mlp_norm: "output.LayerNorm",
    final_norm: "",
};

pub(super) const BERT: Base = Base {
    names: NAMES,
    hidden: ("hidden_size", 768),
    heads: ("num_attention_heads", 12),
    layers: ("num_hidden_layers", 12),
    inner: ("intermediate_size", 3072),
    vocabulary: 30522,
    types: Some(2),
    epsilon: ("layer_norm_eps", 1e-12),
    activation: ("hidden_act", "gelu"),
};

/// A head without a dense layer.
pub(super) const fn linear(out: &'static str) -> Head {
    Head { dense: None, norm: None, out }
}

/// A head with a dense layer.
pub(super) const fn dense(name: &'static str, activation: Activation, out: &'static str) -> Head {
    Head { dense: Some((name, activation)), norm: None, out }
}

/// Heads of BERT, whose words go through this activation.
pub(super) fn tasks(activation: Activation) -> Tasks {
    let transform = Some(("cls.predictions.transform.dense", activation));
    let norm = Some("cls.predictions.transform.LayerNorm");
    let words = Head { dense: transform, norm, out: "cls.predictions.decoder" };
    Tasks {
        pooler: Some(("pooler.dense", Activation::Tanh)),
        words: (words, "cls.predictions.bias"),
        is_tied: true,
        sequence: linear("classifier"),
        tokens: linear("classifier"),
        spans: linear("qa_outputs"),
        pretraining: Pretraining::None,
        is_mean: false,
        labels: 2,
    }
}

pub(super) fn size(c: &Config, (key, default): Size) -> Result<usize, Diagnostic> {
    Ok(c.optional_size(key)?.unwrap_or(default))
}

/// The activation that a field names.
pub(super) fn activation(
    c: &Config,
    (key, default): (&str, &str),
) -> Result<Activation, Diagnostic> {
    let word = c.word(key)?.unwrap_or(default);
    Activation::named(word).ok_or_else(|| c.unknown(key, "which is no activation that is known"))
}

/// The encoder that `config.json` describes, as one of BERT's kind with these defaults.
pub(super) fn encoder(c: &Config, base: &Base) -> Result<Encoder, Diagnostic> {
    c.pass_over(&INERT);
    c.only("is_decoder", false)?;
    c.only("add_cross_attention", false)?;
    let [hidden, heads, inner] =
        [size(c, base.hidden)?, size(c, base.heads)?, size(c, base.inner)?];
    if hidden % heads != 0 || heads > ROWS_MAX || hidden / heads > ROWS_MAX {
        return Err(
            c.wrong(base.heads.0, &format!("a divisor of the {hidden} elements of a token"))
        );
    }
    let count = if c.has(base.layers.0) { c.layers(base.layers.0)? } else { base.layers.1 };
    let activation = activation(c, base.activation)?;
    let types = match base.types {
        Some(default) if c.get("type_vocab_size").is_none_or(|size| size != 0) => {
            size(c, ("type_vocab_size", default))?
        }
        _ => 0,
    };
    let layer = |number: usize| EncoderLayer {
        prefix: format!("encoder.layer.{number}."),
        reach: None,
        rope: None,
        has_attention_norm: true,
    };
    let head = hidden / heads;
    let (key, epsilon) = base.epsilon;
    let rows = size(c, ("max_position_embeddings", 512))?;
    Ok(Encoder {
        names: base.names,
        vocabulary: size(c, ("vocab_size", base.vocabulary))?,
        hidden,
        heads,
        head,
        epsilon: if key.is_empty() { epsilon } else { c.number(key, epsilon)? },
        order: Order::After,
        embedding: Embedding {
            size: hidden,
            positions: Positions::Places { rows },
            types,
            projection: Projection::None,
            has_norm: true,
            is_masked: false,
        },
        attention: Attention {
            fused: Fused::Apart,
            scale: (head as f64).powf(-0.5),
            relative: Relative::None,
            ropes: vec![],
        },
        mlp: Mlp { is_gated: false, activation, inner },
        layers: (0..count).map(layer).collect(),
        conv: None,
        task: Task::Features,
        tasks: Tasks { is_tied: c.flag("tie_word_embeddings", true)?, ..tasks(activation) },
    })
}

/// `position_embedding_type`: rows of a table, or vectors for distances, which are in `table` of each layer.
pub(super) fn kind_of_positions(
    c: &Config,
    e: &mut Encoder,
    table: &'static str,
) -> Result<(), Diagnostic> {
    let of_keys = match c.word("position_embedding_type")?.unwrap_or("absolute") {
        "absolute" => return Ok(()),
        "relative_key" => false,
        "relative_key_query" => true,
        _ => return Err(c.unknown("position_embedding_type", "which is no kind that is known")),
    };
    let rows = rows(c, ("max_position_embeddings", 512))?;
    e.embedding.positions = Positions::None;
    e.attention.relative = Relative::Products(Products {
        rows: 2 * rows - 1,
        places: Places::between(rows),
        vectors: Vectors::OfLayer { table },
        scale: e.attention.scale,
        of_queries: true,
        of_keys,
    });
    Ok(())
}

/// A number of distances.
pub(super) fn rows(c: &Config, key: Size) -> Result<usize, Diagnostic> {
    let rows = size(c, key)?;
    let must = format!("at most {ROWS_MAX} where distances have rows of their own");
    if rows <= ROWS_MAX { Ok(rows) } else { Err(c.wrong(key.0, &must)) }
}
