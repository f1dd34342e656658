//! The jobs: what is on record, what the loop remembers of that, and what the store did not take.
//!
//! Every change goes through here, and is durable before anything follows from it. Workers and results
//! are of no concern here, and of files only what packing keeps of a job's folder.

mod book;
pub(crate) mod owners;
pub(crate) mod packing;
mod refused;
#[cfg(test)]
mod tests;

use std::time::{Instant, SystemTime};

use onnxd_jobs::{
    Brief, Ids, Policy, Retention, Store, StoreError, What, drop_expired, state_word, step,
};
use onnxd_proto::onnxd::{Job, JobState};

use crate::run::crash;
pub(crate) use book::Book;
use packing::Packing;
pub(crate) use refused::Refused;

/// Repairs that `health` remembers.
const REPAIRS_MAX: usize = 100;

/// What was asked of the store.
pub(crate) type StoreResult<T = ()> = Result<T, StoreError>;

/// The jobs.
pub(crate) struct Queue {
    store: Box<dyn Store>,
    book: Book,
    ids: Ids,
    /// What had to be repaired since the start.
    repairs: Vec<String>,
    packing: Packing,
    /// What the store did not take.
    pub(crate) refused: Refused,
}

impl Queue {
    /// Remembers nothing of the jobs before [`Queue::reread`].
    pub(crate) fn new(
        store: Box<dyn Store>,
        repairs: Vec<String>,
        now: Instant,
    ) -> StoreResult<Queue> {
        let ids = Ids::after(store.newest()?.as_deref());
        Ok(Queue {
            store,
            book: Book::default(),
            ids,
            repairs,
            packing: Packing::new(now),
            refused: Refused::new(now),
        })
    }

    /// The store, to be read.
    pub(crate) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    pub(crate) fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) fn repairs(&self) -> &[String] {
        &self.repairs
    }

    pub(crate) fn job(&self, id: &str) -> StoreResult<Option<Job>> {
        self.store.get(id)
    }

    /// The job, if its result is on its way to the outbox.
    pub(crate) fn publishing(&self, id: &str) -> StoreResult<Option<Job>> {
        Ok(self.job(id)?.filter(|job| job.state() == JobState::Publishing))
    }

    /// It is in the scheduler's hands.
    pub(crate) fn waits_for_turn(&self, id: &str) -> bool {
        let waits = |state| matches!(state, JobState::Queued | JobState::RetryWait);
        self.book.states().any(|(job, state)| job == id && waits(state))
    }

    /// Remembers what the store holds.
    pub(crate) fn reread(&mut self) -> StoreResult {
        self.book = Book::of(self.store.as_ref())?;
        Ok(())
    }

    /// The id of the next job.
    pub(crate) fn next_id(&mut self) -> String {
        self.ids.next_id()
    }

    /// Records a new job.
    pub(crate) fn admit(&mut self, job: &Job) -> StoreResult {
        crash::point("before a new job");
        self.store.put_new(job)?;
        crash::point("after a new job");
        self.refused.was_recorded();
        self.book.note(None, job);
        Ok(())
    }

    /// Takes one step from `old`, as it is stored, to what follows `with`, and makes it durable. `None`
    /// if it is stale.
    pub(crate) fn step(
        &mut self,
        old: &Job,
        with: &Job,
        what: What,
        policy: &Policy,
    ) -> StoreResult<Option<Job>> {
        let event = what.at(now_ms());
        let Some(next) = step(with, &event, policy) else {
            tracing::debug!(job = old.id, state = state_word(old.state()), "stale news");
            return Ok(None);
        };
        crash::transition("before", &event.what);
        if !self.store.swap(old, &next)? {
            return Ok(None);
        }
        crash::transition("after", &event.what);
        self.refused.was_recorded();
        self.book.note(Some(old), &next);
        log_change(&next);
        Ok(Some(next))
    }

    /// The same job with another identity: it waits like one that had this from the beginning.
    pub(crate) fn identify_anew(&mut self, recorded: &Job, job: &Job) -> StoreResult {
        self.store.swap(recorded, job)?;
        self.book.note(Some(recorded), job);
        Ok(())
    }

    /// There never was this job.
    pub(crate) fn forget(&mut self, job: &Job) -> StoreResult {
        crash::point("before a job is forgotten");
        self.store.remove(&[&job.id])?;
        crash::point("after a job is forgotten");
        self.book.forget(&job.id, job.state());
        Ok(())
    }

    /// Forgets jobs that are too old. The quarantined ones among them still have their originals.
    pub(crate) fn forget_expired(
        &mut self,
        retention: &Retention,
    ) -> StoreResult<(Vec<Brief>, Vec<Job>)> {
        let quarantined = self.store.scan(Some(JobState::Quarantined))?;
        let dropped = drop_expired(self.store.as_mut(), retention, now_ms())?;
        dropped.iter().for_each(|job| self.book.forget(&job.id, job.state));
        let is_dropped = |job: &Job| dropped.iter().any(|brief| brief.id == job.id);
        let quarantined = quarantined.into_iter().filter(is_dropped).collect();
        Ok((dropped, quarantined))
    }

    /// Opens the store anew. What it recorded last may be news to the loop.
    pub(crate) fn mend(&mut self) -> StoreResult {
        let repairs = self.store.mend()?;
        repairs.iter().for_each(|repair| tracing::warn!(repair, "store"));
        let room = REPAIRS_MAX.saturating_sub(self.repairs.len());
        self.repairs.extend(repairs.into_iter().take(room));
        self.reread()?;
        self.refused.was_reopened();
        Ok(())
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
