//! Blocks of small integers with scales, as files of GGUF have them: which integers, scales and minima a block says.
//!
//! A block has one or eight groups of 32 elements. In all formats an element is `code · scale − minimum`, where a half
//! of a group, or the whole, has one scale and one minimum. So all formats are computed alike, group by group.

use crate::{DataType, Derivation, Tensor, TensorError};
use half::f16;

/// Elements of a group.
pub(crate) const GROUP: usize = 32;

/// How numbers lie in blocks, by the names that GGML calls its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BlockFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

/// What is taken of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// All elements, as `float`.
    Values,
    /// Their integers, as `int8`.
    Codes,
    /// What integers are multiplied by, as `float`: one for each [`BlockFormat::run`].
    Scales,
    /// What is subtracted then, as `float`: one for each [`BlockFormat::run`].
    Minima,
}

/// Each format with its number and name in GGML, and the bytes and elements of a block.
const FORMATS: [(BlockFormat, u32, &str, usize, usize); 13] = [
    (BlockFormat::Q4_0, 2, "Q4_0", 18, 32),
    (BlockFormat::Q4_1, 3, "Q4_1", 20, 32),
    (BlockFormat::Q5_0, 6, "Q5_0", 22, 32),
    (BlockFormat::Q5_1, 7, "Q5_1", 24, 32),
    (BlockFormat::Q8_0, 8, "Q8_0", 34, 32),
    (BlockFormat::Q2K, 10, "Q2_K", 84, 256),
    (BlockFormat::Q3K, 11, "Q3_K", 110, 256),
    (BlockFormat::Q4K, 12, "Q4_K", 144, 256),
    (BlockFormat::Q5K, 13, "Q5_K", 176, 256),
    (BlockFormat::Q6K, 14, "Q6_K", 210, 256),
    (BlockFormat::Iq4Nl, 20, "IQ4_NL", 18, 32),
    (BlockFormat::Iq4Xs, 23, "IQ4_XS", 136, 256),
    (BlockFormat::Mxfp4, 39, "MXFP4", 17, 32),
];

impl BlockFormat {
    /// All formats.
    pub fn all() -> impl Iterator<Item = BlockFormat> {
        FORMATS.iter().map(|row| row.0)
    }

    /// The format of this number in GGML.
    pub fn from_number(number: u32) -> Option<BlockFormat> {
        FORMATS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    fn row(self) -> &'static (BlockFormat, u32, &'static str, usize, usize) {
        FORMATS.iter().find(|row| row.0 == self).expect("each format has a row")
    }

    /// Its number in GGML.
    pub fn number(self) -> u32 {
        self.row().1
    }

    /// Its name in GGML.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        self.row().3
    }

    /// Elements of a block.
    pub fn elements(self) -> usize {
        self.row().4
    }

    /// Elements with one scale and one minimum.
    pub fn run(self) -> usize {
        match self {
            BlockFormat::Q2K | BlockFormat::Q3K | BlockFormat::Q6K => 16,
            _ => GROUP,
        }
    }

    /// The least and the greatest code.
    pub fn codes(self) -> (i8, i8) {
        match self {
            BlockFormat::Q4_0 => (-8, 7),
            BlockFormat::Q4_1 | BlockFormat::Q4K => (0, 15),
            BlockFormat::Q5_0 => (-16, 15),
            BlockFormat::Q5_1 | BlockFormat::Q5K => (0, 31),
            BlockFormat::Q8_0 => (-128, 127),
            BlockFormat::Q2K => (0, 3),
            BlockFormat::Q3K => (-4, 3),
            BlockFormat::Q6K => (-32, 31),
            BlockFormat::Iq4Nl | BlockFormat::Iq4Xs => (-127, 113),
            BlockFormat::Mxfp4 => (-12, 12),
        }
    }

    /// Whether something is subtracted from scaled codes.
    pub fn has_minima(self) -> bool {
        use BlockFormat::{Q2K, Q4_1, Q4K, Q5_1, Q5K};
        matches!(self, Q4_1 | Q5_1 | Q2K | Q4K | Q5K)
    }
}

/// Parts in the order of their numbers.
const PARTS: [BlockPart; 4] =
    [BlockPart::Values, BlockPart::Codes, BlockPart::Scales, BlockPart::Minima];

impl BlockPart {
    /// The part of this number, by which plugins name it.
    pub fn from_number(number: u64) -> Option<BlockPart> {
        PARTS.get(usize::try_from(number).ok()?).copied()
    }

    /// Its number.
    pub fn number(self) -> usize {
        self as usize
    }

    /// The type of what is taken.
    pub fn dtype(self) -> DataType {
        match self {
            BlockPart::Codes => DataType::Int8,
            _ => DataType::Float,
        }
    }

    /// How many of these a group has.
    pub(crate) fn of_group(self, format: BlockFormat) -> usize {
        match self {
            BlockPart::Values | BlockPart::Codes => GROUP,
            BlockPart::Scales | BlockPart::Minima => GROUP / format.run(),
        }
    }
}

