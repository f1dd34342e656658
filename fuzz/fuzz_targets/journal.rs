//! The journal of jobs and a pack after any damage: reading finds what is sound and never fails on the rest.
//!
//! The checksum would hide everything from random bytes, so the input is also read as a recipe of
//! well-framed records.
#![no_main]
#![allow(dead_code, clippy::result_large_err)]

#[path = "../../core/jobs/src/crash.rs"]
mod crash;
#[path = "../../core/jobs/src/digests.rs"]
mod digests;
#[path = "../../core/jobs/src/frame.rs"]
mod frame;
#[path = "../../core/jobs/src/id.rs"]
mod id;
#[path = "../../core/jobs/src/journal.rs"]
mod journal;
#[path = "../../core/jobs/src/pack.rs"]
mod pack;
#[path = "../../core/jobs/src/record.rs"]
mod record;
#[path = "../../core/jobs/src/step.rs"]
mod step;
#[path = "../../core/jobs/src/store.rs"]
mod store;

use frame::FrameKind;
use libfuzzer_sys::fuzz_target;
use std::io::Write;

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

fuzz_target!(|bytes: &[u8]| {
    drop(frame::scan(bytes));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("0001.log"), bytes).unwrap();
    std::fs::write(folder.path().join("0002.log"), framed(bytes)).unwrap();
    if let Ok(reading) = journal::read(folder.path()) {
        assert!(reading.live.keys().all(|id| !reading.removed.contains_key(id)));
    }
    read_pack(bytes);
    read_pack(&framed(bytes));
});

/// As the daemon does: what the pack lists, and what each row leads to.
fn read_pack(bytes: &[u8]) {
    let Ok(listing) = pack::list(bytes) else { return };
    let entries = |spot: pack::Spot| {
        let place = listing.blocks.get(spot.block as usize)?.clone()?;
        pack::opened(frame::frame_at(&bytes[place])?.0.payload)
    };
    for row in &listing.rows {
        drop(entries(row.record).map(|all| pack::record_at(&all, row.record).map(record::decode)));
        let _ = entries(row.kept).map(|all| pack::kept_at(&all, row.kept).map(<[u8]>::len));
    }
}

/// Per frame: kind, sequence number, payload size, payload.
fn framed(mut recipe: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [kind, seq, size, rest @ ..] = recipe {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*size)));
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let payload = match kind {
            FrameKind::Put | FrameKind::ImageEntry => sealed(payload),
            FrameKind::Records | FrameKind::Kept => block(payload),
            FrameKind::ImageBegin => (payload.len() as u64).to_le_bytes().to_vec(),
            _ => payload.to_vec(),
        };
        frame::push(&mut out, u64::from(*seq), kind, &payload);
        recipe = rest;
    }
    out
}

fn block(entries: &[u8]) -> Vec<u8> {
    let mut out = (entries.len() as u32).to_le_bytes().to_vec();
    let mut encoder = flate2::write::DeflateEncoder::new(&mut out, flate2::Compression::fast());
    encoder.write_all(entries).unwrap();
    encoder.finish().unwrap();
    out
}

fn sealed(message: &[u8]) -> Vec<u8> {
    let mut out = [&[record::SCHEMA], message].concat();
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}
