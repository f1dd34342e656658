//! A store without a disk: the same promises within one process.
//!
//! Simulations of the queue run on it, and it is the model that the sled store is tested against.

use crate::step::is_finished;
use crate::store::{Destination, Store, StoreError, admit};
use onnxd_proto::onnxd::{Job, JobState, Kept};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Jobs by id.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    jobs: BTreeMap<String, Job>,
    /// What is kept of the folders of packed jobs.
    packed: BTreeMap<String, Kept>,
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
        self.packed.remove(&new.id);
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

    fn find_result(&self, to: &Destination<'_>) -> Result<Option<Job>, StoreError> {
        let fills = |job: &&Job| Destination::filled_by(job).as_ref() == Some(to);
        Ok(self.jobs.values().rev().find(fills).cloned())
    }

    fn remove(&mut self, ids: &[&str]) -> Result<usize, StoreError> {
        ids.iter().for_each(|id| drop(self.packed.remove(*id)));
        Ok(ids.iter().filter(|id| self.jobs.remove(**id).is_some()).count())
    }

    fn at_hand(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.jobs.keys().filter(|id| !self.is_packed(id)).cloned().collect())
    }

    fn packed_counts(&self) -> BTreeMap<JobState, usize> {
        let mut counts = BTreeMap::new();
        let packed = self.jobs.values().filter(|job| self.is_packed(&job.id));
        packed.for_each(|job| *counts.entry(job.state()).or_default() += 1);
        counts
    }

    fn is_packed(&self, id: &str) -> bool {
        self.packed.contains_key(id)
    }

    fn pack(&mut self, jobs: &[(String, Kept)]) -> Result<usize, StoreError> {
        let may = |id: &String| self.jobs.get(id).is_some_and(|job| is_finished(job.state()));
        let new = jobs.iter().filter(|(id, _)| may(id) && !self.is_packed(id));
        let new: Vec<(String, Kept)> = new.cloned().collect();
        let count = new.len();
        self.packed.extend(new);
        Ok(count)
    }

    fn kept(&self, id: &str) -> Result<Option<Kept>, StoreError> {
        Ok(self.packed.get(id).cloned())
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
