//! ResNet: blocks of convolutions with batch norm, which add what they read.

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

/// PyTorch's epsilon of batch norms, which no field says.
const EPSILON: f64 = 1e-5;

/// By what a block of three convolutions has fewer channels inside.
const REDUCTION: usize = 4;

#[derive(Debug)]
struct ResNet {
    pictures: Pictures,
    /// Channels of what the first convolution gives.
    stem: usize,
    stages: Vec<Stage>,
    has_bottlenecks: bool,
    /// Whether the first of three convolutions makes pictures smaller, and not the second.
    shrinks_first: bool,
    /// Of the first convolution and behind sums; inside of blocks, it is `relu` in any case.
    activation: Activation,
    head: Head,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    channels: usize,
    blocks: usize,
    stride: usize,
}

pub(super) fn resnet(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::pass_over(c, &["image_size", "num_stages"]);
    let channels = fields::sizes(c, "hidden_sizes", &[256, 512, 1024, 2048])?;
    let depths = fields::sizes(c, "depths", &[3, 4, 6, 3])?;
    if channels.len() != depths.len() {
        return Err(c.wrong("depths", "as long as `hidden_sizes`"));
    }
    let first = if c.flag("downsample_in_first_stage", false)? { 2 } else { 1 };
    let stride = |stage| if stage == 0 { first } else { 2 };
    let stages = channels.into_iter().zip(depths).enumerate();
    let has_bottlenecks = match c.word("layer_type")? {
        None | Some("bottleneck") => true,
        Some("basic") => false,
        Some(_) => {
            return Err(c.unknown("layer_type", "and only `basic` and `bottleneck` are known"));
        }
    };
    Ok(Box::new(ResNet {
        pictures: Pictures::any(c)?,
        stem: fields::size(c, "embedding_size", 64)?,
        stages: stages
            .map(|(i, (channels, blocks))| Stage { channels, blocks, stride: stride(i) })
            .collect(),
        has_bottlenecks,
        shrinks_first: c.flag("downsample_in_bottleneck", false)?,
        activation: fields::activation(c, "hidden_act", Activation::Relu)?,
        head: head(c, &[("ResNetModel", false), ("ResNetForImageClassification", true)])?,
    }))
}

impl Architecture for ResNet {
    fn prefixes(&self) -> &'static [&'static str] {
        &["resnet."]
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let layers: usize = self.stages.iter().map(|stage| stage.blocks).sum();
        vec![("layers", layers.to_string()), self.pictures.card()]
    }
}

impl ResNet {
    fn write(&self, net: &Layers<'_>) -> Result<()> {
        let b = net.b;
        net.w.pass_over(&[".num_batches_tracked"]);
        let x = self.pictures.input(b, BATCH);
        let x = normed(net, x, "embedder.embedder", [self.pictures.channels, self.stem, 7, 2])?;
        let x = activate(b, x, self.activation)?;
        let pooled = b.max_pool(x).kernel_shape([3, 3]).strides([2, 2]).pads([1, 1, 1, 1]);
        let (mut x, mut inputs) = (pooled.one()?, self.stem);
        for (i, stage) in self.stages.iter().enumerate() {
            for block in 0..stage.blocks {
                let name = format!("encoder.stages.{i}.layers.{block}");
                let layer = diag::Layer::new(name.clone(), "residual block");
                let stride = if block == 0 { stage.stride } else { 1 };
                let sizes = [inputs, stage.channels, stride];
                x = b.in_layer(layer, |_| self.block(net, x, &name, sizes))?;
                inputs = stage.channels;
            }
        }
        let pooled = b.global_average_pool(x)?;
        match self.head {
            Head::Base => {
                b.output(x, "last_hidden_state")?;
                b.output(pooled, "pooler_output")
            }
            Head::Labels(labels) => {
                let pooled = b.flatten(pooled).axis(1).one()?;
                b.output(project(net, pooled, "classifier.1", [inputs, labels])?, "logits")
            }
        }
    }

    /// `f(x + g(x))`, where `x` goes through a convolution if its sizes change.
    fn block(
        &self,
        net: &Layers<'_>,
        x: Var,
        name: &str,
        [inputs, outputs, stride]: [usize; 3],
    ) -> Result<Var> {
        let b = net.b;
        let part = |x, i: usize, sizes| normed(net, x, &format!("{name}.layer.{i}"), sizes);
        let changed = if self.has_bottlenecks {
            let inner = outputs / REDUCTION;
            let [first, second] = if self.shrinks_first { [stride, 1] } else { [1, stride] };
            let y = b.relu(part(x, 0, [inputs, inner, 1, first])?)?;
            let y = b.relu(part(y, 1, [inner, inner, 3, second])?)?;
            part(y, 2, [inner, outputs, 1, 1])?
        } else {
            let y = b.relu(part(x, 0, [inputs, outputs, 3, stride])?)?;
            part(y, 1, [outputs, outputs, 3, 1])?
        };
        let kept = match inputs != outputs || stride != 1 {
            true => normed(net, x, &format!("{name}.shortcut"), [inputs, outputs, 1, stride])?,
            false => x,
        };
        activate(b, b.add(changed, kept)?, self.activation)
    }
}

/// A convolution and its batch norm, by means and variances of training.
fn normed(
    net: &Layers<'_>,
    x: Var,
    name: &str,
    [inputs, outputs, kernel, stride]: [usize; 4],
) -> Result<Var> {
    let conv = Conv {
        channels: [inputs, outputs],
        kernel: &[kernel; 2],
        stride: &[stride; 2],
        pad: kernel / 2,
        groups: 1,
    };
    let x = conv.apply(net, x, &format!("{name}.convolution"))?;
    let part = |role: &str| {
        let name = format!("{name}.normalization.{role}");
        Ok(net.constant(&name, net.w.tensor(&name, &[outputs])?))
    };
    let call = net.b.batch_normalization(
        x,
        part("weight")?,
        part("bias")?,
        part("running_mean")?,
        part("running_var")?,
    );
    call.epsilon(EPSILON).one()
}
