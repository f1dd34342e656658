//! Findings in the order in which a person reads them: what stops, what warns, what is only noted.

use crate::format::line;
use onnxd_proto::onnxd::{Diagnostic, Report};

/// A finding, every text in one line.
pub(crate) struct Finding {
    /// `error`, `warning` or `note`.
    pub(crate) severity: &'static str,
    pub(crate) code: String,
    pub(crate) class: String,
    pub(crate) message: String,
    /// Layer, its type, and file and line; empty if it has no place.
    pub(crate) place: String,
    pub(crate) help: String,
}

const SEVERITIES: [&str; 3] = ["error", "warning", "note"];

pub(crate) fn findings(report: &Report) -> Vec<Finding> {
    let mut found: Vec<Finding> = report.diagnostics.iter().map(finding).collect();
    let rank = |f: &Finding| SEVERITIES.iter().position(|s| *s == f.severity);
    found.sort_by_key(rank);
    found
}

fn finding(d: &Diagnostic) -> Finding {
    let severity = SEVERITIES.into_iter().find(|s| *s == d.severity).unwrap_or(SEVERITIES[0]);
    let kind = match d.layer_kind.as_str() {
        "" => String::new(),
        kind => format!("({})", line(kind)),
    };
    let place = [line(&d.layer), kind, line(&d.place)];
    let place = place.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    Finding {
        severity,
        code: line(&d.code),
        class: line(&d.class),
        message: line(&d.message),
        place,
        help: line(&d.help),
    }
}
