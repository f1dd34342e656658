//! What a worker is doing, in words for people; nothing seems to run back.

use std::sync::{Arc, Mutex, PoisonError};

use onnxd_proto::onnxd::Progress;
use onnxd_proto::onnxd::worker_event::What;

/// The stage of a worker, and how far it is in it.
///
/// Within one text, counts only grow; where they begin anew the round is counted. So it is with
/// plugins that count without words, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing {
    stage: String,
    component: String,
    about: String,
    /// 0 before anything was counted.
    round: u32,
    done: u64,
    total: u64,
}

impl Doing {
    /// Whether there is something new to say.
    pub(crate) fn take(&mut self, what: &What) -> bool {
        match what {
            What::Stage(started) => {
                let (stage, component) = (started.stage.clone(), started.component.clone());
                *self = Doing { stage, component, ..Doing::default() };
                true
            }
            What::Progress(p) if p.total > 0 || !p.about.is_empty() => {
                let before = self.progress();
                self.count(p);
                self.progress() != before
            }
            _ => false,
        }
    }

    fn count(&mut self, new: &Progress) {
        let done = if new.total > 0 { new.done.min(new.total) } else { new.done };
        if self.round == 0 || new.about != self.about {
            (self.about, self.round) = (new.about.clone(), 1);
        } else if done < self.done.div_ceil(2) || (self.is_wordless() && new.total != self.total) {
            self.round = self.round.saturating_add(1);
        } else if done < self.done {
            // Threads overtake each other.
            return;
        }
        (self.done, self.total) = (done, new.total);
    }

    fn is_wordless(&self) -> bool {
        self.about.is_empty()
    }

    /// The stage that the worker entered last.
    pub(crate) fn stage(&self) -> &str {
        &self.stage
    }

    /// How far the stage is: `candidate 3 of 7, sample 12 of 64`, `45 %`; empty if that is not known.
    pub(crate) fn progress(&self) -> String {
        let percent = || self.done.saturating_mul(100).checked_div(self.total).unwrap_or(0);
        // The one that is being worked on.
        let at = self.done.saturating_add(1);
        let text = match (self.is_wordless(), self.total) {
            _ if self.round == 0 => return String::new(),
            (true, _) => format!("{} %", percent()),
            (false, 0) if self.done == 0 => self.about.clone(),
            (false, 0) => format!("{} {at}", self.about),
            (false, total) => format!("{} {} of {total}", self.about, at.min(total)),
        };
        match self.round {
            1 => text,
            round => format!("{text} (round {round})"),
        }
    }

    /// Stage and progress in one line: `quantize: candidate 3 of 7, sample 12 of 64`.
    pub(crate) fn line(&self) -> String {
        let who = if self.is_wordless() { self.component.as_str() } else { "" };
        let parts = [who.to_owned(), self.progress()];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        match parts.is_empty() {
            true => self.stage.clone(),
            false => format!("{}: {}", self.stage, parts.join(", ")),
        }
    }
}

/// The same, for the thread that hears of it and the one that is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedDoing(Arc<Mutex<Doing>>);

impl SharedDoing {
    pub(crate) fn take(&self, what: &What) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(what);
    }

    /// How far `stage` is; empty if the worker is elsewhere.
    pub(crate) fn progress_in(&self, stage: &str) -> String {
        let doing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if doing.stage() == stage { doing.progress() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::StageStarted;

    fn begun() -> Doing {
        let mut doing = Doing::default();
        let (stage, component) = ("quantize".into(), "qdq".into());
        let started = StageStarted { stage, component, ..StageStarted::default() };
        assert!(doing.take(&What::Stage(started)));
        doing
    }

    /// What is said of each count that tells something new.
    fn said(counts: &[(&str, u64, u64)]) -> Vec<String> {
        let (mut doing, mut said) = (begun(), Vec::new());
        for (about, done, total) in counts {
            let (about, done, total) = ((*about).to_owned(), *done, *total);
            if doing.take(&What::Progress(Progress { done, total, about })) {
                said.push(doing.line());
            }
        }
        said
    }

    #[test]
    fn words_say_what_is_counted() {
        assert_eq!(begun().line(), "quantize: qdq");
        assert_eq!(begun().progress(), "");
        let counts = [
            ("calibration, sample", 0, 64),
            ("calibration, sample", 11, 64),
            ("calibration, sample", 64, 64),
            ("candidate 3 of 7", 0, 0),
            ("try", 4, 0),
        ];
        let lines = [
            "quantize: calibration, sample 1 of 64", "quantize: calibration, sample 12 of 64",
            "quantize: calibration, sample 64 of 64", "quantize: candidate 3 of 7",
            "quantize: try 5",
        ];
        assert_eq!(said(&counts), lines);
    }

    #[test]
    fn counts_never_run_back() {
        // The third comes from a thread that was overtaken; the last begins anew.
        let counts = [("layer", 3, 8), ("layer", 5, 8), ("layer", 4, 8), ("layer", 0, 8)];
        let lines = ["quantize: layer 4 of 8", "quantize: layer 6 of 8"];
        assert_eq!(said(&counts)[..2], lines);
        assert_eq!(said(&counts)[2..], ["quantize: layer 1 of 8 (round 2)"]);
        assert_eq!(said(&[("layer", 1, 1), ("layer", 0, 1)]).len(), 2);
        let most = [("layer", u64::MAX, u64::MAX), ("layer", 9, 3), ("layer", u64::MAX, 0)];
        assert_eq!(said(&most).len(), 3);
    }

    #[test]
    fn plugins_without_words_show_percent_and_rounds() {
        let counts = [(0, 4), (2, 4), (2, 4), (0, 8), (4, 8), (1, 8), (0, 0)];
        let counts = counts.map(|(done, total)| ("", done, total));
        let tails = ["0 %", "50 %", "0 % (round 2)", "50 % (round 2)", "12 % (round 3)"];
        assert_eq!(said(&counts), tails.map(|tail| format!("quantize: qdq, {tail}")));
    }
}
