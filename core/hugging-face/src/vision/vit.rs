//! ViT, and DeiT with its second token.

use super::Pictures;
use super::encoder::{Distances, Pool, VisionTransformer};
use super::patches::{Patches, Positions};
use crate::architecture::Architecture;
use crate::config::Config;
use crate::fields;
use crate::layers::Activation;
use crate::transformer::{Mlp, Names, Order, Stack};
use onnxd_plugin_sdk::build::Result;

pub(super) const NAMES: Names = Names {
    layers: "encoder.layer",
    norm: "layernorm_before",
    mlp_norm: "layernorm_after",
    attention: [
        "attention.attention.query", "attention.attention.key", "attention.attention.value",
        "attention.output.dense",
    ],
    up: "intermediate.dense",
    down: "output.dense",
    scales: ["lambda_1", "lambda_2"],
};

/// What a class of ViT and DeiT gives.
#[derive(Clone, Copy)]
enum Class {
    Base,
    Labels,
    /// Labels by two tokens.
    Teachers,
}

pub(super) fn vit(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("ViTModel", Class::Base), ("ViTForImageClassification", Class::Labels)];
    let class = fields::class(c, &known)?;
    Ok(Box::new(with_head(c, described(c, &["vit."], 16)?, class)?))
}

pub(super) fn deit(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [
        ("DeiTModel", Class::Base),
        ("DeiTForImageClassification", Class::Labels),
        ("DeiTForImageClassificationWithTeacher", Class::Teachers),
    ];
    let class = fields::class(c, &known)?;
    let mut d = described(c, &["deit."], 16)?;
    d.patches.tokens = &["embeddings.cls_token", "embeddings.distillation_token"];
    Ok(Box::new(with_head(c, d, class)?))
}

fn with_head(c: &Config, d: VisionTransformer, class: Class) -> Result<VisionTransformer> {
    let size = fields::size(c, "pooler_output_size", d.stack.hidden)?;
    let pool = match class {
        Class::Base => Pool::Dense("pooler.dense", size),
        Class::Labels => Pool::First,
        Class::Teachers => Pool::Teachers,
    };
    if matches!(class, Class::Base) && c.word("pooler_act")?.is_some_and(|word| word != "tanh") {
        return Err(c.unknown("pooler_act", "and only `tanh` is known"));
    }
    c.pass_over(&["pooler_act"]);
    let labels = match class {
        Class::Base => None,
        Class::Labels | Class::Teachers => Some(fields::labels(c)?),
    };
    Ok(VisionTransformer { pool, labels, ..d })
}

/// A ViT that gives the first token, by the fields that its relatives have, too.
pub(super) fn described(
    c: &Config,
    prefixes: &'static [&'static str],
    patch: usize,
) -> Result<VisionTransformer> {
    // Biases are used wherever the checkpoint has them.
    fields::pass_over(c, &["qkv_bias"]);
    let hidden = fields::size(c, "hidden_size", 768)?;
    let heads = fields::size(c, "num_attention_heads", 12)?;
    fields::check_heads(c, "num_attention_heads", [hidden, heads])?;
    let patches = Patches {
        pictures: Pictures::sized(c, 224)?,
        patch: fields::pair(c, "patch_size", patch)?,
        hidden,
        name: "embeddings.patch_embeddings.projection",
        tokens: &["embeddings.cls_token"],
        positions: ("embeddings.position_embeddings", Positions::Listed),
    };
    patches.check(c)?;
    let stack = Stack {
        names: NAMES,
        count: fields::layers(c, 12)?,
        hidden,
        heads,
        inner: fields::size(c, "intermediate_size", 3072)?,
        epsilon: c.number("layer_norm_eps", 1e-12)?,
        activation: fields::activation(c, "hidden_act", Activation::Gelu)?,
        order: Order::Before,
        mlp: Mlp::Plain,
        has_scales: false,
    };
    Ok(VisionTransformer {
        prefixes,
        patches,
        registers: None,
        stack,
        distances: Distances::None,
        norm: Some("layernorm"),
        pool: Pool::First,
        labels: None,
    })
}
