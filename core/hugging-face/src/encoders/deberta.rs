//! DeBERTa: scores have products with vectors of how far tokens are from each other.

use super::base::{self, BERT, Base, NAMES, dense};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::places::Places;
use crate::encoder::{
    Conv, Encoder, Fused, Head, Names, Positions, Products, Projection, Relative, Tasks, Vectors,
};

const NAMES_V1: Names = Names {
    prefixes: &["deberta."],
    projection: "embeddings.embed_proj",
    qkv: "attention.self.in_proj",
    ..NAMES
};

const V1: Base = Base {
    names: NAMES_V1,
    vocabulary: 50265,
    types: Some(0),
    epsilon: ("layer_norm_eps", 1e-7),
    ..BERT
};

const V2: Base = Base {
    names: Names {
        q: "attention.self.query_proj",
        k: "attention.self.key_proj",
        v: "attention.self.value_proj",
        ..NAMES_V1
    },
    hidden: ("hidden_size", 1536),
    heads: ("num_attention_heads", 24),
    layers: ("num_hidden_layers", 24),
    inner: ("intermediate_size", 6144),
    vocabulary: 128100,
    ..V1
};

const TABLE: &str = "encoder.rel_embeddings";

pub(super) fn v1(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = described(c, &V1)?;
    c.only("talking_head", false)?;
    e.attention.fused =
        Fused::Grouped { biases: ["attention.self.q_bias", "attention.self.v_bias"] };
    let (keys, queries) = ("attention.self.pos_proj", "attention.self.pos_q_proj");
    let vectors = Vectors::Projected { table: TABLE, norm: None, keys, queries };
    if let Some(reach) = reach(c)? {
        relative(c, &mut e, (2 * reach, Places::each(reach), vectors))?;
    }
    Ok(e)
}

pub(super) fn v2(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = described(c, &V2)?;
    if let Some(head) = c.optional_size("attention_head_size")? {
        e.attention.scale *= (e.head as f64 / head as f64).sqrt();
        e.head = head;
    }
    let norms = c.word("norm_rel_ebd")?.unwrap_or("none").to_lowercase();
    let norms: Vec<&str> = norms.split('|').map(str::trim).collect();
    if !norms.iter().all(|norm| matches!(*norm, "none" | "layer_norm")) {
        return Err(c.unknown("norm_rel_ebd", "which is no norm that is known"));
    }
    let norm = norms.contains(&"layer_norm").then_some("encoder.LayerNorm");
    let (keys, queries) = match c.flag("share_att_key", false)? {
        true => (V2.names.k, V2.names.q),
        false => ("attention.self.pos_key_proj", "attention.self.pos_query_proj"),
    };
    let vectors = Vectors::Projected { table: TABLE, norm, keys, queries };
    let buckets = positive(c, "position_buckets")?;
    match (reach(c)?, buckets) {
        (Some(reach), None) => relative(c, &mut e, (2 * reach, Places::each(reach), vectors))?,
        // Logarithms grow from half of the buckets up to the reach.
        (Some(reach), Some(buckets)) if reach < buckets / 2 + 2 || buckets < 2 => {
            return Err(
                c.unknown("position_buckets", "and the reach is not farther than half of them")
            );
        }
        (Some(reach), Some(buckets)) => {
            let places = Places::logarithms(buckets, reach);
            relative(c, &mut e, (2 * buckets, places, vectors))?;
        }
        (None, _) => {}
    }
    e.conv = convolution(c, &e)?;
    Ok(e)
}

