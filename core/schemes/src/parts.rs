//! What users see of the work while it goes on.

use onnxd_plugin_sdk::{Part, QuantizeContext};
use std::ops::Range;

/// Ways that are tried one after the other.
pub(crate) struct Candidates {
    part: Part,
    at: usize,
    total: usize,
}

impl Candidates {
    pub(crate) fn of(cx: &QuantizeContext, total: usize) -> Candidates {
        Candidates { part: cx.part(""), at: 0, total }
    }

    /// The next one is worked on.
    pub(crate) fn next(&mut self) {
        self.at += 1;
        self.part.now(format!("candidate {} of {}", self.at, self.total));
    }

    /// These are left out.
    pub(crate) fn skip(&mut self, count: usize) {
        self.at += count;
    }
}

/// Layers whose rounding is being learned.
pub(crate) fn layers(now: &Range<usize>, total: usize) -> String {
    match now.len() {
        1 => format!("layer {} of {total}", now.end),
        _ => format!("layers {} to {} of {total}", now.start + 1, now.end),
    }
}
