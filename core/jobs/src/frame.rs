//! The journal's framing: how records lie in a file and how they are found again after damage.
//!
//! ```text
//! magic u32 | crc32c u32 | payload_bytes u32 | seq u64 | kind u8 | payload
//! ```
//!
//! All little-endian; the checksum covers everything after itself. The magic number lets a reader
//! find the next record behind a damaged one.

use crate::record::RECORD_BYTES_MAX;
use std::ops::Range;

const MAGIC: [u8; 4] = [0x9e, b'J', b'R', 0xc1];
const CHECKED_FROM: usize = 8;
pub(crate) const HEADER_BYTES: usize = 21;
/// Largest payload: a record, or one that compression made longer.
const PAYLOAD_BYTES_MAX: usize = RECORD_BYTES_MAX + (1 << 20);

/// What a frame means. Numbers are part of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// The job's record after a change.
    Put = 1,
    /// The id of a job that was dropped.
    Remove = 2,
    /// The number of entries (u64) of the image that follows.
    ImageBegin = 3,
    /// The record of a live job, with the sequence number of its last change.
    ImageEntry = 4,
    ImageEnd = 5,
    /// The numbers (u64) of the packs in force.
    Packs = 6,
    /// The id of a dropped job that a pack still holds.
    ImageGone = 7,
    /// In a pack: records of jobs, compressed.
    Records = 8,
    /// In a pack: what is kept of their folders, compressed.
    Kept = 9,
    /// In a pack: what is where.
    Contents = 10,
}

const KINDS: [FrameKind; 10] = [
    FrameKind::Put,
    FrameKind::Remove,
    FrameKind::ImageBegin,
    FrameKind::ImageEntry,
    FrameKind::ImageEnd,
    FrameKind::Packs,
    FrameKind::ImageGone,
    FrameKind::Records,
    FrameKind::Kept,
    FrameKind::Contents,
];

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        KINDS.into_iter().find(|kind| *kind as u8 == byte)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalFrame<'a> {
    pub(crate) seq: u64,
    /// `None`: written by a newer onnxd.
    pub(crate) kind: Option<FrameKind>,
    pub(crate) payload: &'a [u8],
}

/// Everything readable in one file.
#[derive(Debug, Default)]
pub(crate) struct Scan<'a> {
    pub(crate) frames: Vec<JournalFrame<'a>>,
    /// Where each of them lies.
    pub(crate) places: Vec<Range<usize>>,
    /// Unreadable bytes that are followed by readable ones.
    pub(crate) holes: Vec<Range<usize>>,
    /// End of the last readable frame.
    pub(crate) end: usize,
}

/// Appends one frame to `out`.
pub(crate) fn push(out: &mut Vec<u8>, seq: u64, kind: FrameKind, payload: &[u8]) {
    debug_assert!(payload.len() <= PAYLOAD_BYTES_MAX);
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&seq.to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(payload);
    let checksum = crc32c::crc32c(&out[start + CHECKED_FROM..]);
    out[start + 4..start + CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads all frames of a file, also those behind damage.
pub(crate) fn scan(bytes: &[u8]) -> Scan<'_> {
    let mut scan = Scan::default();
    let mut at = 0;
    while at < bytes.len() {
        if let Some((frame, frame_bytes)) = frame_at(&bytes[at..]) {
            if at > scan.end {
                scan.holes.push(scan.end..at);
            }
            scan.frames.push(frame);
            scan.places.push(at..at + frame_bytes);
            at += frame_bytes;
            scan.end = at;
        } else {
            let rest = &bytes[at + 1..];
            let Some(next) = rest.windows(MAGIC.len()).position(|w| w == MAGIC) else { break };
            at += 1 + next;
        }
    }
    scan
}

/// The frame that begins with `bytes`, and its length.
pub(crate) fn frame_at(bytes: &[u8]) -> Option<(JournalFrame<'_>, usize)> {
    let header = bytes.get(..HEADER_BYTES)?;
    if header[..4] != MAGIC {
        return None;
    }
    let payload_bytes = u32_at(header, 8) as usize;
    if payload_bytes > PAYLOAD_BYTES_MAX {
        return None;
    }
    let frame_bytes = HEADER_BYTES + payload_bytes;
    let checked = bytes.get(CHECKED_FROM..frame_bytes)?;
    if u32_at(header, 4) != crc32c::crc32c(checked) {
        return None;
    }
    let seq = u64::from(u32_at(header, 12)) | u64::from(u32_at(header, 16)) << 32;
    let frame = JournalFrame {
        seq,
        kind: FrameKind::from_byte(header[20]),
        payload: &bytes[HEADER_BYTES..frame_bytes],
    };
    Some((frame, frame_bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn three() -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, 1, FrameKind::Put, b"one");
        push(&mut bytes, 2, FrameKind::Remove, b"");
        push(&mut bytes, 3, FrameKind::Put, b"three");
        bytes
    }

    fn seqs(bytes: &[u8]) -> Vec<u64> {
        scan(bytes).frames.iter().map(|f| f.seq).collect()
    }

    #[test]
    fn frames_come_back() {
        let bytes = three();
        let scan = scan(&bytes);
        assert_eq!(
            scan.frames[0],
            JournalFrame { seq: 1, kind: Some(FrameKind::Put), payload: b"one" }
        );
        assert_eq!(
            scan.frames[1],
            JournalFrame { seq: 2, kind: Some(FrameKind::Remove), payload: b"" }
        );
        assert_eq!((scan.frames.len(), scan.end, scan.holes.len()), (3, bytes.len(), 0));
    }

    #[test]
    fn a_torn_tail_costs_only_itself() {
        let bytes = three();
        let second_ends = 2 * HEADER_BYTES + 3;
        for cut in second_ends..bytes.len() {
            let scan = scan(&bytes[..cut]);
            assert_eq!((scan.frames.len(), scan.end, scan.holes.len()), (2, second_ends, 0));
        }
    }

    #[test]
    fn a_flipped_byte_costs_only_its_own_frame() {
        let bytes = three();
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            let lost = if at < HEADER_BYTES + 3 {
                1
            } else if at < 2 * HEADER_BYTES + 3 {
                2
            } else {
                3
            };
            let kept: Vec<u64> = (1..=3).filter(|seq| *seq != lost).collect();
            assert_eq!(seqs(&wrong), kept, "byte {at}");
        }
    }

    #[test]
    fn an_absurd_length_is_not_believed() {
        let mut bytes = three();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(seqs(&bytes), [2, 3]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(scan(&bytes).end <= bytes.len());
        }
    }
}
