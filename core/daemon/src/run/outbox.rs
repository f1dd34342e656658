//! The way of a complete result into the outbox, also where that takes a while.
//!
//! A result that cannot be put there keeps its job in `publishing`, and its name: nothing about the
//! job is wrong. It is tried again until the outbox permits, or until a user cancels the job.

use std::path::Path;
use std::time::{Duration, Instant};

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::What;
use onnxd_proto::onnxd::{Job, JobState};

use super::attempt::Stop;
use super::daemon::{Daemon, Running, Turn};
use super::event::{Event, Placed};
use super::publication::{place, staged_folder};
use crate::conversion::doing::Shared;

/// Shown as the stage of a job whose result is being moved to the outbox.
pub(crate) const PUBLISHING: &str = "publish";
/// First and longest wait before a result is moved again.
const AGAIN_MIN: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Tries after which `once` leaves a result to the next start.
const ONCE_TRIES: u32 = 3;

/// A result that waits for the outbox.
#[derive(Clone, Debug)]
pub(crate) struct Unpublished {
    pub(crate) why: String,
    at: Instant,
    tries: u32,
}

impl Unpublished {
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.at = now;
    }
}

impl Daemon {
    /// Recorded before the rename: from then on a missing `staged` is in the outbox.
    pub(crate) fn publish(&mut self, id: &str, lease: u64, staged: &Path) -> Turn {
        let Some(job) = self.queue.store.get(id)? else { return Ok(()) };
        let (staged, dest) = (text(staged), self.best_destination(&job));
        let ready = self.apply(id, What::ReadyToPublish { lease, staged, dest })?;
        let Some(job) = ready.or(self.publishing(id)?) else { return self.end_attempt(id) };
        self.on_stage(id, lease, PUBLISHING);
        self.bring_out(&job);
        Ok(())
    }

    fn best_destination(&self, job: &Job) -> String {
        self.folders.destinations(job).next().map(|dest| text(&dest)).unwrap_or_default()
    }

    /// Goes on with a result whose thread has ended, in the outbox of now.
    pub(crate) fn bring_out_again(&mut self, job: &Job) -> Turn {
        let folder = self.folders.outbox.join(&job.folder);
        if Path::new(&job.published).parent() == Some(&folder) {
            self.bring_out(job);
            return Ok(());
        }
        let staged = text(&staged_folder(job, &self.folders));
        let dest = self.best_destination(job);
        self.redirect(&job.id, What::Redirected { lease: job.lease, staged, dest })
    }

    fn redirect(&mut self, id: &str, what: What) -> Turn {
        match self.apply(id, what)?.or(self.publishing(id)?) {
            Some(job) => self.bring_out(&job),
            None => self.end_attempt(id)?,
        }
        Ok(())
    }

    pub(crate) fn publishing(&self, id: &str) -> Turn<Option<Job>> {
        Ok(self.queue.store.get(id)?.filter(|job| job.state() == JobState::Publishing))
    }

    /// Moves a complete result in a thread of its own: across file systems that is a copy.
    pub(crate) fn bring_out(&mut self, job: &Job) {
        let (id, lease, name) = (job.id.clone(), job.lease, job.name.clone());
        self.attempts.running.entry(id.clone()).or_insert_with(|| Running {
            lease,
            name: name.clone(),
            stage: PUBLISHING.into(),
            since: Instant::now(),
            stop: Stop::default(),
            doing: Shared::default(),
            given_back: false,
        });
        let (events, folders, staged) =
            (self.around.events.clone(), self.folders.clone(), job.clone());
        let work = move || {
            let done = place(&staged, &folders);
            // Without a receiver the daemon has ended; the next one finds the result.
            let _ = events.send(Event::Published { job: id, lease, done: Box::new(done) });
        };
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
                self.results.unpublished.remove(id);
                self.end_attempt(id)
            }
            Err(why) => {
                self.attempts.running.remove(id);
                if self.publishing(id)?.is_none() {
                    return Ok(());
                }
                let tries = self.results.unpublished.get(id).map_or(0, |u| u.tries) + 1;
                let wait = AGAIN_MIN.saturating_mul(1 << tries.min(10) >> 1).min(AGAIN_MAX);
                tracing::warn!(job = id, reason = %why, "the result waits for the outbox");
                self.attempts.room.blocks(why);
                let (why, at) = (why.message.clone(), Instant::now() + wait);
                self.results.unpublished.insert(id.to_owned(), Unpublished { why, at, tries });
                Ok(())
            }
        }
    }

    /// Tries again what is due.
    pub(crate) fn publish_waiting(&mut self, now: Instant) -> Turn {
        let waits = |id: &str| !self.attempts.running.contains_key(id);
        let due = self.results.unpublished.iter().filter(|(id, u)| u.at <= now && waits(id));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            // Whatever becomes of it, it is not due again at once.
            self.results
                .unpublished
                .get_mut(&id)
                .into_iter()
                .for_each(|u| u.hurry(now + AGAIN_MAX));
            match self.publishing(&id)? {
                Some(job) => self.recover(&job)?,
                None => drop(self.results.unpublished.remove(&id)),
            }
        }
        Ok(())
    }

    pub(crate) fn next_publication(&self) -> Option<Instant> {
        let waits = |id: &str| !self.attempts.running.contains_key(id);
        self.results.unpublished.iter().filter(|(id, _)| waits(id)).map(|(_, u)| u.at).min()
    }

    /// Nothing but outbox and disk keep the remaining jobs, and the outbox was asked often enough
    /// for `once`.
    pub(crate) fn waits_for_outbox(&self) -> bool {
        let stuck = self.results.unpublished.values().filter(|u| u.tries >= ONCE_TRIES).count();
        stuck > 0 && stuck + self.attempts.room.whys().len() == self.queue.book.live()
    }

    /// Nothing but a full disk keeps the remaining jobs.
    pub(crate) fn waits_for_room(&self) -> bool {
        let waiting = self.attempts.room.whys().len();
        waiting > 0 && waiting == self.queue.book.live()
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
