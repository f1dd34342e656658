//! A writer killed at random moments: nothing it has acknowledged may be lost.
//!
//! The test starts this very binary again as the writer. The writer acknowledges every change on
//! its standard output after the store has returned.

use onnxd_jobs::{Ids, MemoryStore, Policy, SledStore, Store, What, is_finished, print};
use onnxd_proto::onnxd::{Job, JobState, Kept};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

const ROUNDS: u64 = 20;
/// Most changes that a round waits for before it kills the writer.
const CHANGES_MAX: u64 = 80;
/// Longest time from the last of them to the kill: a few changes, so that it hits any part of one.
const LATER_US_MAX: u64 = 10_000;
/// A writer that acknowledges nothing for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Steps of a job that succeeds; only such jobs are dropped.
const STEPS: usize = 5;
const STATE_DIR: &str = "ONNXD_JOBS_KILL_TEST_DIR";
const ACKNOWLEDGED: &str = "acknowledged";

/// What was acknowledged: the number of steps a job has taken, or that it is gone.
type Acknowledged = BTreeMap<String, Option<usize>>;

#[test]
#[ignore = "the writer; started by the test below"]
fn writer() {
    let dir = std::env::var(STATE_DIR).unwrap();
    let (mut store, _) = SledStore::open(Path::new(&dir)).unwrap();
    let jobs = store.scan(None).unwrap();
    let mut ids = Ids::after(jobs.last().map(|job| job.id.as_str()));
    let acknowledge = |id: &str, steps: &str| {
        let line = format!("\n{ACKNOWLEDGED} {id} {steps}\n");
        stdout().write_all(line.as_bytes()).unwrap();
        stdout().flush().unwrap();
    };
    let mut unix_ms = 0;
    loop {
        let mut job = Job { id: ids.next_id(), params_json: "x".repeat(3_000), ..Job::default() };
        job.set_state(JobState::Claiming);
        assert!(store.put_new(&job).unwrap());
        acknowledge(&job.id, "0");
        // Finished ones are packed, now and then all of them.
        if unix_ms % 7 == 0 {
            let kept = Kept { report: vec![b'r'; 2_000].into(), ..Kept::default() };
            let jobs = store.at_hand().unwrap().into_iter().map(|id| (id, kept.clone()));
            store.pack(&jobs.collect::<Vec<_>>()).unwrap();
        }
        // The jobs of earlier rounds go on too.
        for job in store.scan(None).unwrap() {
            unix_ms += 1;
            if is_finished(job.state()) && unix_ms % 5 == 0 {
                assert_eq!(store.remove(&[&job.id]).unwrap(), 1);
                acknowledge(&job.id, "gone");
            }
            let Some(what) = next_event(&job) else { continue };
            let next = store.apply(&job.id, &what.at(unix_ms), &Policy::default()).unwrap();
            acknowledge(&job.id, &next.unwrap().events.len().to_string());
        }
    }
}

fn next_event(job: &Job) -> Option<What> {
    let lease = job.lease;
    Some(match job.state() {
        JobState::Claiming => What::Claimed,
        JobState::Claimed => What::Hashed { files: Vec::new(), identity: job.id.clone() },
        JobState::Queued => What::Started,
        JobState::Running => {
            What::ReadyToPublish { lease, staged: "/jobs/result".into(), dest: "/out".into() }
        }
        JobState::Publishing => What::Published { lease },
        _ => return None,
    })
}

/// When the writer is killed.
enum Moment {
    /// So long after its start, perhaps while the store is being opened.
    Started(Duration),
    /// After so many changes, and so much later. A slow machine makes as many as a fast one.
    Acknowledged(usize, Duration),
}

/// Runs the writer until `moment` and kills it; the number of changes it has acknowledged.
fn run_and_kill(dir: &Path, moment: &Moment, acknowledged: &mut Acknowledged) -> usize {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["writer", "--exact", "--ignored", "--nocapture"])
        .env(STATE_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let (sender, changes) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<String> = line.split(' ').map(Into::into).collect();
            if words[0] == ACKNOWLEDGED && words.len() == 3 {
                sender.send(words).unwrap();
            }
        }
    });
    let mut lines = Vec::new();
    let later = match *moment {
        Moment::Started(later) => later,
        Moment::Acknowledged(count, later) => {
            let next = || changes.recv_timeout(PATIENCE).expect("the writer goes on");
            lines.extend(std::iter::repeat_with(next).take(count));
            later
        }
    };
    std::thread::sleep(later);
    assert_eq!(writer.try_wait().unwrap(), None, "the writer ended by itself");
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap();
    lines.extend(changes);
    for words in &lines {
        acknowledged.insert(words[1].clone(), words[2].parse().ok());
    }
    lines.len()
}

/// Every job is as acknowledged, but for at most one change that was on its way.
fn check(store: &SledStore, acknowledged: &mut Acknowledged) {
    let jobs = store.scan(None).unwrap();
    let found: Acknowledged =
        jobs.iter().map(|job| (job.id.clone(), Some(job.events.len()))).collect();
    let mut on_their_way = 0;
    for (id, steps) in acknowledged.iter() {
        let here = found.get(id).copied().flatten();
        match (*steps, here) {
            (Some(steps), Some(here)) => {
                assert!(here == steps || here == steps + 1, "{id}: {here} of {steps} steps");
                on_their_way += here - steps;
            }
            (Some(STEPS), None) => on_their_way += 1,
            (None, None) => {}
            (steps, here) => panic!("{id}: acknowledged {steps:?}, found {here:?}"),
        }
    }
    on_their_way += found.keys().filter(|id| !acknowledged.contains_key(*id)).count();
    assert!(on_their_way <= 1, "{on_their_way} changes were not acknowledged");
    let mut model = MemoryStore::default();
    jobs.iter().for_each(|job| assert!(model.put_new(job).unwrap()));
    assert_eq!(print(store).unwrap(), print(&model).unwrap(), "the index agrees with the jobs");
    acknowledged.values_mut().for_each(|steps| *steps = None);
    acknowledged.extend(found);
}

#[test]
fn kill_at_random_moments_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::new();
    let (mut random, mut changes) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for round in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
        let drawn = random >> 33;
        // Every fifth time while the store is being opened.
        let moment = if round % 5 == 4 {
            Moment::Started(Duration::from_millis(2 + drawn % 20))
        } else {
            let count = 1 + usize::try_from(drawn % CHANGES_MAX).unwrap();
            Moment::Acknowledged(count, Duration::from_micros(drawn % LATER_US_MAX))
        };
        changes += run_and_kill(dir.path(), &moment, &mut acknowledged);
        let (store, _) = SledStore::open(dir.path()).unwrap();
        check(&store, &mut acknowledged);
    }
    assert!(changes > 500, "the writer hardly wrote: {changes} changes");
}
