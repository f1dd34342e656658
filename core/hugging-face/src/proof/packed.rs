//! Weights of checkpoints that come quantized, by the definitions of their methods: a row at a time from words of
//! integers, scales and zero points.

use super::fields::Fields;
use super::source::{Matrix, Plain, Rows};
use crate::raw::Find;
use bytes::Bytes;

/// How weights are packed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Packing {
    No,
    /// Rows are inputs, and words have outputs in an order of their own.
    Awq,
    /// Rows of words are inputs that lie one below the other; what is added to zero points.
    Gptq {
        bits: usize,
        more: u32,
    },
    /// Rows are outputs, integers are above their value by half of the range.
    Compressed {
        bits: usize,
    },
    /// Floats of eight bits, with a scale for each block of outputs and inputs.
    Floats {
        block: [usize; 2],
    },
}

/// Which output of eight lies in nibble `i` of a word.
const AWQ: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// The packing that `quantization_config` says.
pub(super) fn packing(c: &Fields<'_>) -> Plain<Packing> {
    let Some(section) = c.inside("quantization_config") else { return Ok(Packing::No) };
    let bits = section.size("bits");
    let method = section.word("quant_method").unwrap_or_default();
    let unknown = || format!("weights come quantized by `{method}` in a form without formulas");
    match (method, bits) {
        ("awq", Some(4)) if section.word("version").is_none_or(|version| version == "gemm") => {
            Ok(Packing::Awq)
        }
        ("gptq", Some(bits @ (4 | 8))) => match section.word("checkpoint_format") {
            None | Some("gptq") => Ok(Packing::Gptq { bits, more: 1 }),
            Some("gptq_v2") => Ok(Packing::Gptq { bits, more: 0 }),
            Some(_) => Err(unknown()),
        },
        ("fp8", _) => {
            let block = section.numbers("weight_block_size").unwrap_or_default();
            match block[..] {
                [outputs, inputs] if outputs >= 1.0 && inputs >= 1.0 => {
                    Ok(Packing::Floats { block: [outputs as usize, inputs as usize] })
                }
                _ => Err(unknown()),
            }
        }
        ("compressed-tensors", _) => compressed(&section).ok_or_else(unknown),
        _ => Err(unknown()),
    }
}

/// Groups that are all alike, symmetric, and in their order.
fn compressed(section: &Fields<'_>) -> Option<Packing> {
    let is_packed = section.word("format") == Some("pack-quantized");
    let groups = section.inside("config_groups")?;
    let all = groups.0?.keys().map(|key| groups.inside(key)?.inside("weights"));
    let all: Vec<Fields<'_>> = all.collect::<Option<_>>()?;
    let bits = all.first()?.size("num_bits").filter(|bits| matches!(bits, 4 | 8))?;
    let is_plain = |weights: &Fields<'_>| {
        weights.size("num_bits") == Some(bits)
            && weights.flag("symmetric") == Some(true)
            && weights.get("actorder").is_none()
    };
    (is_packed && all.iter().all(is_plain)).then_some(Packing::Compressed { bits })
}

/// What the weights of a layer are made of.
pub(super) struct Words {
    packing: Packing,
    words: Bytes,
    /// Words of a row.
    width: usize,
    scales: Matrix,
    zeros: Option<Bytes>,
    /// The group of each input, where it is said.
    groups: Option<Bytes>,
    inputs: usize,
}

/// The names that packed weights have behind that of their layer.
pub(super) const NAMES: [&str; 3] = ["weight", "qweight", "weight_packed"];

impl Matrix {
    /// The weights of the layer `name`, packed or not.
    pub(super) fn of_layer(find: &Find<'_>, name: &str, packing: Packing) -> Plain<Option<Matrix>> {
        let part = |part: &str| find(&format!("{name}.{part}"));
        let scale = match packing {
            Packing::No => None,
            Packing::Awq | Packing::Gptq { .. } => Some(["qweight", "scales"]),
            Packing::Compressed { .. } => Some(["weight_packed", "weight_scale"]),
            Packing::Floats { .. } => Some(["weight", "weight_scale_inv"]),
        };
        let Some([words, scale]) = scale.filter(|[_, scale]| part(scale).is_some()) else {
            return Matrix::find(find, &format!("{name}.weight"));
        };
        let lacks = || format!("`{name}` has not all that packed weights are made of");
        let words = part(words).filter(|words| words.dims.len() == 2).ok_or_else(lacks)?;
        let scales = Matrix::find(find, &format!("{name}.{scale}"))?.ok_or_else(lacks)?;
        let of_rows = matches!(packing, Packing::Awq | Packing::Gptq { .. });
        let bytes = |name: &str| part(name).and_then(|raw| raw.bytes).ok_or_else(lacks);
        let zeros = of_rows.then(|| bytes("qzeros")).transpose()?;
        let groups = match packing {
            Packing::Gptq { .. } if part("g_idx").is_some() => Some(bytes("g_idx")?),
            _ => None,
        };
        let [high, width] = [words.dims[0], words.dims[1]];
        if high == 0 || width == 0 {
            return Err(lacks());
        }
        let [rows, columns] = match packing {
            Packing::Awq => [high, 8 * width],
            Packing::Gptq { bits, .. } => [high * (32 / bits), width],
            Packing::Compressed { bits } => [high, width * (32 / bits)],
            Packing::No | Packing::Floats { .. } => [high, width],
        };
        let inputs = if of_rows { rows } else { columns };
        let size = if matches!(packing, Packing::Floats { .. }) { 1 } else { 4 };
        let words = words.bytes.ok_or_else(lacks)?;
        let of = Words { packing, words, width, scales, zeros, groups, inputs };
        let is_whole = of.words.len() == high * width * size && of.is_whole([rows, columns]);
        match is_whole {
            true => Ok(Some(Matrix::packed([rows, columns], of_rows, of))),
            false => Err(lacks()),
        }
    }
}

