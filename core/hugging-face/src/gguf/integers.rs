//! Weights whose integers are kept: codes of blocks with their scales, which are not rounded again.

use super::rows::Rows;
use crate::checkpoint::Checkpoint;
use crate::layers::checked;
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{BlockFormat, BlockPart, DataType};
use std::collections::HashMap;

/// Weights that lie in blocks, by the names of the family.
pub(super) struct Integers(pub(super) HashMap<String, Rows>);

/// The smallest type that has all codes of a format. Tables of 16 numbers have codes of 8 bits.
fn dtype_of(format: BlockFormat) -> DataType {
    match format.codes() {
        (-8.., ..=7) => DataType::Int4,
        (0.., ..=15) => DataType::Uint4,
        _ => DataType::Int8,
    }
}

impl Integers {
    /// The blocks of `name`, if they are those of a matrix of these sizes.
    fn blocks(&self, w: &Checkpoint, name: &str, sizes: &[usize]) -> Result<Option<Blocks>> {
        let Some((rows, format)) = self.0.get(name).and_then(|rows| Some((rows, rows.format()?)))
        else {
            return Ok(None);
        };
        if rows.dims() != sizes {
            // As real numbers they are refused in the usual words.
            return Ok(None);
        }
        // It counts as used.
        w.stored(name)?;
        let part = |part| checked(name, rows.part(part));
        let (codes, scales) = (part(BlockPart::Codes)?, part(BlockPart::Scales)?);
        let offsets = match format.has_minima() {
            // What is subtracted, as what is added.
            true => {
                let minima = part(BlockPart::Minima)?;
                let gain = vec![-1.0; minima.dims()[0]];
                Some(checked(name, minima.scaled(0, &gain))?)
            }
            false => None,
        };
        let (dtype, block) = (dtype_of(format), format.run());
        Ok(Some(Blocks { codes, dtype, block, scales, zero_points: None, offsets, order: None }))
    }
}

impl Scheme for Integers {
    fn linear(&self, w: &Checkpoint, name: &str, sizes: [usize; 2]) -> Result<Option<Blocks>> {
        self.blocks(w, &format!("{name}.weight"), &sizes)
    }

    fn experts(&self, w: &Checkpoint, name: &str, sizes: [usize; 3]) -> Result<Option<Blocks>> {
        self.blocks(w, name, &sizes)
    }

    fn told(&self) -> &'static str {
        "blocks of GGUF"
    }
}
