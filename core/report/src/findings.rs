//! Findings in the order in which a person reads them: what stops, what warns, what is only noted.

use crate::format::line;
use onnxd_diagnostics::Severity;
use onnxd_proto::onnxd::{Diagnostic, Report};

/// A finding, every text in one line.
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) code: String,
    pub(crate) class: String,
    pub(crate) message: String,
    /// Layer, its type, and file and line; empty if it has no place.
    pub(crate) place: String,
    pub(crate) help: String,
}

pub(crate) fn findings(report: &Report) -> Vec<Finding> {
    let mut found: Vec<Finding> = report.diagnostics.iter().map(finding).collect();
    found.sort_by_key(|f| f.severity);
    found
}

fn finding(d: &Diagnostic) -> Finding {
    let kind = match d.layer_kind.as_str() {
        "" => String::new(),
        kind => format!("({})", line(kind)),
    };
    let place = [line(&d.layer), kind, line(&d.place)];
    let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    Finding {
        severity: d.severity(),
        code: line(&d.code),
        class: line(&d.class),
        message: line(&d.message),
        place,
        help: line(&d.help),
    }
}
