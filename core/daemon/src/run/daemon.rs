//! The event loop: one thread that owns the store and decides everything.
//!
//! A change of a job is durable before its effect. The loop waits for events and for nothing else;
//! what takes time happens in other threads, which answer with events.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, never, select};
use onnxd_config::Settings;
use onnxd_diagnostics::Diagnostic;
use onnxd_intake::{Control, Found, Intake};
use onnxd_jobs::{Ids, Policy, Store, StoreError, What, state_word, step};
use onnxd_proto::onnxd::{Job, JobState};
use serde_json::Value;

use super::attempt::Stop;
use super::book::Book;
use super::crash;
use super::event::Event;
use super::in_flight::InFlight;
use super::layout::Folders;
use super::mailbox::Mailbox;
use super::order::{Order, Ordered};
use super::outbox::Unpublished;
use super::own_crash;
use super::packing::Packing;
use super::receipts::Receipts;
use super::refused::Refused;
use super::room::Room;
use super::set_aside::SetAside;
use super::systemd::{self, Watchdog};
use super::timers::Timers;
use super::tools::SharedTools;
use super::{Source, log};
use crate::conversion::doing::Shared;

/// Drops that are moved and hashed at the same time; the inbox holds the others.
const TAKING_MAX: usize = 4;

/// A step of the loop, or what stops it.
pub(crate) type Turn<T = ()> = Result<T, Halt>;

/// What stops a step of the loop.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The store refuses a change.
    Store(StoreError),
    /// Only a new start repairs this.
    End(Diagnostic),
}

impl From<StoreError> for Halt {
    fn from(e: StoreError) -> Halt {
        Halt::Store(e)
    }
}

/// An attempt under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) lease: u64,
    pub(crate) name: String,
    pub(crate) stage: String,
    pub(crate) since: Instant,
    pub(crate) stop: Stop,
    /// What its worker says.
    pub(crate) doing: Shared,
    /// The daemon stops, so the attempt does not count.
    pub(crate) given_back: bool,
}

/// What the daemon is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Working,
    /// Finish what runs until then; take and start nothing.
    Draining {
        until: Instant,
    },
}

/// Threads and channels around the loop.
pub(crate) struct Surroundings {
    pub(crate) events: Sender<Event>,
    pub(crate) received: Receiver<Event>,
    pub(crate) found: Receiver<Found>,
    pub(crate) intake: Mailbox<Control>,
    /// The inbox and its thread; none before the recovery is done.
    pub(crate) watched: Option<Intake>,
    pub(crate) set_aside: SetAside,
    pub(crate) keeper: Mailbox<Ordered>,
    pub(crate) housekeeping: JoinHandle<()>,
}

/// The jobs, and what is due when.
pub(crate) struct Queue {
    pub(crate) store: Box<dyn Store>,
    pub(crate) book: Book,
    pub(crate) ids: Ids,
    /// What the store did not take.
    pub(crate) refused: Refused,
    /// What had to be repaired since the start.
    pub(crate) repairs: Vec<String>,
    pub(crate) timers: Timers,
    pub(crate) packing: Packing,
}

/// Drops on their way in.
#[derive(Default)]
pub(crate) struct Drops {
    /// Jobs whose files are being moved or read, with intake's name of the drop.
    pub(crate) taking: HashMap<String, Option<PathBuf>>,
    /// Claimed jobs that wait for their files to be read.
    pub(crate) to_hash: VecDeque<String>,
    /// Claimed jobs whose files could not be read for reasons of the machine, and which.
    pub(crate) unread: BTreeMap<String, String>,
    /// What is taken and not converted yet, by top folder.
    pub(crate) in_flight: InFlight,
    /// Receipts of drops that stay, as they were written last.
    pub(crate) receipts: Receipts,
}

/// Conversions under way.
pub(crate) struct Attempts {
    pub(crate) running: HashMap<String, Running>,
    /// Duplicates whose earlier result could not be copied: they are converted.
    pub(crate) no_copy: HashSet<String>,
    /// Why nothing is started for lack of space.
    pub(crate) disk_low: Option<String>,
    pub(crate) room: Room,
}

