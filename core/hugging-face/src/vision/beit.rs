//! BEiT, and data2vec for pictures: scores depend on how far patches are from each other.

use super::encoder::{Distances, Pool, VisionTransformer};
use super::patches::Positions;
use super::{Head, head, vit};
use crate::architecture::Architecture;
use crate::config::Config;
use crate::transformer::Stack;
use onnxd_plugin_sdk::build::Result;

/// Patches of a picture. The table of their distances grows with the square.
const PATCHES_MAX: usize = 1 << 12;

/// Tables of distances: in each layer, and of all layers.
const EACH: &str = "attention.attention.relative_position_bias.relative_position_bias_table";
const SHARED: &str = "encoder.relative_position_bias.relative_position_bias_table";

pub(super) fn beit(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("BeitModel", false), ("BeitForImageClassification", true)];
    Ok(Box::new(described(c, &["beit."], &known)?))
}

pub(super) fn data2vec(c: &Config) -> Result<Box<dyn Architecture>> {
    let known = [("Data2VecVisionModel", false), ("Data2VecVisionForImageClassification", true)];
    Ok(Box::new(described(c, &["data2vec_vision."], &known)?))
}

fn described(
    c: &Config,
    prefixes: &'static [&'static str],
    known: &[(&str, bool)],
) -> Result<VisionTransformer> {
    c.pass_over(&[
        "add_fpn", "auxiliary_channels", "auxiliary_concat_input", "auxiliary_loss_weight",
        "auxiliary_num_convs", "pool_scales", "semantic_loss_ignore_index", "use_auxiliary_head",
        "use_mask_token", "vocab_size",
    ]);
    let head = head(c, known)?;
    let mut d = vit::described(c, prefixes, 16)?;
    let [rows, columns] = d.patches.grid(d.patches.pictures.size.unwrap_or_default());
    if rows != columns {
        return Err(c.wrong("image_size", "that of a square picture"));
    }
    if !c.flag("use_absolute_position_embeddings", false)? {
        d.patches.positions.1 = Positions::None;
    }
    let each = c.flag("use_relative_position_bias", false)?;
    let shared = c.flag("use_shared_relative_position_bias", false)?;
    if each || shared {
        if rows * columns > PATCHES_MAX {
            let must = format!("such that there are at most {PATCHES_MAX} patches");
            return Err(c.wrong("image_size", &must));
        }
        d.distances =
            Distances::By { each: each.then_some(EACH), shared: shared.then_some(SHARED) };
    }
    let is_mean = c.flag("use_mean_pooling", true)?;
    let has_scales = c.number("layer_scale_init_value", 0.1)? > 0.0;
    Ok(VisionTransformer {
        stack: Stack { has_scales, ..d.stack },
        norm: if is_mean { None } else { d.norm },
        pool: if is_mean { Pool::Mean("pooler.layernorm") } else { Pool::First },
        labels: match head {
            Head::Base => None,
            Head::Labels(labels) => Some(labels),
        },
        ..d
    })
}
