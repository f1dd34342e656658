//! Conversions under way, and what keeps others from beginning.

pub(crate) mod attempt;
pub(crate) mod room;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use onnxd_jobs::{What, is_finished, lacks_room};
use onnxd_proto::onnxd::{Job, JobState};

use crate::conversion::doing::SharedDoing;
use crate::run::event::Ending;
use crate::run::layout::{Folders, free_mib};
use attempt::Stop;
use room::WaitingForDisk;

/// Shown as the stage of a job whose result is being copied, or moved to the outbox.
const PUBLISHING: &str = "publish";

/// An attempt under way.
#[derive(Debug)]
pub(crate) struct RunningAttempt {
    pub(crate) lease: u64,
    pub(crate) name: String,
    pub(crate) stage: String,
    pub(crate) since: Instant,
    pub(crate) stop: Stop,
    /// What its worker says.
    pub(crate) doing: SharedDoing,
    /// The daemon stops, so the attempt does not count.
    given_back: bool,
}

impl RunningAttempt {
    fn new(job: &Job, stage: &str) -> RunningAttempt {
        RunningAttempt {
            lease: job.lease,
            name: job.name.clone(),
            stage: stage.into(),
            since: Instant::now(),
            stop: Stop::default(),
            doing: SharedDoing::default(),
            given_back: false,
        }
    }

    /// Its result is being copied, or moved to the outbox.
    pub(crate) fn is_publishing(&self) -> bool {
        self.stage == PUBLISHING
    }
}

/// What follows from the end of an attempt.
#[derive(Debug)]
pub(crate) enum Next<'e> {
    /// The attempt is over, and its job is finished already.
    End,
    /// The result that waits in this folder goes to the outbox.
    Publish(&'e Path),
    /// The attempt does not count.
    GiveBack,
    /// The attempt has failed; if it is tried again, it may be for lack of room.
    Fail { what: What, no_room: Option<String> },
}

/// Whether there is less free space than is wanted, and whether that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    AsBefore,
    IsLow,
    IsFine,
}

/// Conversions under way.
#[derive(Debug)]
pub(crate) struct Attempts {
    running: HashMap<String, RunningAttempt>,
    /// Duplicates whose earlier result could not be copied: they are converted.
    no_copy: HashSet<String>,
    /// Why nothing is started for lack of space.
    disk_low: Option<String>,
    pub(crate) room: WaitingForDisk,
}

impl Attempts {
    pub(crate) fn new(now: Instant) -> Attempts {
        Attempts {
            running: HashMap::new(),
            no_copy: HashSet::new(),
            disk_low: None,
            room: WaitingForDisk::new(now),
        }
    }

    /// An attempt of a job begins.
    pub(crate) fn begin(&mut self, job: &Job) -> &RunningAttempt {
        self.room.forget(&job.id);
        self.insert(RunningAttempt::new(job, "start"), job)
    }

    /// The result of a job is being copied, which its turn waits for.
    pub(crate) fn begin_copy(&mut self, job: &Job) {
        self.insert(RunningAttempt::new(job, PUBLISHING), job);
    }

    fn insert(&mut self, running: RunningAttempt, job: &Job) -> &RunningAttempt {
        self.running.entry(job.id.clone()).insert_entry(running).into_mut()
    }

    /// The result of a job is being moved to the outbox, by the attempt that made it or another one.
    pub(crate) fn begin_publishing(&mut self, job: &Job) {
        let running = || RunningAttempt::new(job, PUBLISHING);
        self.running.entry(job.id.clone()).or_insert_with(running);
    }

    pub(crate) fn get(&self, id: &str) -> Option<&RunningAttempt> {
        self.running.get(id)
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.running.contains_key(id)
    }

    /// The lease of a job's attempt, if there is one.
    pub(crate) fn lease(&self, id: &str) -> Option<u64> {
        self.get(id).map(|running| running.lease)
    }

