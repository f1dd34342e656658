//! Everything that can happen to the daemon. The event loop receives nothing else.

use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, Found};

use super::attempt::Ending;
use super::control::ClientRequest;
use super::duplicates::Copy;
use super::housekeeping::Kept;
use super::prepare::Prepared;
use super::publication::Placed;
use super::requests::Reloaded;

#[derive(Debug)]
pub(crate) enum Event {
    /// Intake has found a complete drop, or one that no front-end takes.
    Found(Found),
    /// The files of a job were moved out of the inbox, or not.
    Claimed { job: String, done: Result<(), ClaimError> },
    /// The files of a job were read.
    Prepared { job: String, done: Result<Box<Prepared>, Diagnostics> },
    /// A worker entered a stage.
    Stage { job: String, lease: u64, stage: String },
    /// A worker has ended.
    Ended { job: String, lease: u64, ending: Box<Ending> },
    /// An earlier result was copied for a job, or not.
    Copied { job: String, done: Box<Result<Copy, String>> },
    /// A result is in the outbox, or not.
    Published { job: String, lease: u64, done: Box<Result<Placed, Diagnostic>> },
    /// The thread of a job ended without an answer.
    Abandoned { job: String },
    /// The housekeeping thread has done something.
    Kept(Kept),
    /// A client asks over the control socket.
    ClientRequest(Box<ClientRequest>),
    /// The settings were read again, or not.
    Reloaded(Box<Reloaded>),
    /// The operating system asks.
    Signal(i32),
    /// Something may be due.
    Tick,
}

impl Event {
    /// The job that it is news of.
    pub(crate) fn job(&self) -> Option<&str> {
        match self {
            Event::Claimed { job, .. }
            | Event::Prepared { job, .. }
            | Event::Stage { job, .. }
            | Event::Ended { job, .. }
            | Event::Copied { job, .. }
            | Event::Published { job, .. }
            | Event::Abandoned { job } => Some(job),
            _ => None,
        }
    }

    /// Whether carrying it out records a change of a job, so that it must not be lost. Whoever asks
    /// over the socket is told of a refusal instead.
    pub(crate) fn changes_jobs(&self) -> bool {
        use Event::{ClientRequest, Reloaded, Signal, Stage, Tick};
        !matches!(self, Stage { .. } | ClientRequest(_) | Reloaded(_) | Signal(_) | Tick)
    }
}
