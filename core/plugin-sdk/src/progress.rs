//! What the host hears of the work: which part of it, and how far that is.

use crate::diagnostics::Diagnostic;
use crate::host::JobHandle;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The host hears of progress at most so often, if nothing else is new.
const PAUSE: Duration = Duration::from_millis(100);

/// The last progress, and when the host heard of it.
#[derive(Default)]
struct Reported {
    /// The parts of the work that have begun, the outermost first, each with its number.
    parts: Vec<(u64, String)>,
    begun: u64,
    /// What is counted.
    noun: String,
    done: u64,
    total: u64,
    at: Option<Instant>,
    /// A part has begun or ended since.
    is_other: bool,
}

impl Reported {
    /// `candidate 3 of 7, calibration, sample`
    fn about(&self) -> String {
        let parts = self.parts.iter().map(|(_, text)| text);
        let words = parts.chain(std::iter::once(&self.noun));
        let words: Vec<&str> = words.map(String::as_str).filter(|w| !w.is_empty()).collect();
        words.join(", ")
    }

    fn is_early(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < PAUSE)
    }
}

/// Tells the host how far the work is.
#[derive(Default)]
pub(crate) struct Reporter(Arc<Mutex<Reported>>);

impl Reporter {
    pub(crate) fn part(&self, text: String) -> WorkPart {
        let mut reported = locked(&self.0);
        reported.begun += 1;
        let number = reported.begun;
        reported.parts.push((number, text));
        reported.is_other = true;
        WorkPart { reported: Arc::clone(&self.0), number }
    }

    /// What is new is told at once, and counts a few times per second.
    pub(crate) fn count(
        &self,
        job: &JobHandle,
        noun: &str,
        done: u64,
        total: u64,
    ) -> Result<(), Diagnostic> {
        let mut reported = locked(&self.0);
        let is_end = done == total && done != reported.done;
        let is_other = reported.is_other || noun != reported.noun || total != reported.total;
        (reported.done, reported.total) = (done, total);
        if reported.is_early() && !is_end && !is_other {
            return Ok(());
        }
        noun.clone_into(&mut reported.noun);
        (reported.at, reported.is_other) = (Some(Instant::now()), false);
        // The lock keeps news in their order.
        job.progress(done, total, &reported.about())
    }

    /// Asks the host whether to go on, with the last counts; if they are of a part that is over, without.
    pub(crate) fn is_stopped(&self, job: &JobHandle) -> bool {
        let (noun, done, total) = {
            let mut reported = locked(&self.0);
            if reported.is_other {
                if reported.is_early() {
                    return false;
                }
                reported.at = Some(Instant::now());
                return job.progress(0, 0, "").is_err();
            }
            (reported.noun.clone(), reported.done, reported.total)
        };
        self.count(job, &noun, done, total).is_err()
    }
}

/// A part of the work, until it is dropped; see [`QuantizeContext::part`](crate::QuantizeContext::part).
#[must_use = "the part ends when this is dropped"]
pub struct WorkPart {
    reported: Arc<Mutex<Reported>>,
    number: u64,
}

impl WorkPart {
    /// Says what is worked on from now on instead, such as the next of several candidates.
    pub fn now(&self, text: impl Into<String>) {
        let mut reported = locked(&self.reported);
        let own = reported.parts.iter_mut().find(|(number, _)| *number == self.number);
        if let Some((_, own)) = own {
            *own = text.into();
        }
        reported.is_other = true;
    }
}

impl Drop for WorkPart {
    fn drop(&mut self) {
        let mut reported = locked(&self.reported);
        reported.parts.retain(|(number, _)| *number != self.number);
        reported.is_other = true;
    }
}

fn locked(reported: &Mutex<Reported>) -> MutexGuard<'_, Reported> {
    reported.lock().unwrap_or_else(PoisonError::into_inner)
}
