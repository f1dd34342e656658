//! What a worker is doing, in one line that is overwritten; only where a person watches.

use super::out;
use onnxd_proto::onnxd::WorkerEvent;
use onnxd_proto::onnxd::worker_event::What;

/// Go to the begin of the line and clear it.
const CLEAR: &str = "\r\x1b[2K";

/// Shows the news of a worker.
pub(crate) struct Progress {
    watched: bool,
    stage: String,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { watched: out::is_watched(), stage: String::new() }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &WorkerEvent) {
        if !self.watched {
            return;
        }
        match &event.what {
            Some(What::Stage(started)) => {
                self.stage.clone_from(&started.stage);
                if !started.component.is_empty() {
                    self.stage.push_str(&format!(" ({})", started.component));
                }
                out::status(&format!("{CLEAR}{}", self.stage));
            }
            Some(What::Progress(p)) if p.total > 0 => {
                let percent = p.done.min(p.total) * 100 / p.total;
                out::status(&format!("{CLEAR}{} {percent} %", self.stage));
            }
            // Others write their line into the place.
            Some(What::Log(_)) => out::status(CLEAR),
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.watched {
            out::status(CLEAR);
        }
    }
}
