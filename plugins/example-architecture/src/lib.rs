//! What a third-party author starts from to add an architecture of checkpoints: how its `config.json` and its weights
//! are called, and what it does otherwise than Llama.

use onnxd_hugging_face::family::{
    Base, Config, Decoder, Decoders, HeadNorm, Keys, LLAMA, NAMES, Names, Result, decoder,
};

/// Fields of `config.json` and names of weights; all else is as in Llama.
const PLUME: Base = Base {
    keys: Keys {
        hidden: "dim",
        heads: "n_heads",
        kv_heads: "n_kv_heads",
        layers: "n_layers",
        inner: "ffn_dim",
    },
    names: Names {
        prefixes: &["plume."],
        embedding: "tokens",
        layers: "blocks",
        norm: "attn_norm",
        mlp_norm: "ffn_norm",
        q: "attn.wq",
        k: "attn.wk",
        v: "attn.wv",
        o: "attn.wo",
        q_norm: "attn.q_norm",
        k_norm: "attn.k_norm",
        gate: "ffn.w1",
        up: "ffn.w3",
        down: "ffn.w2",
        final_norm: "norm_f",
        lm_head: "head",
        ..NAMES
    },
    epsilon: ("norm_eps", 1e-5),
    ..LLAMA
};

/// Plume: queries and keys may have a norm, and logits a bound.
fn plume(c: &Config) -> Result<Decoder> {
    let mut d = decoder(c, &PLUME)?;
    if c.flag("use_qk_norm", false)? {
        d.attention.head_norm = HeadNorm::Shared;
    }
    d.head_of_words.cap = c.optional_number("logit_cap")?;
    Ok(d)
}

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.example-architecture",
    summary: "An example: an architecture of checkpoints",
    components: [
        frontend("plume", "Plume checkpoints"; "config.json"; declares ["is_source = true\n"]
            => || Box::new(Decoders(&[("plume", plume)]))),
    ],
}
