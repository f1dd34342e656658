//! The event loop: one thread that owns the store and decides everything.
//!
//! The state has four parts: the queue, drops, attempts and results. Each decides about what is its
//! own, and returns values and orders. Only the loop sees all of them, and passes from one to the
//! other what the one has decided; it alone starts threads.
//!
//! A change of a job is durable before its effect. The loop waits for events and for nothing else;
//! what takes time happens in other threads, which answer with events.

mod course;
mod duplicates;
mod health;
mod housekeeping;
pub(crate) mod left;
mod publishing;
mod recover;
mod refusals;
mod reload;
mod requests;
mod restart;
mod round;
mod scheduler;
mod taking;
mod timers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, never, select};
use onnxd_config::Settings;
use onnxd_diagnostics::Diagnostic;
use onnxd_intake::{Control, InboxNews, Intake};
use onnxd_jobs::{Policy, StoreError, What};
use onnxd_proto::onnxd::{Job, JobState};

use super::attempts::Attempts;
use super::crash;
use super::drops::{Drops, prepare};
use super::event::Event;
use super::layout::Folders;
use super::mailbox::Mailbox;
use super::order::{DiskOrder, Ordered};
use super::own_crash;
use super::prober::set_aside::SetAside;
use super::queue::Queue;
use super::results::Results;
use super::systemd::{self, Watchdog};
use super::tools::SharedTools;
use super::{SettingsSource, log};
pub(crate) use course::{Course, Phase};
pub(crate) use timers::Timers;

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

/// Threads and channels around the loop.
pub(crate) struct Surroundings {
    pub(crate) events: Sender<Event>,
    pub(crate) received: Receiver<Event>,
    pub(crate) found: Receiver<InboxNews>,
    pub(crate) intake: Mailbox<Control>,
    /// The inbox and its thread; none before the recovery is done.
    pub(crate) watched: Option<Intake>,
    pub(crate) set_aside: SetAside,
    pub(crate) keeper: Mailbox<Ordered>,
    pub(crate) housekeeping: JoinHandle<()>,
}

/// The state of the loop.
pub(crate) struct Daemon {
    pub(crate) queue: Queue,
    pub(crate) drops: Drops,
    pub(crate) attempts: Attempts,
    pub(crate) results: Results,
    pub(crate) course: Course,
    pub(crate) timers: Timers,
    pub(crate) settings: Arc<Settings>,
    pub(crate) source: SettingsSource,
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

    /// What follows every event: messages go out, due work begins.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        self.around.intake.flush();
        self.around.keeper.flush();
        self.watch_over(now)?;
        if self.queue.refused.why().is_some() {
            return Ok(());
        }
        self.due(now)?;
        while self.drops.may_begin() && self.course.phase == Phase::Working {
            let Some(id) = self.drops.next_to_hash() else { break };
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

    pub(crate) fn dispatch(&mut self, event: &Event) -> Turn {
        let _work = event.job().map(|job| own_crash::Work::on(job, self.lease(job)));
        match event {
            Event::Found(InboxNews::Ready(submission)) => self.admit(submission),
            Event::Found(InboxNews::Unmatched(unmatched)) => {
                self.order([DiskOrder::Unmatched(unmatched.clone())]);
                Ok(())
            }
            Event::Claimed { job, done } => self.on_claimed(job, done),
            Event::Prepared { job, done } => self.on_prepared(job, done),
            Event::Stage { job, lease, stage } => {
                self.attempts.enter_stage(job, *lease, stage);
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
        self.apply_with(id, what, |_| {})
    }

    /// The same, with further fields of the job changed in the same record.
    pub(crate) fn apply_with(
        &mut self,
        id: &str,
        what: What,
        change: impl FnOnce(&mut Job),
    ) -> Turn<Option<Job>> {
        let Some(old) = self.queue.job(id)? else { return Ok(None) };
        let mut with = old.clone();
        change(&mut with);
        let policy = self.policy(&with, &what);
        let Some(next) = self.queue.step(&old, &with, what, &policy)? else { return Ok(None) };
        self.drops.note(&next);
        let bad = matches!(next.state(), JobState::Failed | JobState::Quarantined);
        self.course.any_failed |= bad;
        Ok(Some(next))
    }

    /// A failure alone asks how often the job is tried.
    fn policy(&self, job: &Job, what: &What) -> Policy {
        if !matches!(what, What::Failed { .. }) {
            return Policy::default();
        }
        let own = prepare::own(&prepare::params(job)).attempts_max();
        let own = own.and_then(|n| u32::try_from(n).ok());
        let attempts_max = own.unwrap_or(self.settings.jobs.attempts_max);
        let policy = Policy { attempts_max, ..Policy::default() };
        // A simulation does not wait.
        if cfg!(test) { Policy { retry_first_ms: 0, ..policy } } else { policy }
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

    /// The lease of a job's attempt; 0 without one.
    fn lease(&self, id: &str) -> u64 {
        self.attempts.lease(id).unwrap_or_default()
    }
}

/// Whether a thread works for a finished job, or its originals are still to be moved.
fn at_work<'d>(
    drops: &'d Drops,
    attempts: &'d Attempts,
    results: &'d Results,
) -> impl Fn(&str) -> bool + 'd {
    |id| {
        let moves = results.is_busy(id) || results.unsettled().contains_key(id);
        moves || attempts.has(id) || drops.is_taking(id)
    }
}
