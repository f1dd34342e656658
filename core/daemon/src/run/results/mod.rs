//! Results and originals on their way out.

pub(crate) mod copying;
pub(crate) mod originals;
pub(crate) mod outbox;
pub(crate) mod publication;
mod receipt;

use std::collections::{BTreeMap, HashMap, HashSet};

use crossbeam_channel::Sender;
use onnxd_jobs::is_finished;
use onnxd_proto::onnxd::{Job, JobState};
use serde_json::Value;

use crate::run::order::DiskOrder;
use outbox::Unpublished;

/// Results and originals on their way out.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Jobs whose folders the housekeeping thread has in hand.
    busy: HashSet<String>,
    /// Finished jobs whose originals could not be moved, and why.
    unsettled: BTreeMap<String, String>,
    /// Jobs whose results wait for the outbox.
    unpublished: BTreeMap<String, Unpublished>,
    /// Folders that results and originals go to, and why they cannot be written now.
    pub(crate) unwritable: Vec<String>,
    /// Who waits for originals to come back: actor and answer.
    asking: HashMap<String, (String, Sender<Value>)>,
}

impl Results {
    /// The originals of a job that has ended leave its folder. A quarantined job keeps them.
    pub(crate) fn settle(&mut self, job: Job) -> Option<DiskOrder> {
        if !is_finished(job.state()) || job.state() == JobState::Quarantined {
            return None;
        }
        self.busy.insert(job.id.clone());
        Some(DiskOrder::PutAway(Box::new(job)))
    }

    /// Whether the housekeeping thread has the folder of a job in hand.
    pub(crate) fn is_busy(&self, id: &str) -> bool {
        self.busy.contains(id)
    }

    /// It has none in hand.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// It has done with a folder.
    pub(crate) fn end_put_away(&mut self, id: &str) {
        self.busy.remove(id);
    }

    /// The originals of a finished job could not be moved.
    pub(crate) fn note_unsettled(&mut self, id: &str, why: String) {
        self.unsettled.insert(id.to_owned(), why);
    }

    /// They are moved once more.
    pub(crate) fn forget_unsettled(&mut self, id: &str) {
        self.unsettled.remove(id);
    }

    /// Jobs whose originals could not be moved, and why.
    pub(crate) fn unsettled(&self) -> &BTreeMap<String, String> {
        &self.unsettled
    }

    /// The originals of a failed job are to come back; `answer` waits for that.
    pub(crate) fn ask_for_originals(&mut self, id: &str, actor: String, answer: Sender<Value>) {
        self.busy.insert(id.to_owned());
        self.asking.insert(id.to_owned(), (actor, answer));
    }

    /// Who asked for the originals of a job.
    pub(crate) fn asker(&self, id: &str) -> Option<(String, Sender<Value>)> {
        self.asking.get(id).cloned()
    }

    /// The originals are back, or lost.
    pub(crate) fn end_fetch(&mut self, id: &str) {
        self.asking.remove(id);
        self.busy.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn originals_leave_when_a_job_is_over() {
        let mut results = Results::default();
        let mut job = Job { id: "a".into(), ..Job::default() };
        for state in [JobState::Queued, JobState::Publishing, JobState::Quarantined] {
            job.set_state(state);
            assert!(results.settle(job.clone()).is_none() && results.is_idle(), "{state:?}");
        }
        job.set_state(JobState::Cancelled);
        assert!(matches!(results.settle(job), Some(DiskOrder::PutAway(job)) if job.id == "a"));
        assert!(results.is_busy("a"));
        results.end_put_away("a");
        assert!(results.is_idle());
    }

    #[test]
    fn whoever_asks_for_originals_waits_for_them() {
        let mut results = Results::default();
        let (answer, _answered) = crossbeam_channel::bounded(1);
        results.ask_for_originals("a", "ann".into(), answer);
        assert!(results.is_busy("a") && results.asker("b").is_none());
        assert_eq!(results.asker("a").unwrap().0, "ann");
        results.end_fetch("a");
        assert!(results.asker("a").is_none() && results.is_idle());
    }
}
