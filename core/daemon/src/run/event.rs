//! Everything that can happen to the daemon. The event loop receives nothing else.

use std::path::PathBuf;

use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, Found};

use super::attempt::Ending;
use super::control::Asked;
use super::housekeeping::Kept;
use super::prepare::Prepared;
use super::requests::Reloaded;

#[derive(Debug)]
pub(crate) enum Event {
    /// Intake has found a complete drop, or one that nobody wants.
    Found(Found),
    /// The files of a job were moved out of the inbox, or not.
    Claimed { job: String, done: Result<(), ClaimError> },
    /// The files of a job were read.
    Prepared { job: String, done: Result<Box<Prepared>, Diagnostics> },
    /// A worker entered a stage.
    Stage { job: String, lease: u64, stage: String },
    /// A worker has ended.
    Ended { job: String, lease: u64, ending: Box<Ending> },
    /// A result is in the outbox, or not.
    Published { job: String, lease: u64, done: Box<Result<PathBuf, Diagnostic>> },
    /// The housekeeping thread has done something.
    Kept(Kept),
    /// Somebody asks over the control socket.
    Asked(Box<Asked>),
    /// The settings were read again, or not.
    Reloaded(Box<Reloaded>),
    /// The operating system asks.
    Signal(i32),
    /// Something may be due.
    Tick,
}
