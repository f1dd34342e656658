//! The world of a daemon that is killed: drops that arrive, users who ask, a consumer, and a store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use onnxd_diagnostics::{Class, Code, Diagnostic, Diagnostics};
use onnxd_intake::{DropFile, FileSet, InboxNews, Submission};
use onnxd_jobs::Store;
use onnxd_proto::onnxd::{FileDigest, FileRole, Job, JobState, Report};
use rustix::fs::stat;

use super::attempts::attempt::Work;
use super::crash::{CrashPlan, Killed, enter, plan};
use super::crash_store::{Dice, Shared};
use super::event::{ClientRequest, Event};
use super::event_loop::Daemon;
use super::protocol::ControlRequest;
use super::simulation_tests::daemon;
use crate::conversion::files::digest;
use crate::conversion::{Outcome, Verdict};

const DROPS: u64 = 4;
/// What users ask for in one world.
const REQUESTS: usize = 4;
/// Longer than any life takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// What a simulated worker does with a network: its text says it.
pub(super) fn outcome(work: &Work) -> Option<Outcome> {
    plan()?;
    let (job, out) = (&work.job, work.dir.work().join("out"));
    let text = fs::read_to_string(work.dir.input().join(&job.network)).unwrap();
    let failed = |code, crashed, stopped| {
        let found = Diagnostics::from(Diagnostic::new(code, "simulated"));
        let verdict =
            Verdict::Failed { class: Class::Internal, crashed, timed_out: false, stopped };
        Some(Outcome { verdict, ..Outcome::failed(&job.id, &job.name, &found, out.clone()) })
    };
    match text.split(' ').next_back().unwrap() {
        "fails" => return failed(Code::SourceSyntax, false, false),
        "crashes" if job.lease < 3 => return failed(Code::PluginCrashed, true, false),
        "full" if job.lease < 2 => return failed(Code::DiskFull, false, false),
        "slow" => {
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(1));
                if work.stop.is_asked() {
                    return failed(Code::WorkerStart, false, true);
                }
            }
        }
        _ => {}
    }
    fs::create_dir(&out).unwrap();
    fs::write(out.join("model.onnx"), text).unwrap();
    let (bytes, sha256) = digest(&out.join("model.onnx")).unwrap();
    let role = FileRole::Model.into();
    let model = FileDigest { path: "model.onnx".into(), bytes, sha256, role };
    let report = Report {
        schema: onnxd_report::SCHEMA,
        job: job.id.clone(),
        name: job.name.clone(),
        verdict: onnxd_proto::onnxd::Verdict::Succeeded.into(),
        outputs: vec![model],
        ..Report::default()
    };
    Some(Outcome { report, verdict: Verdict::Succeeded, out_dir: out })
}

/// Where jobs are kept.
#[derive(Clone, Copy)]
pub(super) enum StoreKind {
    Memory,
    Files,
}

/// Everything that outlives a daemon.
pub(super) struct World {
    root: PathBuf,
    store: Shared,
    pub(super) dice: Dice,
    /// Drops that are not in the inbox yet.
    to_come: Vec<Drop>,
    all: Vec<Drop>,
    /// In how many of a hundred turns the consumer looks.
    hunger: u64,
    pub(super) far: bool,
    requests: usize,
    shutdowns: usize,
    taken: BTreeMap<String, usize>,
    count: usize,
}

impl World {
    pub(super) fn new(root: &Path, kind: StoreKind, seed: u64) -> World {
        if root.exists() {
            fs::remove_dir_all(root).unwrap();
        }
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let inbox = root.join("inbox");
        let all: Vec<Drop> = (0..DROPS).map(|n| a_drop(&inbox, n, &mut dice)).collect();
        let (hunger, far) = (dice.one(&[0, 30, 100]), dice.percent(30));
        World {
            root: root.to_owned(),
            store: match kind {
                StoreKind::Memory => Shared::in_memory(),
                StoreKind::Files => Shared::in_files(&root.join("state")),
            },
            to_come: all.clone(),
            all,
            hunger,
            far,
            requests: REQUESTS,
            shutdowns: 1,
            taken: BTreeMap::new(),
            count: 0,
            dice,
        }
    }

