//! The journal of jobs after any damage: reading finds what is sound and never fails on the rest.
//!
//! The checksum would hide everything from random bytes, so the input is also read as a recipe of
//! well-framed records.
#![no_main]
#![allow(dead_code, clippy::result_large_err)]

#[path = "../../core/jobs/src/frame.rs"]
mod frame;
#[path = "../../core/jobs/src/id.rs"]
mod id;
#[path = "../../core/jobs/src/journal.rs"]
mod journal;
#[path = "../../core/jobs/src/record.rs"]
mod record;
#[path = "../../core/jobs/src/step.rs"]
mod step;
#[path = "../../core/jobs/src/store.rs"]
mod store;

use frame::Kind;
use libfuzzer_sys::fuzz_target;

const KINDS: [Kind; 5] =
    [Kind::Put, Kind::Remove, Kind::ImageBegin, Kind::ImageEntry, Kind::ImageEnd];

fuzz_target!(|bytes: &[u8]| {
    drop(frame::scan(bytes));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("0001.log"), bytes).unwrap();
    std::fs::write(folder.path().join("0002.log"), framed(bytes)).unwrap();
    if let Ok(reading) = journal::read(folder.path()) {
        assert!(reading.live.keys().all(|id| !reading.removed.contains_key(id)));
    }
});

/// Per frame: kind, sequence number, payload size, payload.
fn framed(mut recipe: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [kind, seq, size, rest @ ..] = recipe {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*size)));
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let payload = match kind {
            Kind::Put | Kind::ImageEntry => sealed(payload),
            Kind::ImageBegin => (payload.len() as u64).to_le_bytes().to_vec(),
            _ => payload.to_vec(),
        };
        frame::push(&mut out, u64::from(*seq), kind, &payload);
        recipe = rest;
    }
    out
}

fn sealed(message: &[u8]) -> Vec<u8> {
    let mut out = [&[record::SCHEMA], message].concat();
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}
