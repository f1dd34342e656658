//! What plugins log in a conversion that a user watches.

use super::out;
use onnxd_proto::onnxd::WorkerEvent;
use onnxd_proto::onnxd::worker_event::What;
use onnxd_worker::confine::LOG_TARGET;

/// Levels of the plugin interface, with the words for them; those after the second are asked for.
const LEVELS: [&str; 3] = ["error", "warning", "info"];
const SHOWN: usize = 2;

/// Prints a line that a plugin logged: errors and warnings, information where `all` is to be seen.
pub(super) fn show(event: &WorkerEvent, all: bool) {
    if let Some(line) = line(event, all) {
        out::error(&line);
    }
}

fn line(event: &WorkerEvent, all: bool) -> Option<String> {
    let Some(What::Log(log)) = &event.what else { return None };
    // What the worker says about its confinement is the doctor's to tell.
    if log.target == LOG_TARGET {
        return None;
    }
    let levels = &LEVELS[..if all { LEVELS.len() } else { SHOWN }];
    let level = levels.get(usize::try_from(log.level).ok()?.checked_sub(1)?)?;
    Some(format!("{}: {level}: {}", log.target, log.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::LogLine;

    #[test]
    fn warnings_are_shown_and_information_where_it_is_asked_for() {
        let of = |level, target: &str, all| {
            let log = LogLine { level, target: target.into(), text: "a".into() };
            line(&WorkerEvent { what: Some(What::Log(log)) }, all)
        };
        assert_eq!(of(1, "p", false).unwrap(), "p: error: a");
        assert_eq!(of(2, "p", false).unwrap(), "p: warning: a");
        assert_eq!(of(3, "p", false), None);
        assert!(of(3, "p", true).unwrap().starts_with("p: info: "));
        for (level, target) in [(0, "p"), (4, "p"), (-1, "p"), (1, LOG_TARGET)] {
            assert_eq!(of(level, target, true), None);
        }
    }
}
