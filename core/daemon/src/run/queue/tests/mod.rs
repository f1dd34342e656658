//! The queue step by step, each time printed in full and compared with a stored text.

mod print;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_jobs::{Destination, MemoryStore, Policy, Retention, Store, StoreError, What};
use onnxd_proto::onnxd::{self as message, InputFile, Job, JobState};

use super::{Queue, StoreResult};
use crate::run::event::Event;
use crate::run::layout::{Folders, make_private_dir};
use crate::run::order::DiskOrder;
use print::{assert_text, print};

/// A queue, and its texts so far.
struct QueueUnderTest {
    queue: Queue,
    root: tempfile::TempDir,
    text: String,
}

impl QueueUnderTest {
    fn new(store: Box<dyn Store>) -> QueueUnderTest {
        let queue = Queue::new(store, Vec::new(), Instant::now()).unwrap();
        QueueUnderTest { queue, root: tempfile::tempdir().unwrap(), text: String::new() }
    }

    fn show(&mut self, what: &str) {
        let text = print(&self.queue, self.root.path());
        self.text += &format!("--- {what}\n{text}\n");
    }

    fn folders(&self) -> Folders {
        Folders::below(self.root.path())
    }

    fn step(&mut self, n: u32, what: What) -> StoreResult<Option<Job>> {
        self.step_with(n, what, |_| {})
    }

    /// Nothing waits before it is tried again, and a second failure is final.
    fn step_with(
        &mut self,
        n: u32,
        what: What,
        change: impl FnOnce(&mut Job),
    ) -> StoreResult<Option<Job>> {
        let policy = Policy { attempts_max: 2, retry_first_ms: 0, ..Policy::default() };
        let old = self.queue.job(&id(n))?.unwrap();
        let mut with = old.clone();
        change(&mut with);
        self.queue.step(&old, &with, what, &policy)
    }

    /// A job that waits for its turn.
    fn queued(&mut self, n: u32, folder: &str, identity: &str) {
        self.queue.admit(&new_job(n, folder)).unwrap();
        self.step(n, What::Claimed).unwrap().unwrap();
        let what = What::Hashed { files: vec![file()], identity: identity.into() };
        self.step(n, what).unwrap().unwrap();
    }

    fn fail(&mut self, n: u32, lease: u64, crashed: bool) {
        let why = Diagnostic::new(Code::WorkerStart, "no memory");
        let diagnostics = vec![message::Diagnostic::from(&why)];
        let what = What::Failed { lease, diagnostics, crashed, timed_out: false };
        self.step(n, what).unwrap().unwrap();
    }

    /// A finished job with a folder that holds what packing keeps.
    fn finished(&mut self, n: u32, identity: &str) {
        self.queued(n, "", identity);
        self.step(n, What::Started).unwrap().unwrap();
        let (staged, dest) = (format!("/staged/{n}"), format!("/outbox/net{n}"));
        self.step(n, What::ReadyToPublish { lease: 1, staged, dest }).unwrap().unwrap();
        self.step(n, What::Published { lease: 1 }).unwrap().unwrap();
        let dir = self.folders().job(&id(n));
        make_private_dir(dir.path()).unwrap();
        std::fs::write(dir.claim(), "claim").unwrap();
        std::fs::write(dir.report(), "report").unwrap();
    }

    fn pack(&mut self) -> Option<DiskOrder> {
        let (now, folders) = (Instant::now(), self.folders());
        self.queue.pack_soon(now);
        self.queue.pack_due(now, &folders, |job| job == id(9)).unwrap()
    }
}

fn id(n: u32) -> String {
    format!("{n:0>26}")
}

fn file() -> InputFile {
    InputFile { name: "net.onnx".into(), bytes: 3, ..InputFile::default() }
}

fn new_job(n: u32, folder: &str) -> Job {
    let mut job = Job {
        id: id(n),
        name: format!("net{n}"),
        folder: folder.into(),
        files: vec![file()],
        created_ms: n.into(),
        ..Job::default()
    };
    job.set_state(JobState::Claiming);
    job
}

