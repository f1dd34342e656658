//! A pack: finished jobs, compressed in blocks, in one file that never changes.
//!
//! ```text
//! (records | kept)* contents          each a frame
//! block = bytes of the entries u32 | deflate(entries)
//! entry of records = bytes u32 | seq u64 | record
//! entry of kept = bytes u32 | id u128 | message `Kept`
//! contents = version u8 | rows u32 | deflate(rows)
//! ```
//!
//! All little-endian. Jobs resemble each other, so a block of some dozen takes a fraction of what
//! they take one by one. Blocks tell by themselves what they hold: the contents only save reading
//! all of them.

use crate::digests::{self, Digests};
use crate::frame::{self, FrameKind, Scan, push};
use crate::record::{RECORD_BYTES_MAX, RecordError, decode};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use onnxd_proto::onnxd::{Job, JobState};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::ops::Range;
use ulid::Ulid;

/// Version of the contents. A newer one is refused.
pub(crate) const VERSION: u8 = 1;
/// A block is closed once it has this many bytes before compression. More saves little: the
/// compression looks back 32 KiB.
const BLOCK_BYTES: usize = 128 << 10;
/// A block with fewer bytes is packed again with others when its pack is absorbed.
const BLOCK_BYTES_FULL: usize = BLOCK_BYTES / 2;
/// Largest block before compression: one entry more than fits.
const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + 2 * RECORD_BYTES_MAX;
const ROW_BYTES: usize = 69;

/// Where an entry lies: the block's number in its pack, and the place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) block: u32,
    at: u32,
}

/// No entry.
pub(crate) const NOWHERE: Spot = Spot { block: u32::MAX, at: 0 };

/// What is known of a packed job without reading its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackRow {
    pub(crate) id: u128,
    pub(crate) seq: u64,
    pub(crate) state: u8,
    pub(crate) priority: i32,
    pub(crate) finished_ms: u64,
    pub(crate) digests: Digests,
    pub(crate) record: Spot,
    pub(crate) kept: Spot,
}

/// A job to be packed.
#[derive(Clone, Debug)]
pub(crate) struct PackedJob {
    pub(crate) row: PackRow,
    pub(crate) record: Vec<u8>,
    /// The message `Kept`; empty if nothing is kept.
    pub(crate) kept: Vec<u8>,
}

impl PackedJob {
    pub(crate) fn new(seq: u64, job: &Job, record: Vec<u8>, kept: Vec<u8>) -> Option<PackedJob> {
        Some(PackedJob { row: row_of(seq, job)?, record, kept })
    }
}

fn row_of(seq: u64, job: &Job) -> Option<PackRow> {
    Some(PackRow {
        id: Ulid::from_string(&job.id).ok()?.0,
        seq,
        state: u8::try_from(job.state).ok()?,
        priority: job.priority,
        finished_ms: job.finished_ms,
        digests: digests::of_job(job),
        record: NOWHERE,
        kept: NOWHERE,
    })
}

impl PackRow {
    pub(crate) fn state(&self) -> JobState {
        JobState::try_from(i32::from(self.state)).unwrap_or_default()
    }
}

/// A pack in the making.
#[derive(Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    blocks: u32,
    rows: Vec<PackRow>,
    records: Pending,
    kept: Pending,
}

/// Entries of the next block, and the rows that they belong to.
#[derive(Default)]
struct Pending {
    entries: Vec<u8>,
    of: Vec<usize>,
}

impl Builder {
    pub(crate) fn push(&mut self, item: &PackedJob) {
        let row = self.row(item.row);
        self.push_record(row, &item.record);
        if !item.kept.is_empty() {
            self.push_kept(row, &item.kept);
        }
    }

    /// A row whose entries follow.
    pub(crate) fn row(&mut self, row: PackRow) -> usize {
        self.rows.push(PackRow { record: NOWHERE, kept: NOWHERE, ..row });
        self.rows.len() - 1
    }

    pub(crate) fn push_record(&mut self, row: usize, record: &[u8]) {
        let PackRow { seq, .. } = self.rows[row];
        self.rows[row].record.at = self.records.push(row, &seq.to_le_bytes(), record);
        if self.records.entries.len() >= BLOCK_BYTES {
            self.close_records();
        }
    }

    pub(crate) fn push_kept(&mut self, row: usize, kept: &[u8]) {
        let PackRow { id, .. } = self.rows[row];
        self.rows[row].kept.at = self.kept.push(row, &id.to_le_bytes(), kept);
        if self.kept.entries.len() >= BLOCK_BYTES {
            self.close_kept();
        }
    }

