//! Reads `report.json` back, so that an old result can be shown in another form.

use crate::SCHEMA;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::Report;

/// Largest `report.json` that is read, in bytes.
pub const BYTES_MAX: u64 = 256 << 20;

/// The report in `text`.
///
/// # Errors
/// [`Code::Unreadable`] if it is no report, or one of a newer layout.
pub fn from_json(text: &str) -> Result<Report, Diagnostic> {
    let refuse = |why: String| {
        Diagnostic::new(Code::Unreadable, why).help("Name a `report.json` that onnxd wrote.")
    };
    let report: Report =
        serde_json::from_str(text).map_err(|e| refuse(format!("not a report: {e}")))?;
    if !(1..=SCHEMA).contains(&report.schema) {
        let found = report.schema;
        return Err(refuse(format!("a report of layout {found}, this onnxd knows 1 to {SCHEMA}")));
    }
    Ok(report)
}
