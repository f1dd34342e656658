//! One conversion, from dropped files to a published result, for `onnxd convert` and the daemon.
//!
//! ```text
//! Launcher -> Plugins -> Submission -> (probe) -> Order -> Attempt -> Outcome -> publish
//! ```
//! Everything that runs foreign code happens in a confined child; this process reads names, params,
//! messages, and as much of a file as tells its format.

pub(crate) mod attempt;
pub(crate) mod companions;
pub(crate) mod doing;
pub(crate) mod files;
pub(crate) mod launch;
mod links;
mod manifest;
mod named_params;
pub(crate) mod plugins;
pub(crate) mod probe;
pub(crate) mod publish;
pub(crate) mod recognised;
mod stamp;
pub(crate) mod submission;
pub(crate) mod submission_params;
pub(crate) mod target;
mod verify;

pub(crate) use attempt::{ConversionOrder, Outcome, Verdict, convert};
pub(crate) use launch::Launcher;
pub(crate) use plugins::Plugins;
pub(crate) use submission::Submission;
pub(crate) use target::ResultFolder;

#[cfg(test)]
mod testing;