#[test]
fn a_job_is_converted_and_packed() {
    let mut site = QueueUnderTest::new(Box::new(MemoryStore::default()));
    site.queue.admit(&new_job(1, "alice")).unwrap();
    site.show("admitted");
    site.step(1, What::Claimed).unwrap().unwrap();
    let hashed = What::Hashed { files: vec![file()], identity: "x".into() };
    site.step_with(1, hashed, |job| job.priority = 3).unwrap().unwrap();
    site.show("read");
    site.step(1, What::Started).unwrap().unwrap();
    let (staged, dest) = ("/staged".to_owned(), "/outbox/alice/net1".to_owned());
    site.step(1, What::ReadyToPublish { lease: 1, staged, dest }).unwrap().unwrap();
    site.show("about to be renamed");
    let stale = site.step(1, What::Published { lease: 7 }).unwrap();
    assert!(stale.is_none() && site.queue.publishing(&id(1)).unwrap().is_some());
    site.step(1, What::Published { lease: 1 }).unwrap().unwrap();
    site.show("published");
    let Some(DiskOrder::Packed(folders)) = site.pack() else { panic!("it is at rest") };
    assert_eq!(folders, [(site.folders().job(&id(1)), false)], "there was no report");
    assert!(site.pack().is_none(), "packed already");
    site.show("packed");
    assert_text("converted", &site.text);
}

#[test]
fn jobs_of_one_identity_are_started_one_after_the_other() {
    let mut site = QueueUnderTest::new(Box::new(MemoryStore::default()));
    site.queued(1, "alice", "x");
    site.queued(2, "alice", "x");
    site.queued(3, "bob", "y");
    site.show("queued");
    site.step(1, What::Started).unwrap().unwrap();
    site.show("started");
    // The plugins are others now, and both jobs the same.
    let recorded = site.queue.job(&id(3)).unwrap().unwrap();
    let job = Job { identity: "x".into(), ..recorded.clone() };
    site.queue.identify_anew(&recorded, &job).unwrap();
    site.show("all are equal");
    site.step(1, What::CancelAsked { actor: "ann".into() }).unwrap().unwrap();
    site.show("the first was cancelled");
    site.step(3, What::DuplicateOf { job: id(2) }).unwrap().unwrap();
    site.show("the third was answered");
    assert_text("equal", &site.text);
}

#[test]
fn failures_are_counted_apart_from_crashes() {
    let mut site = QueueUnderTest::new(Box::new(MemoryStore::default()));
    site.queued(1, "", "x");
    site.queued(2, "", "y");
    for lease in 1..=2 {
        for n in 1..=2 {
            site.step(n, What::Started).unwrap().unwrap();
            site.fail(n, lease, n == 2);
        }
        site.show(&format!("attempt {lease}"));
    }
    site.step(1, What::RetryAsked { actor: "ann".into() }).unwrap().unwrap();
    site.step(2, What::Released { actor: "ann".into() }).unwrap().unwrap();
    assert!(site.step(2, What::Claimed).unwrap().is_none(), "it was claimed before");
    site.show("asked for again");
    site.step(2, What::Started).unwrap();
    site.step(2, What::GivenBack { lease: 3 }).unwrap();
    site.show("given back by a daemon that ends");
    assert_text("failed", &site.text);
}

