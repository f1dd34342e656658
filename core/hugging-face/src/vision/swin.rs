//! Swin: attention inside windows, which every other layer shifts.

use super::{BATCH, Head, Pictures, head, relative};
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
use onnxd_plugin_sdk::ir::{Graph, Tensor};

/// PyTorch's epsilon of the norms that no field says: of patches, and of patches that are merged.
const EPSILON: f64 = 1e-5;

/// The side of a window. The table of distances in it grows with the fourth power.
const WINDOW_MAX: usize = 32;

/// Patches of a picture, which the regions of shifted windows are listed for.
const PATCHES_MAX: usize = 1 << 22;

/// Stages: each has twice the channels of the one before it.
const STAGES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Swin {
    pub(super) pictures: Pictures,
    pub(super) patch: [usize; 2],
    pub(super) channels: usize,
    /// Blocks and heads of each stage.
    pub(super) stages: Vec<[usize; 2]>,
    pub(super) window: usize,
    pub(super) mlp_ratio: f64,
    pub(super) activation: Activation,
    pub(super) epsilon: f64,
    pub(super) head: Head,
}

/// What blocks of a stage have in common.
pub(super) struct Stage {
    /// Rows and columns of tokens.
    pub(super) grid: [usize; 2],
    pub(super) channels: usize,
    pub(super) heads: usize,
    /// Rows of the table of distances in a window: [N, N].
    pub(super) distances: Var,
    /// What every other block shifts windows by, and what scores in them get.
    pub(super) shift: Option<(usize, Var)>,
}

pub(super) fn swin(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::pass_over(c, &["hidden_size", "num_layers", "path_norm", "qkv_bias"]);
    c.only("use_absolute_embeddings", false)?;
    let depths = fields::sizes(c, "depths", &[2, 2, 6, 2])?;
    let heads = fields::sizes(c, "num_heads", &[3, 6, 12, 24])?;
    if heads.len() != depths.len() || depths.len() > STAGES_MAX {
        return Err(c.wrong("num_heads", "as long as `depths`, and at most 16 numbers"));
    }
    let channels = fields::size(c, "embed_dim", 96)?;
    for (stage, heads) in heads.iter().enumerate() {
        fields::check_heads(c, "num_heads", [channels << stage, *heads])?;
    }
    let window = fields::size(c, "window_size", 7)?;
    if window > WINDOW_MAX {
        return Err(c.wrong("window_size", &format!("at most {WINDOW_MAX}")));
    }
    let described = Swin {
        pictures: Pictures::sized(c, 224)?,
        patch: fields::pair(c, "patch_size", 4)?,
        channels,
        stages: depths.into_iter().zip(heads).map(|(blocks, heads)| [blocks, heads]).collect(),
        window,
        mlp_ratio: c.above_zero("mlp_ratio", 4.0)?,
        activation: fields::activation(c, "hidden_act", Activation::Gelu)?,
        epsilon: c.number("layer_norm_eps", 1e-5)?,
        head: head(c, &[("SwinModel", false), ("SwinForImageClassification", true)])?,
    };
    described.check(c)?;
    Ok(Box::new(described))
}

impl Architecture for Swin {
    fn prefixes(&self) -> &'static [&'static str] {
        &["swin."]
    }

    fn graph(&self, weights: &Checkpoint, target: &Target) -> Result<Graph> {
        graph(weights, target.opset, |layers| self.write(&layers))
    }

    fn card(&self) -> Vec<(&'static str, String)> {
        let layers: usize = self.stages.iter().map(|[blocks, _]| blocks).sum();
        vec![
            ("layers", layers.to_string()),
            ("hidden_size", (self.channels << (self.stages.len() - 1)).to_string()),
            self.pictures.card(),
        ]
    }
}

impl Swin {
    /// Refuses pictures that have fewer patches than a window in some stage: the table of distances is of the window.
    fn check(&self, c: &Config) -> Result<()> {
        let is_small = self.grids().any(|grid| grid.iter().any(|side| *side < self.window));
        if is_small {
            let must = format!("such that each stage has {} tokens on a side", self.window);
            return Err(c.wrong("image_size", &must));
        }
        let is_large = self.grids().any(|[rows, columns]| rows * columns > PATCHES_MAX);
        let must = format!("such that there are at most {PATCHES_MAX} patches");
        if is_large { Err(c.wrong("image_size", &must)) } else { Ok(()) }
    }

    /// Rows and columns of tokens in each stage: half of those of the stage before.
    fn grids(&self) -> impl Iterator<Item = [usize; 2]> {
        let size = self.pictures.size.unwrap_or_default();
        let first = [0, 1].map(|axis| size[axis].div_ceil(self.patch[axis]));
        (0..self.stages.len()).map(move |stage| first.map(|side| side.div_ceil(1 << stage)))
    }

