use super::*;

fn half(bytes: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f64()
}

fn bits(byte: u8, at: usize, count: u32) -> f64 {
    f64::from(byte >> at & ((1u16 << count) - 1) as u8)
}

/// Scale and minimum of a run of a block in 6 bits.
fn packed_scales(b: &[u8], j: usize) -> [f64; 2] {
    let wide = |low: f64, high: f64| low + 16.0 * high;
    match j < 4 {
        true => [bits(b[j], 0, 6), bits(b[j + 4], 0, 6)],
        false => [
            wide(bits(b[j + 4], 0, 4), bits(b[j - 4], 6, 2)),
            wide(bits(b[j + 4], 4, 4), bits(b[j], 6, 2)),
        ],
    }
}

/// Element `i` of a block as the format is described: one by one, and in double precision.
fn element(format: BlockFormat, b: &[u8], i: usize) -> f64 {
    let nibble = |from: usize| bits(b[from + i % 16], 4 * (i / 16 % 2), 4);
    let fifth = |from: usize| bits(b[from + i / 8], i % 8, 1);
    let (group, l, run) = (i / 32, i % 32, i / 16);
    let quarter = |from: usize| bits(b[from + i / 128 * 32 + l], 2 * (group % 4), 2);
    let pair = |from: usize| bits(b[from + i / 64 * 32 + l], 4 * (group % 2), 4);
    let table = |q: f64| f64::from(UNEVEN[q as usize]);
    match format {
        BlockFormat::Q4_0 => (nibble(2) - 8.0) * half(b, 0),
        BlockFormat::Q4_1 => nibble(4) * half(b, 0) + half(b, 2),
        BlockFormat::Q5_0 => (nibble(6) + 16.0 * fifth(2) - 16.0) * half(b, 0),
        BlockFormat::Q5_1 => (nibble(8) + 16.0 * fifth(4)) * half(b, 0) + half(b, 2),
        BlockFormat::Q8_0 => f64::from(b[2 + i] as i8) * half(b, 0),
        BlockFormat::Q2K => {
            let scales = b[run];
            let (scale, minimum) = (bits(scales, 0, 4), bits(scales, 4, 4));
            quarter(16) * half(b, 80) * scale - half(b, 82) * minimum
        }
        BlockFormat::Q3K => {
            let q = quarter(32) - if bits(b[l], group, 1) == 0.0 { 4.0 } else { 0.0 };
            let low = bits(b[96 + run % 8], 4 * (run / 8), 4);
            let high = bits(b[104 + run % 4], 2 * (run / 4), 2);
            q * half(b, 108) * (low + 16.0 * high - 32.0)
        }
        BlockFormat::Q4K => {
            let [scale, minimum] = packed_scales(&b[4..16], group);
            pair(16) * half(b, 0) * scale - half(b, 2) * minimum
        }
        BlockFormat::Q5K => {
            let [scale, minimum] = packed_scales(&b[4..16], group);
            let q = pair(48) + 16.0 * bits(b[16 + l], group, 1);
            q * half(b, 0) * scale - half(b, 2) * minimum
        }
        BlockFormat::Q6K => {
            let low = bits(b[i / 128 * 64 + i % 64], 4 * (i / 64 % 2), 4);
            let q = low + 16.0 * quarter(128) - 32.0;
            q * half(b, 208) * f64::from(b[192 + run] as i8)
        }
        BlockFormat::Iq4Nl => table(nibble(2)) * half(b, 0),
        BlockFormat::Iq4Xs => {
            let q = bits(b[8 + group * 16 + i % 16], 4 * (i / 16 % 2), 4);
            let high = u16::from_le_bytes([b[2], b[3]]) >> (2 * group) & 3;
            let low = bits(b[4 + group / 2], 4 * (group % 2), 4);
            table(q) * half(b, 0) * (low + 16.0 * f64::from(high) - 32.0)
        }
        BlockFormat::Mxfp4 => {
            let q = nibble(1) as usize;
            let number = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][q % 8];
            (if q < 8 { number } else { -number }) * 2f64.powi(i32::from(b[0]) - 127)
        }
    }
}

/// Bytes of blocks that follow from a seed; where scales lie, they are usual numbers.
fn bytes(format: BlockFormat, blocks: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) as u8
    };
    let mut all: Vec<u8> = (0..blocks * format.bytes()).map(|_| next()).collect();
    let halves: &[usize] = match format {
        BlockFormat::Q2K => &[80, 82],
        BlockFormat::Q3K => &[108],
        BlockFormat::Q6K => &[208],
        BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q4K | BlockFormat::Q5K => &[0, 2],
        BlockFormat::Mxfp4 => &[],
        _ => &[0],
    };
    for block in all.chunks_mut(format.bytes()) {
        for at in halves {
            let number = f16::from_f32((f32::from(next()) - 127.5) / 64.0);
            block[*at..at + 2].copy_from_slice(&number.to_le_bytes());
        }
        if format == BlockFormat::Mxfp4 {
            block[0] = next() % 64 + 96;
        }
    }
    all
}

