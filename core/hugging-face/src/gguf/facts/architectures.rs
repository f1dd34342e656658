//! Architectures by `general.architecture`: the family that each is, and what its metadata are in `config.json`.

use super::Facts;
use crate::diag::Diagnostic;

/// How a family calls its sizes; empty where it has none.
#[derive(Clone, Copy)]
pub(in crate::gguf) struct Sizes {
    pub(in crate::gguf) hidden: &'static str,
    pub(in crate::gguf) heads: &'static str,
    pub(in crate::gguf) kv_heads: &'static str,
    pub(in crate::gguf) layers: &'static str,
    pub(in crate::gguf) inner: &'static str,
    pub(in crate::gguf) context: &'static str,
}

/// What a family does with windows that metadata speak of.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::gguf) enum Windows {
    /// It has none: other than 0 is refused.
    None,
    /// The layers that the family says, or that the metadata say; none where these say no window.
    Some,
    /// The same, with the family's own window where the metadata say none.
    Default,
    /// The same, and the metadata must say it.
    Needed,
    /// All layers, where the metadata speak of a window at all.
    Mistral,
}

pub(in crate::gguf) struct Architecture {
    pub(in crate::gguf) name: &'static str,
    pub(in crate::gguf) model_type: &'static str,
    pub(in crate::gguf) sizes: Sizes,
    /// The field of the epsilon of norms.
    pub(in crate::gguf) epsilon: &'static str,
    /// Whether heads turn.
    pub(in crate::gguf) turns: bool,
    pub(in crate::gguf) windows: Windows,
    /// Further keys, below the name, and their fields.
    pub(in crate::gguf) keys: &'static [(&'static str, &'static str)],
    /// Fields that the architecture fixes.
    pub(in crate::gguf) fixed: &'static str,
    /// What else is to be said.
    pub(in crate::gguf) more: fn(&mut Facts<'_>) -> Result<(), Diagnostic>,
    /// Whether rows of queries and keys lie such that neighbours turn, and those of the family half a head apart.
    pub(in crate::gguf) is_permuted: bool,
    /// Names of parts of the model and of a layer that others call otherwise.
    pub(in crate::gguf) model: &'static [(&'static str, &'static str)],
    pub(in crate::gguf) layer: &'static [(&'static str, &'static str)],
}

const SIZES: Sizes = Sizes {
    hidden: "hidden_size",
    heads: "num_attention_heads",
    kv_heads: "num_key_value_heads",
    layers: "num_hidden_layers",
    inner: "intermediate_size",
    context: "max_position_embeddings",
};

const GPT2_SIZES: Sizes = Sizes {
    hidden: "n_embd",
    heads: "n_head",
    kv_heads: "",
    layers: "n_layer",
    inner: "n_inner",
    context: "n_positions",
};

/// Rotation by halves, rows as those of the family, no windows.
const PLAIN: Architecture = Architecture {
    name: "",
    model_type: "",
    sizes: SIZES,
    epsilon: "rms_norm_eps",
    turns: true,
    windows: Windows::None,
    keys: &[],
    fixed: "{}",
    more: |_| Ok(()),
    is_permuted: false,
    model: &[],
    layer: &[],
};

const LLAMA: Architecture =
    Architecture { name: "llama", model_type: "llama", is_permuted: true, ..PLAIN };

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    model_type: "gemma2",
    windows: Windows::Default,
    keys: &[
        ("attn_logit_softcapping", "attn_logit_softcapping"),
        ("final_logit_softcapping", "final_logit_softcapping"),
    ],
    more: |facts| facts.gemma(46),
    ..PLAIN
};

