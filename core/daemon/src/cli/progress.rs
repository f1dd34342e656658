//! What a worker is doing: one line that is overwritten where a person watches, else a line for each
//! stage.

use super::out;
use onnxd_proto::onnxd::WorkerEvent;
use onnxd_proto::onnxd::worker_event::What;

/// Go to the begin of the line and clear it.
const CLEAR: &str = "\r\x1b[2K";

/// Shows the news of a worker.
pub(crate) struct Progress {
    watched: bool,
    line: Line,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { watched: out::is_watched(), line: Line::default() }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &WorkerEvent) {
        match (&event.what, self.watched) {
            // Others write their line into the place.
            (Some(What::Log(_)), true) => out::status(CLEAR),
            (Some(what), true) if self.line.take(what) => {
                out::status(&format!("{CLEAR}{}", out::fitted_status(&self.line.text())));
            }
            (Some(what @ What::Stage(_)), false) if self.line.take(what) => {
                out::error(&self.line.text());
            }
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

/// What the line says. A stage may go through its samples several times; each pass counts up to its
/// end, and the passes are counted, so that nothing seems to run back.
#[derive(Default)]
struct Line {
    stage: String,
    pass: u32,
    done: u64,
    total: u64,
}

impl Line {
    /// Whether there is something new to say.
    fn take(&mut self, what: &What) -> bool {
        match what {
            What::Stage(started) => {
                let of = if started.component.is_empty() { "" } else { ": " };
                let stage = format!("{}{of}{}", started.stage, started.component);
                *self = Line { stage, ..Line::default() };
                true
            }
            What::Progress(p) if p.total > 0 => {
                if self.pass == 0 || p.total != self.total || p.done < self.done {
                    self.pass += 1;
                }
                let before = (self.percent(), self.total);
                (self.done, self.total) = (p.done.min(p.total), p.total);
                (self.percent(), self.total) != before || self.done == 0
            }
            _ => false,
        }
    }

    fn percent(&self) -> u64 {
        self.done.saturating_mul(100).checked_div(self.total).unwrap_or(0)
    }

    fn text(&self) -> String {
        match self.pass {
            0 => self.stage.clone(),
            1 => format!("{}, {} %", self.stage, self.percent()),
            pass => format!("{}, pass {pass}, {} %", self.stage, self.percent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{Progress as Counted, StageStarted};

    #[test]
    fn a_new_pass_is_counted_and_does_not_run_back() {
        let mut line = Line::default();
        let started = StageStarted {
            stage: "quantize".into(),
            component: "qdq".into(),
            ..StageStarted::default()
        };
        assert!(line.take(&What::Stage(started)));
        assert_eq!(line.text(), "quantize: qdq");
        let mut texts = Vec::new();
        for (done, total) in [(0, 4), (2, 4), (2, 4), (0, 8), (4, 8), (1, 8)] {
            if line.take(&What::Progress(Counted { done, total })) {
                texts.push(line.text());
            }
        }
        let tail: Vec<&str> = texts.iter().map(|t| &t["quantize: qdq, ".len()..]).collect();
        assert_eq!(tail, ["0 %", "50 %", "pass 2, 0 %", "pass 2, 50 %", "pass 3, 12 %"]);
    }
}
