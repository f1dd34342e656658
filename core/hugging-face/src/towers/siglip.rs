//! SigLIP: texts see all their tokens, and a learned query finds what stands for a picture.

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
    hidden: 768,
    heads: 12,
    inner: 3072,
    epsilon: 1e-6,
    activation: Activation::GeluTanh,
};

const PICTURE: Defaults = Defaults { layers: "vision_model.encoder.layers", ..TEXT };

#[derive(Clone, Copy)]
enum Class {
    Compare,
    Text,
    Picture,
    Labels,
}

/// A file of both towers, whatever the class takes of it.
pub(super) fn siglip(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::pass_over(c, &[]);
    let known = [
        ("SiglipModel", Class::Compare),
        ("SiglipTextModel", Class::Text),
        ("SiglipVisionModel", Class::Picture),
        ("SiglipForImageClassification", Class::Labels),
    ];
    let class = fields::class(c, &known)?;
    let text_fields = section(c, "text_config", "text_config_dict")?;
    let picture_fields = section(c, "vision_config", "vision_config_dict")?;
    let (text, picture) = (text(&text_fields)?, picture(&picture_fields)?);
    let task = match class {
        Class::Compare if picture.pool == picture::Pool::None => {
            return Err(
                picture_fields.unknown("vision_use_head", "and there is nothing to compare")
            );
        }
        Class::Compare => {
            let likeness = Likeness { projections: [None; 2], scale: &[1], bias: Some(&[1]) };
            Task::Compare(Box::new((text, picture)), likeness)
        }
        Class::Labels => Task::Labels(picture, fields::labels(c)?),
        Class::Text => Task::Text(text, None),
        Class::Picture => Task::Picture(picture, None),
    };
    c.close(&text_fields);
    c.close(&picture_fields);
    Ok(Box::new(task))
}

pub(super) fn text_model(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::class(c, &[("SiglipTextModel", ())])?;
    Ok(Box::new(Task::Text(text(c)?, None)))
}

pub(super) fn vision_model(c: &Config) -> Result<Box<dyn Architecture>> {
    fields::class(c, &[("SiglipVisionModel", ())])?;
    Ok(Box::new(Task::Picture(picture(c)?, None)))
}

fn text(c: &Config) -> Result<Text> {
    fields::pass_over(c, &[]);
    let stack = stack(c, &TEXT)?;
    let size = fields::size(c, "projection_size", stack.hidden)?;
    Ok(Text {
        vocabulary: fields::size(c, "vocab_size", 32000)?,
        positions: fields::size(c, "max_position_embeddings", 64)?,
        stack,
        is_causal: false,
        pool: text::Pool::Last("text_model.head", size),
    })
}

fn picture(c: &Config) -> Result<Picture> {
    fields::pass_over(c, &[]);
    let stack = stack(c, &PICTURE)?;
    let patches = Patches {
        pictures: Pictures::sized(c, 224)?,
        patch: fields::pair(c, "patch_size", 16)?,
        hidden: stack.hidden,
        name: "vision_model.embeddings.patch_embedding",
        tokens: &[],
        positions: ("vision_model.embeddings.position_embedding.weight", Positions::Embedded),
    };
    patches.check(c)?;
    let has_head = c.flag("vision_use_head", true)?;
    Ok(Picture {
        patches,
        stack,
        pool: if has_head { picture::Pool::Probe } else { picture::Pool::None },
    })
}