impl Rows for Words {
    fn row(&self, i: usize, into: &mut [f64]) {
        match self.packing {
            Packing::No => {}
            Packing::Awq | Packing::Gptq { .. } => self.inputs_row(i, into),
            Packing::Compressed { bits } => {
                let words = &self.words[4 * i * self.width..][..4 * self.width];
                let half = f64::from(1u32 << (bits - 1));
                let mut scales = vec![0.0; self.scales.columns];
                self.scales.row(i, &mut scales);
                let group = into.len() / scales.len();
                for (j, to) in into.iter_mut().enumerate() {
                    *to = (f64::from(Words::code(words, j, bits)) - half) * scales[j / group];
                }
            }
            Packing::Floats { block: [high, wide] } => {
                let mut scales = vec![0.0; self.scales.columns];
                self.scales.row(i / high, &mut scales);
                let codes = &self.words[i * self.width..][..self.width];
                for (j, (to, code)) in into.iter_mut().zip(codes).enumerate() {
                    *to = float8(*code) * scales[j / wide];
                }
            }
        }
    }
}

impl Words {
    /// Whether scales and zero points are those of so many rows and columns.
    fn is_whole(&self, [rows, columns]: [usize; 2]) -> bool {
        let scales = [self.scales.rows, self.scales.columns];
        let divides = |groups: usize| groups > 0 && self.inputs.is_multiple_of(groups);
        match self.packing {
            Packing::No => false,
            Packing::Floats { block: [high, wide] } => {
                scales == [rows.div_ceil(high), columns.div_ceil(wide)]
            }
            Packing::Compressed { .. } => scales[0] == rows && divides(scales[1]),
            Packing::Awq | Packing::Gptq { .. } => {
                let bits = if let Packing::Gptq { bits, .. } = self.packing { bits } else { 4 };
                let zeros = self.zeros.as_ref().map(Bytes::len);
                let groups = self.groups.as_ref().is_none_or(|groups| groups.len() == 4 * rows);
                scales[1] == columns
                    && divides(scales[0])
                    && zeros == Some(scales[0] * columns * bits / 8)
                    && columns.is_multiple_of(32 / bits)
                    && groups
            }
        }
    }

    /// The word of this number.
    fn word(bytes: &[u8], i: usize) -> u32 {
        bytes[4 * i..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Code `i` of a row of words, each of which has its first code in its lowest bits.
    fn code(bytes: &[u8], i: usize, bits: usize) -> u32 {
        let each = 32 / bits;
        Words::word(bytes, i / each) >> (bits * (i % each)) & ((1 << bits) - 1)
    }

    /// The weights of input `i` for all outputs: `(q - z) s`.
    fn inputs_row(&self, i: usize, into: &mut [f64]) {
        let count = self.scales.rows;
        let said = self.groups.as_ref().map(|groups| Words::word(groups, i) as usize);
        let group = said.unwrap_or(i / (self.inputs / count)).min(count - 1);
        let mut scales = vec![0.0; into.len()];
        self.scales.row(group, &mut scales);
        let zeros = self.zeros.as_ref().map_or(&[][..], |zeros| zeros);
        let width = zeros.len() / count;
        let zeros = &zeros[group * width..][..width];
        for (j, to) in into.iter_mut().enumerate() {
            let (code, zero) = match self.packing {
                Packing::Gptq { bits, more } => {
                    let each = 32 / bits;
                    let word = Words::word(&self.words, i / each * self.width + j);
                    let code = word >> (bits * (i % each)) & ((1 << bits) - 1);
                    // Behind the greatest one comes 0.
                    (code, (Words::code(zeros, j, bits) + more) & ((1 << bits) - 1))
                }
                _ => {
                    // The nibble that has this output.
                    let nibble = AWQ.iter().position(|place| *place == j % 8).unwrap_or(0);
                    let code =
                        |words: &[u8], at: usize| Words::word(words, at) >> (4 * nibble) & 15;
                    (code(&self.words, i * self.width + j / 8), code(zeros, j / 8))
                }
            };
            *to = (f64::from(code) - f64::from(zero)) * scales[j];
        }
    }
}

/// A float of 8 bits: sign, 4 bits of exponent above -7, 3 of fraction; without infinities.
fn float8(bits: u8) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let magnitude = match (exponent, bits & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction * 2f64.powi(-9),
        _ => (8.0 + fraction) * 2f64.powi(exponent - 10),
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::float8;

    #[test]
    fn floats_of_eight_bits_are_read() {
        let known = [(0x38, 1.0), (0xc0, -2.0), (0x7e, 448.0), (0x01, 2f64.powi(-9))];
        assert!(known.iter().all(|(bits, number)| float8(*bits) == *number));
        assert!(float8(0x7f).is_nan());
    }
}
