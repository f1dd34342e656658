//! Everything that can happen to the daemon. The event loop receives nothing else.
//!
//! Threads tell the loop by these data alone, so nothing here knows a thread.

use std::path::PathBuf;

use crossbeam_channel::Sender;
use onnxd_config::{Loaded, Params};
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_intake::{ClaimError, InboxNews};
use onnxd_proto::onnxd::{self as message, InputFile};
use serde_json::Value;

use super::protocol::ControlRequest;
use super::tools::Tools;

#[derive(Debug)]
pub(crate) enum Event {
    /// Intake has found a complete drop, or one that no front-end takes.
    Found(InboxNews),
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
    Kept(OrderResult),
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

/// What becomes known of a job by reading its files.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) files: Vec<InputFile>,
    pub(crate) identity: String,
    pub(crate) params: Params,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The result is complete and synced in this folder, which waits to be renamed.
    Ready { staged: PathBuf },
    Failed {
        diagnostics: Vec<message::Diagnostic>,
        crashed: bool,
        timed_out: bool,
        /// A user asked for its end.
        stopped: bool,
    },
}

/// A copy that waits to be published.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) identity: String,
    pub(crate) of: String,
    pub(crate) staged: PathBuf,
    pub(crate) dest: PathBuf,
}

/// Where a result is after a step of its publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// At its destination.
    There,
    /// Not renamed. These two have to be on record before it is tried again.
    Elsewhere { staged: PathBuf, dest: PathBuf },
}

/// What became of an order.
#[derive(Debug)]
pub(crate) enum OrderResult {
    PutAway { job: String, done: Result<(), Diagnostic> },
    Fetched { job: String, done: Result<(), Diagnostic> },
    Unmatched { id: PathBuf, done: Result<PathBuf, ClaimError> },
    Removed,
}

/// A request with whoever asks, and where the answer goes.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) request: ControlRequest,
    /// User name and number of the other side.
    pub(crate) actor: String,
    pub(crate) answer: Sender<Value>,
}

/// Settings and plugins that were read again, and the client who asked.
#[derive(Debug)]
pub(crate) struct Reloaded {
    pub(crate) done: Result<(Loaded, Tools), Diagnostics>,
    pub(crate) answer: Option<Sender<Value>>,
}
