//! The jobs at hand in memory: what journal and index hold, as it is read.
//!
//! Records stay encoded: thousands of waiting jobs take what they take on the disk.

use crate::digests::{self, Digests};
use crate::journal::{Entries, JournalEntry};
use crate::record::{RecordError, decode};
use onnxd_proto::onnxd::{Job, JobState};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

#[derive(Debug)]
struct JobAtHand {
    entry: JournalEntry,
    state: JobState,
    priority: i32,
    digests: Digests,
}

/// All jobs at hand.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    jobs: BTreeMap<String, JobAtHand>,
    /// Digests, and the jobs that have them.
    digests: BTreeSet<(u64, String)>,
    bytes: usize,
}

impl AtHand {
    pub(crate) fn from_entries(entries: Entries) -> Result<AtHand, RecordError> {
        let mut at_hand = AtHand::default();
        for (_, entry) in entries {
            at_hand.put(&decode(&entry.record)?, entry);
        }
        Ok(at_hand)
    }

    /// The job with its record, in place of an earlier one.
    pub(crate) fn put(&mut self, job: &Job, entry: JournalEntry) {
        self.remove(&job.id);
        self.bytes += entry.record.len();
        let digests = digests::of_job(job);
        let found_by = digests.into_iter().filter(|digest| *digest != 0);
        self.digests.extend(found_by.map(|digest| (digest, job.id.clone())));
        let stored = JobAtHand { entry, state: job.state(), priority: job.priority, digests };
        self.jobs.insert(job.id.clone(), stored);
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(stored) = self.jobs.remove(id) {
            self.bytes -= stored.entry.record.len();
            for digest in stored.digests {
                self.digests.remove(&(digest, id.to_owned()));
            }
        }
    }

    pub(crate) fn entry(&self, id: &str) -> Option<&JournalEntry> {
        self.jobs.get(id).map(|stored| &stored.entry)
    }

    /// All entries by id.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &JournalEntry)> {
        self.jobs.iter().map(|(id, stored)| (id.as_str(), &stored.entry))
    }

    /// Bytes of all records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ids from the greatest below `below` downwards, of jobs in one state or all.
    pub(crate) fn ids_below(
        &self,
        state: Option<JobState>,
        below: Option<&str>,
    ) -> impl Iterator<Item = &str> {
        let end = below.map_or(Bound::Unbounded, Bound::Excluded);
        let jobs = self.jobs.range::<str, _>((Bound::Unbounded, end)).rev();
        let wanted =
            move |(_, stored): &(&String, &JobAtHand)| state.is_none_or(|s| stored.state == s);
        jobs.filter(wanted).map(|(id, _)| id.as_str())
    }

    /// Ids of the jobs in one state, by priority, then id.
    pub(crate) fn in_turn(&self, state: JobState) -> Vec<&str> {
        let jobs = self.jobs.iter().filter(|(_, stored)| stored.state == state);
        let mut ids: Vec<(Reverse<i32>, &str)> =
            jobs.map(|(id, stored)| (Reverse(stored.priority), id.as_str())).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Ids of the jobs with this digest, the newest first.
    pub(crate) fn with_digest(&self, digest: u64) -> impl Iterator<Item = &str> {
        let all = (digest, String::new())..(digest.saturating_add(1), String::new());
        self.digests.range(all).rev().map(|(_, id)| id.as_str())
    }
}
