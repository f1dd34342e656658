//! Llama, from which the others differ.

use crate::config::Config;
use crate::config::rope::{self, rope};
use crate::decoder::{
    Attention, Decoder, DecoderLayer, Embedding, Fused, HeadNorm, Logits, Mixer, Mlp, MlpKind,
    Names, Norm, NormKind, Order,
};
use crate::diag::Diagnostic;
use crate::layers::Activation;

/// Heads, and elements of a head. Tables of angles and slopes have so many elements.
pub(crate) const HEADS_MAX: usize = 1 << 16;

/// How a family calls its sizes.
#[derive(Clone, Copy)]
pub struct Keys {
    /// Elements of the vector of a token.
    pub hidden: &'static str,
    /// Heads of queries.
    pub heads: &'static str,
    /// Heads of keys and values.
    pub kv_heads: &'static str,
    /// Layers.
    pub layers: &'static str,
    /// Elements inside the MLP.
    pub inner: &'static str,
}

/// What a family's `config.json` is read with.
#[derive(Clone, Copy)]
pub struct Base {
    /// Fields of sizes.
    pub keys: Keys,
    /// Names of weights.
    pub names: Names,
    /// The kind of its norms.
    pub norm: NormKind,
    /// Field and default of the epsilon of norms.
    pub epsilon: (&'static str, f64),
    /// Fields of the activation, of which the first that is there counts, and the default.
    pub activation: (&'static [&'static str], &'static str),
    /// The kind of its MLP.
    pub mlp: MlpKind,
    /// How heads turn; `None` where they do not.
    pub rope: Option<rope::Defaults>,
    /// Key heads where the file does not say; as many as heads if that does not say either.
    pub kv_heads: Option<usize>,
    /// Elements of a head where the file does not say.
    pub head: Option<usize>,
    /// Whether words give the logits where the file does not say.
    pub is_tied: bool,
    /// Whether the MLP is four times as wide as the rest, where the file does not say.
    pub is_inner_fourfold: bool,
}

/// The rotation of Llama.
pub const ROPE: rope::Defaults = rope::Defaults { theta: 10000.0, share: 1.0, interleaved: false };

/// The names of weights in Llama.
pub const NAMES: Names = Names {
    prefixes: &["model."],
    embedding: "embed_tokens",
    positions: "",
    embedding_norm: "",
    layers: "layers",
    norm: "input_layernorm",
    mlp_norm: "post_attention_layernorm",
    after_attention: "post_attention_layernorm",
    after_mlp: "post_feedforward_layernorm",
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    qkv: "self_attn.qkv_proj",
    o: "self_attn.o_proj",
    q_norm: "self_attn.q_norm",
    k_norm: "self_attn.k_norm",
    sinks: "self_attn.sinks",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    gate_up: "mlp.gate_up_proj",
    down: "mlp.down_proj",
    final_norm: "norm",
    lm_head: "lm_head",
};

/// What Llama is read with.
pub const LLAMA: Base = Base {
    keys: Keys {
        hidden: "hidden_size",
        heads: "num_attention_heads",
        kv_heads: "num_key_value_heads",
        layers: "num_hidden_layers",
        inner: "intermediate_size",
    },
    names: NAMES,
    norm: NormKind::Rms,
    epsilon: ("rms_norm_eps", 1e-6),
    activation: (&["hidden_act"], "silu"),
    mlp: MlpKind::Gated,
    rope: Some(ROPE),
    kv_heads: None,
    head: None,
    is_tied: false,
    is_inner_fourfold: false,
};

/// Attention without anything that families add to it.
pub const ATTENTION: Attention = Attention {
    fused: Fused::Apart,
    scale: 1.0,
    by_layer: false,
    head_norm: HeadNorm::None,
    norm_after_turn: false,
    is_causal: true,
    cap: None,
    clip: None,
    alibi: 0.0,
    has_sinks: false,
    latent: None,
};

/// Switches of biases: these are used wherever the checkpoint has them.
const BIASES: [&str; 8] = [
    "attention_bias", "attention_out_bias", "bias", "enable_bias", "mlp_bias", "qkv_bias",
    "use_bias", "use_qkv_bias",
];

/// The decoder that `config.json` describes, as one of Llama's kind with these defaults.
pub fn decoder(c: &Config, base: &Base) -> Result<Decoder, Diagnostic> {
    let keys = &base.keys;
    c.pass_over(&BIASES);
    let (hidden, heads) = (c.size(keys.hidden)?, c.size(keys.heads)?);
    let default =
        base.kv_heads.filter(|n| !c.has(keys.kv_heads) && heads % n == 0).unwrap_or(heads);
    let kv_heads = c.optional_size(keys.kv_heads)?.unwrap_or(default);
    if heads % kv_heads != 0 {
        return Err(c.wrong(keys.kv_heads, &format!("a divisor of the {heads} heads")));
    }
    let default = base.head.filter(|_| !c.has("head_dim"));
    let head = c.optional_size("head_dim")?.or(default).unwrap_or(hidden / heads);
    check_heads(c, [(keys.heads, heads), ("head_dim", head)])?;
    let count = c.layers(keys.layers)?;
    let inner = match c.optional_size(keys.inner)? {
        None if base.is_inner_fourfold => 4 * hidden,
        Some(inner) => inner,
        None => c.size(keys.inner)?,
    };
    let ropes = base.rope.map(|defaults| rope(c, head, defaults)).transpose()?;
    let layer = DecoderLayer {
        window: None,
        rope: ropes.as_ref().map(|_| 0),
        has_experts: false,
        mixer: Mixer::Attention,
    };
    let epsilon = if base.epsilon.0.is_empty() {
        base.epsilon.1
    } else {
        c.number(base.epsilon.0, base.epsilon.1)?
    };
    Ok(Decoder {
        names: base.names,
        vocabulary: c.size("vocab_size")?,
        hidden,
        heads,
        kv_heads,
        head,
        value: head,
        norm: Norm { kind: base.norm, epsilon, plus_one: false },
        order: Order::Before,
        embedding: Embedding { scale: 1.0, positions: None, has_norm: false },
        attention: Attention { scale: (head as f64).powf(-0.5), ..ATTENTION },
        ropes: ropes.into_iter().collect(),
        mlp: Mlp {
            kind: base.mlp,
            activation: activation(c, base)?,
            inner,
            experts: None,
            beside_experts: false,
        },
        state: None,
        layers: vec![layer; count],
        residual: 1.0,
        head_of_words: Logits {
            is_tied: c.flag("tie_word_embeddings", base.is_tied)?,
            scale: 1.0,
            cap: None,
            without_norm: false,
        },
        inputs_first: false,
    })
}

/// Refuses numbers of heads, and of elements of one, that no decoder has.
fn check_heads(c: &Config, sizes: [(&str, usize); 2]) -> Result<(), Diagnostic> {
    match sizes.iter().find(|(_, size)| !(1..=HEADS_MAX).contains(size)) {
        Some((key, _)) => {
            let must = format!("such that heads, and elements of one, are 1 to {HEADS_MAX}");
            Err(c.wrong(key, &must))
        }
        None => Ok(()),
    }
}

fn activation(c: &Config, base: &Base) -> Result<Activation, Diagnostic> {
    let (keys, default) = base.activation;
    let mut found = None;
    for key in keys {
        let word = c.word(key)?;
        found = found.or(word.map(|word| (*key, word)));
    }
    let (key, word) = found.unwrap_or(("", default));
    Activation::named(word).ok_or_else(|| c.unknown(key, "which is no activation that is known"))
}

/// A window that the family sets where the file does not speak of it; a null there is none.
pub fn window(c: &Config, default: Option<usize>) -> Result<Option<usize>, Diagnostic> {
    match c.has("sliding_window") {
        true => c.optional_size("sliding_window"),
        false => Ok(default),
    }
}

/// Gives layers a window: those that `layer_types` says, else those that `is_near` says. Which ones these are.
pub fn set_windows(
    c: &Config,
    d: &mut Decoder,
    window: Option<usize>,
    is_near: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, Diagnostic> {
    let kinds = c.words("layer_types")?;
    if let Some(kinds) = &kinds {
        if kinds.len() != d.layers.len() {
            let must = format!("a list of {} words, one for each layer", d.layers.len());
            return Err(c.wrong("layer_types", &must));
        }
        if !kinds.iter().all(|kind| matches!(*kind, "sliding_attention" | "full_attention")) {
            return Err(c.unknown("layer_types", "and not all of these kinds are known"));
        }
    }
    let near: Vec<bool> = match kinds {
        Some(kinds) => kinds.iter().map(|kind| *kind == "sliding_attention").collect(),
        None => (0..d.layers.len()).map(is_near).collect(),
    };
    for (layer, near) in d.layers.iter_mut().zip(&near) {
        layer.window = window.filter(|_| *near);
    }
    Ok(near)
}
