//! Where jobs are kept, as the daemon sees it.
//!
//! One thread owns the store. Every change is compare-and-swap on the whole job, so that a decision
//! made on an old copy is refused instead of overwriting a newer one.

use crate::id::is_id;
use crate::record::{RECORD_BYTES_MAX, encode};
use crate::step::{Event, Policy, step};
use onnxd_diagnostics::{Class, Code, Diagnostic, shown};
use onnxd_proto::onnxd::{Job, JobState, Kept};
use std::collections::BTreeMap;
use std::fmt;

const IDENTITY_BYTES_MAX: usize = 128;

/// Why the store did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// The store answers no more before [`Store::mend`], and whether the change was made is not
    /// known; otherwise nothing was changed and the same call may be tried again.
    pub fatal: bool,
    pub diagnostic: Diagnostic,
}

impl StoreError {
    pub(crate) fn refused(diagnostic: Diagnostic) -> StoreError {
        StoreError { fatal: false, diagnostic }
    }

    pub(crate) fn fatal(diagnostic: Diagnostic) -> StoreError {
        StoreError { fatal: true, diagnostic }
    }
}

impl StoreError {
    /// Whether the same call may be accepted later: the machine refused it, not the store's rules.
    pub fn may_pass(&self) -> bool {
        self.diagnostic.class == Class::Environment
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl std::error::Error for StoreError {}

/// A result by what it is of and by what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    pub identity: &'a str,
    pub folder: &'a str,
    pub name: &'a str,
}

impl Destination<'_> {
    /// Where `job` has its result, or is to have it.
    pub fn of(job: &Job) -> Destination<'_> {
        Destination { identity: &job.identity, folder: &job.folder, name: &job.name }
    }

    /// The place that `job` has brought a result to; none if it has found one there.
    pub(crate) fn filled_by(job: &Job) -> Option<Destination<'_>> {
        let filled = match job.state() {
            JobState::Succeeded => true,
            JobState::Duplicate => !job.staged.is_empty(),
            _ => false,
        };
        (filled && !job.identity.is_empty()).then(|| Destination::of(job))
    }
}

/// What is known of a job without its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub id: String,
    pub state: JobState,
    pub finished_ms: u64,
}

impl Brief {
    /// The brief of `job`.
    pub fn of(job: &Job) -> Brief {
        Brief { id: job.id.clone(), state: job.state(), finished_ms: job.finished_ms }
    }
}

/// Keeps jobs. What a call has acknowledged survives the end of the process.
pub trait Store {
    /// The job with this id.
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError>;

    /// Adds a job; `false` if the id is taken.
    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError>;

    /// Replaces `old` by `new`; `false` if the store no longer holds `old`.
    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError>;

    /// All jobs by id, or those in one state by priority, then id.
    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError>;

    /// The newest succeeded job with this identity.
    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError>;

    /// The newest job with this identity that has brought a result, or a copy of one, to this place.
    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError>;

    /// Drops jobs; the number of those that were there.
    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError>;

    /// Every job in brief, by id. Takes as much memory as there are jobs, but reads no record.
    fn briefs(&self) -> Result<Vec<Brief>, StoreError> {
        Ok(self.scan(None)?.iter().map(Brief::of).collect())
    }

    /// Ids of the jobs that are not packed: all unfinished ones are among them.
    fn at_hand(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.scan(None)?.into_iter().map(|job| job.id).collect())
    }

    /// Numbers of the packed jobs in each state.
    fn packed_counts(&self) -> BTreeMap<JobState, usize> {
        BTreeMap::new()
    }

    /// Whether the job is packed, and so finished and at rest.
    fn is_packed(&self, _id: &str) -> bool {
        false
    }

    /// At most `limit` jobs, those in one state or all, newest first, from the one before `below`.
    fn page(
        &self,
        state: Option<JobState>,
        below: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let jobs = self.scan(None)?.into_iter().rev();
        let wanted = |job: &Job| {
            state.is_none_or(|state| job.state() == state)
                && below.is_none_or(|below| job.id.as_str() < below)
        };
        Ok(jobs.filter(wanted).take(limit).collect())
    }

    /// Ids that begin with these letters, by id.
    fn ids_beginning_with(&self, letters: &str) -> Result<Vec<String>, StoreError> {
        let ids = self.scan(None)?.into_iter().map(|job| job.id);
        Ok(ids.filter(|id| id.starts_with(letters)).collect())
    }

    /// The greatest id.
    fn newest(&self) -> Result<Option<String>, StoreError> {
        Ok(self.scan(None)?.pop().map(|job| job.id))
    }

    /// Packs finished jobs with what is kept of their folders; how many. Jobs that are not finished
    /// or not at hand are left as they are. A packed job is at hand again once it is changed.
    fn pack(&mut self, _jobs: &[(String, Kept)]) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// What is kept of the folder of a packed job.
    fn kept(&self, _id: &str) -> Result<Option<Kept>, StoreError> {
        Ok(None)
    }

    /// Opens the store anew after a fatal error, and says what had to be repaired.
    fn mend(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Takes one step; `None` if there is no such job or the event is stale.
    fn apply(
        &mut self,
        id: &str,
        event: &Event,
        policy: &Policy,
    ) -> Result<Option<Job>, StoreError> {
        let Some(job) = self.get(id)? else { return Ok(None) };
        let Some(next) = step(&job, event, policy) else { return Ok(None) };
        Ok(self.swap(&job, &next)?.then_some(next))
    }
}

/// The job's record, if it may be stored at all.
pub(crate) fn admit(job: &Job) -> Result<Vec<u8>, StoreError> {
    let refuse = |message| Err(StoreError::refused(Diagnostic::new(Code::Internal, message)));
    if !is_id(&job.id) {
        return refuse(format!("The job id `{}` is no ULID", shown(&job.id)));
    }
    let word = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    if job.identity.len() > IDENTITY_BYTES_MAX || !job.identity.bytes().all(word) {
        return refuse(format!("The identity `{}` is no digest", shown(&job.identity)));
    }
    let record = encode(job);
    if record.len() > RECORD_BYTES_MAX {
        let message = format!(
            "The record of job {} has {} bytes, the limit is {RECORD_BYTES_MAX}",
            job.id,
            record.len()
        );
        return Err(StoreError::refused(Diagnostic::new(Code::SubmissionTooLarge, message)));
    }
    Ok(record)
}

#[cfg(test)]
pub(crate) mod suite;