#[test]
fn old_jobs_are_forgotten() {
    let mut site = QueueUnderTest::new(Box::new(MemoryStore::default()));
    site.finished(1, "x");
    site.finished(2, "y");
    site.finished(9, "z");
    let Some(DiskOrder::Packed(folders)) = site.pack() else { panic!("they are at rest") };
    assert_eq!(folders.len(), 2, "the housekeeping has one in hand");
    site.queued(3, "", "q");
    for lease in 1..=2 {
        site.step(3, What::Started).unwrap().unwrap();
        site.fail(3, lease, true);
    }
    site.queued(4, "", "v");
    site.queue.admit(&new_job(5, "")).unwrap();
    site.show("before");
    let none = site.queue.forget_expired(&Retention::default()).unwrap();
    assert!(none.0.is_empty() && none.1.is_empty());
    let retention = Retention { finished_max: 0, ..Retention::default() };
    let (dropped, quarantined) = site.queue.forget_expired(&retention).unwrap();
    assert_eq!((dropped.len(), quarantined.len()), (4, 1));
    site.queue.forget(&new_job(5, "")).unwrap();
    site.show("after");
    site.queue.reread().unwrap();
    site.show("read again");
    assert_text("forgotten", &site.text);
}

/// How a store fails.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// It refuses changes.
    Full,
    /// It makes the change and breaks before it says so.
    Breaks,
}

struct Failing(MemoryStore, Rc<Cell<Fault>>);

impl Failing {
    fn write<T>(
        &mut self,
        change: impl FnOnce(&mut MemoryStore) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let fault = self.1.get();
        if fault != Fault::Full {
            let done = change(&mut self.0)?;
            if fault == Fault::None {
                return Ok(done);
            }
        }
        let diagnostic = Diagnostic::new(Code::DiskFull, "No space left on device");
        Err(StoreError { fatal: fault == Fault::Breaks, diagnostic })
    }
}

impl Store for Failing {
    fn get(&self, id: &str) -> StoreResult<Option<Job>> {
        self.0.get(id)
    }
    fn put_new(&mut self, job: &Job) -> StoreResult<bool> {
        self.write(|jobs| jobs.put_new(job))
    }
    fn swap(&mut self, old: &Job, new: &Job) -> StoreResult<bool> {
        self.write(|jobs| jobs.swap(old, new))
    }
    fn scan(&self, state: Option<JobState>) -> StoreResult<Vec<Job>> {
        self.0.scan(state)
    }
    fn find_identity(&self, identity: &str) -> StoreResult<Option<Job>> {
        self.0.find_identity(identity)
    }
    fn find_result(&self, to: &Destination<'_>) -> StoreResult<Option<Job>> {
        self.0.find_result(to)
    }
    fn remove(&mut self, ids: &[&str]) -> StoreResult<usize> {
        self.write(|jobs| jobs.remove(ids))
    }
    fn mend(&mut self) -> StoreResult<Vec<String>> {
        self.write(|_| Ok(vec!["the journal ended early".to_owned()]))
    }
}

#[test]
fn what_the_store_refuses_waits() {
    let fault = Rc::new(Cell::new(Fault::None));
    let mut site =
        QueueUnderTest::new(Box::new(Failing(MemoryStore::default(), Rc::clone(&fault))));
    site.queue.admit(&new_job(1, "")).unwrap();
    fault.set(Fault::Full);
    let refused = site.step(1, What::Claimed).unwrap_err();
    let claimed = |n| Event::Claimed { job: id(n), done: Ok(()) };
    site.queue.refused.note(refused, Some(claimed(1)));
    assert!(site.queue.refused.keep(Event::Abandoned { job: id(1) }).is_none());
    site.show("refused");
    fault.set(Fault::Breaks);
    let broken = site.step(1, What::Claimed).unwrap_err();
    let event = site.queue.refused.next_event();
    site.queue.refused.note(broken, event);
    assert!(site.queue.refused.is_closed() && site.queue.mend().is_err());
    site.show("recorded, and broken before it was said");
    fault.set(Fault::None);
    site.queue.mend().unwrap();
    assert!(!site.queue.refused.is_closed() && site.queue.refused.is_reopened());
    site.show("opened anew");
    let first = site.queue.refused.next_event().unwrap();
    assert_eq!(first.job(), Some(&*id(1)));
    assert!(site.step(1, What::Claimed).unwrap().is_none(), "it was recorded");
    assert!(site.queue.refused.next_event().is_some());
    site.queue.refused.end(Instant::now());
    site.show("over");
    assert_text("refused", &site.text);
}
