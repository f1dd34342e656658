//! Bytes written by an earlier onnxd are still read as what they meant.
//!
//! The recorded file is never written again; a new layout gets a new file beside it.

use onnxd_jobs::{SledStore, Store};
use onnxd_proto::onnxd::{Diagnostic, InputFile, Job, JobEvent, JobState, Kept, Param};
use std::fs;

/// A journal with an empty image, the job below in two versions, and a second job that was dropped.
/// Of an onnxd without packs.
const JOURNAL_V1: &str = include_str!("fixtures/journal-v1.hex");
/// The same, with the packs in force in its image.
const JOURNAL_V2: &str = include_str!("fixtures/journal-v2.hex");
/// The job below, finished, with a claim and a report.
const PACK_V1: &str = include_str!("fixtures/pack-v1.hex");

fn job() -> Job {
    Job {
        schema: 1,
        id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
        name: "lenet".into(),
        folder: "people/ann".into(),
        inbox: "/in".into(),
        network: "lenet.ini".into(),
        files: vec![InputFile {
            path: "/in/people/ann/lenet.ini".into(),
            name: "lenet.ini".into(),
            bytes: 2_345,
            sha256: "ab".repeat(32),
        }],
        state: JobState::RetryWait.into(),
        lease: 300,
        attempts: 2,
        crashes: 1,
        priority: -3,
        params_json: "{\"export\":{\"opset\":17}}".into(),
        params: vec![Param {
            key: "export.opset".into(),
            value: "17".into(),
            origin: "params.toml:3".into(),
        }],
        identity: "cd".repeat(32),
        created_ms: 1_700_000_000_000,
        finished_ms: 0,
        not_before_ms: 1_700_000_005_000,
        stage: "export".into(),
        published: "/out/lenet".into(),
        duplicate_of: "01ARZ3NDEKTSV4RRFFQ69G5FAA".into(),
        diagnostics: vec![Diagnostic {
            code: "N0304".into(),
            class: "environment".into(),
            message: "disk full".into(),
            layer: "conv1".into(),
            layer_kind: "Conv".into(),
            place: "lenet.ini:12".into(),
            help: "Free space.".into(),
            severity: "error".into(),
        }],
        events: vec![JobEvent {
            unix_ms: 1_700_000_000_001,
            from: JobState::Running.into(),
            to: JobState::RetryWait.into(),
            actor: "daemon".into(),
            reason: "crashed".into(),
        }],
        raw_source: vec![0xff, b'x'].into(),
        ..Job::default()
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn the_first_journal_is_still_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("journal")).unwrap();
    fs::write(dir.path().join("journal/0001.log"), unhex(JOURNAL_V1)).unwrap();
    let (store, notes) = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.scan(None).unwrap(), [job()]);
    assert_eq!(store.scan(Some(JobState::RetryWait)).unwrap(), [job()]);
    assert!(!notes.iter().any(|note| note.contains(".log")), "{notes:?}");
}

#[test]
fn the_first_pack_is_still_read() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["finished", "copies"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("0001.pack"), unhex(PACK_V1)).unwrap();
    }
    let (store, notes) = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.scan(None).unwrap(), [finished()]);
    assert_eq!(store.kept(&job().id).unwrap(), Some(kept()));
    assert!(store.is_packed(&job().id));
    assert!(!notes.iter().any(|note| note.contains(".pack")), "{notes:?}");
}

/// Compression may change, so what is written is compared by what is read of it.
#[test]
fn a_pack_is_written_as_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = SledStore::open(dir.path()).unwrap();
    assert!(store.put_new(&finished()).unwrap());
    assert_eq!(store.pack(&[(job().id, kept())]).unwrap(), 1);
    let written = fs::read(dir.path().join("finished/0001.pack")).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        println!("{}", written.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    assert_eq!(written, fs::read(dir.path().join("copies/0001.pack")).unwrap());
    drop(store);
    let (store, _) = SledStore::open(dir.path()).unwrap();
    assert_eq!(store.scan(None).unwrap(), [finished()]);
}

#[test]
fn an_onnxd_without_packs_does_not_open_a_state_with_packs() {
    // Its kinds of records end with 5. It refuses a journal with any other (`N0308`).
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = SledStore::open(dir.path()).unwrap();
    drop(store);
    let written = fs::read(dir.path().join("journal/0001.log")).unwrap();
    const FRAME: usize = 21;
    assert!(written.windows(FRAME).any(|w| w[..4] == written[..4] && w[FRAME - 1] == 6));
}

fn finished() -> Job {
    let mut job = job();
    job.set_state(JobState::Succeeded);
    job.finished_ms = 1_700_000_009_000;
    job
}

fn kept() -> Kept {
    Kept { claim: "onnxd-claim 1\n".into(), report: "{\"schema\":1}".into() }
}

#[test]
fn the_same_changes_still_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = SledStore::open(dir.path()).unwrap();
    let first = Job { name: "first".into(), ..job() };
    let second = Job { id: "01ARZ3NDEKTSV4RRFFQ69G5FAW".into(), ..Job::default() };
    assert!(store.put_new(&first).unwrap());
    assert!(store.put_new(&second).unwrap());
    assert!(store.swap(&first, &job()).unwrap());
    assert_eq!(store.remove(&[&second.id]).unwrap(), 1);
    let written = fs::read(dir.path().join("journal/0001.log")).unwrap();
    assert_eq!(written, unhex(JOURNAL_V2));
}