    /// A whole block of another pack as it is; `spots` tell which rows have entries in it.
    pub(crate) fn push_block(&mut self, kind: FrameKind, payload: &[u8], spots: &[(usize, Spot)]) {
        let block = self.close(kind, payload);
        for (row, spot) in spots {
            let moved = Spot { block, ..*spot };
            match kind {
                FrameKind::Kept => self.rows[*row].kept = moved,
                _ => self.rows[*row].record = moved,
            }
        }
    }

    fn close_records(&mut self) {
        let Pending { entries, of } = std::mem::take(&mut self.records);
        let block = self.close(FrameKind::Records, &compressed(&entries));
        of.iter().for_each(|row| self.rows[*row].record.block = block);
    }

    fn close_kept(&mut self) {
        let Pending { entries, of } = std::mem::take(&mut self.kept);
        let block = self.close(FrameKind::Kept, &compressed(&entries));
        of.iter().for_each(|row| self.rows[*row].kept.block = block);
    }

    fn close(&mut self, kind: FrameKind, payload: &[u8]) -> u32 {
        push(&mut self.bytes, u64::from(self.blocks), kind, payload);
        self.blocks += 1;
        self.blocks - 1
    }

    /// The file's bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if !self.records.of.is_empty() {
            self.close_records();
        }
        if !self.kept.of.is_empty() {
            self.close_kept();
        }
        let mut rows = Vec::with_capacity(self.rows.len() * ROW_BYTES);
        self.rows.iter().for_each(|row| write_row(row, &mut rows));
        let mut contents = vec![VERSION];
        contents.extend_from_slice(&(self.rows.len() as u32).to_le_bytes());
        contents.extend_from_slice(&deflated(&rows));
        push(&mut self.bytes, u64::from(self.blocks), FrameKind::Contents, &contents);
        self.bytes
    }
}

impl Pending {
    /// Where the entry begins.
    fn push(&mut self, row: usize, head: &[u8], body: &[u8]) -> u32 {
        let at = self.entries.len() as u32;
        self.entries.extend_from_slice(&((head.len() + body.len()) as u32).to_le_bytes());
        self.entries.extend_from_slice(head);
        self.entries.extend_from_slice(body);
        self.of.push(row);
        at
    }
}

fn compressed(entries: &[u8]) -> Vec<u8> {
    let mut payload = (entries.len() as u32).to_le_bytes().to_vec();
    payload.extend_from_slice(&deflated(entries));
    payload
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}

/// Exactly `bytes_count` bytes, or damage.
fn inflated(bytes: &[u8], bytes_count: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes_count.min(BLOCK_BYTES_MAX));
    let read = DeflateDecoder::new(bytes).take(bytes_count as u64 + 1).read_to_end(&mut out);
    (read.ok()? == bytes_count).then_some(out)
}

/// The entries of a block.
pub(crate) fn opened(payload: &[u8]) -> Option<Vec<u8>> {
    let (count, entries) = payload.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    if count > BLOCK_BYTES_MAX { None } else { inflated(entries, count) }
}

/// Whether a block need not be packed again with others.
pub(crate) fn is_full(payload: &[u8]) -> bool {
    let count = payload.first_chunk::<4>().map_or(0, |count| u32::from_le_bytes(*count));
    count as usize >= BLOCK_BYTES_FULL
}

/// The record at `spot` of its block's entries.
pub(crate) fn record_at(entries: &[u8], spot: Spot) -> Option<&[u8]> {
    Some(entry_at(entries, spot.at as usize)?.split_first_chunk::<8>()?.1)
}

/// The message `Kept` at `spot` of its block's entries.
pub(crate) fn kept_at(entries: &[u8], spot: Spot) -> Option<&[u8]> {
    Some(entry_at(entries, spot.at as usize)?.split_first_chunk::<16>()?.1)
}

fn entry_at(entries: &[u8], at: usize) -> Option<&[u8]> {
    let (count, rest) = entries.get(at..)?.split_first_chunk::<4>()?;
    rest.get(..u32::from_le_bytes(*count) as usize)
}

fn write_row(row: &PackRow, out: &mut Vec<u8>) {
    out.extend_from_slice(&row.id.to_le_bytes());
    out.extend_from_slice(&row.seq.to_le_bytes());
    out.push(row.state);
    out.extend_from_slice(&row.priority.to_le_bytes());
    out.extend_from_slice(&row.finished_ms.to_le_bytes());
    row.digests.iter().for_each(|digest| out.extend_from_slice(&digest.to_le_bytes()));
    for spot in [row.record, row.kept] {
        out.extend_from_slice(&spot.block.to_le_bytes());
        out.extend_from_slice(&spot.at.to_le_bytes());
    }
}

