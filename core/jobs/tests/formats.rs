//! Bytes written by an earlier onnxd are still read as what they meant.
//!
//! The recorded file is never written again; a new layout gets a new file beside it.

use onnxd_jobs::{SledStore, Store};
use onnxd_proto::onnxd::{Diagnostic, Job, JobEvent, JobFile, JobState, Param};
use std::fs;

/// A journal with an empty image, the job below in two versions, and a second job that was dropped.
const JOURNAL_V1: &str = include_str!("fixtures/journal-v1.hex");

fn job() -> Job {
    Job {
        schema: 1,
        id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
        name: "lenet".into(),
        folder: "people/ann".into(),
        inbox: "/in".into(),
        network: "lenet.ini".into(),
        files: vec![JobFile {
            source: "/in/people/ann/lenet.ini".into(),
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
    assert_eq!(written, unhex(JOURNAL_V1));
}
