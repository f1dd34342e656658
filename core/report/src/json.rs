//! `report.json`: what scripts read, and the source of the other views.

use onnxd_proto::onnxd::Report;

/// The report as JSON, indented, keys in a fixed order, with a final line break.
#[must_use]
pub fn json(report: &Report) -> String {
    let mut report = report.clone();
    for diagnostic in &mut report.diagnostics {
        diagnostic.severity = diagnostic.severity().as_str().to_owned();
    }
    let text = serde_json::to_string_pretty(&report);
    let mut text = text.expect("the document has text keys only, and all its numbers are JSON's");
    text.push('\n');
    text
}
