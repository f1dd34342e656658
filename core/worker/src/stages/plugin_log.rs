//! What plugins log in a conversion, kept for its report as far as a report has room.

use onnxd_plugin_abi::{LOG_ERROR, LOG_INFO, LOG_WARN};
use onnxd_proto::onnxd::{PluginLine, Report};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines that are kept, and how many of them may be mere information.
const LINES_MAX: usize = 200;
const INFO_MAX: usize = 100;

/// Lines so far; may be added to from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginLog(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    plugin: String,
    /// Whether plugins run once more.
    again: bool,
    kept: Vec<PluginLine>,
    dropped: u64,
}

impl PluginLog {
    /// Whoever logs from now on is this plugin.
    pub(crate) fn by(&self, plugin: &str) {
        self.lines().plugin = plugin.to_owned();
    }

    /// Whether plugins run once more from now on: what they said before is kept once.
    pub(crate) fn again(&self, again: bool) {
        self.lines().again = again;
    }

    pub(crate) fn log(&self, level: i32, target: &str, text: &str) {
        let mut lines = self.lines();
        let (level, most) = match level {
            LOG_ERROR => ("error", LINES_MAX),
            LOG_WARN => ("warning", LINES_MAX),
            LOG_INFO => ("info", INFO_MAX),
            // What is for the plugin's author is not for the report.
            _ => return,
        };
        let plugin = lines.plugin.clone();
        let (level, target, text) = (level.to_owned(), target.to_owned(), text.to_owned());
        let line = PluginLine { plugin, level, target, text };
        if lines.again && lines.kept.contains(&line) {
            return;
        }
        if lines.kept.len() >= most {
            lines.dropped += 1;
            return;
        }
        lines.kept.push(line);
    }

    /// Moves all into the report.
    pub(crate) fn into_report(self, report: &mut Report) {
        let mut lines = self.lines();
        report.plugin_log = std::mem::take(&mut lines.kept);
        report.plugin_log_dropped = lines.dropped;
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_room_for_warnings() {
        let plugin_log = PluginLog::default();
        plugin_log.by("org.example");
        for _ in 0..1000 {
            plugin_log.log(LOG_INFO, "t", "chatter");
        }
        plugin_log.log(LOG_WARN, "t", "look here");
        plugin_log.log(LOG_INFO + 1, "t", "for the author");
        let mut report = Report::default();
        plugin_log.into_report(&mut report);
        assert_eq!(report.plugin_log.len(), INFO_MAX + 1);
        assert_eq!(report.plugin_log_dropped, 900);
        assert_eq!(report.plugin_log.last().unwrap().text, "look here");
    }

    #[test]
    fn what_is_said_in_every_round_is_kept_once() {
        let plugin_log = PluginLog::default();
        plugin_log.by("org.example");
        for again in [false, true] {
            plugin_log.again(again);
            plugin_log.log(LOG_WARN, "t", "a hazard");
        }
        plugin_log.log(LOG_WARN, "t", "another");
        let mut report = Report::default();
        plugin_log.into_report(&mut report);
        let texts: Vec<_> = report.plugin_log.iter().map(|l| l.text.as_str()).collect();
        assert_eq!((texts, report.plugin_log_dropped), (vec!["a hazard", "another"], 0));
    }
}
