//! MXFP4 as gpt_oss has it: experts in blocks of 32 floats of 4 bits with a power of two for each block.

use super::{Excepted, part, powers};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::layers::checked;
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

const BLOCK: usize = 32;

/// Twice the numbers that codes stand for, which are integers.
const DOUBLES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

#[derive(Debug)]
pub(super) struct Mxfp4 {
    excepted: Excepted,
}

impl Mxfp4 {
    pub(super) fn read(section: &Config) -> Result<Mxfp4> {
        Ok(Mxfp4 { excepted: Excepted::read(section, "modules_to_not_convert")? })
    }
}

impl Scheme for Mxfp4 {
    fn linear(&self, _: &Checkpoint, _: &str, _: [usize; 2]) -> Result<Option<Blocks>> {
        Ok(None)
    }

    fn experts(
        &self,
        w: &Checkpoint,
        name: &str,
        [count, outputs, inputs]: [usize; 3],
    ) -> Result<Option<Blocks>> {
        let (blocks, scale) = (format!("{name}_blocks"), format!("{name}_scales"));
        if w.stored(&blocks)?.is_none() {
            return Ok(None);
        }
        self.excepted.check(w, name)?;
        let parts = [count, outputs, inputs.div_ceil(BLOCK)];
        let bytes = [&parts[..], &[BLOCK / 2]].concat();
        let bytes = part(w, &blocks, DataType::Uint8, &bytes)?;
        let table = Tensor::vector(DOUBLES.to_vec());
        let codes = checked(&blocks, bytes.looked_up(&table))?;
        let codes = checked(&blocks, codes.reshaped([count, outputs, parts[2] * BLOCK]))?;
        let all = [(0, count, 1), (0, outputs, 1), (0, inputs, 1)];
        let codes = checked(&blocks, codes.sliced(&all))?;
        let scales = part(w, &scale, DataType::Uint8, &parts)?;
        let scales = checked(&scale, scales.looked_up(&powers(128)))?;
        let (zero_points, offsets, order) = (None, None, None);
        let dtype = DataType::Int8;
        Ok(Some(Blocks { codes, dtype, block: BLOCK, scales, zero_points, offsets, order }))
    }

    fn told(&self) -> &'static str {
        "mxfp4"
    }
}
