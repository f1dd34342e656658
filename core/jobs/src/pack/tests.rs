use super::*;
use crate::record::encode;
use crate::store::suite::new_job;

fn item(n: u32) -> PackedJob {
    let params_json =
        format!(r#"{{"export":{{"opset":{}}},"job":{{"attempts_max":3}}}}"#, n % 5 + 13);
    let identity = format!("d{}", n % 3);
    let mut job = Job { identity, params_json, finished_ms: u64::from(n), ..new_job(n) };
    job.set_state(if n.is_multiple_of(2) { JobState::Succeeded } else { JobState::Failed });
    let kept = if n.is_multiple_of(5) { Vec::new() } else { format!("kept {n}").into_bytes() };
    PackedJob::new(u64::from(n) + 100, &job, encode(&job), kept).unwrap()
}

fn packed(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let mut builder = Builder::default();
    numbers.for_each(|n| builder.push(&item(n)));
    builder.finish()
}

fn number_of(row: &PackRow) -> u32 {
    Ulid(row.id).to_string().parse().unwrap()
}

/// Records and what is kept, by id, as a reader gets them.
fn read(bytes: &[u8], listing: &Listing) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = |spot: Spot| {
        let place = listing.blocks.get(spot.block as usize)?.clone()?;
        opened(frame::frame_at(&bytes[place])?.0.payload)
    };
    let row = |row: &PackRow| {
        let record = entries(row.record).unwrap();
        let kept = entries(row.kept);
        let kept = kept.map(|kept| kept_at(&kept, row.kept).unwrap().to_vec());
        (record_at(&record, row.record).unwrap().to_vec(), kept.unwrap_or_default())
    };
    listing.rows.iter().map(row).collect()
}

#[test]
fn jobs_come_back_and_take_a_fraction_of_their_bytes() {
    let bytes = packed(0..2000);
    let listing = list(&bytes).unwrap();
    assert!(listing.lost.is_empty() && listing.blocks.len() > 2);
    let expected: Vec<_> = (0..2000).map(item).collect();
    let written: Vec<_> = expected.iter().map(|i| (i.record.clone(), i.kept.clone())).collect();
    assert_eq!(read(&bytes, &listing), written);
    for (row, PackedJob { row: wanted, .. }) in listing.rows.iter().zip(&expected) {
        assert_eq!(PackRow { record: NOWHERE, kept: NOWHERE, ..*row }, *wanted);
    }
    let raw: usize = written.iter().map(|(record, kept)| record.len() + kept.len()).sum();
    assert!(bytes.len() * 2 < raw, "{} of {raw}", bytes.len());
}

#[test]
fn without_its_contents_a_pack_is_read_from_its_blocks() {
    let sound = packed(0..300);
    let listing = list(&sound).unwrap();
    let contents = listing.blocks.iter().flatten().map(|place| place.end).max().unwrap();
    assert_eq!(super::contents(&frame::scan(&sound)).unwrap(), Some(listing.rows.clone()));
    assert_eq!(super::contents(&frame::scan(&sound[..contents])).unwrap(), None);
    assert_eq!(list(&sound[..contents]).unwrap().rows, listing.rows);
}

#[test]
fn a_flipped_byte_costs_at_most_its_block() {
    let sound = packed(0..300);
    let all = list(&sound).unwrap();
    for at in (0..sound.len()).step_by(97) {
        let mut wrong = sound.clone();
        wrong[at] ^= 0x21;
        let listing = list(&wrong).unwrap();
        assert_eq!(listing.rows.len() + listing.lost.len(), 300, "byte {at}");
        let place = all.blocks.iter().position(|p| p.as_ref().is_some_and(|p| p.contains(&at)));
        let in_block = |row: &&PackRow| Some(row.record.block as usize) == place;
        assert_eq!(listing.lost.len(), all.rows.iter().filter(in_block).count(), "byte {at}");
        let sound: Vec<_> = read(&wrong, &listing).into_iter().map(|(record, _)| record).collect();
        let left = listing.rows.iter().map(|row| item(number_of(row)).record);
        assert_eq!(sound, left.collect::<Vec<_>>(), "byte {at}");
    }
}

#[test]
fn a_newer_pack_is_refused() {
    let mut newer = Vec::new();
    push(&mut newer, 0, FrameKind::Contents, &[VERSION + 1, 0, 0, 0, 0]);
    assert_eq!(list(&newer).unwrap_err(), RecordError::Newer(VERSION + 1));
}

#[test]
fn damaged_blocks_take_no_more_memory_than_a_block_may() {
    let mut bomb = u32::MAX.to_le_bytes().to_vec();
    bomb.extend_from_slice(&deflated(&vec![0; 1 << 20]));
    assert_eq!(opened(&bomb), None);
    let mut lie = 10_u32.to_le_bytes().to_vec();
    lie.extend_from_slice(&deflated(&vec![0; 1 << 20]));
    assert_eq!(opened(&lie), None);
}