/// What both versions have.
fn described(c: &Config, base: &Base) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, base)?;
    if !c.flag("position_biased_input", true)? {
        e.embedding.positions = Positions::None;
    }
    e.embedding.is_masked = true;
    e.embedding.size = base::size(c, ("embedding_size", e.hidden))?;
    if e.embedding.size != e.hidden {
        e.embedding.projection = Projection::BeforeNorm;
    }
    let kinds = kinds(c)?.len();
    e.attention.scale = ((e.head * (1 + kinds)) as f64).powf(-0.5);
    let pooler = base::activation(c, ("pooler_hidden_act", "gelu"))?;
    if c.optional_size("pooler_hidden_size")?.is_some_and(|size| size != e.hidden) {
        return Err(c.wrong("pooler_hidden_size", &format!("{}, as `hidden_size`", e.hidden)));
    }
    let sequence = dense("pooler.dense", pooler, "classifier");
    e.tasks = Tasks { pooler: None, sequence, ..e.tasks };
    if !c.flag("legacy", true)? {
        let transform = Some(("lm_predictions.lm_head.dense", e.mlp.activation));
        let norm = Some("lm_predictions.lm_head.LayerNorm");
        let words = Head { dense: transform, norm, out: "" };
        e.tasks.words = (words, "lm_predictions.lm_head.bias");
        e.tasks.is_tied = true;
    }
    Ok(e)
}

/// Which products scores have: `c2p` those of queries, `p2c` those of keys.
fn kinds(c: &Config) -> Result<Vec<String>, Diagnostic> {
    let words = match c.get("pos_att_type") {
        Some(value) if value.is_array() => c.words("pos_att_type")?.unwrap_or_default(),
        Some(_) => c.word("pos_att_type")?.unwrap_or_default().split('|').collect(),
        None => vec![],
    };
    let mut kinds: Vec<String> = words.iter().map(|kind| kind.trim().to_lowercase()).collect();
    kinds.retain(|kind| !kind.is_empty());
    let is_known = |kind: &String| matches!(kind.as_str(), "c2p" | "p2c");
    match kinds.iter().all(is_known) {
        true => Ok(kinds),
        false => Err(c.unknown("pos_att_type", "and not all of these kinds are known")),
    }
}

/// A number that counts if it is above zero.
fn positive(c: &Config, key: &str) -> Result<Option<usize>, Diagnostic> {
    match c.optional_number(key)? {
        Some(number) if number > 0.0 => c.optional_size(key),
        _ => Ok(None),
    }
}

/// How far tokens may be from each other, where this counts.
fn reach(c: &Config) -> Result<Option<usize>, Diagnostic> {
    let is_used = c.flag("relative_attention", false)?;
    let key = match positive(c, "max_relative_positions")? {
        Some(_) => "max_relative_positions",
        None => "max_position_embeddings",
    };
    let reach = base::rows(c, (key, 512))?;
    Ok(Some(reach).filter(|_| is_used))
}

fn relative(
    c: &Config,
    e: &mut Encoder,
    (rows, places, vectors): (usize, Places, Vectors),
) -> Result<(), Diagnostic> {
    let kinds = kinds(c)?;
    let [of_queries, of_keys] = ["c2p", "p2c"].map(|kind| kinds.iter().any(|known| known == kind));
    if of_queries || of_keys {
        let scale = e.attention.scale;
        let products = Products { rows, places, vectors, scale, of_queries, of_keys };
        e.attention.relative = Relative::Products(products);
    }
    Ok(())
}

fn convolution(c: &Config, e: &Encoder) -> Result<Option<Conv>, Diagnostic> {
    let Some(taps) = positive(c, "conv_kernel_size")? else {
        c.pass_over(&["conv_groups", "conv_act"]);
        return Ok(None);
    };
    let groups = base::size(c, ("conv_groups", 1))?;
    if !e.hidden.is_multiple_of(groups) {
        return Err(c.wrong("conv_groups", &format!("a divisor of {}", e.hidden)));
    }
    if taps.is_multiple_of(2) {
        return Err(c.wrong("conv_kernel_size", "odd, as the result is as long as the text"));
    }
    let activation = base::activation(c, ("conv_act", "tanh"))?;
    let (name, norm) = ("encoder.conv.conv", "encoder.conv.LayerNorm");
    Ok(Some(Conv { name, norm, taps, groups, activation }))
}
