//! Checksums: lookup3 of Bob Jenkins over the parts that describe a file, and Fletcher's over chunks.

/// Sixteen-bit words that Fletcher's sums can take before they overflow.
const WORDS_MAX: usize = 360;

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Jenkins' `hashlittle` from zero.
pub(super) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    while let Some((twelve, behind)) = rest.split_at_checked(12).filter(|(_, b)| !b.is_empty()) {
        a = a.wrapping_add(word(&twelve[..4]));
        b = b.wrapping_add(word(&twelve[4..8]));
        c = c.wrapping_add(word(&twelve[8..]));
        for turns in [[4, 6, 8], [16, 19, 4]] {
            a = a.wrapping_sub(c) ^ c.rotate_left(turns[0]);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(turns[1]);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(turns[2]);
            b = b.wrapping_add(a);
        }
        rest = behind;
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| word(&rest[from.min(rest.len())..(from + 4).min(rest.len())]);
    (a, b, c) = (a.wrapping_add(part(0)), b.wrapping_add(part(4)), c.wrapping_add(part(8)));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Fletcher's checksum of words whose high byte comes first.
pub(super) fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u32, 0u32);
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    for block in bytes.chunks(2 * WORDS_MAX) {
        for pair in block.chunks(2) {
            low += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}
