//! GPTQ: `(q - z) s`, codes along the inputs, and groups of inputs that may lie apart (`g_idx`).

use super::{Excepted, group_size, order, part, reals, turned};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::layers::checked;
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Tensor};

#[derive(Debug)]
pub(super) struct Gptq {
    bits: usize,
    group: Option<usize>,
    /// Whether zero points are stored less 1.
    is_less: bool,
    excepted: Excepted,
}

impl Gptq {
    pub(super) fn read(section: &Config) -> Result<Gptq> {
        let bits = section.size("bits")?;
        if !matches!(bits, 2 | 4 | 8) {
            return Err(section.unknown("bits", "and only GPTQ of 2, 4 and 8 bits is read"));
        }
        let key = if section.has("checkpoint_format") { "checkpoint_format" } else { "format" };
        let is_less = match section.word(key)? {
            None | Some("gptq") => true,
            Some("gptq_v2") => false,
            Some(_) => return Err(section.unknown(key, "which is no layout of GPTQ that is read")),
        };
        section.only("is_marlin_format", false)?;
        if section.word("pack_dtype")?.is_some_and(|word| word != "int32") {
            return Err(section.unknown("pack_dtype", "and only words of 32 bits are read"));
        }
        if section.section("dynamic")?.is_some_and(|rules| !rules.is_empty()) {
            return Err(
                section.unknown("dynamic", "and layers with settings of their own are not read")
            );
        }
        // What these ask for is seen in the tensors.
        section.flag("desc_act", false)?;
        section.flag("lm_head", false)?;
        let excepted = Excepted::read(section, "modules_to_not_convert")?;
        Ok(Gptq { bits, group: group_size(section, 128)?, is_less, excepted })
    }

    /// Zero points of words: [groups, words] as [outputs, groups].
    fn zeros(&self, name: &str, words: &Tensor, outputs: usize) -> Result<Tensor> {
        let (groups, codes) = (words.dims()[0], checked(name, words.unpacked(self.bits))?);
        let codes = checked(name, codes.sliced(&[(0, groups, 1), (0, outputs, 1)]))?;
        // Zero points have as many bits as codes, so that the greatest stored one is 0.
        let (less, greatest) = (u8::from(self.is_less), (1u16 << self.bits) - 1);
        let real = |code: u16| (code as u8).wrapping_add(less) & greatest as u8;
        let table = Tensor::vector((0..256).map(real).collect::<Vec<u8>>());
        turned(name, &checked(name, codes.looked_up(&table))?)
    }
}

impl Scheme for Gptq {
    fn linear(
        &self,
        w: &Checkpoint,
        name: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Option<Blocks>> {
        let named = |role: &str| format!("{name}.{role}");
        let weight = named("qweight");
        if w.stored(&weight)?.is_none() {
            return Ok(None);
        }
        self.excepted.check(w, name)?;
        let block = self.group.unwrap_or(inputs).min(inputs);
        let (groups, in_word) = (inputs.div_ceil(block), 32 / self.bits);
        let words = part(w, &weight, DataType::Int32, &[inputs.div_ceil(in_word), outputs])?;
        let codes = checked(&weight, turned(&weight, &words)?.unpacked(self.bits))?;
        let mut codes = checked(&weight, codes.sliced(&[(0, outputs, 1), (0, inputs, 1)]))?;
        let zeros = named("qzeros");
        let words = part(w, &zeros, DataType::Int32, &[groups, outputs.div_ceil(in_word)])?;
        let zero_points = Some(self.zeros(&zeros, &words, outputs)?);
        let scales = named("scales");
        let scales = turned(&scales, &reals(w, &scales, &[groups, outputs])?)?;
        let index = named("g_idx");
        let order = match w.stored(&index)? {
            None => None,
            Some(_) => order(&index, &part(w, &index, DataType::Int32, &[inputs])?, block)?,
        };
        if let Some(order) = &order {
            codes = checked(&weight, codes.taken(order, 1))?;
        }
        let dtype = if self.bits == 8 { DataType::Uint8 } else { DataType::Uint4 };
        Ok(Some(Blocks { codes, dtype, block, scales, zero_points, offsets: None, order }))
    }

    fn told(&self) -> &'static str {
        "gptq"
    }
}
