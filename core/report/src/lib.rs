//! The report of one conversion: `report.json` is the source, text and HTML are views of it.
//!
//! Everything is made from the message [`onnxd_proto::onnxd::Report`], so a report that was read
//! back from JSON renders like a fresh one.

mod findings;
mod format;
mod from_json;
mod head;
mod html;
mod json;
mod models;
mod receipt;
mod sections;
mod text;

pub use from_json::{BYTES_MAX, from_json};
pub use html::html;
pub use json::json;
pub use receipt::{LINES_MAX, receipt};
pub use text::text;

/// Version of the layout of `report.json`.
pub const SCHEMA: u32 = 1;

#[cfg(test)]
mod tests;
