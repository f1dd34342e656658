//! What is in the inbox and why it is not taken; the text of `onnxd explain` and `ctl health`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use onnxd_diagnostics::Diagnostic;

use crate::watch::WatchMode;

/// The inbox after the latest scan.
#[derive(Clone, Debug)]
pub struct Status {
    /// Absolute path of the inbox.
    pub inbox: PathBuf,
    /// Why the inbox cannot be read at the moment (`inbox-offline`), if so.
    pub offline: Option<String>,
    /// How changes are noticed.
    pub watch_mode: WatchMode,
    /// End of the latest scan, successful or not.
    pub last_scan: SystemTime,
    /// How long it took, without the questions to front-ends.
    pub last_scan_duration: Duration,
    /// Files seen by it.
    pub files: usize,
    /// Scans so far.
    pub scans: u64,
    /// Times the operating system lost events.
    pub overflows: u64,
    /// Why a restart would have everything settle anew, if it would.
    pub forgetful: Option<String>,
    /// One per set, leftover and refused entry.
    pub items: Vec<InboxItem>,
}

/// A set, or something that is no set.
#[derive(Clone, Debug)]
pub struct InboxItem {
    /// Path below the inbox.
    pub id: PathBuf,
    /// First scan that saw it.
    pub since: Instant,
    /// Why it is still there.
    pub state: InboxState,
}

/// Why something is still in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxState {
    /// It changed within the settle time, or a part of it did.
    Arriving {
        /// The part that changed last, below the inbox.
        part: PathBuf,
    },
    /// Complete but for these.
    WaitingFor {
        /// In the front-end's words.
        missing: Vec<String>,
    },
    /// No front-end wants it.
    Unmatched {
        /// Why not.
        reason: String,
    },
    /// It will not be taken as it is.
    Refused {
        /// Why not, and what to do.
        reason: Diagnostic,
    },
    /// It would be taken but for something outside of it.
    Blocked {
        /// What is in the way, and what to do.
        reason: String,
    },
    /// The front-ends have been asked about it, or about a neighbour that may belong to it, and
    /// have not answered yet.
    Asked,
    /// Others of the same top folder come first.
    Queued,
    /// Given to the daemon, which has not answered yet.
    HandedOver,
}

impl InboxState {
    /// The state's word in listings.
    pub fn word(&self) -> &'static str {
        match self {
            InboxState::Arriving { .. } => "arriving",
            InboxState::WaitingFor { .. } => "waiting",
            InboxState::Unmatched { .. } => "unmatched",
            InboxState::Refused { .. } => "refused",
            InboxState::Blocked { .. } => "blocked",
            InboxState::Asked => "asked",
            InboxState::Queued => "queued",
            InboxState::HandedOver => "handed-over",
        }
    }

    /// One sentence for a person.
    pub fn sentence(&self) -> String {
        match self {
            InboxState::Arriving { part } => format!("{} is still changing", part.display()),
            InboxState::WaitingFor { missing } => format!("waiting for {}", missing.join(", ")),
            InboxState::Unmatched { reason } | InboxState::Blocked { reason } => reason.clone(),
            InboxState::Refused { reason } => reason.to_string(),
            InboxState::Asked => "the front-ends are looking at it".to_owned(),
            InboxState::Queued => "it is taken when it is its turn".to_owned(),
            InboxState::HandedOver => "being taken".to_owned(),
        }
    }
}

impl Status {
    pub(crate) fn new(inbox: &Path, watch_mode: WatchMode) -> Status {
        Status {
            inbox: inbox.to_owned(),
            offline: None,
            watch_mode,
            last_scan: SystemTime::now(),
            last_scan_duration: Duration::ZERO,
            files: 0,
            scans: 0,
            overflows: 0,
            forgetful: None,
            items: Vec::new(),
        }
    }

    /// Nothing will change by itself: no set is arriving, looked at or being taken.
    pub fn is_quiet(&self) -> bool {
        use InboxState::{Arriving, Asked, HandedOver, Queued};
        let moving = |s: &InboxState| matches!(s, Arriving { .. } | Asked | Queued | HandedOver);
        !self.items.iter().any(|item| moving(&item.state))
    }
}
