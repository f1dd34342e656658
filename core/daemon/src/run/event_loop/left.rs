//! What `onnxd once` leaves: drops that stay in the inbox, and jobs that are not finished.

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::{is_finished, state_word};

use super::Daemon;

/// How the daemon ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// A job failed.
    pub(crate) any_failed: bool,
    /// What a further run, or a person, has to deal with.
    pub(crate) left: Vec<Left>,
}

/// A drop or a job that was not finished.
#[derive(Debug)]
pub(crate) struct Left {
    /// Path in the inbox, or the job's id.
    pub(crate) what: String,
    /// Such as `waiting`.
    pub(crate) state: &'static str,
    /// One sentence.
    pub(crate) why: String,
}

impl Daemon {
    pub(crate) fn ended(&self) -> Result<Ended, Diagnostic> {
        let mut left = Vec::new();
        if let Some(watched) = &self.around.watched {
            let status = watched.status.get();
            let drops = status.items.iter().map(|item| Left {
                what: item.id.display().to_string(),
                state: item.state.word(),
                why: item.state.sentence(),
            });
            left.extend(drops);
            left.extend(status.offline.iter().map(|why| Left {
                what: status.inbox.display().to_string(),
                state: "offline",
                why: why.clone(),
            }));
        }
        for id in self.queue.store().at_hand().map_err(|e| e.diagnostic)? {
            let job = self.queue.job(&id).map_err(|e| e.diagnostic)?;
            left.extend(job.filter(|job| !is_finished(job.state())).map(|job| Left {
                state: state_word(job.state()),
                why: job.events.last().map(|e| e.reason.clone()).unwrap_or_default(),
                what: job.id,
            }));
        }
        Ok(Ended { any_failed: self.course.any_failed, left })
    }
}