    fn write(&self, net: &Layers<'_>) -> Result<()> {
        let b = net.b;
        net.w.pass_over(&[".relative_position_index", ".mask_token"]);
        let mut x = self.patches(net)?;
        let grids: Vec<[usize; 2]> = self.grids().collect();
        let places = relative::distances([self.window; 2]);
        let distances = relative::index(net, self.window * self.window, places);
        for (i, ([blocks, heads], grid)) in self.stages.iter().zip(&grids).enumerate() {
            let (channels, heads) = (self.channels << i, *heads);
            let shift = self.shift(net, *grid, *blocks)?;
            let stage = Stage { grid: *grid, channels, heads, distances, shift };
            for block in 0..*blocks {
                let name = format!("encoder.layers.{i}.blocks.{block}");
                let layer = diag::Layer::new(name.clone(), "window block");
                let shift = stage.shift.filter(|_| block % 2 == 1);
                x = b.in_layer(layer, |_| self.block(net, x, &name, (&stage, shift)))?;
            }
            if i + 1 < self.stages.len() {
                x = merged(net, x, &format!("encoder.layers.{i}.downsample"), &stage)?;
            }
        }
        let size = self.channels << (self.stages.len() - 1);
        let x = net.layer_norm(x, "layernorm", size, self.epsilon)?;
        let pooled = b.reduce_mean(x).axes(vec![1]).keepdims(0).one()?;
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

    /// Tokens of patches; pictures that do not divide into them get zeros below and on the right.
    fn patches(&self, net: &Layers<'_>) -> Result<Var> {
        let b = net.b;
        let pictures = self.pictures.input(b, BATCH);
        let size = self.pictures.size.unwrap_or_default();
        let lacking = [0, 1].map(|axis| size[axis].next_multiple_of(self.patch[axis]) - size[axis]);
        let pictures = padded(net, pictures, [0, 0, lacking[0], lacking[1]])?;
        let channels = [self.pictures.channels, self.channels];
        let conv = Conv { channels, kernel: &self.patch, stride: &self.patch, pad: 0, groups: 1 };
        let x = conv.apply(net, pictures, "embeddings.patch_embeddings.projection")?;
        let x = super::patches::row_by_row(net, x, self.channels)?;
        net.layer_norm(x, "embeddings.norm", self.channels, EPSILON)
    }

    /// `x += windows(norm(x)); x += down(f(up(norm(x))))`
    fn block(
        &self,
        net: &Layers<'_>,
        x: Var,
        name: &str,
        (stage, shift): (&Stage, Option<(usize, Var)>),
    ) -> Result<Var> {
        let (b, size) = (net.b, stage.channels);
        let part = |part: &str| format!("{name}.{part}");
        let y = net.layer_norm(x, &part("layernorm_before"), size, self.epsilon)?;
        let y = self.windows(net, y, &part("attention"), (stage, shift))?;
        let x = b.add(x, y)?;
        let y = net.layer_norm(x, &part("layernorm_after"), size, self.epsilon)?;
        let inner = (self.mlp_ratio * size as f64) as usize;
        let y = project(net, y, &part("intermediate.dense"), [size, inner])?;
        let y = activate(b, y, self.activation)?;
        b.add(x, project(net, y, &part("output.dense"), [inner, size])?)
    }
}

/// Zeros behind the last elements of each axis.
pub(super) fn padded(net: &Layers<'_>, x: Var, behind: [usize; 4]) -> Result<Var> {
    if behind == [0; 4] {
        return Ok(x);
    }
    let pads: Vec<i64> = [0; 4].into_iter().chain(behind.map(|n| n as i64)).collect();
    net.b.pad(x, net.b.constant(Tensor::vector(pads))).one()
}

/// Each square of four tokens becomes one: [B, H W, C] to [B, H/2 W/2, 2C].
fn merged(net: &Layers<'_>, x: Var, name: &str, stage: &Stage) -> Result<Var> {
    let b = net.b;
    let ([rows, columns], size) = (stage.grid, stage.channels);
    let ints = |sizes: [usize; 4]| sizes.map(|n| n as i64).to_vec();
    let x = b.reshape(x, ints([0, rows, columns, size])).one()?;
    let x = padded(net, x, [0, rows % 2, columns % 2, 0])?;
    let quarter = |row: i64, column: i64| {
        let part = b.slice(x, vec![row, column], vec![i64::MAX; 2]).axes(vec![1, 2]);
        part.steps(vec![2, 2]).one()
    };
    let quarters = [quarter(0, 0)?, quarter(1, 0)?, quarter(0, 1)?, quarter(1, 1)?];
    let x = b.concat(quarters).axis(-1).one()?;
    let x = b.reshape(x, vec![0, -1, 4 * size as i64]).one()?;
    let x = net.layer_norm(x, &format!("{name}.norm"), 4 * size, EPSILON)?;
    project(net, x, &format!("{name}.reduction"), [4 * size, 2 * size])
}
