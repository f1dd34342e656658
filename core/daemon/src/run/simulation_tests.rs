//! The loop with a store that refuses, breaks and forgets, threads that are lost, and an outbox that
//! cannot be written: every drop still ends in one result, and nothing is left over.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use onnxd_config::{Environment, load};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::{DropFile, FileSet, InboxNews, Submission};
use onnxd_jobs::{Destination, MemoryStore, SledStore, Store, StoreError, print};
use onnxd_proto::onnxd::{Job, JobState, Kept, Report, Verdict};
use rustix::fs::stat;

use super::event::{Ending, Event};
use super::event_loop::{Daemon, Surroundings};
use super::layout::JobDir;
use super::mailbox::Mailbox;
use super::queue::{Book, Queue};
use super::tools::Tools;
use super::{SettingsSource, housekeeping, log, make_folders, new_daemon};
use crate::conversion::{Launcher, Plugins};

const DROPS: usize = 24;
const FAULTS: usize = 400;
/// Longer than any healthy run takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Faults as they fall; equal seeds give equal faults.
struct Dice {
    state: u64,
    left: usize,
}

impl Dice {
    fn fault(&mut self, percent: u64) -> bool {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let hit = self.left > 0 && (self.state >> 33) % 100 < percent;
        self.left -= usize::from(hit);
        hit
    }
}

/// Refuses changes, or makes them and breaks before it says so.
struct Faulty {
    jobs: MemoryStore,
    dice: std::cell::RefCell<Dice>,
    broken: bool,
}

impl Faulty {
    fn fails(&self, fatal: bool) -> StoreError {
        StoreError { fatal, diagnostic: Diagnostic::new(Code::Disk, "No space left on device") }
    }

    fn read(&self) -> Result<&MemoryStore, StoreError> {
        if self.broken { Err(self.fails(true)) } else { Ok(&self.jobs) }
    }

    fn write<T>(
        &mut self,
        change: impl FnOnce(&mut MemoryStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read()?;
        if self.dice.get_mut().fault(20) {
            return Err(self.fails(false));
        }
        if self.dice.get_mut().fault(6) {
            if self.dice.get_mut().fault(50) {
                change(&mut self.jobs)?;
            }
            self.broken = true;
            return Err(self.fails(true));
        }
        change(&mut self.jobs)
    }
}

impl Store for Faulty {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.read()?.get(id)
    }
    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        self.write(|jobs| jobs.put_new(job))
    }
    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        self.write(|jobs| jobs.swap(old, new))
    }
    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        self.read()?.scan(state)
    }
    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        self.read()?.find_identity(identity)
    }
    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError> {
        self.read()?.find_result(to)
    }
    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        self.write(|jobs| jobs.remove(ids))
    }
    fn at_hand(&self) -> Result<Vec<String>, StoreError> {
        self.read()?.at_hand()
    }
    fn packed_counts(&self) -> BTreeMap<JobState, usize> {
        self.jobs.packed_counts()
    }
    fn is_packed(&self, id: &str) -> bool {
        self.jobs.is_packed(id)
    }
    fn pack(&mut self, jobs: &[(String, Kept)]) -> Result<usize, StoreError> {
        self.write(|store| store.pack(jobs))
    }
    fn kept(&self, id: &str) -> Result<Option<Kept>, StoreError> {
        self.read()?.kept(id)
    }
    fn mend(&mut self) -> Result<Vec<String>, StoreError> {
        if self.dice.get_mut().fault(50) {
            return Err(self.fails(true));
        }
        self.broken = false;
        Ok(Vec::new())
    }
}

pub(super) fn daemon(root: &Path, store: Box<dyn Store>) -> Daemon {
    let environment = Environment { cores: 2, ..Environment::default() };
    let sets = [
        format!("paths.root={}", root.display()),
        format!("state.dir={}", root.join("state").display()),
        "jobs.min_free_mib=0".into(),
        "worker.parallel_max=2".into(),
    ];
    let mut settings = load(None, &environment, &sets).unwrap().settings;
    let source =
        SettingsSource { file: None, overrides: Vec::new(), environment, entries: Vec::new() };
    let folders = make_folders(&mut settings).unwrap();
    let (log, launcher) = (log::Handle::quiet(), Launcher::from_settings(&settings, "/bin/false"));
    let tools = Tools { launcher, plugins: Arc::new(Plugins::default()) };
    let (events, received) = bounded(256);
    let (orders, ordered) = bounded(64);
    let (to_intake, _) = bounded(64);
    let around = Surroundings {
        housekeeping: housekeeping::spawn(ordered, events.clone()).unwrap(),
        events,
        received,
        found: bounded(1).1,
        intake: Mailbox::new(to_intake),
        watched: None,
        set_aside: Default::default(),
        keeper: Mailbox::new(orders),
    };
    let queue = Queue::new(store, Vec::new(), Instant::now()).unwrap();
    new_daemon(queue, source, settings, log, tools, folders, around, false)
}

