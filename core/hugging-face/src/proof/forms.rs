//! Types of elements, and of blocks of elements, by their definitions: what bytes stand for.

/// Reads whole blocks.
type Read = fn(&[u8], &mut [f64]);

/// How elements lie in bytes.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Bytes of a block, and the elements that they stand for.
    pub(super) bytes: usize,
    pub(super) elements: usize,
    pub(super) read: Read,
}

/// The form of this name in safetensors or GGUF.
pub(super) fn form(name: &str) -> Option<Form> {
    let (bytes, elements, read): (usize, usize, Read) = match name {
        "F64" => (8, 1, |from, into| each(from, into, f64::from_le_bytes)),
        "F32" => (4, 1, |from, into| each(from, into, |b| f64::from(f32::from_le_bytes(b)))),
        "F16" => (2, 1, |from, into| each(from, into, |b| half(u16::from_le_bytes(b)))),
        "BF16" => (2, 1, |from, into| {
            each(from, into, |[low, high]| f64::from(f32::from_le_bytes([0, 0, low, high])));
        }),
        "Q4_0" => (18, 32, |from, into| blocks::<18, 32>(from, into, q4_0)),
        "Q4_1" => (20, 32, |from, into| blocks::<20, 32>(from, into, q4_1)),
        "Q5_0" => (22, 32, |from, into| blocks::<22, 32>(from, into, q5_0)),
        "Q5_1" => (24, 32, |from, into| blocks::<24, 32>(from, into, q5_1)),
        "Q8_0" => (34, 32, |from, into| blocks::<34, 32>(from, into, q8_0)),
        "Q2_K" => (84, 256, |from, into| blocks::<84, 256>(from, into, q2_k)),
        "Q3_K" => (110, 256, |from, into| blocks::<110, 256>(from, into, q3_k)),
        "Q4_K" => (144, 256, |from, into| blocks::<144, 256>(from, into, q4_k)),
        "Q5_K" => (176, 256, |from, into| blocks::<176, 256>(from, into, q5_k)),
        "Q6_K" => (210, 256, |from, into| blocks::<210, 256>(from, into, q6_k)),
        _ => return None,
    };
    Some(Form { bytes, elements, read })
}

fn each<const N: usize>(from: &[u8], into: &mut [f64], number: impl Fn([u8; N]) -> f64) {
    let (all, _) = from.as_chunks::<N>();
    into.iter_mut().zip(all).for_each(|(to, bytes)| *to = number(*bytes));
}

fn blocks<const N: usize, const M: usize>(
    from: &[u8],
    into: &mut [f64],
    read: impl Fn(&[u8; N], &mut [f64; M]),
) {
    let (from, into) = (from.as_chunks::<N>().0, into.as_chunks_mut::<M>().0);
    from.iter().zip(into).for_each(|(from, into)| read(from, into));
}

