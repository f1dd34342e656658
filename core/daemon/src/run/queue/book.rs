//! What the event loop remembers of the store: the jobs that are not finished, who had a turn
//! lately, and how many jobs are in which state.
//!
//! The store holds thousands of finished jobs; decisions must not read them all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use onnxd_jobs::{Store, StoreError, Summary, is_finished, next_job, state_word};
use onnxd_proto::onnxd::{Job, JobState};

/// Finished jobs that still tell which folder had its turn.
const RECENT_MAX: usize = 64;

#[derive(Debug)]
struct BookEntry {
    summary: Summary,
    identity: String,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    live: BTreeMap<String, BookEntry>,
    recent: VecDeque<Summary>,
    /// Finished jobs that are not packed yet. A quarantined job waits for a person.
    at_rest: BTreeSet<String>,
    counts: BTreeMap<i32, usize>,
}

impl Book {
    /// What there is to remember of the jobs in a store.
    pub(crate) fn of(store: &dyn Store) -> Result<Book, StoreError> {
        let mut book = Book::default();
        for id in store.at_hand()? {
            store.get(&id)?.iter().for_each(|job| book.note(None, job));
        }
        for (state, count) in store.packed_counts() {
            book.note_packed(state, count);
        }
        Ok(book)
    }

    /// Follows one change; `old` is `None` for a new job.
    pub(crate) fn note(&mut self, old: Option<&Job>, new: &Job) {
        if let Some(old) = old {
            self.uncount(old.state());
        }
        *self.counts.entry(new.state).or_default() += 1;
        match new.state() {
            state if is_finished(state) && state != JobState::Quarantined => {
                self.at_rest.insert(new.id.clone());
            }
            _ => drop(self.at_rest.remove(&new.id)),
        }
        let summary = Summary::of(new);
        if !is_finished(new.state()) {
            let entry = BookEntry { summary, identity: new.identity.clone() };
            self.live.insert(new.id.clone(), entry);
        } else if self.live.remove(&new.id).is_some() && summary.started_ms > 0 {
            self.recent.push_back(summary);
            let surplus = self.recent.len().saturating_sub(RECENT_MAX);
            self.recent.drain(..surplus);
        }
    }

    /// A job is no longer in the store.
    pub(crate) fn forget(&mut self, id: &str, state: JobState) {
        self.uncount(state);
        self.live.remove(id);
        self.at_rest.remove(id);
    }

    fn uncount(&mut self, state: JobState) {
        if let Some(n) = self.counts.get_mut(&i32::from(state)) {
            *n = n.saturating_sub(1);
        }
    }

    /// The store holds so many packed jobs in `state`.
    pub(crate) fn note_packed(&mut self, state: JobState, count: usize) {
        *self.counts.entry(i32::from(state)).or_default() += count;
    }

    /// A job has been packed.
    pub(crate) fn packed(&mut self, id: &str) {
        self.at_rest.remove(id);
    }

    /// Finished jobs that are not packed, but for quarantined ones.
    pub(crate) fn at_rest(&self) -> impl Iterator<Item = &str> {
        self.at_rest.iter().map(String::as_str)
    }

    /// The job to start next. One with the same identity as a running job waits for that: it may
    /// turn out to be its duplicate.
    pub(crate) fn next(&self, now_ms: u64, held: impl Fn(&str) -> bool) -> Option<String> {
        let busy = |state| matches!(state, JobState::Running | JobState::Publishing);
        let running: Vec<&str> = self
            .live
            .values()
            .filter(|e| busy(e.summary.state) || held(&e.summary.id))
            .map(|e| e.identity.as_str())
            .collect();
        let may_wait = |e: &&BookEntry| {
            busy(e.summary.state)
                || !(held(&e.summary.id) || running.contains(&e.identity.as_str()))
        };
        let live = self.live.values().filter(may_wait).map(|e| &e.summary);
        next_job(live.chain(&self.recent), now_ms).map(|job| job.id.clone())
    }

    /// Whether a job with this identity is being converted or published, or is at work otherwise.
    pub(crate) fn is_in_hand(&self, identity: &str, at_work: impl Fn(&str) -> bool) -> bool {
        let busy = |state| matches!(state, JobState::Running | JobState::Publishing);
        let same = |e: &&BookEntry| e.identity == identity;
        self.live.values().filter(same).any(|e| busy(e.summary.state) || at_work(&e.summary.id))
    }

    /// When the next waiting retry is due.
    pub(crate) fn next_retry_ms(&self) -> Option<u64> {
        let waiting = |e: &&BookEntry| e.summary.state == JobState::RetryWait;
        self.live.values().filter(waiting).map(|e| e.summary.not_before_ms).min()
    }

    /// Jobs that are not finished, and their states.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, JobState)> {
        self.live.iter().map(|(id, entry)| (id.as_str(), entry.summary.state))
    }

    /// How many jobs are not finished.
    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn count(&self, state: JobState) -> usize {
        self.counts.get(&i32::from(state)).copied().unwrap_or_default()
    }

    /// Number of jobs by state, for people.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let states = self.counts.iter().filter(|(_, n)| **n > 0);
        states.map(|(s, n)| (state_word(JobState::try_from(*s).unwrap_or_default()), *n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, state: JobState, identity: &str) -> Job {
        let mut job = Job { id: id.into(), identity: identity.into(), ..Job::default() };
        job.set_state(state);
        job
    }

    #[test]
    fn equal_jobs_do_not_run_side_by_side() {
        let mut book = Book::default();
        book.note(None, &job("a", JobState::Running, "x"));
        book.note(None, &job("b", JobState::Queued, "x"));
        assert_eq!(book.next(1, |_| false), None);
        book.note(None, &job("c", JobState::Queued, "y"));
        assert_eq!(book.next(1, |_| false).unwrap(), "c");
        assert_eq!(book.next(1, |id| id == "c"), None);
        let (running, done) = (job("a", JobState::Running, "x"), job("a", JobState::Failed, "x"));
        book.note(Some(&running), &done);
        assert_eq!(book.next(1, |_| false).unwrap(), "b");
    }

    #[test]
    fn counts_follow_the_jobs() {
        let mut book = Book::default();
        let (queued, failed) = (job("a", JobState::Queued, ""), job("a", JobState::Failed, ""));
        book.note(None, &queued);
        assert_eq!((book.live(), book.count(JobState::Queued)), (1, 1));
        book.note(Some(&queued), &failed);
        assert_eq!((book.live(), book.count(JobState::Queued)), (0, 0));
        assert_eq!(book.counts(), [("failed", 1)].into());
        assert_eq!(book.at_rest().collect::<Vec<_>>(), ["a"]);
        book.packed("a");
        assert_eq!((book.at_rest().count(), book.count(JobState::Failed)), (0, 1));
        book.forget(&failed.id, failed.state());
        assert_eq!(book.counts(), [].into());
    }
}