fn submission(inbox: &Path, n: usize) -> Submission {
    let name = PathBuf::from(format!("net{n}.onnx"));
    fs::write(inbox.join(&name), format!("{n}")).unwrap();
    let stamp = (&stat(inbox.join(&name)).unwrap()).into();
    Submission {
        id: name.clone(),
        name: format!("net{n}").into(),
        network: name.clone(),
        set: FileSet {
            inbox: inbox.to_owned(),
            files: vec![DropFile { name, stamp }],
            ..FileSet::default()
        },
        ..Submission::default()
    }
}

/// There is no worker here: every attempt leaves a complete result.
fn converted(job: &str, lease: u64, dir: &JobDir) -> Box<Ending> {
    let staged = dir.result(lease);
    fs::create_dir_all(&staged).unwrap();
    let report = Report {
        schema: onnxd_report::SCHEMA,
        job: job.to_owned(),
        verdict: Verdict::Succeeded.into(),
        ..Report::default()
    };
    fs::write(staged.join("report.json"), onnxd_report::json(&report)).unwrap();
    fs::write(staged.join("receipt.txt"), format!("job: {job}\n")).unwrap();
    Box::new(Ending::Ready { staged })
}

/// Event by event, with faults.
fn run(daemon: &mut Daemon, dice: &mut Dice, mut drops: Vec<Submission>) {
    let until = Instant::now() + PATIENCE;
    loop {
        daemon.queue.refused.hurry();
        daemon.hurry();
        let now = Instant::now();
        let stuck = || {
            let states = daemon.queue.book().states();
            let owners = states.map(|(id, state)| (id, state, daemon.owner(id, state)));
            format!("{:?} {:?}", owners.collect::<Vec<_>>(), daemon.queue.refused.why())
        };
        assert!(now < until, "stuck: {}", stuck());
        daemon.try_refused(now).unwrap();
        let turned = daemon.turn(now);
        daemon.outlive(turned, None).unwrap();
        if daemon.drops.may_begin()
            && daemon.queue.refused.why().is_none()
            && let Some(drop) = drops.pop()
        {
            daemon.handle(Event::Found(InboxNews::Ready(Box::new(drop)))).unwrap();
        }
        let none_waits = drops.is_empty() && daemon.drops.held_back() == 0;
        let idle = none_waits && daemon.queue.book().live() == 0 && daemon.is_finished();
        if idle && daemon.queue.refused.why().is_none() && daemon.results.unsettled().is_empty() {
            return;
        }
        let mut event = match daemon.around.received.recv_timeout(Duration::from_millis(2)) {
            Ok(event) => event,
            Err(_) => Event::Tick,
        };
        match &mut event {
            Event::Ended { job, lease, ending } => {
                *ending = converted(job, *lease, &daemon.folders.job(job));
            }
            Event::Published { done, .. } if dice.fault(20) => {
                **done = Err(Diagnostic::new(Code::Disk, "Permission denied"));
            }
            _ => {}
        }
        // As if the thread had never started: its answer is lost.
        let lost = match &event {
            Event::Claimed { job, .. } | Event::Prepared { job, .. } => Some(job.clone()),
            Event::Published { job, .. } => Some(job.clone()),
            _ => None,
        };
        match lost.filter(|_| dice.fault(8)) {
            Some(job) => daemon.no_owner(&job, &std::io::Error::other("no thread")),
            None => daemon.handle(event).unwrap(),
        }
    }
}

