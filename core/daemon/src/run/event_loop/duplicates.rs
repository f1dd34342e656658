//! Drops that an earlier job has answered: the result that is there, or a copy of it.
//!
//! Where a job or a copy of the same identity has brought a result to the same place, nothing has to
//! be done. Else a copy is published like a result. Of jobs with one identity only one is converted,
//! copied or published at a time (`queue/book.rs`), so the next one finds what it has left.

use onnxd_jobs::{Destination, What};
use onnxd_proto::onnxd::Job;

use super::{Daemon, Turn};
use crate::run::event::Copy;
use crate::run::results::copying::{Copying, is_there};
use crate::run::results::outbox::text;

/// Copies made at the same time before their jobs' turn.
const COPIES_MAX: usize = 4;

impl Daemon {
    /// The job, or copy, that has brought a result of this identity to this job's place, if that is
    /// still there.
    pub(crate) fn result_there(&self, job: &Job) -> Turn<Option<Job>> {
        let there = self.queue.store().find_result(&Destination::of(job))?;
        Ok(there.filter(|there| there.id != job.id && is_there(there)))
    }

    /// The job whose result a copy may be made of, if that is still there.
    pub(crate) fn earlier(&self, job: &Job) -> Turn<Option<Job>> {
        if !self.attempts.may_copy(&job.id) {
            return Ok(None);
        }
        let earlier = self.queue.store().find_identity(&job.identity)?;
        Ok(earlier.filter(|earlier| earlier.id != job.id && is_there(earlier)))
    }

    /// The result is there already, under this name.
    pub(crate) fn end_as_duplicate(&mut self, mut job: Job, there: &Job) -> Turn {
        job.published.clone_from(&there.published);
        let of = if there.duplicate_of.is_empty() { &there.id } else { &there.duplicate_of };
        let (id, of) = (job.id.clone(), of.clone());
        if let Some(job) = self.apply_with(&id, What::DuplicateOf { job: of }, |j| *j = job)? {
            self.settle(job);
        }
        Ok(())
    }

    /// Copies an earlier result before the job's turn, unless enough is being copied.
    pub(crate) fn copy_at_once(&mut self, id: &str) -> Turn {
        let Some(job) = self.queue.job(id)? else { return Ok(()) };
        let is_enough = self.attempts.publishing() >= COPIES_MAX;
        if is_enough || !self.may_start() || self.is_in_hand(&job) {
            return Ok(());
        }
        match self.earlier(&job)? {
            Some(earlier) => self.copy(job, earlier),
            None => Ok(()),
        }
    }

    /// Whether a job of the same identity is being converted, copied or published.
    pub(crate) fn is_in_hand(&self, job: &Job) -> bool {
        self.queue.book().is_in_hand(&job.identity, |id| self.attempts.has(id))
    }

    /// Copies an earlier result in a thread of its own; the job waits for it as for an attempt.
    pub(crate) fn copy(&mut self, mut job: Job, earlier: Job) -> Turn {
        job.duplicate_of.clone_from(&earlier.id);
        let id = job.id.clone();
        let kept = self.queue.store().kept(&earlier.id)?;
        self.attempts.begin_copy(&job);
        let (folders, mode) = (self.folders.clone(), self.settings.output.mode.0);
        let events = self.around.events.clone();
        let copying = Copying { job, earlier, kept, folders, mode, events };
        self.spawn(&id, "copy", copying.into_thread());
        Ok(())
    }

    /// A copy is complete, or there is none: then the job is converted.
    pub(crate) fn on_copied(&mut self, id: &str, done: &Result<Copy, String>) -> Turn {
        match done {
            Ok(copy) => {
                let Copy { identity, of, staged, dest } = copy.clone();
                let what = What::Copied { of, staged: text(&staged), dest: text(&dest) };
                let copied = self.apply_with(id, what, |j| j.identity = identity)?;
                match copied.or(self.queue.publishing(id)?) {
                    Some(job) => self.bring_out(&job),
                    None => self.end_attempt(id)?,
                }
            }
            Err(reason) => {
                tracing::warn!(job = id, reason, "converted instead of copied");
                self.attempts.convert_instead(id);
            }
        }
        Ok(())
    }
}
