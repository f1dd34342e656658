//! Models of pictures: families by `model_type`, a file each, and what they have in common.

mod beit;
mod convnext;
mod dinov2;
pub(crate) mod encoder;
pub(crate) mod patches;
mod relative;
mod resnet;
mod swin;
mod vit;
mod windows;

use crate::architecture::Architecture;
use crate::config::Config;
use crate::fields;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};

/// Describes the model of a `config.json`.
pub(crate) type Family = fn(&Config) -> Result<Box<dyn Architecture>>;

/// Families by `model_type`.
pub(crate) const FAMILIES: &[(&str, Family)] = &[
    ("beit", beit::beit),
    ("convnext", convnext::convnext),
    ("convnextv2", convnext::convnextv2),
    ("data2vec-vision", beit::data2vec),
    ("deit", vit::deit),
    ("dinov2", dinov2::dinov2),
    ("dinov2_with_registers", dinov2::with_registers),
    ("resnet", resnet::resnet),
    ("swin", swin::swin),
    ("vit", vit::vit),
];

pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
}

pub(crate) const BATCH: &str = "batch_size";

/// Height and width of pictures, each. Tables of places grow with their square.
const SIDE_MAX: usize = 1 << 14;

/// The pictures that a model takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pictures {
    pub(crate) channels: usize,
    /// Height and width; any where there is none.
    pub(crate) size: Option<[usize; 2]>,
}

impl Pictures {
    /// Pictures of one size, which the file says.
    pub(crate) fn sized(c: &Config, default: usize) -> Result<Pictures> {
        let size = fields::pair(c, "image_size", default)?;
        if size.iter().any(|side| *side > SIDE_MAX) {
            let must = format!("at most {SIDE_MAX}, for height and width each");
            return Err(c.wrong("image_size", &must));
        }
        Ok(Pictures { size: Some(size), ..Pictures::any(c)? })
    }

    /// Pictures of any size.
    pub(crate) fn any(c: &Config) -> Result<Pictures> {
        Ok(Pictures { channels: fields::size(c, "num_channels", 3)?, size: None })
    }

    /// The input of pictures, of which there are `batch`.
    pub(crate) fn input(&self, b: &GraphBuilder, batch: &str) -> Var {
        let known = |n: usize| Dim::Known(n as i64);
        let [height, width] = match self.size {
            Some(size) => size.map(known),
            None => ["height", "width"].map(|name| Dim::Symbol(name.into())),
        };
        let dims = [Dim::Symbol(batch.into()), known(self.channels), height, width];
        b.input("pixel_values", ValueType::tensor(DataType::Float, dims))
    }

    /// Facts for the report.
    pub(crate) fn card(&self) -> (&'static str, String) {
        let size =
            self.size.map_or("any".to_owned(), |[height, width]| format!("{height}x{width}"));
        ("image_size", size)
    }
}

/// What a model of pictures gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Head {
    /// `last_hidden_state`, and `pooler_output` where there is one.
    Base,
    /// `logits` of so many labels.
    Labels(usize),
}

/// The head of a class that is the base model or classifies: these are `known`, with whether they classify.
pub(crate) fn head(c: &Config, known: &[(&str, bool)]) -> Result<Head> {
    Ok(match fields::class(c, known)? {
        true => Head::Labels(fields::labels(c)?),
        false => Head::Base,
    })
}

#[cfg(test)]
mod tests;
