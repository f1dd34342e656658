//! How long a search may take.

use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use std::time::{Duration, Instant};

/// When what is tried must end, and what there was no time for.
pub(crate) struct Clock {
    deadline: Instant,
    untried: usize,
}

impl Clock {
    /// Begins now.
    pub(crate) fn of(cx: &QuantizeContext) -> Clock {
        let budget = cx.int("quantization.time_budget_s").and_then(|s| u64::try_from(s).ok());
        let deadline = Instant::now() + Duration::from_secs(budget.unwrap_or(600));
        Clock { deadline, untried: 0 }
    }

    /// Leaves a minute at most: nobody asked for what follows.
    pub(crate) fn hurry(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + Duration::from_secs(60));
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.deadline
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
