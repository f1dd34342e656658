//! The watched folder: finds what was dropped, decides when it is complete, and moves it out.
//!
//! The scan is the truth and events are hints. Nothing here keeps a store or runs plugin code: what
//! a network needs is asked through [`Prober`]. What lies in the folder is the only state that
//! survives a restart, and since when it has been quiet.
//!
//! ```text
//! watch -> scan -> settle -> group -> judge (asks the Prober) -> offers -> Submission -> Plan -> claim
//! ```

// A diagnostic is a large error, made once per drop at most: boxing it would only add noise.
#![allow(clippy::result_large_err)]

mod claim;
mod claim_error;
mod copy;
pub mod downloads;
mod file;
mod folders;
pub mod formats;
pub mod group;
mod inbox;
mod judge;
mod known;
mod ledger;
pub mod names;
mod offers;
mod place;
mod plan;
mod plan_file;
mod pool;
mod question;
mod recall;
mod refusal;
pub mod scan;
pub mod settle;
mod siblings;
mod status;
mod submission;
mod thread;
pub mod tree;
mod turns;
mod watch;
mod writers;

#[cfg(test)]
mod testing;

pub use claim_error::ClaimError;
pub use file::{DropFile, Fingerprint};
pub use inbox::{Config, Inbox};
pub use plan::{FileSet, MovePlan};
pub use scan::Limits;
pub use status::{InboxItem, InboxState, Status};
pub use submission::{Candidate, InboxNews, ProbeOutcome, Prober, Submission, Unmatched};
pub use thread::{Control, Intake, StatusHandle, spawn};
pub use turns::{Turns, top_folder};
pub use watch::WatchMode;
