//! Models with a tower for texts and one for pictures, whose embeddings are compared: families by `model_type`, a file
//! each. Classes of one tower alone are read, too.

mod clip;
mod picture;
mod siglip;
mod text;

use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::fields;
use crate::layers::graph;
use crate::layers::{Activation, Layers};
use crate::transformer::{Mlp, Names, Order, Stack, project};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Graph;
use picture::Picture;
use text::Text;

pub(crate) type Family = crate::vision::Family;

/// Families by `model_type`.
const FAMILIES: &[(&str, Family)] = &[
    ("clip", clip::clip),
    ("clip_text_model", clip::text_model),
    ("clip_vision_model", clip::vision_model),
    ("siglip", siglip::siglip),
    ("siglip_text_model", siglip::text_model),
    ("siglip_vision_model", siglip::vision_model),
];

pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
}

/// What a class of a model gives.
#[derive(Clone, Debug)]
enum Task {
    /// How near texts and pictures are to each other.
    Compare(Box<(Text, Picture)>, Likeness),
    /// Of texts `last_hidden_state`, and `pooler_output` or its projection.
    Text(Text, Projection),
    /// The same of pictures.
    Picture(Picture, Projection),
    /// So many labels of pictures.
    Labels(Picture, usize),
}

/// The layer that gives embeddings: its name, and how many elements they have.
type Projection = Option<(&'static str, usize)>;

/// How embeddings of both become logits.
#[derive(Clone, Copy, Debug)]
struct Likeness {
    /// Layers of texts and of pictures that give embeddings; what is pooled is one where there is none.
    projections: [Projection; 2],
    /// Axes of the number that multiplies the product, and of the one that is added where there is one.
    scale: &'static [usize],
    bias: Option<&'static [usize]>,
}

/// What a tower gives: tokens [B, T, E], and one vector for all where it has one: [B, E].
#[derive(Clone, Copy)]
struct Given {
    tokens: Var,
    pooled: Option<Var>,
}

impl Architecture for Task {
    /// Transformers 4 and 5 call weights of a single tower by names with and without it.
    fn prefixes(&self) -> &'static [&'static str] {
        match self {
            Task::Compare(..) => &[],
            Task::Text(..) => &["text_model."],
            Task::Picture(..) | Task::Labels(..) => &["vision_model."],
        }
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let (text, picture) = match self {
            Task::Compare(both, _) => (Some(&both.0), Some(&both.1)),
            Task::Text(text, _) => (Some(text), None),
            Task::Picture(picture, _) | Task::Labels(picture, _) => (None, Some(picture)),
        };
        let text = text.map(|text| {
            let facts = ["text_layers", "text_hidden_size", "vocabulary", "text_positions"];
            let stack = &text.stack;
            facts.into_iter().zip([stack.count, stack.hidden, text.vocabulary, text.positions])
        });
        let told = text.into_iter().flatten().map(|(fact, n)| (fact, n.to_string()));
        let picture = picture.map(|picture| {
            let stack = &picture.stack;
            let facts = [("vision_layers", stack.count), ("vision_hidden_size", stack.hidden)];
            let told = facts.map(|(fact, n)| (fact, n.to_string()));
            told.into_iter().chain([picture.patches.pictures.card()])
        });
        told.chain(picture.into_iter().flatten()).collect()
    }
}

impl Task {
    fn write(&self, net: &Layers<'_>) -> Result<()> {
        net.w.pass_over(&[".position_ids"]);
        match self {
            Task::Compare(both, likeness) => {
                let (text, picture) = &**both;
                // Inputs in the order of Transformers.
                let ids = text.ids(net, "text_batch_size");
                let pictures = picture.patches.pictures.input(net.b, "image_batch_size");
                let texts = text.write(net, "text_batch_size", ids)?;
                likeness.write(net, [(texts, text.stack.hidden), picture.pooled(net, pictures)?])
            }
            Task::Text(text, projection) => {
                let ids = text.ids(net, "batch_size");
                let given = text.write(net, "batch_size", ids)?;
                outputs(net, given, *projection, ("text_embeds", text.stack.hidden))
            }
            Task::Picture(picture, projection) => {
                let pictures = picture.patches.pictures.input(net.b, "batch_size");
                let given = picture.write(net, pictures)?;
                outputs(net, given, *projection, ("image_embeds", picture.stack.hidden))
            }
            Task::Labels(picture, labels) => {
                let pictures = picture.patches.pictures.input(net.b, "batch_size");
                let patches = picture.patches_alone(net, pictures)?;
                let mean = net.b.reduce_mean(patches).axes(vec![1]).keepdims(0).one()?;
                let logits = project(net, mean, "classifier", [picture.stack.hidden, *labels])?;
                net.b.output(logits, "logits")
            }
        }
    }
}