/// A number of 16 bits: sign, 5 bits of exponent, 10 of fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The half at byte `at` of a block.
fn half_at(block: &[u8], at: usize) -> f64 {
    half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Element `i` of nibbles: the low ones of all bytes, then the high ones.
fn nibble(bytes: &[u8], i: usize) -> f64 {
    let n = bytes.len();
    f64::from(if i < n { bytes[i] & 15 } else { bytes[i - n] >> 4 })
}

fn bit(bytes: &[u8], i: usize) -> f64 {
    f64::from(bytes[i / 8] >> (i % 8) & 1)
}

fn q4_0(block: &[u8; 18], into: &mut [f64; 32]) {
    let d = half_at(block, 0);
    (0..32).for_each(|i| into[i] = (nibble(&block[2..], i) - 8.0) * d);
}

fn q4_1(block: &[u8; 20], into: &mut [f64; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    (0..32).for_each(|i| into[i] = nibble(&block[4..], i) * d + m);
}

fn q5_0(block: &[u8; 22], into: &mut [f64; 32]) {
    let d = half_at(block, 0);
    let code = |i| nibble(&block[6..], i) + 16.0 * bit(&block[2..6], i);
    (0..32).for_each(|i| into[i] = (code(i) - 16.0) * d);
}

fn q5_1(block: &[u8; 24], into: &mut [f64; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let code = |i| nibble(&block[8..], i) + 16.0 * bit(&block[4..8], i);
    (0..32).for_each(|i| into[i] = code(i) * d + m);
}

fn q8_0(block: &[u8; 34], into: &mut [f64; 32]) {
    let d = half_at(block, 0);
    (0..32).for_each(|i| into[i] = f64::from(block[2 + i].cast_signed()) * d);
}

/// Element `i` of codes of two bits: 128 elements lie in 32 bytes, each fourth of them in two bits of all bytes.
fn two_bits(bytes: &[u8], i: usize) -> u8 {
    bytes[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3
}

fn q2_k(block: &[u8; 84], into: &mut [f64; 256]) {
    let (scales, d, m) = (&block[..16], half_at(block, 80), half_at(block, 82));
    for (i, to) in into.iter_mut().enumerate() {
        let scale = scales[i / 16];
        *to = f64::from(two_bits(&block[16..80], i)) * d * f64::from(scale & 15)
            - m * f64::from(scale >> 4);
    }
}

fn q3_k(block: &[u8; 110], into: &mut [f64; 256]) {
    let (high, scales, d) = (&block[..32], &block[96..108], half_at(block, 108));
    let scale = |s: usize| {
        let low = if s < 8 { scales[s] & 15 } else { scales[s - 8] >> 4 };
        let high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
        f64::from(low | high << 4) - 32.0
    };
    for (i, to) in into.iter_mut().enumerate() {
        let is_less = high[i % 32] >> (i / 32) & 1 == 0;
        let code = f64::from(two_bits(&block[32..96], i)) - if is_less { 4.0 } else { 0.0 };
        *to = code * d * scale(i / 16);
    }
}

/// Scale and minimum of sub-block `j`, each of six bits.
fn six_bits(b: &[u8], j: usize) -> [f64; 2] {
    let [scale, minimum] = match j {
        0..4 => [b[j] & 63, b[j + 4] & 63],
        _ => [b[j + 4] & 15 | b[j - 4] >> 6 << 4, b[j + 4] >> 4 | b[j] >> 6 << 4],
    };
    [scale, minimum].map(f64::from)
}

fn q4_k(block: &[u8; 144], into: &mut [f64; 256]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, to) in into.iter_mut().enumerate() {
        let [scale, minimum] = six_bits(&block[4..16], i / 32);
        let codes = &block[16 + i / 64 * 32..][..32];
        *to = nibble(codes, i % 64) * d * scale - m * minimum;
    }
}

fn q5_k(block: &[u8; 176], into: &mut [f64; 256]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, to) in into.iter_mut().enumerate() {
        let [scale, minimum] = six_bits(&block[4..16], i / 32);
        let codes = &block[48 + i / 64 * 32..][..32];
        let high = f64::from(block[16 + i % 32] >> (i / 32) & 1);
        *to = (nibble(codes, i % 64) + 16.0 * high) * d * scale - m * minimum;
    }
}

fn q6_k(block: &[u8; 210], into: &mut [f64; 256]) {
    let (low, high, scales, d) =
        (&block[..128], &block[128..192], &block[192..208], half_at(block, 208));
    for (i, to) in into.iter_mut().enumerate() {
        let low = nibble(&low[i / 128 * 64..][..64], i % 128);
        let code = low + 16.0 * f64::from(two_bits(high, i)) - 32.0;
        *to = code * d * f64::from(scales[i / 16].cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use super::{form, half};

    #[test]
    fn halves_are_read() {
        let known = [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7bff, 65504.0)];
        assert!(known.iter().all(|(bits, number)| half(*bits) == *number));
    }

    /// Codes that are all alike, with scales of one: what is left is what a code stands for.
    #[test]
    fn blocks_of_one_code_are_read() {
        let one = [0x00, 0x3c];
        let read = |name: &str, block: &[u8]| {
            let form = form(name).unwrap();
            let mut numbers = vec![f64::NAN; form.elements];
            assert_eq!(block.len(), form.bytes, "{name}");
            (form.read)(block, &mut numbers);
            assert!(numbers.iter().all(|number| *number == numbers[0]), "{name}: {numbers:?}");
            numbers[0]
        };
        assert_eq!(read("Q4_0", &[&one[..], &[0x33; 16]].concat()), -5.0);
        assert_eq!(read("Q4_1", &[&one[..], &one, &[0x33; 16]].concat()), 4.0);
        assert_eq!(read("Q5_0", &[&one[..], &[0xff; 4], &[0x33; 16]].concat()), 3.0);
        assert_eq!(read("Q5_1", &[&one[..], &one, &[0xff; 4], &[0x33; 16]].concat()), 20.0);
        assert_eq!(read("Q8_0", &[&one[..], &[0xfe; 32]].concat()), -2.0);
        let both = [&[0x21; 16][..], &[0xaa; 64], &one, &one].concat();
        assert_eq!(read("Q2_K", &both), 2.0 - 2.0);
        let all = [&[0u8; 32][..], &[0xaa; 64], &[0x11; 8], &[0xaa; 4], &one].concat();
        assert_eq!(read("Q3_K", &all), (2.0 - 4.0) * (33.0 - 32.0));
        let scales = [&[3u8; 4][..], &[2; 4], &[0x23; 4]].concat();
        assert_eq!(read("Q4_K", &[&one[..], &one, &scales, &[0x77; 128]].concat()), 21.0 - 2.0);
        let high = [0xff; 32];
        let all = [&one[..], &one, &scales, &high, &[0x11; 128]].concat();
        assert_eq!(read("Q5_K", &all), 17.0 * 3.0 - 2.0);
        let all = [&[0x55u8; 128][..], &[0xaa; 64], &[0xff; 16], &one].concat();
        assert_eq!(read("Q6_K", &all), -(5.0 + 32.0 - 32.0));
    }
}
