//! The thread: latency, in-flight sets, pause, end.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{FrontEnds, SETTLE, config};
use crossbeam_channel::{Receiver, Sender, bounded};
use onnxd_intake::names::NameRules;
use onnxd_intake::{Control, Inbox, InboxNews, InboxState, Intake, Submission, spawn};

struct Running {
    dir: tempfile::TempDir,
    intake: Intake,
    found: Receiver<InboxNews>,
    control: Sender<Control>,
}

fn start() -> Running {
    let dir = tempfile::tempdir().unwrap();
    let inbox = Inbox::open(config(dir.path())).unwrap();
    let (send, found) = bounded(1);
    let (control, receive) = bounded(1);
    let intake = spawn(inbox, FrontEnds::default(), send, receive).unwrap();
    Running { dir, intake, found, control }
}

impl Running {
    fn write(&self, name: &str) {
        fs::write(self.dir.path().join("inbox").join(name), "1").unwrap();
    }

    fn ready(&self) -> Option<Submission> {
        match self.found.recv_timeout(SETTLE * 3).ok()? {
            InboxNews::Ready(submission) => Some(*submission),
            InboxNews::Unmatched(u) => panic!("{u:?}"),
        }
    }
}

#[test]
fn a_drop_is_reported_as_soon_as_it_has_settled() {
    let running = start();
    let mut delays = Vec::new();
    for i in 0..15 {
        running.write(&format!("{i}.onnx"));
        let written = Instant::now();
        running.ready().expect("not reported");
        delays.push(written.elapsed().saturating_sub(SETTLE));
    }
    delays.sort();
    assert!(delays[7] < Duration::from_millis(20), "{delays:?}");
}

#[test]
fn a_set_is_reported_again_only_after_an_answer() {
    let running = start();
    running.write("a.onnx");
    let submission = running.ready().unwrap();
    assert!(running.ready().is_none());
    running.control.send(Control::Rescan).unwrap();
    assert!(running.ready().is_none());
    running.control.send(Control::Release(submission.id.clone())).unwrap();
    assert!(running.ready().is_some());
    submission
        .set
        .plan(&running.dir.path().join("job/input"))
        .execute(&NameRules::default())
        .unwrap();
    running.control.send(Control::Release(submission.id)).unwrap();
    assert!(running.ready().is_none());
    assert!(running.intake.status.get().items.is_empty());
}

#[test]
fn a_pause_holds_everything_and_says_so() {
    let running = start();
    running.control.send(Control::Pause("disk nearly full".to_owned())).unwrap();
    running.write("a.onnx");
    assert!(running.ready().is_none());
    let status = running.intake.status.get();
    assert_eq!(status.items[0].id, Path::new("a.onnx"));
    assert_eq!(
        status.items[0].state,
        InboxState::Blocked { reason: "disk nearly full".to_owned() }
    );
    running.control.send(Control::Resume).unwrap();
    assert!(running.ready().is_some());
}

#[test]
fn an_idle_thread_does_not_scan() {
    let running = start();
    running.write("a.onnx");
    running.ready().unwrap();
    std::thread::sleep(SETTLE);
    let before = running.intake.status.get().scans;
    std::thread::sleep(SETTLE * 5);
    assert_eq!(running.intake.status.get().scans, before);
}

#[test]
fn the_thread_ends_when_told_and_when_nobody_listens() {
    let running = start();
    running.control.send(Control::Stop).unwrap();
    running.intake.thread.join().unwrap();

    let Running { dir, intake, found, control } = start();
    drop(found);
    fs::write(dir.path().join("inbox/a.onnx"), "1").unwrap();
    intake.thread.join().unwrap();
    drop(control);

    let Running { intake, control, .. } = start();
    drop(control);
    intake.thread.join().unwrap();
}

#[test]
fn a_look_at_ten_thousand_files_is_cheap() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..100 {
        let folder = dir.path().join(format!("inbox/net{i}/weights"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("../net.onnx"), "1").unwrap();
        (0..99).for_each(|j| fs::write(folder.join(j.to_string()), "1").unwrap());
    }
    let mut inbox = Inbox::open(config(dir.path())).unwrap();
    let mut scans = Vec::new();
    let mut walks = Vec::new();
    for _ in 0..5 {
        inbox.look(Instant::now(), &mut FrontEnds::default());
        scans.push(inbox.status().last_scan_duration);
        let began = Instant::now();
        assert_eq!(files(&dir.path().join("inbox")), 10_000);
        walks.push(began.elapsed());
    }
    assert_eq!(inbox.status().files, 10_000);
    // The best of five keeps a busy machine out of it, and so does what a bare walk takes beside each.
    let (scan, walk) = (scans.iter().min().unwrap(), walks.iter().min().unwrap());
    assert!(*scan < 8 * *walk, "{scans:?} {walks:?}");
}

/// How many files there are, each looked at.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: fs::DirEntry| match entry.metadata().unwrap().is_dir() {
        true => files(&entry.path()),
        false => 1,
    };
    entries.map(of).sum()
}