#[test]
fn every_drop_ends_in_one_result_whatever_fails() {
    for seed in 0..4 {
        let root = tempfile::tempdir().unwrap();
        let dice = || Dice { state: seed * 7919 + 1, left: FAULTS };
        let store = Faulty { jobs: MemoryStore::default(), dice: dice().into(), broken: false };
        let mut daemon = daemon(root.path(), Box::new(store));
        let inbox = root.path().join("inbox");
        fs::create_dir_all(&inbox).unwrap();
        let mut drops: Vec<Submission> = (0..DROPS).map(|n| submission(&inbox, n)).collect();
        // Another daemon takes some that this one has seen: no failure, and no job.
        for n in 0..4 {
            let taken = submission(&inbox, DROPS + n);
            fs::remove_file(inbox.join(&taken.network)).unwrap();
            drops.insert(n * 5, taken);
        }
        run(&mut daemon, &mut dice(), drops);

        let mut results = BTreeMap::new();
        for job in daemon.queue.store().scan(None).unwrap() {
            assert_eq!(job.state(), JobState::Succeeded, "seed {seed}: {:?}", job.events);
            *results.entry(job.name.clone()).or_insert(0) += 1;
            let left = fs::read_dir(daemon.folders.job(&job.id).path()).into_iter().flatten();
            let mut left: Vec<_> = left.map(|e| e.unwrap().file_name()).collect();
            left.sort();
            // Of a packed job, as far as the housekeeping came.
            let whole = left == ["claim", "report.json"];
            let packed = daemon.queue.store().is_packed(&job.id);
            assert!(whole || packed, "seed {seed}: {} {left:?}", job.name);
        }
        let expected: BTreeMap<String, i32> = (0..DROPS).map(|n| (format!("net{n}"), 1)).collect();
        assert_eq!(results, expected, "seed {seed}");
        // What the loop remembers is what the store holds, and a store on disk gives it back.
        let mut book = Book::default();
        let (mut kept, _) = SledStore::open(&root.path().join("kept")).unwrap();
        for job in daemon.queue.store().scan(None).unwrap() {
            book.note(None, &job);
            assert!(kept.put_new(&job).unwrap());
        }
        let remembered =
            |book: &Book| (book.counts(), format!("{:?}", book.states().collect::<Vec<_>>()));
        assert_eq!(remembered(daemon.queue.book()), remembered(&book), "seed {seed}");
        drop(kept);
        let (kept, _) = SledStore::open(&root.path().join("kept")).unwrap();
        assert_eq!(print(&kept).unwrap(), print(daemon.queue.store()).unwrap(), "seed {seed}");
        let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!(count(&daemon.folders.outbox), DROPS, "seed {seed}");
        assert_eq!(count(&daemon.folders.done), DROPS, "seed {seed}");
        assert_eq!((count(&inbox), count(&daemon.folders.failed)), (0, 0), "seed {seed}");
    }
}

/// Faults for a store that makes the next change, breaks before it says so, and then is well.
fn breaks_once() -> Dice {
    let dice = |state| Dice { state, left: 2 };
    let breaks = |dice: &mut Dice| !dice.fault(20) && dice.fault(6) && dice.fault(50);
    (0..).map(dice).find(|dice| breaks(&mut Dice { ..*dice })).unwrap()
}

/// A panic that the store records before it breaks: the event comes again, and is stale then.
fn abandoned_twice(job: &Job, is_attempt: bool) -> (tempfile::TempDir, Daemon) {
    let root = tempfile::tempdir().unwrap();
    let mut jobs = MemoryStore::default();
    assert!(jobs.put_new(job).unwrap());
    let store = Faulty { jobs, dice: breaks_once().into(), broken: false };
    let mut daemon = daemon(root.path(), Box::new(store));
    daemon.queue.reread().unwrap();
    let input = daemon.folders.job(&job.id).originals();
    fs::create_dir_all(&input).unwrap();
    fs::write(input.join("net.onnx"), "").unwrap();
    if is_attempt {
        daemon.attempts.begin(job);
    } else {
        daemon.drops.begin(&job.id, None);
    }
    daemon.handle(Event::Abandoned { job: job.id.clone() }).unwrap();
    assert!(daemon.queue.refused.why().is_some(), "the store has broken");
    daemon.queue.refused.hurry();
    daemon.try_refused(Instant::now()).unwrap();
    assert!(daemon.queue.refused.why().is_none(), "the store is well");
    (root, daemon)
}

fn job_in(state: JobState) -> Job {
    let (id, name) = ("01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(), "net".to_owned());
    let mut job = Job { id, name, lease: 1, attempts: 1, ..Job::default() };
    job.set_state(state);
    job
}

#[test]
fn originals_leave_after_a_rejection_that_broke_the_store() {
    let job = job_in(JobState::Claimed);
    let (_root, daemon) = abandoned_twice(&job, false);
    let now = daemon.queue.store().get(&job.id).unwrap().unwrap();
    assert_eq!(now.state(), JobState::Failed);
    assert!(daemon.drops.is_idle() && daemon.results.is_busy(&job.id), "put away");
}

#[test]
fn an_attempt_whose_end_broke_the_store_ends_once() {
    let job = job_in(JobState::Running);
    let (_root, daemon) = abandoned_twice(&job, true);
    let now = daemon.queue.store().get(&job.id).unwrap().unwrap();
    assert_eq!(now.state(), JobState::RetryWait, "{:?}", now.events);
    assert!(daemon.attempts.count() == 0, "another attempt has room");
}
