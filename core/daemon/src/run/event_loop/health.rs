//! What `onnxd ctl health` says: problems, with which something is not done that should be, and
//! warnings, with which all is done, but in a lesser way, or a person has something to decide.

use onnxd_diagnostics::Class;
use onnxd_intake::{InboxItem, InboxState, Status};
use onnxd_proto::onnxd::JobState;
use serde_json::{Value, json};

use super::{Daemon, Phase};
use crate::run::protocol::granted;

impl Daemon {
    pub(crate) fn health(&self) -> Value {
        let (problems, warnings) = (self.problems(), self.warnings());
        granted(json!({
            "healthy": problems.is_empty(),
            "problems": problems,
            "warnings": warnings,
        }))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        problems.extend(self.course.paused_by.iter().map(|actor| format!("paused by {actor}")));
        problems.extend(self.attempts.disk_low().cloned());
        problems.extend(self.queue.refused.why().map(|why| format!("the job store waits: {why}")));
        problems.extend(self.results.unwritable.iter().cloned());
        if let Some(watched) = &self.around.watched {
            problems.extend(inbox_problems(&watched.status.get()));
        }
        problems.extend(several(self.drops.whys_unread(), "taken drops cannot be read"));
        problems.extend(several(self.attempts.room.whys(), "jobs wait for room on the disk"));
        problems.extend(several(self.results.whys_unpublished(), "results wait for the outbox"));
        let plugins = self.tools.get().plugins;
        problems.extend(plugins.has_frontend().err().map(|why| why.into_finding().message));
        problems.extend(self.around.set_aside.problems());
        problems.extend(plugins.refused.iter().map(|why| why.message.clone()));
        problems.extend(several(self.results.unsettled().values(), "jobs keep their originals"));
        if self.course.phase != Phase::Working {
            problems.push("stopping".into());
        }
        problems
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let quarantined = self.queue.book().count(JobState::Quarantined);
        if quarantined > 0 {
            warnings.push(format!(
                "{quarantined} jobs are in quarantine: `onnxd jobs list --state quarantined`, then \
                 `onnxd jobs release` or `cancel`"
            ));
        }
        if let Some(watched) = &self.around.watched {
            warnings.extend(inbox_warnings(&watched.status.get()));
        }
        warnings.extend(several(self.queue.repairs().iter(), "repairs of the job store"));
        warnings
    }
}

/// How many there are, and why the first one is there.
fn several<'a>(whys: impl ExactSizeIterator<Item = &'a String>, what: &str) -> Option<String> {
    let count = whys.len();
    whys.into_iter().next().map(|why| format!("{count} {what}: {why}"))
}

/// What keeps drops from being taken that their owners did not cause.
fn inbox_problems(inbox: &Status) -> Vec<String> {
    let mut problems: Vec<String> =
        inbox.offline.iter().map(|why| format!("inbox offline: {why}")).collect();
    let blocked: Vec<String> = inbox.items.iter().filter_map(hindrance).collect();
    problems.extend(several(blocked.iter(), "drops are blocked"));
    problems
}

fn hindrance(item: &InboxItem) -> Option<String> {
    let why = match &item.state {
        InboxState::Blocked { reason } => reason.clone(),
        InboxState::Refused { reason } if reason.class == Class::Environment => reason.to_string(),
        // What lies beyond the bounds of a scan is nowhere else.
        InboxState::Refused { reason } if item.id.as_os_str().is_empty() => reason.to_string(),
        _ => return None,
    };
    Some(format!("{}: {why}", item.id.display()))
}

/// What makes drops wait longer than they should.
fn inbox_warnings(inbox: &Status) -> Vec<String> {
    // Before the first look nothing is known, and an inbox that is offline is a problem.
    let looked = inbox.scans > 0 && inbox.offline.is_none();
    let polling = inbox.watch_mode.fallback().filter(|_| looked);
    let polling = polling.map(|why| format!("the inbox is polled, drops are found later: {why}"));
    let forgetful = inbox.forgetful.as_ref();
    let forgetful = forgetful.map(|why| format!("after a restart all drops settle anew: {why}"));
    polling.into_iter().chain(forgetful).collect()
}

#[cfg(test)]
mod tests {
    use onnxd_intake::WatchMode;

    #[test]
    fn polling_is_a_warning_unless_it_is_wanted() {
        let said = |mode: WatchMode| mode.fallback().map(str::to_owned);
        let reason = "the limit fs.inotify.max_user_watches is reached".to_owned();
        assert_eq!(said(WatchMode::Polling { reason: reason.clone() }), Some(reason.clone()));
        assert_eq!(said(WatchMode::EventsAndPolling { reason: reason.clone() }), Some(reason));
        assert_eq!(said(WatchMode::Events), None);
        let reason = WatchMode::CONFIGURED.to_owned();
        assert_eq!(said(WatchMode::Polling { reason }), None);
    }
}
