//! Jobs that have lost their owner, and the round that finds another one for them.

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_jobs::What;
use onnxd_proto::onnxd::{self as message, JobState};

use super::{Daemon, Turn};
use crate::run::queue::owners::{InHand, Owner, owner};

impl Daemon {
    pub(crate) fn owner(&self, id: &str, state: JobState) -> Option<Owner> {
        let hand = InHand {
            taking: self.drops.has(id),
            attempt: self.attempts.has(id),
            outbox: self.results.waits(id),
            housekeeping: self.results.is_busy(id),
        };
        owner(state, hand)
    }

    /// Every job without an owner is treated as one of an earlier run.
    pub(crate) fn adopt(&mut self) -> Turn {
        let states = self.queue.book().states();
        let lost = states.filter(|(id, state)| self.owner(id, *state).is_none());
        let lost: Vec<String> = lost.map(|(id, _)| id.to_owned()).collect();
        for id in lost {
            if let Some(job) = self.queue.job(&id)? {
                self.recover(&job)?;
            }
        }
        Ok(())
    }

    /// The thread of a job has ended without an answer: a defect of ours, or of a library.
    pub(crate) fn on_abandoned(&mut self, id: &str) -> Turn {
        let why = Diagnostic::new(Code::Internal, format!("The thread of job {id} panicked"));
        tracing::error!(job = id, reason = %why, "abandoned");
        match self.attempts.lease(id) {
            Some(lease) if self.queue.publishing(id)?.is_some() => {
                self.on_published(id, lease, &Err(why))?;
            }
            Some(_) if self.queue.waits_for_turn(id) => self.attempts.convert_instead(id),
            Some(lease) => {
                let diagnostics = vec![message::Diagnostic::from(&why)];
                let (crashed, timed_out) = (true, false);
                self.apply(id, What::Failed { lease, diagnostics, crashed, timed_out })?;
                self.end_attempt(id)?;
            }
            None => self.reject(id, &why.into())?,
        }
        self.drops.end(id);
        Ok(())
    }

    /// A thread could not start. The job loses this owner and gets another in the next round.
    pub(crate) fn no_owner(&mut self, id: &str, e: &std::io::Error) {
        tracing::warn!(job = id, reason = %e, "a thread could not start; it is tried again");
        self.drops.end(id);
        self.attempts.end(id);
        if self.queue.waits_for_turn(id) {
            self.attempts.convert_instead(id);
        }
    }
}