/// Results and originals on their way out.
#[derive(Default)]
pub(crate) struct Results {
    /// Jobs whose folders the housekeeping thread has in hand.
    pub(crate) busy: HashSet<String>,
    /// Finished jobs whose originals could not be moved, and why.
    pub(crate) unsettled: BTreeMap<String, String>,
    /// Jobs whose results wait for the outbox.
    pub(crate) unpublished: BTreeMap<String, Unpublished>,
    /// Folders that results and originals go to, and why they cannot be written now.
    pub(crate) unwritable: Vec<String>,
    /// Who waits for originals to come back: actor and answer.
    pub(crate) asking: HashMap<String, (String, Sender<Value>)>,
}

/// Whether the daemon works, pauses or ends.
pub(crate) struct Course {
    pub(crate) phase: Phase,
    /// Who paused the daemon.
    pub(crate) paused_by: Option<String>,
    /// End when nothing is left to do.
    pub(crate) once: bool,
    /// A job failed since the start.
    pub(crate) any_failed: bool,
    pub(crate) told_systemd: String,
}

/// The state of the loop.
pub(crate) struct Daemon {
    pub(crate) queue: Queue,
    pub(crate) drops: Drops,
    pub(crate) attempts: Attempts,
    pub(crate) results: Results,
    pub(crate) course: Course,
    pub(crate) settings: Arc<Settings>,
    pub(crate) source: Source,
    pub(crate) log: log::Handle,
    pub(crate) tools: SharedTools,
    pub(crate) folders: Folders,
    pub(crate) around: Surroundings,
    pub(crate) watchdog: Watchdog,
}

impl Daemon {
    /// Runs until told to stop. The error is one that only a new start repairs.
    pub(crate) fn run(&mut self) -> Result<(), Diagnostic> {
        loop {
            let now = Instant::now();
            self.try_refused(now)?;
            let turned = self.turn(now);
            self.outlive(turned, None)?;
            if self.has_ended() {
                return Ok(());
            }
            let event = self.next();
            self.handle(event)?;
        }
    }

    pub(crate) fn next(&mut self) -> Event {
        let never = never();
        let found = if self.may_take() { &self.around.found } else { &never };
        let wait = self.next_due().saturating_duration_since(Instant::now());
        select! {
            recv(self.around.received) -> event => event.unwrap_or(Event::Tick),
            recv(found) -> found => match found {
                Ok(found) => Event::Found(found),
                Err(_) => {
                    // The thread has ended; `turn` finds that out.
                    self.around.found = crossbeam_channel::never();
                    Event::Tick
                }
            },
            default(wait) => Event::Tick,
        }
    }

    pub(crate) fn may_take(&self) -> bool {
        self.course.phase == Phase::Working
            && self.drops.taking.len() < TAKING_MAX
            && self.course.paused_by.is_none()
            && self.attempts.disk_low.is_none()
            && self.queue.refused.why().is_none()
    }