fn read_row(bytes: &[u8]) -> Option<PackRow> {
    fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (taken, rest) = bytes.split_first_chunk::<N>()?;
        *bytes = rest;
        Some(*taken)
    }
    let rest = &mut &bytes[..];
    let row = PackRow {
        id: u128::from_le_bytes(take(rest)?),
        seq: u64::from_le_bytes(take(rest)?),
        state: take::<1>(rest)?[0],
        priority: i32::from_le_bytes(take(rest)?),
        finished_ms: u64::from_le_bytes(take(rest)?),
        digests: [u64::from_le_bytes(take(rest)?), u64::from_le_bytes(take(rest)?)],
        record: read_spot(take(rest)?),
        kept: read_spot(take(rest)?),
    };
    Some(row)
}

fn read_spot(bytes: [u8; 8]) -> Spot {
    let half = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
    Spot { block: half(0), at: half(4) }
}

/// What a pack's bytes tell.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Where the frame of each block lies; `None` for one that is lost.
    pub(crate) blocks: Vec<Option<Range<usize>>>,
    /// Jobs whose records are there.
    pub(crate) rows: Vec<PackRow>,
    /// Jobs whose records are lost.
    pub(crate) lost: Vec<u128>,
}

/// Lists a pack; from its blocks, if its contents are unreadable. An error means that a newer onnxd
/// wrote it.
pub(crate) fn list(bytes: &[u8]) -> Result<Listing, RecordError> {
    let scan = frame::scan(bytes);
    let mut listing = Listing::default();
    for (frame, place) in scan.frames.iter().zip(&scan.places) {
        match frame.kind {
            None => return Err(RecordError::Newer(u8::MAX)),
            Some(FrameKind::Records | FrameKind::Kept) => {
                let number = frame.seq as usize;
                // Frames are as long as they say, and a block takes at least a header.
                if number <= bytes.len() / frame::HEADER_BYTES {
                    let length = listing.blocks.len().max(number + 1);
                    listing.blocks.resize(length, None);
                    listing.blocks[number] = Some(place.clone());
                }
            }
            Some(_) => {}
        }
    }
    let rows = match contents(&scan)? {
        Some(rows) => rows,
        None => rows_of_blocks(&scan)?,
    };
    let there = |spot: Spot| matches!(listing.blocks.get(spot.block as usize), Some(Some(_)));
    for row in rows {
        let kept = if there(row.kept) { row.kept } else { NOWHERE };
        match there(row.record) {
            true => listing.rows.push(PackRow { kept, ..row }),
            false => listing.lost.push(row.id),
        }
    }
    Ok(listing)
}

fn contents(scan: &Scan<'_>) -> Result<Option<Vec<PackRow>>, RecordError> {
    let Some(found) = scan.frames.iter().rfind(|f| f.kind == Some(FrameKind::Contents)) else {
        return Ok(None);
    };
    let Some((&version, rest)) = found.payload.split_first() else { return Ok(None) };
    if version > VERSION {
        return Err(RecordError::Newer(version));
    }
    let rows = || {
        let (count, rows) = rest.split_first_chunk::<4>()?;
        let rows = inflated(rows, u32::from_le_bytes(*count) as usize * ROW_BYTES)?;
        rows.chunks_exact(ROW_BYTES).map(read_row).collect()
    };
    Ok(rows())
}

fn rows_of_blocks(scan: &Scan<'_>) -> Result<Vec<PackRow>, RecordError> {
    let (mut rows, mut kept) = (Vec::new(), HashMap::new());
    for frame in &scan.frames {
        let block = frame.seq as u32;
        let Some(entries) = opened(frame.payload) else { continue };
        let mut at = 0;
        while let Some(entry) = entry_at(&entries, at) {
            let spot = Spot { block, at: at as u32 };
            match frame.kind {
                Some(FrameKind::Records) => rows.extend(row_of_entry(entry, spot)?),
                Some(FrameKind::Kept) => {
                    let id = entry.first_chunk::<16>().map(|id| u128::from_le_bytes(*id));
                    kept.extend(id.map(|id| (id, spot)));
                }
                _ => {}
            }
            at += 4 + entry.len();
        }
    }
    let with_kept =
        |row: PackRow| PackRow { kept: kept.get(&row.id).copied().unwrap_or(NOWHERE), ..row };
    Ok(rows.into_iter().map(with_kept).collect())
}

fn row_of_entry(entry: &[u8], record: Spot) -> Result<Option<PackRow>, RecordError> {
    let Some((seq, bytes)) = entry.split_first_chunk::<8>() else { return Ok(None) };
    match decode(bytes) {
        Ok(job) => {
            let row = row_of(u64::from_le_bytes(*seq), &job);
            Ok(row.map(|row| PackRow { record, ..row }))
        }
        Err(RecordError::Damaged) => Ok(None),
        Err(newer) => Err(newer),
    }
}

#[cfg(test)]
mod tests;
