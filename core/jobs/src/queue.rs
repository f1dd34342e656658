//! Which job starts next.
//!
//! Priority first, then fairness between top folders, then age: one person's thousand drops must
//! not keep another person's single drop waiting. However many folders lie in a top folder, it has
//! one turn.

use onnxd_proto::onnxd::{Job, JobState};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What the choice needs to know of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub id: String,
    pub state: JobState,
    pub folder: String,
    pub priority: i32,
    pub created_ms: u64,
    pub not_before_ms: u64,
    /// Last start of an attempt; 0 before the first.
    pub started_ms: u64,
}

impl Summary {
    /// The summary of `job`.
    pub fn of(job: &Job) -> Summary {
        let running = i32::from(JobState::Running);
        let start = job.events.iter().rev().find(|e| e.to == running && e.from != running);
        Summary {
            id: job.id.clone(),
            state: job.state(),
            folder: job.folder.clone(),
            priority: job.priority,
            created_ms: job.created_ms,
            not_before_ms: job.not_before_ms,
            started_ms: start.map_or(0, |e| e.unix_ms),
        }
    }

    /// The folder of the inbox that the drop lay in, at whatever depth; empty for the inbox itself.
    fn top_folder(&self) -> &str {
        self.folder.split('/').next().unwrap_or_default()
    }

    fn may_start(&self, now_ms: u64) -> bool {
        match self.state {
            JobState::Queued => true,
            JobState::RetryWait => self.not_before_ms <= now_ms,
            _ => false,
        }
    }
}

/// The job to start next. `jobs` holds all jobs of interest, the running and recently finished ones
/// included: they tell which top folder had its turn.
pub fn next_job<'j>(
    jobs: impl Iterator<Item = &'j Summary> + Clone,
    now_ms: u64,
) -> Option<&'j Summary> {
    let mut served: HashMap<&str, (usize, u64)> = HashMap::new();
    for job in jobs.clone() {
        let (running, last_ms) = served.entry(job.top_folder()).or_default();
        *running += usize::from(job.state == JobState::Running);
        *last_ms = (*last_ms).max(job.started_ms);
    }
    let turn = |job: &Summary| served.get(job.top_folder()).copied().unwrap_or_default();
    jobs.filter(|job| job.may_start(now_ms))
        .min_by_key(|job| (Reverse(job.priority), turn(job), job.created_ms, &job.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, folder: &str, created_ms: u64) -> Summary {
        Summary {
            id: id.into(),
            state: JobState::Queued,
            folder: folder.into(),
            priority: 0,
            created_ms,
            not_before_ms: 0,
            started_ms: 0,
        }
    }

    /// Starts and finishes all jobs one after the other; the order of their ids.
    fn order(mut jobs: Vec<Summary>) -> String {
        let mut out = Vec::new();
        for now_ms in 1000.. {
            let Some(id) = next_job(jobs.iter(), now_ms).map(|j| j.id.clone()) else { break };
            let chosen = jobs.iter_mut().find(|j| j.id == id).unwrap();
            chosen.state = JobState::Succeeded;
            chosen.started_ms = now_ms;
            out.push(id);
        }
        out.join(" ")
    }

    #[test]
    fn age_decides_within_a_folder() {
        assert_eq!(order(vec![job("b", "", 2), job("c", "", 3), job("a", "", 1)]), "a b c");
        assert_eq!(order(vec![job("b", "", 1), job("a", "", 1)]), "a b");
    }

    #[test]
    fn priority_comes_first() {
        let urgent = Summary { priority: 5, ..job("c", "x", 3) };
        let idle = Summary { priority: -1, ..job("a", "y", 1) };
        assert_eq!(order(vec![idle, job("b", "z", 2), urgent]), "c b a");
    }

    #[test]
    fn a_top_folder_has_one_turn_however_many_folders_lie_in_it() {
        let jobs = vec![
            job("a1", "a/x", 1),
            job("a2", "a/y", 2),
            job("a3", "a/z/w", 3),
            job("b1", "b", 4),
            job("c1", "", 5),
        ];
        assert_eq!(order(jobs), "a1 b1 c1 a2 a3");
    }

    #[test]
    fn folders_take_turns() {
        let jobs = vec![job("a1", "a", 1), job("a2", "a", 2), job("a3", "a", 3), job("b1", "b", 4)];
        assert_eq!(order(jobs), "a1 b1 a2 a3");
    }

    #[test]
    fn a_folder_with_a_running_job_waits() {
        let running = Summary { state: JobState::Running, ..job("a1", "a", 1) };
        let served = Summary { state: JobState::Succeeded, started_ms: 90, ..job("b1", "b", 2) };
        let jobs = [running, job("a2", "a", 3), served, job("b2", "b", 4)];
        assert_eq!(next_job(jobs.iter(), 100).unwrap().id, "b2");
    }

    #[test]
    fn a_retry_waits_for_its_time() {
        let retry = Summary { state: JobState::RetryWait, not_before_ms: 50, ..job("a", "", 1) };
        assert_eq!(next_job([&retry].into_iter(), 49), None);
        assert_eq!(next_job([&retry].into_iter(), 50), Some(&retry));
    }

    #[test]
    fn other_states_never_start() {
        for state in (0..=11).filter_map(|n| JobState::try_from(n).ok()) {
            let may = matches!(state, JobState::Queued | JobState::RetryWait);
            let jobs = [Summary { state, ..job("a", "", 1) }];
            assert_eq!(next_job(jobs.iter(), 1).is_some(), may, "{state:?}");
        }
    }
}
