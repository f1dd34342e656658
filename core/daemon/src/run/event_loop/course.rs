//! Whether the daemon works, pauses or ends.

use std::time::{Duration, Instant};

use onnxd_intake::Control;
use onnxd_proto::onnxd::JobState;

use super::Daemon;
use crate::run::systemd;

/// How often `once` looks whether the inbox is quiet.
const ONCE: Duration = Duration::from_millis(20);
/// After draining, for workers to be gone and threads to answer.
const LAST: Duration = Duration::from_secs(10);

/// What the daemon is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Working,
    /// Finish what runs until then; take and start nothing.
    Draining {
        until: Instant,
    },
}

/// Whether the daemon works, pauses or ends.
pub(crate) struct Course {
    pub(crate) phase: Phase,
    /// Who paused the daemon.
    pub(crate) paused_by: Option<String>,
    /// End when nothing is left to do.
    pub(crate) once: bool,
    /// A job failed since the start.
    pub(crate) any_failed: bool,
    pub(crate) told_systemd: String,
}

impl Course {
    /// When the loop has to look again whether it may end.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Draining { until } if now < until => Some(until),
            Phase::Draining { until } => Some(until + LAST),
            Phase::Working => self.once.then(|| now + ONCE),
        }
    }
}

impl Daemon {
    /// Whether another drop may be taken.
    pub(crate) fn may_take(&self) -> bool {
        self.may_start() && self.drops.may_begin()
    }

    /// Whether anything may begin: nobody has paused the daemon, and disk and store have room.
    pub(crate) fn may_start(&self) -> bool {
        self.course.phase == Phase::Working
            && self.course.paused_by.is_none()
            && self.attempts.disk_low().is_none()
            && self.queue.refused.why().is_none()
    }

    /// `once` ends when nothing is left to do, or nothing that can be done.
    pub(crate) fn end_once(&mut self) {
        if self.is_idle() {
            return self.begin_shutdown("nothing is left to do");
        }
        let stuck = if self.attempts.disk_low().is_some() || self.waits_for_room() {
            "there is too little disk space"
        } else if self.is_offline() {
            "the inbox is offline"
        } else if self.waits_for_outbox() {
            "results cannot be brought to the outbox"
        } else {
            return;
        };
        if self.is_finished() && (self.is_offline() || self.is_inbox_quiet()) {
            self.course.any_failed = true;
            self.begin_shutdown(stuck);
        }
    }

    /// No event is outstanding and none will come by itself.
    fn is_idle(&self) -> bool {
        self.is_finished() && self.queue.book().live() == 0 && self.is_inbox_quiet()
    }

    /// The inbox was looked through, and nothing in it is on its way.
    fn is_inbox_quiet(&self) -> bool {
        let Some(watched) = &self.around.watched else { return false };
        let inbox = watched.status.get();
        inbox.scans > 0 && inbox.offline.is_none() && inbox.is_quiet()
    }

    /// The inbox cannot be looked into, and that was not the remains of a killed daemon.
    fn is_offline(&self) -> bool {
        const LOOKS: u64 = 3;
        let inbox = self.around.watched.as_ref().map(|watched| watched.status.get());
        inbox.is_some_and(|inbox| inbox.offline.is_some() && inbox.scans >= LOOKS)
            && self.queue.book().live() == 0
    }

    /// Nothing but outbox and disk keep the remaining jobs, and the outbox was asked often enough
    /// for `once`.
    fn waits_for_outbox(&self) -> bool {
        let stuck = self.results.stuck();
        stuck > 0 && stuck + self.attempts.room.whys().len() == self.queue.book().live()
    }

    /// Nothing but a full disk keeps the remaining jobs.
    fn waits_for_room(&self) -> bool {
        let waiting = self.attempts.room.whys().len();
        waiting > 0 && waiting == self.queue.book().live()
    }

    /// No other thread works for a job.
    pub(crate) fn is_finished(&self) -> bool {
        self.attempts.count() == 0
            && self.drops.is_idle()
            && self.results.is_idle()
            && !self.around.keeper.is_waiting()
    }

    /// Stops taking and starting; what runs may finish until the drain time is over.
    pub(crate) fn begin_shutdown(&mut self, why: &str) {
        tracing::info!(reason = why, "stopping");
        systemd::stopping(&self.status_line());
        self.around.intake.post(Control::Stop);
        let drain = Duration::from_secs(self.settings.jobs.drain_timeout_s);
        self.course.phase = Phase::Draining { until: Instant::now() + drain };
    }

    pub(crate) fn on_signal(&mut self, signal: i32) {
        use signal_hook::consts::{SIGHUP, SIGINT};
        match (signal, self.course.phase) {
            (SIGHUP, _) => {
                tracing::info!("SIGHUP: reading the settings again");
                self.reload(None);
            }
            (_, Phase::Working) => {
                self.begin_shutdown(if signal == SIGINT { "SIGINT" } else { "SIGTERM" });
            }
            // A second signal ends it at once.
            (_, Phase::Draining { .. }) => {
                self.course.phase = Phase::Draining { until: Instant::now() }
            }
        }
    }

    /// Whether the loop may end: everything is done, or the time to wait is over.
    pub(crate) fn has_ended(&self) -> bool {
        match self.course.phase {
            Phase::Working => false,
            Phase::Draining { until } => self.is_finished() || (Instant::now() >= until + LAST),
        }
    }

    pub(crate) fn status_line(&self) -> String {
        let waiting = self.queue.book().live().saturating_sub(self.attempts.count());
        let phase = match (self.course.phase, &self.course.paused_by, self.attempts.disk_low()) {
            (Phase::Draining { .. }, ..) => "stopping; ",
            (_, Some(_), _) => "paused; ",
            (_, _, Some(_)) => "waiting for disk space; ",
            _ if self.queue.refused.why().is_some() => "waiting for the job store; ",
            _ if self.tools.get().plugins.has_frontend().is_err() => "no front-end; ",
            _ => "",
        };
        let failed = self.queue.book().count(JobState::Failed)
            + self.queue.book().count(JobState::Quarantined);
        format!("{phase}{} running, {waiting} waiting, {failed} failed", self.attempts.count())
    }
}
