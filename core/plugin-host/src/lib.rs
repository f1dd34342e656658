//! The host's side of the plugin interface: finding libraries, inspecting them, calling them.
//!
//! Only [`discover`] and [`cache`] may be used in the daemon; everything that opens a library
//! belongs into a confined worker.

pub mod cache;
pub mod call;
pub mod context;
mod derive;
pub mod discover;
mod element;
mod files;
mod header;
mod host_table;
mod inspect;
mod library;
mod messages;
mod recipe;
mod refusal;
mod scratch;
mod submission;
mod tensors;

pub use context::{Artifact, HostEvent, JobContext};
pub use inspect::{digest, hexadecimal, inspect, mapped_digest};
pub use library::{Failure, Instance, Library};
pub use messages::from_message;
pub use refusal::Refusal;
pub use submission::Submission;
pub use tensors::{Array, TensorTable};
