use super::*;
use crate::record::encode;
use crate::store::suite::new_job;
use onnxd_proto::onnxd::Job;
use proptest::prelude::*;

fn record(n: u32, name: &str) -> Vec<u8> {
    encode(&Job { name: name.into(), ..new_job(n) })
}

fn id(n: u32) -> String {
    new_job(n).id
}

fn open(dir: &Path) -> (Journal, Reading) {
    let reading = read(dir).unwrap();
    let image = Image::from_jobs(reading.live.values(), Vec::new(), Vec::new());
    (Journal::resume(dir, &reading, &image, false).unwrap(), reading)
}

fn put(journal: &mut Journal, n: u32, name: &str) -> u64 {
    journal.append(&[JournalChange::Put { record: &record(n, name) }]).unwrap()
}

fn names(reading: &Reading) -> Vec<String> {
    reading.live.values().map(|e| decode(&e.record).unwrap().name).collect()
}

/// Rotates the way the store does.
fn rotate(journal: &mut Journal, dir: &Path) {
    let live = read(dir).unwrap().live;
    journal.rotate(&Image::from_jobs(live.values(), Vec::new(), Vec::new())).unwrap();
}

#[test]
fn changes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, reading) = open(dir.path());
    assert_eq!((reading.last_seq, reading.live.len(), reading.damaged), (0, 0, false));
    assert_eq!(put(&mut journal, 1, "a"), 1);
    assert_eq!(put(&mut journal, 2, "b"), 2);
    assert_eq!(put(&mut journal, 1, "c"), 3);
    assert_eq!(journal.append(&[JournalChange::Remove { id: &id(2) }]).unwrap(), 4);
    let (mut journal, reading) = open(dir.path());
    assert_eq!((names(&reading), reading.last_seq), (vec!["c".to_owned()], 4));
    assert_eq!(put(&mut journal, 2, "again"), 5);
    let reading = read(dir.path()).unwrap();
    assert_eq!((names(&reading), reading.notes.len()), (vec!["c".into(), "again".into()], 0));
}

#[test]
fn rotation_keeps_two_files_and_all_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    for n in 1..=5 {
        put(&mut journal, n, "x");
        let before = read(dir.path()).unwrap();
        rotate(&mut journal, dir.path());
        let after = read(dir.path()).unwrap();
        assert_eq!((&after.live, after.last_seq), (&before.live, u64::from(n)));
    }
    assert_eq!(numbers(dir.path()).unwrap(), [5, 6]);
    // Each of the two files alone is enough.
    let all = read(dir.path()).unwrap().live;
    let newest = path_of(dir.path(), 6);
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, b"").unwrap();
    assert_eq!(read(dir.path()).unwrap().live, all);
    fs::write(&newest, bytes).unwrap();
    fs::remove_file(path_of(dir.path(), 5)).unwrap();
    let alone = read(dir.path()).unwrap();
    assert_eq!((alone.live, alone.damaged), (all, false));
}

#[test]
fn a_file_is_full_after_four_mib() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    let large = "x".repeat(1 << 20);
    let mut written = 0;
    while !journal.is_full() {
        put(&mut journal, 1, &large);
        written += 1;
    }
    assert_eq!(written, 4);
    rotate(&mut journal, dir.path());
    assert!(!journal.is_full());
    assert!(fs::metadata(path_of(dir.path(), 2)).unwrap().len() < 2 << 20);
}

#[test]
fn a_torn_tail_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    put(&mut journal, 1, "a");
    let path = path_of(dir.path(), 1);
    let whole = fs::metadata(&path).unwrap().len();
    put(&mut journal, 2, "b");
    let bytes = fs::read(&path).unwrap();
    for cut in whole + 1..bytes.len() as u64 {
        fs::write(&path, &bytes[..cut as usize]).unwrap();
        let (mut journal, reading) = open(dir.path());
        assert_eq!((reading.notes.len(), reading.damaged), (1, false), "{:?}", reading.notes);
        assert_eq!(fs::metadata(&path).unwrap().len(), whole);
        assert_eq!(put(&mut journal, 3, "c"), 2);
        assert_eq!(names(&read(dir.path()).unwrap()), ["a", "c"]);
    }
}

#[test]
fn damage_in_the_middle_is_reported_and_costs_one_change() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    put(&mut journal, 1, "a");
    put(&mut journal, 2, "find-me");
    put(&mut journal, 3, "c");
    let path = path_of(dir.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|w| w == b"find-me").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (_, reading) = open(dir.path());
    assert!(reading.damaged);
    assert_eq!((names(&reading), reading.last_seq), (vec!["a".into(), "c".into()], 3));
    assert!(reading.notes.iter().any(|n| n.contains("unreadable")), "{:?}", reading.notes);
    assert!(reading.notes.iter().any(|n| n.contains("between 1 and 3")), "{:?}", reading.notes);
    // What could be read was written to a new file, which is sound.
    let again = read(dir.path()).unwrap();
    assert_eq!((names(&again), again.damaged), (names(&reading), false));
}

#[test]
fn an_unfinished_rotation_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    put(&mut journal, 1, "a");
    fs::write(dir.path().join("0002.new"), b"half an image").unwrap();
    let (mut journal, reading) = open(dir.path());
    assert_eq!((names(&reading), reading.notes.len()), (vec!["a".to_owned()], 0));
    rotate(&mut journal, dir.path());
    assert_eq!(names(&read(dir.path()).unwrap()), ["a"]);
}

#[test]
fn a_failed_write_is_not_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    put(&mut journal, 1, "a");
    let writable =
        std::mem::replace(&mut journal.file, File::open(path_of(dir.path(), 1)).unwrap());
    let failed = journal.append(&[JournalChange::Put { record: &record(2, "b") }]).unwrap_err();
    assert_eq!((failed.fatal, failed.diagnostic.code.as_ref()), (true, "N0304"));
    journal.file = writable;
    assert_eq!(put(&mut journal, 2, "b"), 2);
    assert_eq!(names(&read(dir.path()).unwrap()), ["a", "b"]);
}

#[test]
fn a_newer_journal_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(dir.path());
    let mut newer = record(1, "a");
    newer.truncate(newer.len() - 4);
    newer[0] += 1;
    newer.extend_from_slice(&crc32c::crc32c(&newer).to_le_bytes());
    journal.append(&[JournalChange::Put { record: &newer }]).unwrap();
    let bytes = fs::read(path_of(dir.path(), 1)).unwrap();
    assert_eq!(read(dir.path()).unwrap_err().code, "N0308");
    assert_eq!(fs::read(path_of(dir.path(), 1)).unwrap(), bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever one byte does, every other change is kept.
    #[test]
    fn one_byte_costs_at_most_one_change(at in 0..10_000usize, flip in 1..=255u8) {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(dir.path());
        for n in 0..10 {
            put(&mut journal, n, &format!("name {n}"));
        }
        let path = path_of(dir.path(), 1);
        let mut bytes = fs::read(&path).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        fs::write(&path, bytes).unwrap();
        let reading = read(dir.path()).unwrap();
        prop_assert!(reading.live.len() >= 9);
        prop_assert!(!reading.notes.is_empty());
    }
}
