//! ConvNeXt: convolutions over single channels, and layers that look at each place alone.

use super::{BATCH, Head, Pictures, head};
use crate::architecture::{Architecture, Target};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::conv::Conv;
use crate::diag;
use crate::fields;
use crate::layers::graph;
use crate::layers::{Activation, Layers, activate};
use crate::transformer::project;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::Graph;

/// Epsilon of all norms but the last one, and of the response norm; no field says it.
const EPSILON: f64 = 1e-6;

#[derive(Debug)]
struct ConvNext {
    prefixes: &'static [&'static str],
    pictures: Pictures,
    patch: usize,
    /// Channels and blocks of each stage.
    stages: Vec<[usize; 2]>,
    activation: Activation,
    epsilon: f64,
    /// Whether weights multiply what blocks give.
    has_scales: bool,
    /// Whether channels answer to how strong others are (version 2).
    has_response_norm: bool,
    head: Head,
}

pub(super) fn convnext(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("ConvNextModel", false), ("ConvNextForImageClassification", true)];
    let has_scales = c.number("layer_scale_init_value", 1e-6)? > 0.0;
    Ok(Box::new(ConvNext { has_scales, ..described(c, &["convnext."], &known)? }))
}

pub(super) fn convnextv2(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("ConvNextV2Model", false), ("ConvNextV2ForImageClassification", true)];
    let described = described(c, &["convnextv2."], &known)?;
    Ok(Box::new(ConvNext { has_response_norm: true, ..described }))
}

fn described(
    c: &Config,
    prefixes: &'static [&'static str],
    known: &[(&str, bool)],
) -> Result<ConvNext> {
    fields::pass_over(c, &["image_size"]);
    let channels = fields::sizes(c, "hidden_sizes", &[96, 192, 384, 768])?;
    let depths = fields::sizes(c, "depths", &[3, 3, 9, 3])?;
    if channels.len() != depths.len() {
        return Err(c.wrong("depths", "as long as `hidden_sizes`"));
    }
    if fields::size(c, "num_stages", 4)? != depths.len() {
        return Err(c.wrong("num_stages", "the number of `depths`"));
    }
    Ok(ConvNext {
        prefixes,
        pictures: Pictures::any(c)?,
        patch: fields::size(c, "patch_size", 4)?,
        stages: channels.into_iter().zip(depths).map(|(size, blocks)| [size, blocks]).collect(),
        activation: fields::activation(c, "hidden_act", Activation::Gelu)?,
        epsilon: c.number("layer_norm_eps", 1e-12)?,
        has_scales: false,
        has_response_norm: false,
        head: head(c, known)?,
    })
}

impl Architecture for ConvNext {
    fn prefixes(&self) -> &'static [&'static str] {
        self.prefixes
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let layers: usize = self.stages.iter().map(|[_, blocks]| blocks).sum();
        vec![("layers", layers.to_string()), self.pictures.card()]
    }
}

impl ConvNext {
    fn write(&self, net: &Layers<'_>) -> Result<()> {
        let b = net.b;
        let x = self.pictures.input(b, BATCH);
        let mut size = self.stages[0][0];
        let sizes = [self.pictures.channels, size, self.patch];
        let x = smaller(net, x, "embeddings.patch_embeddings", sizes)?;
        let mut x = norm_of_places(net, x, "embeddings.layernorm", size)?;
        for (i, [channels, blocks]) in self.stages.iter().enumerate() {
            let stage = format!("encoder.stages.{i}");
            if i > 0 {
                let name = |part| format!("{stage}.downsampling_layer.{part}");
                x = norm_of_places(net, x, &name(0), size)?;
                x = smaller(net, x, &name(1), [size, *channels, 2])?;
            }
            size = *channels;
            for block in 0..*blocks {
                let name = format!("{stage}.layers.{block}");
                let layer = diag::Layer::new(name.clone(), "convolution block");
                x = b.in_layer(layer, |_| self.block(net, x, &name, size))?;
            }
        }
        let pooled = b.reduce_mean(x).axes(vec![2, 3]).keepdims(0).one()?;
        let pooled = net.layer_norm(pooled, "layernorm", size, self.epsilon)?;
        match self.head {
            Head::Base => {
                b.output(x, "last_hidden_state")?;
                b.output(pooled, "pooler_output")
            }
            Head::Labels(labels) => {
                b.output(project(net, pooled, "classifier", [size, labels])?, "logits")
            }
        }
    }

    /// `x + scale * down(f(up(norm(conv(x)))))`
    fn block(&self, net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
        let b = net.b;
        let part = |part: &str| format!("{name}.{part}");
        let conv =
            Conv { channels: [size; 2], kernel: &[7, 7], stride: &[1, 1], pad: 3, groups: size };
        let y = conv.apply(net, x, &part("dwconv"))?;
        let y = b.transpose(y).perm([0, 2, 3, 1]).one()?;
        let y = net.layer_norm(y, &part("layernorm"), size, EPSILON)?;
        let y = project(net, y, &part("pwconv1"), [size, 4 * size])?;
        let y = activate(b, y, self.activation)?;
        let y = match self.has_response_norm {
            true => response_norm(net, y, &part("grn"), 4 * size)?,
            false => y,
        };
        let mut y = project(net, y, &part("pwconv2"), [4 * size, size])?;
        if self.has_scales {
            let name = part("layer_scale_parameter");
            y = b.mul(y, net.constant(&name, net.w.tensor(&name, &[size])?))?;
        }
        b.add(x, b.transpose(y).perm([0, 3, 1, 2]).one()?)
    }
}

/// A convolution over patches that do not overlap.
fn smaller(
    net: &Layers<'_>,
    x: Var,
    name: &str,
    [inputs, outputs, side]: [usize; 3],
) -> Result<Var> {
    let kernel = &[side; 2];
    let conv = Conv { channels: [inputs, outputs], kernel, stride: kernel, pad: 0, groups: 1 };
    conv.apply(net, x, name)
}

/// The norm of the channels of each place: [B, C, H, W].
fn norm_of_places(net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
    let x = net.b.transpose(x).perm([0, 2, 3, 1]).one()?;
    let x = net.layer_norm(x, name, size, EPSILON)?;
    net.b.transpose(x).perm([0, 3, 1, 2]).one()
}

/// `x + weight * x * n + bias` where `n` is how strong a channel is beside the mean of all: [B, H, W, C].
fn response_norm(net: &Layers<'_>, x: Var, name: &str, size: usize) -> Result<Var> {
    let b = net.b;
    let part = |role: &str| {
        let name = format!("{name}.{role}");
        Ok(net.constant(&name, net.w.tensor(&name, &[1, 1, 1, size])?))
    };
    let strength = b.reduce_l2(x).axes(vec![1, 2]).keepdims(1).one()?;
    let mean = b.reduce_mean(strength).axes(vec![-1]).keepdims(1).one()?;
    let share = b.div(strength, b.add(mean, EPSILON)?)?;
    let answer = b.mul(part("weight")?, b.mul(x, share)?)?;
    b.add(b.add(answer, part("bias")?)?, x)
}