/// 32 elements: codes, and the scale and the minimum of each half.
struct Group {
    codes: [i8; GROUP],
    scale: [f32; 2],
    minimum: [f32; 2],
}

impl Group {
    fn even(codes: [i8; GROUP], scale: f32, minimum: f32) -> Group {
        Group { codes, scale: [scale; 2], minimum: [minimum; 2] }
    }

    /// Writes what is taken of the group to `out`, which has room for all of it.
    fn write(&self, format: BlockFormat, part: BlockPart, out: &mut [u8]) {
        let floats = |of: &[f32], out: &mut [u8]| {
            for (x, y) in of.iter().zip(out.as_chunks_mut().0) {
                *y = x.to_le_bytes();
            }
        };
        match part {
            BlockPart::Values => {
                let mut values = [0f32; GROUP];
                for (i, (value, code)) in values.iter_mut().zip(self.codes).enumerate() {
                    let half = i / (GROUP / 2);
                    *value = f32::from(code) * self.scale[half] - self.minimum[half];
                }
                floats(&values, out);
            }
            BlockPart::Codes => {
                out.iter_mut().zip(self.codes).for_each(|(y, code)| *y = code as u8);
            }
            BlockPart::Scales => floats(&self.scale[..part.of_group(format)], out),
            BlockPart::Minima => floats(&self.minimum[..part.of_group(format)], out),
        }
    }
}

/// Group `g` of a block, which has as many bytes as the format says.
fn group(format: BlockFormat, block: &[u8], g: usize) -> Group {
    use BlockFormat::{Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    match format {
        Q4_0 => Group::even(nibbles(&block[2..]).map(|q| q as i8 - 8), half(0), 0.0),
        Q4_1 => Group::even(nibbles(&block[4..]).map(|q| q as i8), half(0), -half(2)),
        Q5_0 => Group::even(fifth(&block[2..]).map(|q| q as i8 - 16), half(0), 0.0),
        Q5_1 => Group::even(fifth(&block[4..]).map(|q| q as i8), half(0), -half(2)),
        Q8_0 => Group::even(each(|l| block[2 + l] as i8), half(0), 0.0),
        Q2K => quarters(block, g, [half(80), half(82)]),
        Q3K => eighths(block, g, half(108)),
        Q4K | Q5K => {
            let (scale, minimum) = six_bits(&block[4..16], g);
            let codes = if format == Q4K {
                in_pairs(&block[16..], g).map(|q| q as i8)
            } else {
                let low = in_pairs(&block[48..], g);
                each(|l| (low[l] + ((block[16 + l] >> g & 1) << 4)) as i8)
            };
            Group::even(codes, half(0) * scale, half(2) * minimum)
        }
        Q6K => sixty_fourths(block, g, half(208)),
        Iq4Nl => Group::even(nibbles(&block[2..]).map(|q| UNEVEN[usize::from(q)]), half(0), 0.0),
        Iq4Xs => {
            let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * g) & 3;
            let low = block[4 + g / 2] >> (4 * (g % 2)) & 15;
            let scale = f32::from(low) + f32::from(high << 4) - 32.0;
            let codes = nibbles(&block[8 + 16 * g..]).map(|q| UNEVEN[usize::from(q)]);
            Group::even(codes, half(0) * scale, 0.0)
        }
        Mxfp4 => {
            // Codes are twice the numbers, so that all are whole.
            let codes = nibbles(&block[1..]).map(|q| HALVES[usize::from(q)]);
            Group::even(codes, 2f64.powi(i32::from(block[0]) - 128) as f32, 0.0)
        }
    }
}

/// Codes of `Iq4Nl` and `Iq4Xs`.
const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the numbers of a float of 4 bits.
const HALVES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn each<T>(f: impl Fn(usize) -> T) -> [T; GROUP] {
    std::array::from_fn(f)
}

/// The low halves of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> [u8; GROUP] {
    each(|i| bytes[i % 16] >> (4 * (i / 16)) & 15)
}

/// Four bytes with the fifth bit of each element before 16 with the others.
fn fifth(bytes: &[u8]) -> [u8; GROUP] {
    let low = nibbles(&bytes[4..]);
    each(|i| low[i] + ((bytes[i / 8] >> (i % 8) & 1) << 4))
}

/// The low or the high halves of 32 bytes, which two groups share.
fn in_pairs(bytes: &[u8], g: usize) -> [u8; GROUP] {
    each(|l| bytes[g / 2 * 32 + l] >> (4 * (g % 2)) & 15)
}

/// Two bits of each of 32 bytes, which four groups share.
fn in_fours(bytes: &[u8], g: usize) -> [u8; GROUP] {
    each(|l| bytes[g / 4 * 32 + l] >> (2 * (g % 4)) & 3)
}

/// Scale and minimum `j` of eight of each, in 6 bits.
fn six_bits(bytes: &[u8], j: usize) -> (f32, f32) {
    let (scale, minimum) = match j {
        0..4 => (bytes[j] & 63, bytes[j + 4] & 63),
        _ => {
            let low = bytes[j + 4];
            ((low & 15) | (bytes[j - 4] >> 6 << 4), (low >> 4) | (bytes[j] >> 6 << 4))
        }
    };
    (f32::from(scale), f32::from(minimum))
}

