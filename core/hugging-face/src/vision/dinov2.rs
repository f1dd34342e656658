//! DINOv2: a ViT whose branches have scales, for pictures of any size.

use super::encoder::{Pool, VisionTransformer};
use super::patches::Positions;
use super::{Head, head, vit};
use crate::architecture::Architecture;
use crate::config::Config;
use crate::fields;
use crate::layers::Activation;
use crate::transformer::{Mlp, Names, Stack};
use onnxd_plugin_sdk::build::Result;

const NAMES: Names = Names {
    norm: "norm1",
    mlp_norm: "norm2",
    up: "mlp.fc1",
    down: "mlp.fc2",
    scales: ["layer_scale1.lambda1", "layer_scale2.lambda1"],
    ..vit::NAMES
};

pub(super) fn dinov2(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("Dinov2Model", false), ("Dinov2ForImageClassification", true)];
    let head = head(c, &known)?;
    Ok(Box::new(with_head(described(c, &["dinov2."], (14, false))?, head)))
}

/// More tokens behind the first one, which no place has.
pub(super) fn with_registers(c: &Config) -> Result<Box<dyn Architecture>> {
    let known =
        [("Dinov2WithRegistersModel", false), ("Dinov2WithRegistersForImageClassification", true)];
    let head = head(c, &known)?;
    let count = fields::size(c, "num_register_tokens", 4)?;
    let registers = Some(("embeddings.register_tokens", count));
    let d = described(c, &["dinov2_with_registers."], (16, true))?;
    Ok(Box::new(with_head(VisionTransformer { registers, ..d }, head)))
}

/// Positions for any picture, of a table whose curve is smooth or not.
fn stretched(c: &Config, mut d: VisionTransformer, is_smooth: bool) -> Result<VisionTransformer> {
    // Transformers stretches the positions for any picture. Those of the file are of a square one.
    let [rows, columns] = d.patches.grid(d.patches.pictures.size.unwrap_or_default());
    if rows != columns {
        return Err(c.wrong("image_size", "that of a square picture"));
    }
    d.patches.pictures.size = None;
    d.patches.positions.1 = Positions::Stretched { side: rows, is_smooth };
    Ok(d)
}

/// The first token, and for labels the mean of the patches, too.
fn with_head(d: VisionTransformer, head: Head) -> VisionTransformer {
    match head {
        Head::Base => VisionTransformer { pool: Pool::First, labels: None, ..d },
        Head::Labels(labels) => {
            VisionTransformer { pool: Pool::FirstAndMean, labels: Some(labels), ..d }
        }
    }
}

fn described(
    c: &Config,
    prefixes: &'static [&'static str],
    (patch, is_smooth): (usize, bool),
) -> Result<VisionTransformer> {
    c.pass_over(&["apply_layernorm", "layerscale_value", "use_mask_token"]);
    let d = vit::described(c, prefixes, patch)?;
    let hidden = d.stack.hidden;
    let inner: usize = (hidden as f64 * c.above_zero("mlp_ratio", 4.0)?) as usize;
    if !(1..=1usize << 31).contains(&inner) {
        return Err(c.wrong("mlp_ratio", "a usual ratio"));
    }
    let stack = Stack {
        names: NAMES,
        inner,
        epsilon: c.number("layer_norm_eps", 1e-6)?,
        has_scales: true,
        ..d.stack
    };
    let stack = match c.flag("use_swiglu_ffn", false)? {
        false => stack,
        true => Stack {
            names: Names { up: "mlp.weights_in", down: "mlp.weights_out", ..NAMES },
            inner: (2 * inner / 3).div_ceil(8) * 8,
            activation: Activation::Silu,
            mlp: Mlp::Gated,
            ..stack
        },
    };
    stretched(c, VisionTransformer { stack, ..d }, is_smooth)
}
