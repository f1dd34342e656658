//! What a worker is doing: one line that is overwritten where a person watches; else a line for each
//! stage, and now and then one that tells how far a long stage is.

use super::out;
use crate::conversion::doing::Doing;
use onnxd_proto::onnxd::WorkerEvent;
use onnxd_proto::onnxd::worker_event::What;
use std::time::{Duration, Instant};

/// Go to the begin of the line and clear it.
const CLEAR: &str = "\r\x1b[2K";
/// A line that is overwritten stays so long, so that it can be read and a flood costs little.
const SHOWN: Duration = Duration::from_millis(50);
/// Between lines that stay.
const QUIET: Duration = Duration::from_secs(10);

/// Shows the news of a worker.
pub(crate) struct Progress {
    watched: bool,
    doing: Doing,
    said: Option<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { watched: out::is_watched(), doing: Doing::default(), said: None }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &WorkerEvent) {
        let Some(what) = &event.what else { return };
        if self.watched && matches!(what, What::Log(_)) {
            // Others write their line into the place.
            out::status(CLEAR);
        }
        if !self.is_due(what, Instant::now()) {
            return;
        }
        let line = self.doing.line();
        match self.watched {
            true => out::status(&format!("{CLEAR}{}", out::fitted_status(&line))),
            false => out::error(&line),
        }
    }

    /// Whether there is something new, and it is time to say it.
    fn is_due(&mut self, what: &What, now: Instant) -> bool {
        let pause = if self.watched { SHOWN } else { QUIET };
        let is_early = self.said.is_some_and(|said| now.saturating_duration_since(said) < pause);
        // Where lines stay, the many components of one stage wait, too.
        let is_stage = match what {
            What::Stage(started) => self.watched || started.stage != self.doing.stage(),
            _ => false,
        };
        let is_new = self.doing.take(what);
        let is_due = is_new && (!is_early || is_stage);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.watched {
            out::status(CLEAR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{Progress as Counted, StageStarted};

    #[test]
    fn stages_are_said_at_once_and_counts_now_and_then() {
        let begin = Instant::now();
        let started = |component: &str| StageStarted {
            stage: "quantize".into(),
            component: component.into(),
            ..Default::default()
        };
        let stage = What::Stage(started(""));
        let component = What::Stage(started("max"));
        let sample = |done| What::Progress(Counted { done, total: 64, about: "sample".into() });
        let due = |watched| {
            let mut progress = Progress { watched, doing: Doing::default(), said: None };
            let mut at = |what: &What, ms| progress.is_due(what, begin + Duration::from_millis(ms));
            let due = [
                at(&stage, 0),
                at(&sample(0), 1),
                at(&sample(1), 60),
                at(&sample(1), 600),
                at(&component, 601),
                at(&sample(2), 11_000),
            ];
            std::mem::forget(progress);
            due
        };
        assert_eq!(due(true), [true, false, true, false, true, true]);
        assert_eq!(due(false), [true, false, false, false, false, true]);
    }
}
