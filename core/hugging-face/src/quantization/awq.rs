//! AWQ in the layout of its kernel `gemm`: `(q - z) s`, nibbles along the outputs in an order of their own.

use super::{Excepted, group_size, part, reals, turned};
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::layers::checked;
use crate::weight::{Blocks, Scheme};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::ir::{DataType, Derivation, Tensor};

/// Nibbles of a word.
const NIBBLES: usize = 8;

#[derive(Debug)]
pub(super) struct Awq {
    group: Option<usize>,
    excepted: Excepted,
}

impl Awq {
    pub(super) fn read(section: &Config) -> Result<Awq> {
        if section.optional_size("bits")?.or(section.optional_size("w_bit")?) != Some(4) {
            let key = if section.has("w_bit") { "w_bit" } else { "bits" };
            return Err(section.unknown(key, "and only AWQ of 4 bits is read"));
        }
        let version = section.word("version")?.unwrap_or("gemm").to_ascii_lowercase();
        if version != "gemm" {
            return Err(section.unknown("version", "which is no layout of AWQ that is read"));
        }
        if section.word("backend")?.is_some_and(|backend| backend != "autoawq") {
            return Err(section.unknown("backend", "whose layout is not read"));
        }
        section.only("zero_point", true)?;
        let excepted = Excepted::read(section, "modules_to_not_convert")?;
        Ok(Awq { group: group_size(section, 128)?, excepted })
    }
}

impl Scheme for Awq {
    fn linear(
        &self,
        w: &Checkpoint,
        name: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Option<Blocks>> {
        let named = |role: &str| format!("{name}.{role}");
        if w.stored(&named("qweight"))?.is_none() {
            return Ok(None);
        }
        self.excepted.check(w, name)?;
        let block = self.group.unwrap_or(inputs).min(inputs);
        let groups = inputs.div_ceil(block);
        let words = |role: &str, rows| {
            let name = named(role);
            let words = part(w, &name, DataType::Int32, &[rows, outputs.div_ceil(NIBBLES)])?;
            plain(&name, &words, outputs)
        };
        let codes = words("qweight", inputs)?;
        let zero_points = Some(words("qzeros", groups)?);
        let scales = named("scales");
        let scales = turned(&scales, &reals(w, &scales, &[groups, outputs])?)?;
        let dtype = DataType::Uint4;
        Ok(Some(Blocks { codes, dtype, block, scales, zero_points, offsets: None, order: None }))
    }

    fn told(&self) -> &'static str {
        "awq"
    }
}

/// [rows, words] as [outputs, rows]. A word has the outputs 0, 2, 4, 6, 1, 3, 5, 7 from its low bits on: output
/// `2 a + b` is nibble `a + 4 b`.
fn plain(name: &str, words: &Tensor, outputs: usize) -> Result<Tensor> {
    let (rows, count) = (words.dims()[0], words.dims()[1]);
    let source = checked(name, turned(name, words)?.unpacked(4))?;
    let strides = vec![(rows * NIBBLES) as isize, 1, 4, NIBBLES as isize];
    let from = Derivation::Strided { source, offset: 0, strides };
    let all = checked(name, Tensor::derived(DataType::Uint8, [count, 4, 2, rows], from))?;
    let all = checked(name, all.reshaped([count * NIBBLES, rows]))?;
    checked(name, all.sliced(&[(0, outputs, 1), (0, rows, 1)]))
}