fn packed(bytes: Vec<u8>) -> Tensor {
    Tensor::vector(bytes)
}

fn values(format: BlockFormat, bytes: Vec<u8>) -> Tensor {
    let count = bytes.len() / format.bytes() * format.elements();
    packed(bytes).from_blocks(format, BlockPart::Values, [count]).unwrap()
}

/// All formats agree with their descriptions to the last bit: products are exact in double precision, and both round
/// once.
#[test]
fn blocks_say_what_their_formats_do() {
    for format in BlockFormat::all() {
        for seed in 0..8 {
            let bytes = bytes(format, 5, seed);
            let found = values(format, bytes.clone());
            let found = found.as_slice::<f32>().unwrap();
            for (i, value) in found.iter().enumerate() {
                let (block, at) = (i / format.elements(), i % format.elements());
                let block = &bytes[block * format.bytes()..][..format.bytes()];
                let wanted = element(format, block, at) as f32;
                assert_eq!(*value, wanted, "{} {i}", format.name());
            }
        }
    }
}

#[test]
fn parts_make_the_values() {
    for format in BlockFormat::all() {
        let bytes = bytes(format, 3, 7);
        let count = 3 * format.elements();
        let part = |part, count| packed(bytes.clone()).from_blocks(format, part, [count]).unwrap();
        let codes = part(BlockPart::Codes, count);
        let codes = codes.as_slice::<i8>().unwrap();
        let runs = count / format.run();
        let [scales, minima] = [BlockPart::Scales, BlockPart::Minima].map(|p| part(p, runs).held());
        let (scales, minima) =
            (scales.as_slice::<f32>().unwrap(), minima.as_slice::<f32>().unwrap());
        let whole = values(format, bytes.clone());
        let (least, most) = format.codes();
        for (i, value) in whole.as_slice::<f32>().unwrap().iter().enumerate() {
            let run = i / format.run();
            assert_eq!(f32::from(codes[i]) * scales[run] - minima[run], *value);
            assert!((least..=most).contains(&codes[i]), "{}", format.name());
        }
        assert!(format.has_minima() || minima.iter().all(|m| *m == 0.0), "{}", format.name());
    }
}

#[test]
fn each_range_of_elements() {
    for format in BlockFormat::all() {
        let x = values(format, bytes(format, 2, 3));
        let whole = x.bytes();
        for first in 0..x.len() {
            for end in (first..=x.len()).step_by(37) {
                assert_eq!(x.part(first..end)[..], whole[first * 4..end * 4]);
            }
        }
        let many = values(format, bytes(format, 3000, 5));
        let parts = (0..many.len()).step_by(1000);
        let joined = parts.flat_map(|at| many.part(at..many.len().min(at + 1000)).into_owned());
        assert!(joined.eq(many.bytes()), "{}", format.name());
        // Blocks in another order say the same in that order.
        let rows = packed(bytes(format, 6, 9)).reshaped([2, 3, format.bytes()]).unwrap();
        let turned = rows.permuted(&[1, 0, 2]).unwrap().reshaped([6 * format.bytes()]).unwrap();
        let dims = [3, 2, format.elements()];
        let turned = turned.from_blocks(format, BlockPart::Values, dims).unwrap();
        let plain = rows.from_blocks(format, BlockPart::Values, [2, 3, format.elements()]).unwrap();
        assert_eq!(turned, plain.permuted(&[1, 0, 2]).unwrap());
    }
}

