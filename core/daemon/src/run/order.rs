//! What the event loop has the housekeeping thread do. Plain data, so that each part of the loop can
//! ask for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use onnxd_config::Settings;
use onnxd_intake::Unmatched;
use onnxd_proto::onnxd::{Job, Kept};

use super::layout::JobDir;

/// Something to be done on the disk.
#[derive(Debug)]
pub(crate) enum DiskOrder {
    /// The originals of a finished job leave its folder.
    PutAway(Box<Job>),
    /// The originals of a failed job come back, and what was packed of its folder.
    Fetch { job: Box<Job>, kept: Option<Kept> },
    /// What no front-end wants is moved away.
    Unmatched(Box<Unmatched>),
    /// Receipts of drops that stay.
    Receipts(ReceiptChange),
    /// What was packed of the folders of jobs goes, and their reports if they were packed.
    Packed(Vec<(JobDir, bool)>),
    /// Folders of jobs that are forgotten.
    Remove(Vec<PathBuf>),
}

/// An order with the settings of its time.
pub(crate) type Ordered = (DiskOrder, Arc<Settings>);

/// Receipts to be written and removed, by their paths below the outbox.
#[derive(Debug)]
pub(crate) struct ReceiptChange {
    pub(crate) write: BTreeMap<PathBuf, String>,
    pub(crate) remove: Vec<PathBuf>,
    /// All that are there afterwards.
    pub(crate) all: Vec<PathBuf>,
}
