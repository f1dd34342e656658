//! Which finished jobs are forgotten.
//!
//! The store must not grow with the number of drops; the results themselves are never touched.

use crate::step::is_finished;
use crate::store::{Brief, Store, StoreError};
use std::cmp::Reverse;

const MS_PER_DAY: u64 = 24 * 60 * 60 * 1000;

/// How long finished jobs are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub days_max: u64,
    pub finished_max: usize,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { days_max: 30, finished_max: 10_000 }
    }
}

/// The jobs to drop: finished too long ago, or not among the newest finished ones.
pub fn expired<'a>(jobs: &'a [Brief], retention: &Retention, now_ms: u64) -> Vec<&'a Brief> {
    let oldest_ms = now_ms.saturating_sub(retention.days_max.saturating_mul(MS_PER_DAY));
    let mut finished: Vec<&Brief> = jobs.iter().filter(|job| is_finished(job.state)).collect();
    finished.sort_by_key(|job| Reverse((job.finished_ms, &job.id)));
    finished
        .into_iter()
        .enumerate()
        .filter(|(rank, job)| *rank >= retention.finished_max || job.finished_ms < oldest_ms)
        .map(|(_, job)| job)
        .collect()
}

/// Drops the expired jobs and returns them, so that their folders can be removed too.
pub fn drop_expired(
    store: &mut (impl Store + ?Sized),
    retention: &Retention,
    now_ms: u64,
) -> Result<Vec<Brief>, StoreError> {
    let jobs = store.briefs()?;
    let dropped: Vec<Brief> = expired(&jobs, retention, now_ms).into_iter().cloned().collect();
    store.remove(&dropped.iter().map(|job| job.id.as_str()).collect::<Vec<_>>())?;
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::MemoryStore;
    use onnxd_proto::onnxd::{Job, JobState};

    const NOW_MS: u64 = 100 * MS_PER_DAY;

    fn job(n: u32, state: JobState, age_days: u64) -> Job {
        let finished_ms = NOW_MS - age_days * MS_PER_DAY;
        let mut job = Job { id: format!("{n:026}"), finished_ms, ..Job::default() };
        job.set_state(state);
        job
    }

    #[test]
    fn old_jobs_expire_and_live_ones_never() {
        let jobs = [
            job(1, JobState::Succeeded, 31),
            job(2, JobState::Succeeded, 30),
            job(3, JobState::Queued, 99),
            job(4, JobState::Quarantined, 99),
            job(5, JobState::Duplicate, 40),
        ];
        let jobs = jobs.each_ref().map(Brief::of);
        let dropped = expired(&jobs, &Retention::default(), NOW_MS);
        assert_eq!(dropped, [&jobs[0], &jobs[4], &jobs[3]]);
    }

    #[test]
    fn beyond_the_number_the_oldest_go_first() {
        let failed = |n: u32| Brief::of(&job(n, JobState::Failed, u64::from(n)));
        let jobs: Vec<Brief> = (0..5).map(failed).collect();
        let retention = Retention { days_max: 30, finished_max: 3 };
        assert_eq!(expired(&jobs, &retention, NOW_MS), [&jobs[3], &jobs[4]]);
    }

    #[test]
    fn the_store_forgets_exactly_these() {
        let mut store = MemoryStore::default();
        let (old, new) = (job(1, JobState::Failed, 50), job(2, JobState::Failed, 1));
        assert!(store.put_new(&old).unwrap() && store.put_new(&new).unwrap());
        let dropped = drop_expired(&mut store, &Retention::default(), NOW_MS).unwrap();
        assert_eq!(dropped, [Brief::of(&old)]);
        assert_eq!(store.scan(None).unwrap(), [new]);
    }
}
