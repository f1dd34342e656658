//! How the loop goes on when the store refuses a change.

use std::time::Instant;

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::is_finished;
use onnxd_proto::onnxd::Job;

use super::{Daemon, Halt, Turn};
use crate::run::event::Event;
use crate::run::queue::owners::Owner;

impl Daemon {
    /// Carries an event out, or keeps it until the store takes changes again.
    pub(crate) fn handle(&mut self, event: Event) -> Result<(), Diagnostic> {
        let Some(event) = self.queue.refused.keep(event) else { return Ok(()) };
        let done = self.dispatch(&event);
        self.outlive(done, event.changes_jobs().then_some(event))
    }

    /// Goes on after a refusal of the store. The error is one that only a new start repairs.
    pub(crate) fn outlive(&mut self, done: Turn, event: Option<Event>) -> Result<(), Diagnostic> {
        match done {
            Ok(()) => Ok(()),
            Err(Halt::End(why)) => Err(why),
            Err(Halt::Store(e)) if e.fatal || e.may_pass() => {
                self.queue.refused.note(e, event);
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
        if self.queue.refused.due().is_none_or(|due| now < due) {
            return Ok(());
        }
        if self.queue.refused.is_closed() {
            let mended = self.queue.mend().map_err(Halt::from);
            self.outlive(mended, None)?;
            if self.queue.refused.is_closed() {
                return Ok(());
            }
        }
        while let Some(event) = self.queue.refused.next_event() {
            let left = self.queue.refused.waiting();
            let done = self.dispatch(&event);
            self.outlive(done, Some(event))?;
            if self.queue.refused.waiting() > left {
                return Ok(());
            }
        }
        if self.queue.refused.is_reopened() {
            let settled = self.settle_finished();
            if settled.is_err() {
                return self.outlive(settled, None);
            }
        }
        self.queue.refused.end(now);
        Ok(())
    }

    /// Jobs that were finished by the change that failed: their originals are still here. Events
    /// that waited come first, because their jobs had an owner until then.
    fn settle_finished(&mut self) -> Turn {
        for id in self.queue.store().at_hand()? {
            let job = self.queue.job(&id)?.filter(|job| is_finished(job.state()));
            let is_left = |job: &Job| self.owner(&job.id, job.state()) == Some(Owner::Person);
            if let Some(job) = job.filter(is_left)
                && !self.attempts.has(&id)
            {
                self.recover(&job)?;
            }
        }
        Ok(())
    }
}
