//! Control of the running daemon over its unix socket.

mod answers;
pub(crate) mod client;
mod places;
mod server;

pub(crate) use answers::{Now, inbox_json, job_json, summary_json};
pub(crate) use server::{class_of, listen};