/// Outputs of a tower alone.
fn outputs(
    net: &Layers<'_>,
    given: Given,
    projection: Projection,
    (name, hidden): (&str, usize),
) -> Result<()> {
    let b = net.b;
    if let (Some((layer, size)), Some(pooled)) = (projection, given.pooled) {
        b.output(project(net, pooled, layer, [hidden, size])?, name)?;
        return b.output(given.tokens, "last_hidden_state");
    }
    b.output(given.tokens, "last_hidden_state")?;
    given.pooled.map_or(Ok(()), |pooled| b.output(pooled, "pooler_output"))
}

impl Likeness {
    /// `text picture^T exp(scale) + bias` of embeddings of length 1, from what is pooled and its size.
    fn write(&self, net: &Layers<'_>, pooled: [(Given, usize); 2]) -> Result<()> {
        let b = net.b;
        let mut embeddings = vec![];
        for ((given, hidden), projection) in pooled.into_iter().zip(self.projections) {
            let x = given.pooled.unwrap_or(given.tokens);
            let x = match projection {
                Some((layer, size)) => project(net, x, layer, [hidden, size])?,
                None => x,
            };
            let length = b.reduce_l2(x).axes(vec![-1]).keepdims(1).one()?;
            embeddings.push(b.div(x, length)?);
        }
        let number = |name: &str, dims| Ok(net.constant(name, net.w.tensor(name, dims)?));
        let turned = b.transpose(embeddings[1]).perm([1, 0]).one()?;
        let product = b.mat_mul(embeddings[0], turned)?;
        let mut logits = b.mul(product, b.exp(number("logit_scale", self.scale)?)?)?;
        if let Some(dims) = self.bias {
            logits = b.add(logits, number("logit_bias", dims)?)?;
        }
        b.output(b.transpose(logits).perm([1, 0]).one()?, "logits_per_image")?;
        b.output(logits, "logits_per_text")?;
        b.output(embeddings[0], "text_embeds")?;
        b.output(embeddings[1], "image_embeds")
    }
}

const NAMES: Names = Names {
    layers: "",
    norm: "layer_norm1",
    mlp_norm: "layer_norm2",
    attention: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"],
    up: "mlp.fc1",
    down: "mlp.fc2",
    scales: [""; 2],
};

/// What a family takes where a tower's fields say nothing.
#[derive(Clone, Copy)]
struct Defaults {
    layers: &'static str,
    hidden: usize,
    heads: usize,
    inner: usize,
    epsilon: f64,
    activation: Activation,
}

/// The layers of a tower.
fn stack(c: &Config, defaults: &Defaults) -> Result<Stack> {
    let hidden = fields::size(c, "hidden_size", defaults.hidden)?;
    let heads = fields::size(c, "num_attention_heads", defaults.heads)?;
    fields::check_heads(c, "num_attention_heads", [hidden, heads])?;
    Ok(Stack {
        names: Names { layers: defaults.layers, ..NAMES },
        count: fields::layers(c, 12)?,
        hidden,
        heads,
        inner: fields::size(c, "intermediate_size", defaults.inner)?,
        epsilon: c.number("layer_norm_eps", defaults.epsilon)?,
        activation: fields::activation(c, "hidden_act", defaults.activation)?,
        order: Order::Before,
        mlp: Mlp::Plain,
        has_scales: false,
    })
}

/// The fields of a tower. Old files have them twice; what `other` says counts alone then.
fn section(c: &Config, key: &str, other: &str) -> Result<Config> {
    let both = [c.section(other)?, c.section(key)?];
    let section = both.into_iter().flatten().next();
    Ok(section.unwrap_or_else(|| Config::empty(&format!("{key}."))))
}

#[cfg(test)]
mod tests;
