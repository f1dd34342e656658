//! From a complete result to the outbox: record, rename, record.

use std::path::Path;
use std::time::Instant;

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::What;
use onnxd_proto::onnxd::Job;

use super::{Daemon, Turn};
use crate::run::event::Placed;
use crate::run::results::outbox::{best_destination, is_in_outbox, moving, text};
use crate::run::results::publication::staged_folder;

impl Daemon {
    /// Recorded before the rename: from then on a missing `staged` is in the outbox.
    pub(crate) fn publish(&mut self, id: &str, lease: u64, staged: &Path) -> Turn {
        let Some(job) = self.queue.job(id)? else { return Ok(()) };
        let (staged, dest) = (text(staged), best_destination(&job, &self.folders));
        let ready = self.apply(id, What::ReadyToPublish { lease, staged, dest })?;
        let ready = ready.or(self.queue.publishing(id)?);
        let Some(job) = ready else { return self.end_attempt(id) };
        self.attempts.enter_publishing(id, lease);
        self.bring_out(&job);
        Ok(())
    }

    /// Goes on with a result whose thread has ended, in the outbox of now.
    pub(crate) fn bring_out_again(&mut self, job: &Job) -> Turn {
        if is_in_outbox(job, &self.folders) {
            self.bring_out(job);
            return Ok(());
        }
        let staged = text(&staged_folder(job, &self.folders));
        let dest = best_destination(job, &self.folders);
        self.redirect(&job.id, What::Redirected { lease: job.lease, staged, dest })
    }

    fn redirect(&mut self, id: &str, what: What) -> Turn {
        match self.apply(id, what)?.or(self.queue.publishing(id)?) {
            Some(job) => self.bring_out(&job),
            None => self.end_attempt(id)?,
        }
        Ok(())
    }

    /// Moves a complete result in a thread of its own.
    pub(crate) fn bring_out(&mut self, job: &Job) {
        self.attempts.begin_publishing(job);
        let work = moving(job.clone(), self.folders.clone(), self.around.events.clone());
        self.spawn(&job.id, "publish", work);
    }

    pub(crate) fn on_published(
        &mut self,
        id: &str,
        lease: u64,
        done: &Result<Placed, Diagnostic>,
    ) -> Turn {
        match done {
            Ok(Placed::Elsewhere { staged, dest }) => {
                let (staged, dest) = (text(staged), text(dest));
                self.redirect(id, What::Redirected { lease, staged, dest })
            }
            Ok(Placed::There) => {
                self.apply(id, What::Published { lease })?;
                self.results.forget_unpublished(id);
                self.end_attempt(id)
            }
            Err(why) => {
                self.attempts.end(id);
                if self.queue.publishing(id)?.is_none() {
                    return Ok(());
                }
                tracing::warn!(job = id, reason = %why, "the result waits for the outbox");
                self.attempts.room.blocks(why);
                self.results.postpone(id, why.message.clone(), Instant::now());
                Ok(())
            }
        }
    }

    /// Tries again what is due.
    pub(crate) fn publish_waiting(&mut self, now: Instant) -> Turn {
        for id in self.results.due_again(now, |id| self.attempts.has(id)) {
            self.results.begin_again(&id, now);
            match self.queue.publishing(&id)? {
                Some(job) => self.recover(&job)?,
                None => self.results.forget_unpublished(&id),
            }
        }
        Ok(())
    }
}
