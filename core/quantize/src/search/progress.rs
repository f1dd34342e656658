//! How long a search may take, and what users see of it while it goes on.

use crate::session::{ProgressPart, Session};
use onnxd_diagnostics::{Code, Diagnostic};
use std::ops::Range;
use std::time::Duration;

/// When what is tried must end, and what there was no time for.
pub(crate) struct Clock<'c> {
    session: &'c dyn Session,
    deadline: Duration,
    untried: usize,
}

impl<'c> Clock<'c> {
    /// Begins now.
    pub(crate) fn start(session: &'c dyn Session) -> Clock<'c> {
        let budget = Duration::from_secs(session.quantization().time_budget_s());
        let deadline = session.elapsed() + budget;
        Clock { session, deadline, untried: 0 }
    }

    /// Leaves twice the time that it has taken so far, a few seconds at least and a minute at most: what
    /// follows was not asked for.
    pub(crate) fn hurry(&mut self) {
        let now = self.session.elapsed();
        let more = (now * 2).clamp(Duration::from_secs(5), Duration::from_secs(60));
        self.deadline = self.deadline.min(now + more);
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.session.elapsed() > self.deadline
    }

    /// The same; what is not tried for that reason is counted.
    pub(crate) fn late(&mut self) -> bool {
        let late = self.is_over();
        self.untried += usize::from(late);
        late
    }

    /// That the time was over before everything was tried.
    pub(crate) fn unfinished(&self) -> Option<Diagnostic> {
        let text = match self.untried {
            0 => return None,
            1 => "one measurement for a better accuracy was left out".to_owned(),
            n => format!("{n} measurements for a better accuracy were left out"),
        };
        let text = format!("{text}: `quantization.time_budget_s` is over");
        Some(Diagnostic::new(Code::QuantizationLoss, text).help("Allow more time."))
    }
}

/// Candidates that are tried one after the other.
pub(crate) struct Candidates {
    part: Box<dyn ProgressPart>,
    at: usize,
    total: usize,
}

impl Candidates {
    pub(crate) fn announce(session: &dyn Session, total: usize) -> Candidates {
        Candidates { part: session.part("".into()), at: 0, total }
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