const GRANITE: Architecture = Architecture {
    name: "granite",
    model_type: "granite",
    keys: &[
        ("embedding_scale", "embedding_multiplier"),
        ("attention.scale", "attention_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ],
    ..LLAMA
};

/// The norm of attention, where it is one of two.
pub(in crate::gguf) const FALCON: &[(&str, &str)] = &[("attn_norm_2", "ln_attn")];

/// Where the norm before the MLP is called after what is before it.
const POST_ATTENTION: &[(&str, &str)] = &[("post_attention_norm", "post_attention_layernorm")];

const ARCHITECTURES: &[Architecture] = &[
    Architecture { windows: Windows::Mistral, more: |facts| facts.mixtral(), ..LLAMA },
    Architecture { name: "arcee", model_type: "arcee", ..LLAMA },
    Architecture {
        name: "smollm3",
        model_type: "smollm3",
        fixed: r#"{"no_rope_layer_interval": 4}"#,
        ..LLAMA
    },
    GRANITE,
    Architecture {
        name: "granitemoe",
        model_type: "granitemoe",
        more: |facts| facts.experts(),
        ..GRANITE
    },
    Architecture {
        name: "olmo",
        model_type: "olmo",
        epsilon: "",
        keys: &[("attention.clamp_kqv", "clip_qkv")],
        ..LLAMA
    },
    Architecture { name: "qwen2", model_type: "qwen2", ..PLAIN },
    Architecture { name: "qwen3", model_type: "qwen3", ..PLAIN },
    Architecture {
        name: "qwen2moe",
        model_type: "qwen2_moe",
        keys: &[("expert_shared_feed_forward_length", "shared_expert_intermediate_size")],
        more: |facts| facts.qwen_experts(false),
        ..PLAIN
    },
    Architecture {
        name: "qwen3moe",
        model_type: "qwen3_moe",
        more: |facts| facts.qwen_experts(true),
        ..PLAIN
    },
    Architecture { name: "seed_oss", model_type: "seed_oss", layer: POST_ATTENTION, ..PLAIN },
    Architecture { name: "gemma", model_type: "gemma", ..PLAIN },
    GEMMA2,
    Architecture {
        name: "gemma3",
        model_type: "gemma3_text",
        windows: Windows::Some,
        keys: &[
            ("final_logit_softcapping", "final_logit_softcapping"),
            ("rope.freq_base_swa", "rope_local_base_freq"),
        ],
        more: |facts| facts.gemma(62),
        ..GEMMA2
    },
    Architecture { name: "phi3", model_type: "phi3", windows: Windows::Some, ..PLAIN },
    Architecture { name: "phi2", model_type: "phi", epsilon: "layer_norm_eps", ..PLAIN },
    Architecture {
        name: "starcoder2",
        model_type: "starcoder2",
        epsilon: "norm_epsilon",
        windows: Windows::Some,
        ..PLAIN
    },
    Architecture {
        name: "stablelm",
        model_type: "stablelm",
        epsilon: "layer_norm_eps",
        keys: &[("use_parallel_residual", "use_parallel_residual")],
        more: |facts| facts.says("qk_layernorm", "blk.0.attn_q_norm.weight"),
        ..PLAIN
    },
    Architecture {
        name: "gpt2",
        model_type: "gpt2",
        sizes: GPT2_SIZES,
        epsilon: "layer_norm_epsilon",
        turns: false,
        ..PLAIN
    },
    Architecture {
        name: "starcoder",
        model_type: "gpt_bigcode",
        sizes: GPT2_SIZES,
        epsilon: "layer_norm_epsilon",
        turns: false,
        more: |facts| facts.shared_key(),
        ..PLAIN
    },
    Architecture {
        name: "gptneox",
        model_type: "gpt_neox",
        sizes: Sizes { kv_heads: "", ..SIZES },
        epsilon: "layer_norm_eps",
        keys: &[("use_parallel_residual", "use_parallel_residual")],
        ..PLAIN
    },
    Architecture {
        name: "bloom",
        model_type: "bloom",
        sizes: Sizes { kv_heads: "", ..SIZES },
        epsilon: "layer_norm_epsilon",
        turns: false,
        ..PLAIN
    },
    Architecture {
        name: "mpt",
        model_type: "mpt",
        sizes: Sizes {
            hidden: "d_model",
            heads: "n_heads",
            kv_heads: "",
            layers: "n_layers",
            inner: "",
            context: "max_seq_len",
        },
        epsilon: "layer_norm_epsilon",
        turns: false,
        more: |facts| facts.mpt(),
        ..PLAIN
    },
    Architecture {
        name: "falcon",
        model_type: "falcon",
        sizes: Sizes { kv_heads: "num_kv_heads", inner: "ffn_hidden_size", ..SIZES },
        epsilon: "layer_norm_epsilon",
        more: |facts| facts.falcon(),
        layer: FALCON,
        ..PLAIN
    },
    Architecture { name: "olmo2", model_type: "olmo2", ..PLAIN },
    Architecture { name: "olmoe", model_type: "olmoe", more: |facts| facts.olmoe(), ..PLAIN },
    Architecture { name: "nemotron", model_type: "nemotron", epsilon: "norm_eps", ..PLAIN },
    Architecture {
        name: "command-r",
        model_type: "cohere",
        epsilon: "layer_norm_eps",
        keys: &[("logit_scale", "logit_scale")],
        more: |facts| facts.says("use_qk_norm", "blk.0.attn_q_norm.weight"),
        ..PLAIN
    },
    Architecture {
        name: "cohere2",
        model_type: "cohere2",
        epsilon: "layer_norm_eps",
        windows: Windows::Needed,
        keys: &[("logit_scale", "logit_scale")],
        ..PLAIN
    },
    Architecture { name: "glm4", model_type: "glm4", ..PLAIN },
    Architecture { name: "exaone4", model_type: "exaone4", windows: Windows::Some, ..PLAIN },
    Architecture { name: "ernie4_5", model_type: "ernie4_5", ..PLAIN },
    Architecture { name: "hunyuan-dense", model_type: "hunyuan_v1_dense", ..PLAIN },
    Architecture {
        name: "gpt-oss",
        model_type: "gpt_oss",
        windows: Windows::Needed,
        more: |facts| facts.gpt_oss(),
        layer: POST_ATTENTION,
        ..PLAIN
    },
    Architecture {
        name: "lfm2",
        model_type: "lfm2",
        epsilon: "norm_eps",
        fixed: r#"{"block_auto_adjust_ff_dim": false}"#,
        more: |facts| facts.lfm2(),
        model: &[("token_embd_norm", "embedding_norm")],
        ..PLAIN
    },
];

/// The architecture of this name.
pub(in crate::gguf) fn named(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|known| known.name == name)
}

#[cfg(test)]
pub(in crate::gguf) fn all() -> impl Iterator<Item = &'static Architecture> {
    ARCHITECTURES.iter()
}

#[cfg(test)]
mod tests {
    use super::ARCHITECTURES;
    use onnxd_plugin_sdk::ir::BlockFormat;

    /// Types of elements that weights have without blocks: `F32`, `F16`, `BF16`.
    const PLAIN_TYPES: usize = 3;

    #[test]
    fn the_changelog_counts_architectures_and_types() {
        let changelog = include_str!("../../../../../CHANGELOG.md");
        let (architectures, types) =
            (ARCHITECTURES.len(), PLAIN_TYPES + BlockFormat::all().count());
        let told = format!("{architectures} architectures and {types} types of weights");
        assert!(changelog.contains(&told), "{told}");
    }
}
