//! What is kept of a tensor that a plugin derived from others.

use crate::Refusal;
use onnxd_ir::{BlockFormat, BlockPart, Derivation, Tensor};
use onnxd_plugin_abi as abi;
use std::sync::Arc;

/// Most tensors that one is joined from.
pub(crate) const SOURCES_MAX: usize = 1 << 16;

/// How a plugin said that a tensor is derived.
#[derive(Debug)]
pub(crate) struct DerivationRecipe {
    pub(crate) kind: u32,
    pub(crate) sources: Box<[u64]>,
    pub(crate) offset: u64,
    pub(crate) strides: Box<[i64]>,
    pub(crate) axis: u32,
}

/// A derived tensor.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) recipe: DerivationRecipe,
    pub(crate) tensor: Tensor,
    pub(crate) dims: Arc<[i64]>,
    /// Recipes inside each other.
    pub(crate) depth: usize,
}

impl DerivationRecipe {
    /// The derivation that it means, of these sources.
    pub(crate) fn derivation(&self, sources: Vec<Tensor>) -> Result<Derivation, Refusal> {
        if self.kind == abi::DERIVE_CONCAT {
            return Ok(Derivation::Concat { parts: sources, axis: self.axis as usize });
        }
        if matches!(self.kind, abi::DERIVE_SCALED | abi::DERIVE_LOOKUP | abi::DERIVE_TAKEN) {
            let sources = sources.try_into().map_err(|sources: Vec<Tensor>| {
                Refusal::invalid(format!("{} sources, not two", sources.len()))
            })?;
            return Ok(match self.kind {
                abi::DERIVE_SCALED => Derivation::Scaled { sources, axis: self.axis as usize },
                abi::DERIVE_LOOKUP => Derivation::Lookup { sources },
                _ => Derivation::Taken { sources, axis: self.axis as usize },
            });
        }
        let [source]: [Tensor; 1] = sources.try_into().map_err(|sources: Vec<Tensor>| {
            Refusal::invalid(format!("{} sources, not one", sources.len()))
        })?;
        match self.kind {
            abi::DERIVE_STRIDED => {
                let offset = usize::try_from(self.offset);
                let offset = offset.map_err(|_| Refusal::invalid("the offset overflows"))?;
                let strides = self.strides.iter().map(|s| *s as isize).collect();
                Ok(Derivation::Strided { source, offset, strides })
            }
            abi::DERIVE_CAST => Ok(Derivation::Cast { source }),
            abi::DERIVE_BLOCKS => {
                let format = BlockFormat::from_number(self.axis);
                let format = format.ok_or_else(|| {
                    Refusal::invalid(format!("{} is no format of blocks", self.axis))
                })?;
                let part = BlockPart::from_number(self.offset);
                let part = part.ok_or_else(|| {
                    Refusal::invalid(format!("{} is no part of blocks", self.offset))
                })?;
                Ok(Derivation::Blocks { source, format, part })
            }
            other => Err(Refusal::invalid(format!("{other} is no kind of derivation"))),
        }
    }
}