    /// One life of a daemon: whether it came to its end without being killed.
    pub(super) fn live(&mut self, plan: &Arc<CrashPlan>) -> bool {
        enter(Some(Arc::clone(plan)));
        let ended = catch_unwind(AssertUnwindSafe(|| self.work()));
        enter(None);
        match ended {
            Ok(()) => {}
            Err(why) if why.is::<Killed>() => {}
            Err(why) => resume_unwind(why),
        }
        let until = Instant::now() + PATIENCE;
        while plan.threads() > 0 {
            assert!(Instant::now() < until, "threads of a daemon do not end");
            std::thread::sleep(Duration::from_micros(50));
        }
        if plan.is_dead() {
            self.store.after_a_kill();
        }
        !plan.is_dead()
    }

    fn work(&mut self) {
        let mut daemon = daemon(&self.root, Box::new(self.store.clone()));
        let done = daemon.restart();
        daemon.outlive(done, None).unwrap();
        super::crash::point("after a restart");
        // Intake finds again what is still in the inbox.
        let mut found: Vec<Drop> = self.all.iter().filter(|d| d.path().exists()).cloned().collect();
        let until = Instant::now() + PATIENCE;
        let mut quiet = 0;
        loop {
            assert!(Instant::now() < until, "stuck: {:?}", self.store.scan(None));
            daemon.hurry();
            let turned = daemon.turn(Instant::now());
            if plan().is_some_and(|plan| plan.is_dead()) {
                return;
            }
            daemon.outlive(turned, None).unwrap();
            if self.dice.percent(self.hunger) {
                self.consume();
            }
            if daemon.may_take()
                && let Some(drop) = found.pop()
            {
                daemon.handle(Event::Found(InboxNews::Ready(Box::new(drop.offered())))).unwrap();
            } else if self.dice.percent(40)
                && let Some(drop) = self.to_come.pop()
            {
                fs::create_dir_all(drop.path().parent().unwrap()).unwrap();
                fs::write(drop.path(), &drop.text).unwrap();
                found.push(drop);
            }
            self.ask(&mut daemon);
            let busy = !found.is_empty() || !self.to_come.is_empty();
            let wait = Duration::from_micros(if busy { 100 } else { 1_000 });
            let event = daemon.around.received.recv_timeout(wait).unwrap_or(Event::Tick);
            quiet = if matches!(event, Event::Tick) { quiet + 1 } else { 0 };
            daemon.handle(event).unwrap();
            let idle = daemon.queue.book().live() == 0 && daemon.is_finished() && found.is_empty();
            let ends = idle && self.to_come.is_empty() && quiet > 2;
            if ends && daemon.results.unsettled().is_empty() || daemon.has_ended() {
                return;
            }
        }
    }

    pub(super) fn is_done(&self) -> bool {
        let jobs = self.store.scan(None).unwrap();
        self.to_come.is_empty()
            && self.all.iter().all(|drop| !drop.path().exists())
            && jobs.iter().all(|job| onnxd_jobs::is_finished(job.state()))
    }

    /// Users ask for something now and then.
    fn ask(&mut self, daemon: &mut Daemon) {
        if self.requests == 0 || !self.dice.percent(10) {
            return;
        }
        self.requests -= 1;
        let jobs = self.store.scan(None).unwrap();
        if jobs.is_empty() {
            return;
        }
        if self.shutdowns > 0 && self.dice.percent(20) {
            self.shutdowns -= 1;
            daemon.begin_shutdown("simulated");
            daemon.attempts.give_back();
            return;
        }
        let job = &jobs[usize::try_from(self.dice.below(jobs.len() as u64)).unwrap()];
        let id = job.id.clone();
        let request = match job.state() {
            JobState::Failed | JobState::Cancelled => ControlRequest::Retry { job: id },
            JobState::Quarantined => ControlRequest::Release { job: id },
            _ => ControlRequest::Cancel { job: id },
        };
        let (answer, _) = bounded(1);
        let client = ClientRequest { request, actor: "ann".into(), answer };
        daemon.handle(Event::ClientRequest(Box::new(client))).unwrap();
    }

    /// As if the daemon had not been killed but crashed over a job.
    pub(super) fn blame(&mut self) {
        let jobs = self.store.scan(None).unwrap();
        let lives = |job: &&Job| !onnxd_jobs::is_finished(job.state());
        if let Some(job) = jobs.iter().find(lives) {
            let line = format!("{} {}\n", job.id, job.lease);
            fs::write(self.root.join("state/crashed"), line).unwrap();
        }
    }