    /// Attempts with the ids of their jobs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &RunningAttempt)> {
        self.running.iter()
    }

    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    /// How many results are being copied or moved.
    pub(crate) fn publishing(&self) -> usize {
        self.running.values().filter(|running| running.is_publishing()).count()
    }

    /// A stage is shown, not recorded: a crash during the attempt begins it again anyway.
    pub(crate) fn enter_stage(&mut self, id: &str, lease: u64, stage: &str) {
        if let Some(running) = self.running.get_mut(id).filter(|r| r.lease == lease) {
            stage.clone_into(&mut running.stage);
            tracing::debug!(job = id, stage, "stage");
        }
    }

    /// The result of the attempt is being moved to the outbox.
    pub(crate) fn enter_publishing(&mut self, id: &str, lease: u64) {
        self.enter_stage(id, lease, PUBLISHING);
    }

    /// What follows from the end of an attempt; `state` is that of its job.
    pub(crate) fn after<'e>(
        &self,
        id: &str,
        lease: u64,
        state: JobState,
        ending: &'e Ending,
    ) -> Next<'e> {
        let given_back = self.get(id).is_some_and(|running| running.given_back);
        match ending {
            _ if is_finished(state) => Next::End,
            Ending::Ready { staged } => Next::Publish(staged),
            Ending::Failed { stopped: true, .. } if given_back => Next::GiveBack,
            Ending::Failed { diagnostics, crashed, timed_out, .. } => {
                let (diagnostics, crashed, timed_out) = (diagnostics.clone(), *crashed, *timed_out);
                let no_room = lacks_room(&diagnostics).map(|d| d.message.clone());
                Next::Fail {
                    what: What::Failed { lease, diagnostics, crashed, timed_out },
                    no_room,
                }
            }
        }
    }

    /// The attempt is over, with its thread.
    pub(crate) fn end(&mut self, id: &str) {
        self.running.remove(id);
    }

    /// The same; the next try of its job may copy an earlier result again.
    pub(crate) fn end_for_good(&mut self, id: &str) {
        self.end(id);
        self.no_copy.remove(id);
    }

    /// No copy is tried of an earlier result again.
    pub(crate) fn convert_instead(&mut self, id: &str) {
        self.no_copy.insert(id.to_owned());
        self.end(id);
    }

    /// Whether a copy of an earlier result may be made for the job.
    pub(crate) fn may_copy(&self, id: &str) -> bool {
        !self.no_copy.contains(id)
    }

    /// The drain time is over: running jobs go back to the queue, and the attempt does not count.
    pub(crate) fn give_back(&mut self) {
        for (id, running) in &mut self.running {
            if !running.given_back && !running.is_publishing() {
                tracing::info!(job = %id, "stopped, to be converted after the next start");
                running.given_back = true;
                running.stop.stop();
            }
        }
    }

    /// Why nothing is started for lack of space.
    pub(crate) fn disk_low(&self) -> Option<&String> {
        self.disk_low.as_ref()
    }

    /// Looks whether `min_free_mib` are free where copies and results go.
    pub(crate) fn look_at_disk(&mut self, folders: &Folders, min_free_mib: u64) -> Disk {
        let low = [&folders.state, &folders.outbox].into_iter().find_map(|folder| {
            let free = free_mib(folder)?;
            let place = folder.display();
            (free < min_free_mib).then(|| {
                format!("{place} has {free} MiB free, `jobs.min_free_mib` is {min_free_mib}")
            })
        });
        let change = match (&self.disk_low, &low) {
            (None, Some(_)) => Disk::IsLow,
            (Some(_), None) => Disk::IsFine,
            _ => Disk::AsBefore,
        };
        self.disk_low = low;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::{Code, Diagnostic};
    use onnxd_proto::onnxd as message;

    #[test]
    fn the_end_of_an_attempt_is_followed_by_one_thing() {
        let job = Job { id: "a".into(), lease: 2, ..Job::default() };
        let mut attempts = Attempts::new(Instant::now());
        let failed = |code, stopped| Ending::Failed {
            diagnostics: vec![message::Diagnostic::from(&Diagnostic::new(code, "why"))],
            crashed: false,
            timed_out: false,
            stopped,
        };
        let bad = failed(Code::SourceSyntax, true);
        let after = |attempts: &Attempts, state, ending: &Ending| {
            format!("{:?}", attempts.after("a", 2, state, ending))
        };
        attempts.begin(&job);
        assert_eq!(after(&attempts, JobState::Cancelled, &bad), "End");
        let ready = Ending::Ready { staged: "/r".into() };
        assert_eq!(after(&attempts, JobState::Running, &ready), "Publish(\"/r\")");
        let next = attempts.after("a", 2, JobState::Running, &bad);
        assert!(matches!(next, Next::Fail { no_room: None, .. }), "{next:?}");
        let full = failed(Code::DiskFull, false);
        let next = attempts.after("a", 2, JobState::Running, &full);
        assert!(matches!(&next, Next::Fail { no_room: Some(why), .. } if why == "why"), "{next:?}");
        attempts.give_back();
        assert_eq!(after(&attempts, JobState::Running, &bad), "GiveBack");
        let next = attempts.after("a", 2, JobState::Running, &full);
        assert!(matches!(next, Next::Fail { .. }), "it had failed before it was stopped: {next:?}");
    }

    #[test]
    fn a_result_on_its_way_out_is_not_given_back() {
        let job = Job { id: "a".into(), lease: 1, ..Job::default() };
        let mut attempts = Attempts::new(Instant::now());
        attempts.begin(&job);
        attempts.enter_publishing("a", 1);
        attempts.begin_publishing(&job);
        attempts.give_back();
        let running = attempts.get("a").unwrap();
        assert!(!running.given_back && !running.stop.is_asked());
        assert_eq!((attempts.count(), attempts.publishing()), (1, 1));
    }
}