    /// What follows every event: messages go out, due work begins.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        self.around.intake.flush();
        self.around.keeper.flush();
        self.watch_over(now)?;
        if self.queue.refused.why().is_some() {
            return Ok(());
        }
        self.due(now)?;
        while self.drops.taking.len() < TAKING_MAX && self.course.phase == Phase::Working {
            let Some(id) = self.next_to_hash() else { break };
            self.hash(&id)?;
        }
        self.admit_waiting()?;
        self.schedule()?;
        if self.course.once && self.course.phase == Phase::Working {
            self.end_once();
        }
        let status = self.status_line();
        if status != self.course.told_systemd {
            systemd::status(&status);
            self.course.told_systemd = status;
        }
        Ok(())
    }

    fn end_once(&mut self) {
        if self.is_idle() {
            return self.begin_shutdown("nothing is left to do");
        }
        let stuck = if self.attempts.disk_low.is_some() || self.waits_for_room() {
            "there is too little disk space"
        } else if self.is_offline() {
            "the inbox is offline"
        } else if self.waits_for_outbox() {
            "results cannot be brought to the outbox"
        } else {
            return;
        };
        if self.is_finished() && (self.is_offline() || self.is_inbox_quiet()) {
            self.course.any_failed = true;
            self.begin_shutdown(stuck);
        }
    }

    pub(crate) fn dispatch(&mut self, event: &Event) -> Turn {
        let _work = event.job().map(|job| own_crash::Work::on(job, self.lease(job)));
        match event {
            Event::Found(Found::Ready(submission)) => self.admit(submission),
            Event::Found(Found::Unmatched(unmatched)) => {
                self.order(Order::Unmatched(unmatched.clone()));
                Ok(())
            }
            Event::Claimed { job, done } => self.on_claimed(job, done),
            Event::Prepared { job, done } => self.on_prepared(job, done),
            Event::Stage { job, lease, stage } => {
                self.on_stage(job, *lease, stage);
                Ok(())
            }
            Event::Ended { job, lease, ending } => self.on_ended(job, *lease, ending),
            Event::Copied { job, done } => self.on_copied(job, done),
            Event::Published { job, lease, done } => self.on_published(job, *lease, done),
            Event::Kept(kept) => self.on_kept(kept),
            Event::Abandoned { job } => self.on_abandoned(job),
            Event::ClientRequest(client) => self.on_client_request(client),
            Event::Reloaded(reloaded) => {
                self.on_reloaded(reloaded);
                Ok(())
            }
            Event::Signal(signal) => {
                self.on_signal(*signal);
                Ok(())
            }
            Event::Tick => Ok(()),
        }
    }

    /// Takes one step of a job and makes it durable; `None` if it is stale.
    pub(crate) fn apply(&mut self, id: &str, what: What) -> Turn<Option<Job>> {
        let Some(old) = self.queue.store.get(id)? else { return Ok(None) };
        self.take_step(&old, &old, what)
    }

    /// The same, with further fields of the job changed in the same record.
    pub(crate) fn apply_with(
        &mut self,
        id: &str,
        what: What,
        change: impl FnOnce(&mut Job),
    ) -> Turn<Option<Job>> {
        let Some(old) = self.queue.store.get(id)? else { return Ok(None) };
        let mut with = old.clone();
        change(&mut with);
        self.take_step(&old, &with, what)
    }

    /// From `old`, as it is stored, to what follows `with`.
    fn take_step(&mut self, old: &Job, with: &Job, what: What) -> Turn<Option<Job>> {
        let policy = self.policy(with, &what);
        let event = what.at(now_ms());
        let Some(next) = step(with, &event, &policy) else {
            tracing::debug!(job = old.id, state = state_word(old.state()), "stale news");
            return Ok(None);
        };
        crash::transition("before", &event.what);
        if !self.queue.store.swap(old, &next)? {
            return Ok(None);
        }
        crash::transition("after", &event.what);
        self.was_recorded();
        self.queue.book.note(Some(old), &next);
        self.drops.in_flight.note(&next);
        log_change(&next);
        let bad = matches!(next.state(), JobState::Failed | JobState::Quarantined);
        self.course.any_failed |= bad;
        Ok(Some(next))
    }

    /// A failure alone asks how often the job is tried.
    fn policy(&self, job: &Job, what: &What) -> Policy {
        if !matches!(what, What::Failed { .. }) {
            return Policy::default();
        }
        let params: Value = serde_json::from_str(&job.params_json).unwrap_or_default();
        let own = params["job"]["attempts_max"].as_u64().and_then(|n| u32::try_from(n).ok());
        let attempts_max = own.unwrap_or(self.settings.jobs.attempts_max);
        let policy = Policy { attempts_max, ..Policy::default() };
        // A simulation does not wait.
        if cfg!(test) { Policy { retry_first_ms: 0, ..policy } } else { policy }
    }

    /// Gives the housekeeping thread an order.
    pub(crate) fn order(&mut self, order: Order) {
        self.around.keeper.post((order, Arc::clone(&self.settings)));
    }

    /// Starts a thread for a job; [`Daemon::on_abandoned`] hears of its panic.
    pub(crate) fn spawn(&mut self, id: &str, name: &str, work: impl FnOnce() + Send + 'static) {
        let (job, events, lease) = (id.to_owned(), self.around.events.clone(), self.lease(id));
        let thread = std::thread::Builder::new().name(format!("{name} {id}"));
        let guarded = move || {
            let _work = own_crash::Work::on(&job, lease);
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                // Without a receiver the daemon has ended; the next one begins again.
                let _ = events.send(Event::Abandoned { job });
            }
        };
        if let Err(e) = thread.spawn(crash::inherited(guarded)) {
            self.no_owner(id, &e);
        }
    }

    /// The lease of a job's attempt, if there is one.
    fn lease(&self, id: &str) -> u64 {
        self.attempts.running.get(id).map_or(0, |running| running.lease)
    }

    /// The originals of a job that has ended leave its folder. A quarantined job keeps them.
    pub(crate) fn settle(&mut self, job: Job) {
        let stays = matches!(job.state(), JobState::Quarantined);
        if onnxd_jobs::is_finished(job.state()) && !stays {
            self.results.busy.insert(job.id.clone());
            self.order(Order::PutAway(Box::new(job)));
        }
    }

    /// No event is outstanding and none will come by itself.
    fn is_idle(&self) -> bool {
        self.is_finished() && self.queue.book.live() == 0 && self.is_inbox_quiet()
    }

    /// The inbox was looked through, and nothing in it is on its way.
    fn is_inbox_quiet(&self) -> bool {
        let Some(watched) = &self.around.watched else { return false };
        let inbox = watched.status.get();
        inbox.scans > 0 && inbox.offline.is_none() && inbox.is_quiet()
    }

    /// The inbox cannot be looked into, and that was not the remains of a killed daemon.
    fn is_offline(&self) -> bool {
        const LOOKS: u64 = 3;
        let inbox = self.around.watched.as_ref().map(|watched| watched.status.get());
        inbox.is_some_and(|inbox| inbox.offline.is_some() && inbox.scans >= LOOKS)
            && self.queue.book.live() == 0
    }

    /// No other thread works for a job.
    pub(crate) fn is_finished(&self) -> bool {
        self.attempts.running.is_empty()
            && self.drops.taking.is_empty()
            && self.results.busy.is_empty()
            && !self.around.keeper.is_waiting()
    }

    pub(crate) fn status_line(&self) -> String {
        let waiting = self.queue.book.live().saturating_sub(self.attempts.running.len());
        let phase = match (self.course.phase, &self.course.paused_by, &self.attempts.disk_low) {
            (Phase::Draining { .. }, ..) => "stopping; ",
            (_, Some(_), _) => "paused; ",
            (_, _, Some(_)) => "waiting for disk space; ",
            _ if self.queue.refused.why().is_some() => "waiting for the job store; ",
            _ if self.tools.get().plugins.has_frontend().is_err() => "no front-end; ",
            _ => "",
        };
        let failed =
            self.queue.book.count(JobState::Failed) + self.queue.book.count(JobState::Quarantined);
        format!(
            "{phase}{} running, {waiting} waiting, {failed} failed",
            self.attempts.running.len()
        )
    }
}

/// One line per change: job, states, reason.
fn log_change(job: &Job) {
    let Some(event) = job.events.last() else { return };
    let word = |state: i32| state_word(JobState::try_from(state).unwrap_or_default());
    let (from, to) = (word(event.from), word(event.to));
    let (id, name, actor, reason) = (&job.id, &job.name, &event.actor, &event.reason);
    match job.state() {
        JobState::Failed | JobState::Quarantined | JobState::RetryWait => {
            tracing::warn!(job = %id, %name, from, to, %actor, %reason, "job {to}");
        }
        _ => tracing::info!(job = %id, %name, from, to, %actor, %reason, "job {to}"),
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