    /// Takes all results away, each with its job.
    pub(super) fn consume(&mut self) {
        for (job, path) in self.shown() {
            let to = self.root.join(format!("taken.{}", self.count));
            self.count += 1;
            fs::rename(path, to).unwrap();
            *self.taken.entry(job).or_default() += 1;
        }
    }

    /// What the outbox shows. No result is there twice under one name.
    fn shown(&self) -> Vec<(String, PathBuf)> {
        let mut shown = Vec::new();
        let mut places = BTreeSet::new();
        for folder in ["outbox", "outbox/a"] {
            for entry in fs::read_dir(self.root.join(folder)).into_iter().flatten() {
                let (name, path) = (entry.as_ref().unwrap().file_name(), entry.unwrap().path());
                let name = name.into_string().unwrap();
                if name.starts_with('.') || name == "a" {
                    continue;
                }
                let receipt = fs::read_to_string(path.join("receipt.txt")).unwrap();
                let job = receipt.lines().find_map(|line| line.strip_prefix("job: ")).unwrap();
                let model = fs::read_to_string(path.join("model.onnx")).unwrap();
                let base = name.split('.').next().unwrap().to_owned();
                assert!(places.insert((folder, base, model)), "{name} is there twice");
                shown.push((job.to_owned(), path));
            }
        }
        shown
    }

    /// Every drop was taken once, and every job has delivered what it says.
    pub(super) fn check(&self) {
        let mut delivered = self.taken.clone();
        for (job, _) in self.shown() {
            *delivered.entry(job).or_default() += 1;
        }
        let jobs = self.store.scan(None).unwrap();
        let sources: BTreeSet<&str> = jobs.iter().map(|j| j.files[0].path.as_str()).collect();
        assert_eq!((jobs.len(), sources.len()), (self.all.len(), self.all.len()), "one job a drop");
        for job in &jobs {
            let wanted = match job.state() {
                JobState::Succeeded => 1,
                JobState::Duplicate => usize::from(!job.staged.is_empty()),
                JobState::Failed | JobState::Cancelled | JobState::Quarantined => 0,
                state => panic!("not finished: {state:?} {:?}", job.events),
            };
            let found = delivered.remove(&job.id).unwrap_or_default();
            assert_eq!(found, wanted, "deliveries of {}: {:?}", job.name, job.events);
            if job.state() != JobState::Quarantined {
                let left = names(&self.root.join("state/jobs").join(&job.id));
                let kept = |name: &String| name == "claim" || name == "report.json";
                assert!(left.iter().all(kept), "{left:?}");
            }
        }
        assert!(delivered.is_empty(), "of unknown jobs: {delivered:?}");
        // A quarantined job keeps what it has.
        let kept = jobs.iter().filter(|job| job.state() == JobState::Quarantined);
        let kept: BTreeSet<String> = kept.map(|job| format!(".onnxd-{}.part", job.id)).collect();
        for folder in ["outbox", "outbox/a"] {
            let mut names = names(&self.root.join(folder)).into_iter();
            let hidden = names.find(|name| name.starts_with('.') && !kept.contains(name));
            assert_eq!(hidden, None, "left in the outbox");
        }
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[derive(Clone)]
struct Drop {
    submission: Submission,
    text: String,
}

impl Drop {
    fn path(&self) -> PathBuf {
        self.submission.set.root_dir().join("net.onnx")
    }

    /// As intake finds it.
    fn offered(&self) -> Submission {
        let stamp = (&stat(self.path()).unwrap()).into();
        let files = vec![DropFile { name: "net.onnx".into(), stamp }];
        let set = FileSet { files, ..self.submission.set.clone() };
        Submission { set, ..self.submission.clone() }
    }
}

/// Few contents and few names, so that many are the same.
fn a_drop(inbox: &Path, n: u64, dice: &mut Dice) -> Drop {
    let content = dice.below(2);
    let kind = dice.one(&["is fine", "is fine", "is fine", "fails", "crashes", "full", "slow"]);
    let root = PathBuf::from(format!("drop{n}"));
    let submission = Submission {
        id: root.join("net.onnx"),
        folder: dice.one(&["", "a"]).into(),
        name: dice.one(&["net", "other"]).into(),
        network: "net.onnx".into(),
        set: FileSet { inbox: inbox.to_owned(), root, ..FileSet::default() },
        problem: dice.percent(5).then(|| Diagnostic::new(Code::SourceSyntax, "simulated")),
        ..Submission::default()
    };
    Drop { submission, text: format!("{content} {kind}") }
}
