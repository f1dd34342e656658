//! A store without a disk: the same promises within one process.
//!
//! Simulations of the queue run on it, and it is the model that the sled store is tested against.

use crate::store::{Store, StoreError, admit};
use onnxd_proto::onnxd::{Job, JobState};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Jobs by id.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    jobs: BTreeMap<String, Job>,
}

impl Store for MemoryStore {
    fn get(&self, id: &str) -> Result<Option<Job>, StoreError> {
        Ok(self.jobs.get(id).cloned())
    }

    fn put_new(&mut self, job: &Job) -> Result<bool, StoreError> {
        admit(job)?;
        if self.jobs.contains_key(&job.id) {
            return Ok(false);
        }
        self.jobs.insert(job.id.clone(), job.clone());
        Ok(true)
    }

    fn swap(&mut self, old: &Job, new: &Job) -> Result<bool, StoreError> {
        admit(new)?;
        if old.id != new.id || self.jobs.get(&old.id) != Some(old) {
            return Ok(false);
        }
        self.jobs.insert(new.id.clone(), new.clone());
        Ok(true)
    }

    fn scan(&self, state: Option<JobState>) -> Result<Vec<Job>, StoreError> {
        let Some(state) = state else { return Ok(self.jobs.values().cloned().collect()) };
        let mut found: Vec<Job> =
            self.jobs.values().filter(|job| job.state() == state).cloned().collect();
        found.sort_by_key(|job| Reverse(job.priority));
        Ok(found)
    }

    fn find_identity(&self, identity: &str) -> Result<Option<Job>, StoreError> {
        let same = |job: &&Job| {
            job.state() == JobState::Succeeded && !identity.is_empty() && job.identity == identity
        };
        Ok(self.jobs.values().rev().find(same).cloned())
    }

    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        Ok(ids.iter().filter(|id| self.jobs.remove(**id).is_some()).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::suite;

    #[test]
    fn suite() {
        suite::run(&mut MemoryStore::default(), |_| {});
    }
}
