//! Which finished jobs are forgotten.
//!
//! The store must not grow with the number of drops; the results themselves are never touched.

use crate::step::is_finished;
use crate::store::{Store, StoreError};
use onnxd_proto::onnxd::Job;
use std::cmp::Reverse;
use std::collections::BTreeSet;

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

/// Ids of the jobs to drop: finished too long ago, or not among the newest finished ones.
pub fn expired<'a>(jobs: &'a [Job], retention: &Retention, now_ms: u64) -> Vec<&'a str> {
    let oldest_ms = now_ms.saturating_sub(retention.days_max.saturating_mul(MS_PER_DAY));
    let mut finished: Vec<&Job> = jobs.iter().filter(|job| is_finished(job.state())).collect();
    finished.sort_by_key(|job| Reverse((job.finished_ms, &job.id)));
    finished
        .iter()
        .enumerate()
        .filter(|(rank, job)| *rank >= retention.finished_max || job.finished_ms < oldest_ms)
        .map(|(_, job)| job.id.as_str())
        .collect()
}

/// Drops the expired jobs and returns them, so that their folders can be removed too.
pub fn drop_expired(
    store: &mut (impl Store + ?Sized),
    retention: &Retention,
    now_ms: u64,
) -> Result<Vec<Job>, StoreError> {
    let mut jobs = store.scan(None)?;
    let ids: BTreeSet<String> =
        expired(&jobs, retention, now_ms).into_iter().map(Into::into).collect();
    store.remove(&ids.iter().map(String::as_str).collect::<Vec<_>>())?;
    jobs.retain(|job| ids.contains(&job.id));
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::MemoryStore;
    use onnxd_proto::onnxd::JobState;

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
        let ids = expired(&jobs, &Retention::default(), NOW_MS);
        assert_eq!(ids, [&jobs[0].id, &jobs[4].id, &jobs[3].id]);
    }

    #[test]
    fn beyond_the_number_the_oldest_go_first() {
        let jobs: Vec<Job> = (0..5).map(|n| job(n, JobState::Failed, u64::from(n))).collect();
        let retention = Retention { days_max: 30, finished_max: 3 };
        assert_eq!(expired(&jobs, &retention, NOW_MS), [&jobs[3].id, &jobs[4].id]);
    }

    #[test]
    fn the_store_forgets_exactly_these() {
        let mut store = MemoryStore::default();
        let (old, new) = (job(1, JobState::Failed, 50), job(2, JobState::Failed, 1));
        assert!(store.put_new(&old).unwrap() && store.put_new(&new).unwrap());
        let dropped = drop_expired(&mut store, &Retention::default(), NOW_MS).unwrap();
        assert_eq!(dropped, std::slice::from_ref(&old));
        assert_eq!(store.scan(None).unwrap(), [new]);
    }
}
