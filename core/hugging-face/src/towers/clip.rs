//! CLIP: texts see what is before them, and their end token stands for them.

use super::picture::{self, Picture};
use super::text::{self, Text};
use super::{Defaults, Likeness, Task, section, stack};
use crate::architecture::Architecture;
use crate::config::Config;
use crate::fields;
use crate::layers::Activation;
use crate::vision::Pictures;
use crate::vision::patches::{Patches, Positions};
use onnxd_plugin_sdk::build::Result;

const TEXT: Defaults = Defaults {
    layers: "text_model.encoder.layers",
    hidden: 512,
    heads: 8,
    inner: 2048,
    epsilon: 1e-5,
    activation: Activation::QuickGelu,
};

const PICTURE: Defaults =
    Defaults { layers: "vision_model.encoder.layers", hidden: 768, heads: 12, inner: 3072, ..TEXT };

/// Elements of embeddings where the file does not say.
const PROJECTION: usize = 512;

/// The end token of files that were written before Transformers knew the right one.
const OLD_END: f64 = 2.0;

#[derive(Clone, Copy)]
enum Class {
    Compare,
    /// A tower, and whether what it gives is projected.
    Text(bool),
    Picture(bool),
    Labels,
}

const TEXT_CLASSES: [(&str, Class); 2] =
    [("CLIPTextModel", Class::Text(false)), ("CLIPTextModelWithProjection", Class::Text(true))];

const PICTURE_CLASSES: [(&str, Class); 2] = [
    ("CLIPVisionModel", Class::Picture(false)),
    ("CLIPVisionModelWithProjection", Class::Picture(true)),
];

/// A file of both towers, whatever the class takes of it.
pub(super) fn clip(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::pass_over(c, &["logit_scale_init_value"]);
    let both = [("CLIPModel", Class::Compare), ("CLIPForImageClassification", Class::Labels)];
    let class = fields::class(c, &[&both[..], &TEXT_CLASSES, &PICTURE_CLASSES].concat())?;
    let text_fields = section(c, "text_config", "text_config_dict")?;
    let picture_fields = section(c, "vision_config", "vision_config_dict")?;
    let (text, picture) = (text(&text_fields)?, picture(&picture_fields)?);
    let task = match class {
        Class::Compare => {
            let size = fields::size(c, "projection_dim", PROJECTION)?;
            let projections = [Some(("text_projection", size)), Some(("visual_projection", size))];
            Task::Compare(
                Box::new((text, picture)),
                Likeness { projections, scale: &[], bias: None },
            )
        }
        Class::Labels => Task::Labels(picture, fields::labels(c)?),
        Class::Text(is_projected) => of_text(&text_fields, text, is_projected)?,
        Class::Picture(is_projected) => of_picture(&picture_fields, picture, is_projected)?,
    };
    c.pass_over(&["projection_dim"]);
    c.close(&text_fields);
    c.close(&picture_fields);
    Ok(Box::new(task))
}

pub(super) fn text_model(c: &Config) -> Result<Box<dyn Architecture>> {
    let class = fields::class(c, &TEXT_CLASSES)?;
    Ok(Box::new(of_text(c, text(c)?, matches!(class, Class::Text(true)))?))
}

pub(super) fn vision_model(c: &Config) -> Result<Box<dyn Architecture>> {
    let class = fields::class(c, &PICTURE_CLASSES)?;
    Ok(Box::new(of_picture(c, picture(c)?, matches!(class, Class::Picture(true)))?))
}

fn of_text(c: &Config, text: Text, is_projected: bool) -> Result<Task> {
    let size = fields::size(c, "projection_dim", PROJECTION)?;
    Ok(Task::Text(text, is_projected.then_some(("text_projection", size))))
}

fn of_picture(c: &Config, picture: Picture, is_projected: bool) -> Result<Task> {
    let size = fields::size(c, "projection_dim", PROJECTION)?;
    Ok(Task::Picture(picture, is_projected.then_some(("visual_projection", size))))
}

fn text(c: &Config) -> Result<Text> {
    fields::pass_over(c, &["projection_dim"]);
    let end = c.number("eos_token_id", 49407.0)?;
    Ok(Text {
        vocabulary: fields::size(c, "vocab_size", 49408)?,
        positions: fields::size(c, "max_position_embeddings", 77)?,
        stack: stack(c, &TEXT)?,
        is_causal: true,
        pool: if end == OLD_END { text::Pool::Greatest } else { text::Pool::First(end as i64) },
    })
}

fn picture(c: &Config) -> Result<Picture> {
    fields::pass_over(c, &["projection_dim"]);
    let stack = stack(c, &PICTURE)?;
    let patches = Patches {
        pictures: Pictures::sized(c, 224)?,
        patch: fields::pair(c, "patch_size", 32)?,
        hidden: stack.hidden,
        name: "vision_model.embeddings.patch_embedding",
        tokens: &["vision_model.embeddings.class_embedding"],
        positions: ("vision_model.embeddings.position_embedding.weight", Positions::Embedded),
    };
    patches.check(c)?;
    Ok(Picture { patches, stack, pool: picture::Pool::First })
}
