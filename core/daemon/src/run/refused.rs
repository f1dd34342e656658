//! A store that refuses changes, for instance because the disk is full: what had to be recorded
//! waits in order, nothing new begins, and `health` names the reason.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::{StoreError, is_finished};
use onnxd_proto::onnxd::Job;

use super::book::Book;
use super::daemon::{Daemon, Halt, Turn};
use super::event::Event;
use super::owners::Owner;

/// First and longest wait before a refused change is tried again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// What waits for the store.
#[derive(Debug)]
pub(crate) struct Refused {
    /// In the order in which they happened: a later event of a job says nothing without the earlier.
    events: VecDeque<Event>,
    why: Option<Diagnostic>,
    /// The store has to be opened anew first.
    closed: bool,
    /// It was, and what its last change finished has to be settled.
    reopened: bool,
    again: Instant,
    wait: Duration,
}

impl Refused {
    pub(crate) fn new(now: Instant) -> Refused {
        let (events, wait) = (VecDeque::new(), AGAIN_MIN);
        Refused { events, why: None, closed: false, reopened: false, again: now, wait }
    }

    /// Why nothing may begin that has to be recorded.
    pub(crate) fn why(&self) -> Option<&Diagnostic> {
        self.why.as_ref()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.why.as_ref().map(|_| self.again)
    }

    /// What waits is due at once.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.again = Instant::now();
    }

    fn note(&mut self, e: StoreError) {
        let begins = self.why.is_none();
        if begins || e.fatal {
            tracing::error!(reason = %e, "the store refuses changes; they are tried again");
        }
        if !begins {
            self.wait = (self.wait * 2).min(AGAIN_MAX);
        }
        self.closed |= e.fatal;
        self.again = Instant::now() + self.wait;
        self.why = Some(e.diagnostic);
    }
}

/// Repairs that `health` remembers.
const REPAIRS_MAX: usize = 100;

impl Daemon {
    /// Carries an event out, or keeps it until the store takes changes again.
    pub(crate) fn handle(&mut self, event: Event) -> Result<(), Diagnostic> {
        if self.queue.refused.why.is_some() && event.changes_jobs() {
            self.queue.refused.events.push_back(event);
            return Ok(());
        }
        let done = self.dispatch(&event);
        self.outlive(done, event.changes_jobs().then_some(event))
    }

    /// Goes on after a refusal of the store. The error is one that only a new start repairs.
    pub(crate) fn outlive(&mut self, done: Turn, event: Option<Event>) -> Result<(), Diagnostic> {
        match done {
            Ok(()) => Ok(()),
            Err(Halt::End(why)) => Err(why),
            Err(Halt::Store(e)) if e.fatal || e.may_pass() => {
                self.queue.refused.note(e);
                event.into_iter().for_each(|event| self.queue.refused.events.push_front(event));
                Ok(())
            }
            Err(Halt::Store(e)) => {
                // The same change would be refused for ever; whom it concerns is found by `adopt`.
                tracing::error!(reason = %e, "the store does not accept a change");
                Ok(())
            }
        }
    }

    /// Tries again what was refused, in order, up to the first refusal.
    pub(crate) fn try_refused(&mut self, now: Instant) -> Result<(), Diagnostic> {
        if self.queue.refused.why.is_none() || now < self.queue.refused.again {
            return Ok(());
        }
        if self.queue.refused.closed {
            let mended = self.mend();
            self.outlive(mended, None)?;
            if self.queue.refused.closed {
                return Ok(());
            }
        }
        while let Some(event) = self.queue.refused.events.pop_front() {
            let left = self.queue.refused.events.len();
            let done = self.dispatch(&event);
            self.outlive(done, Some(event))?;
            if self.queue.refused.events.len() > left {
                return Ok(());
            }
        }
        if self.queue.refused.reopened {
            let settled = self.settle_finished();
            if settled.is_err() {
                return self.outlive(settled, None);
            }
        }
        tracing::info!("the store is asked for changes again");
        let wait = self.queue.refused.wait;
        // A refusal right after this one waits longer; after a while it is a new one.
        self.queue.refused = Refused { wait: (wait * 2).min(AGAIN_MAX), ..Refused::new(now) };
        Ok(())
    }

    /// Opens the store anew. What it recorded last may be news to the loop.
    fn mend(&mut self) -> Turn {
        let repairs = self.queue.store.mend()?;
        repairs.iter().for_each(|repair| tracing::warn!(repair, "store"));
        let room = REPAIRS_MAX.saturating_sub(self.queue.repairs.len());
        self.queue.repairs.extend(repairs.into_iter().take(room));
        self.queue.book = Book::of(self.queue.store.as_ref())?;
        (self.queue.refused.closed, self.queue.refused.reopened) = (false, true);
        Ok(())
    }

    /// Jobs that were finished by the change that failed: their originals are still here. Events
    /// that waited come first, because their jobs had an owner until then.
    fn settle_finished(&mut self) -> Turn {
        for id in self.queue.store.at_hand()? {
            let job = self.queue.store.get(&id)?.filter(|job| is_finished(job.state()));
            let is_left = |job: &Job| self.owner(&job.id, job.state()) == Some(Owner::Person);
            if let Some(job) = job.filter(is_left)
                && !self.attempts.running.contains_key(&id)
            {
                self.recover(&job)?;
            }
        }
        Ok(())
    }

    /// A change was recorded: the next refusal is a new one.
    pub(crate) fn was_recorded(&mut self) {
        if self.queue.refused.why.is_none() {
            self.queue.refused.wait = AGAIN_MIN;
        }
    }
}