/// Small examples by hand.
#[test]
fn examples() {
    let one = f16::ONE.to_le_bytes();
    let two = f16::from_f32(2.0).to_le_bytes();
    let first = |format, head: &[u8], tail: &[u8]| {
        let mut block = vec![0; BlockFormat::bytes(format)];
        block[..head.len()].copy_from_slice(head);
        let at = block.len() - tail.len();
        block[at..].copy_from_slice(tail);
        values(format, block).as_slice::<f32>().unwrap().to_vec()
    };
    // d = 2, bytes 0x5f and 0x00: 15 - 8 = 7 and 0 - 8 at the front, 5 - 8 = -3 behind 16 elements.
    let found = first(BlockFormat::Q4_0, &[two[0], two[1], 0x5f], &[]);
    assert_eq!((found[0], found[1], found[16]), (14.0, -16.0, -6.0));
    let found = first(BlockFormat::Q4_1, &[two[0], two[1], one[0], one[1], 0x5f], &[]);
    assert_eq!((found[0], found[1], found[16]), (31.0, 1.0, 11.0));
    // The fifth bit of element 0, and of element 17.
    let found = first(BlockFormat::Q5_0, &[one[0], one[1], 1, 0, 2, 0, 0x03], &[]);
    assert_eq!((found[0], found[1], found[17]), (3.0, -16.0, 0.0));
    let found = first(BlockFormat::Q8_0, &[two[0], two[1], 0x80, 0x7f], &[]);
    assert_eq!((found[0], found[1]), (-256.0, 254.0));
    // Scale 3 and minimum 5 of run 0; d = 1, m = 2; code 2.
    let found =
        first(BlockFormat::Q2K, &[&[0x53][..], &[0; 15], &[2]].concat(), &[one, two].concat());
    assert_eq!((found[0], found[1], found[16]), (-4.0, -10.0, 0.0));
    // No high bit: 0 - 4, by scale 0 - 32.
    let found = first(BlockFormat::Q3K, &[0xfe], &one);
    assert_eq!((found[0], found[1]), (128.0, 128.0));
    assert_eq!(first(BlockFormat::Q3K, &[0x01], &one)[0], 0.0);
    // Scale 2 and minimum 1 of group 0.
    let mut head = [&two[..], &one, &[2, 0, 0, 0, 1], &[0; 7], &[0x0f]].concat();
    let found = first(BlockFormat::Q4K, &head, &[]);
    assert_eq!((found[0], found[1], found[32]), (59.0, -1.0, 0.0));
    head.splice(16..16, [[1].as_slice(), &[0; 31]].concat());
    let found = first(BlockFormat::Q5K, &head, &[]);
    assert_eq!((found[0], found[1]), (123.0, -1.0));
    // Scale 3 of run 0: (0 - 32) · 3.
    let found = first(BlockFormat::Q6K, &[], &[&[3][..], &[0; 15], &one].concat());
    assert_eq!((found[0], found[16]), (-96.0, 0.0));
    let found = first(BlockFormat::Iq4Nl, &[two[0], two[1], 0xf0], &[]);
    assert_eq!((found[0], found[16]), (-254.0, 226.0));
    let found = first(BlockFormat::Iq4Xs, &[one[0], one[1], 2, 0, 1, 0, 0, 0, 0x08], &[]);
    assert_eq!((found[0], found[16], found[32]), (1.0, -127.0, -127.0 * -32.0));
    let found = first(BlockFormat::Mxfp4, &[128, 0x97], &[]);
    assert_eq!((found[0], found[16], found[1]), (12.0, -1.0, 0.0));
    assert_eq!(first(BlockFormat::Mxfp4, &[0, 1], &[])[0], f32::from_bits(1 << 21));
}

#[test]
fn what_is_no_whole_block_is_refused() {
    let bytes = packed(vec![0; 36]);
    let from = |x: &Tensor, part, count: usize| x.from_blocks(BlockFormat::Q4_0, part, [count]);
    assert!(from(&bytes, BlockPart::Values, 64).is_ok());
    assert!(from(&bytes, BlockPart::Scales, 2).is_ok());
    for (x, part, count) in [
        (bytes.clone(), BlockPart::Values, 63),
        (bytes.clone(), BlockPart::Scales, 64),
        (packed(vec![0; 37]), BlockPart::Values, 64),
        (Tensor::vector(vec![0i8; 36]), BlockPart::Values, 64),
    ] {
        let found = from(&x, part, count).unwrap_err().to_string();
        assert!(found.contains("blocks"), "{found}");
    }
}

#[test]
fn scales_tell_whether_all_values_are_finite() {
    for format in BlockFormat::all() {
        let fine = bytes(format, 4, 1);
        assert!(values(format, fine.clone()).is_finite(), "{}", format.name());
        if format == BlockFormat::Mxfp4 {
            continue;
        }
        let mut bad = fine;
        let at = bad.len() - if matches!(format, BlockFormat::Q2K) { 4 } else { 2 };
        let at = match format {
            BlockFormat::Q2K | BlockFormat::Q3K | BlockFormat::Q6K => at,
            _ => bad.len() - format.bytes(),
        };
        bad[at..at + 2].copy_from_slice(&f16::INFINITY.to_le_bytes());
        assert!(!values(format, bad).is_finite(), "{}", format.name());
    }
}