/// `Q2K`: 16 bytes of scales and minima, then the codes.
fn quarters(block: &[u8], g: usize, [d, m]: [f32; 2]) -> Group {
    let both = [block[2 * g], block[2 * g + 1]];
    Group {
        codes: in_fours(&block[16..], g).map(|q| q as i8),
        scale: both.map(|s| d * f32::from(s & 15)),
        minimum: both.map(|s| m * f32::from(s >> 4)),
    }
}

/// `Q3K`: 32 bytes of high bits, the low ones, and 16 scales of 6 bits in 12 bytes.
fn eighths(block: &[u8], g: usize, d: f32) -> Group {
    let low = in_fours(&block[32..], g);
    let scales = &block[96..108];
    let scale = |s: usize| {
        let low = scales[s % 8] >> (4 * (s / 8)) & 15;
        let high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
        d * (f32::from(low | high << 4) - 32.0)
    };
    let codes = each(|l| low[l] as i8 - if block[l] >> g & 1 == 0 { 4 } else { 0 });
    Group { codes, scale: [scale(2 * g), scale(2 * g + 1)], minimum: [0.0; 2] }
}

/// `Q6K`: 128 bytes of low bits, 64 of high ones, and 16 scales.
fn sixty_fourths(block: &[u8], g: usize, d: f32) -> Group {
    let (half, j) = (g / 4, g % 4);
    let low = |l: usize| block[64 * half + 32 * (j % 2) + l] >> (4 * (j / 2)) & 15;
    let high = in_fours(&block[128..], g);
    let scale = |s: usize| d * f32::from(block[192 + s] as i8);
    Group {
        codes: each(|l| (low(l) | high[l] << 4) as i8 - 32),
        scale: [scale(2 * g), scale(2 * g + 1)],
        minimum: [0.0; 2],
    }
}

/// Bytes of blocks that are read at a time, if they are computed.
const READ_BYTES: usize = 1 << 20;

/// Bytes of what is taken of a group, at most.
const GROUP_BYTES: usize = GROUP * size_of::<f32>();

/// Writes what blocks say, from the element `first` on: whole groups where they belong, and of others a part.
pub(crate) fn fill(
    source: &Tensor,
    (format, part): (BlockFormat, BlockPart),
    first: usize,
    out: &mut [u8],
) {
    let size = part.dtype().bits() / 8;
    let of_group = part.of_group(format);
    let groups = format.elements() / GROUP;
    let end = first + out.len() / size;
    let mut at = first;
    let mut room = [0; GROUP_BYTES];
    // Blocks of memory of a usual size, so that a derived source is computed a part at a time.
    let most = (READ_BYTES / format.bytes()).max(1) * groups * of_group;
    while at < end {
        let stop = end.min(at / most * most + most);
        let (begin, last) = (at / (groups * of_group), (stop - 1) / (groups * of_group));
        let blocks = source.part(begin * format.bytes()..(last + 1) * format.bytes());
        while at < stop {
            let (place, within) = (at / of_group, at % of_group);
            let block = &blocks[(place / groups - begin) * format.bytes()..][..format.bytes()];
            let found = group(format, block, place % groups);
            let count = (of_group - within).min(stop - at);
            let to = &mut out[(at - first) * size..][..count * size];
            if count == of_group {
                found.write(format, part, to);
            } else {
                found.write(format, part, &mut room[..of_group * size]);
                to.copy_from_slice(&room[within * size..][..count * size]);
            }
            at += count;
        }
    }
}

impl Tensor {
    /// What blocks of `format` say, whose bytes this is: `float` or, of codes, `int8`.
    ///
    /// # Errors
    /// As [`Tensor::derived`]; if these are no bytes of whole blocks, or `dims` come to another number of elements.
    pub fn from_blocks(
        &self,
        format: BlockFormat,
        part: BlockPart,
        dims: impl Into<Vec<usize>>,
    ) -> Result<Tensor, TensorError> {
        let from = Derivation::Blocks { source: self.clone(), format, part };
        Tensor::derived(part.dtype(), dims, from)
    }
}

/// Whether a tensor has the bytes of blocks that say so many elements.
pub(crate) fn check(
    source: &Tensor,
    dtype: DataType,
    count: usize,
    (format, part): (BlockFormat, BlockPart),
) -> Result<(), TensorError> {
    if source.dtype() != DataType::Uint8 || dtype != part.dtype() {
        return Err(TensorError::Derivation(format!("{source:?} as blocks of {dtype}")));
    }
    let (blocks, rest) = (source.len() / format.bytes(), source.len() % format.bytes());
    let of_block = format.elements() / GROUP * part.of_group(format);
    match rest == 0 && blocks.checked_mul(of_block) == Some(count) {
        true => Ok(()),
        false => Err(TensorError::Derivation(format!(
            "{count} elements of {} bytes in blocks of {}",
            source.len(),
            format.name()
        ))),
    }
}

#[cfg(test)]
mod tests;
