//! What is due at some time: retries, disk space, retention, the watchdog, the end of draining.

use std::time::{Duration, Instant};

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::{Control, Intake};
use onnxd_jobs::{Retention, What};
use onnxd_proto::onnxd::JobState;

use super::{Daemon, Halt, Phase, Turn, at_work};
use crate::run::attempts::{Disk, room};
use crate::run::order::DiskOrder;
use crate::run::queue::now_ms;
use crate::run::queue::owners::ROUND;

const DISK: Duration = Duration::from_secs(10);
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Before something that could not be moved is tried again.
const MOVE_AGAIN: Duration = Duration::from_secs(60);
/// The loop turns at least this often.
const LONGEST: Duration = Duration::from_secs(60);
/// An intake thread that has not looked for this long beyond its period stands still.
const INTAKE_SLACK: Duration = Duration::from_secs(120);

/// When things are due next.
#[derive(Debug)]
pub(crate) struct Timers {
    disk: Instant,
    retention: Instant,
    move_again: Instant,
    round: Instant,
    /// Something in the inbox could not be moved.
    pub(crate) blocked: bool,
}

impl Timers {
    pub(crate) fn new(now: Instant) -> Timers {
        Timers {
            disk: now,
            retention: now,
            move_again: now + MOVE_AGAIN,
            round: now + ROUND,
            blocked: false,
        }
    }
}

impl Daemon {
    /// When the loop has to turn again if nothing happens.
    pub(crate) fn next_due(&self) -> Instant {
        let now = Instant::now();
        let retry = self.queue.book().next_retry_ms().map(|at_ms| {
            now + Duration::from_millis(at_ms.saturating_sub(now_ms()))
                .max(Duration::from_millis(1))
        });
        let retry = retry.filter(|_| self.may_start());
        let again = (self.timers.blocked || !self.results.unsettled().is_empty())
            .then_some(self.timers.move_again);
        let publish = self.results.next_again(|id| self.attempts.has(id));
        let waits =
            || self.around.watched.as_ref().is_some_and(|w| !w.status.get().items.is_empty());
        let round = self.queue.book().live() > 0 || self.drops.has_receipts() || waits();
        let round = round.then_some(self.timers.round);
        let (watchdog, disk) = (self.watchdog.due(), Some(self.timers.disk));
        let refused = self.queue.refused.due();
        let due = [
            retry,
            self.course.due(now),
            refused,
            self.attempts.room.due(),
            again,
            publish,
            round,
            self.queue.next_packing(),
            watchdog,
            disk,
        ];
        due.into_iter().flatten().min().unwrap_or(now).min(now + LONGEST)
    }

    /// What needs no store, and goes on also while it refuses changes.
    pub(crate) fn watch_over(&mut self, now: Instant) -> Turn {
        self.watch_intake(now);
        let has_ended = |watched: &Intake| watched.thread.is_finished();
        let ended = |what: &str| {
            let text = format!("The thread that {what} has ended");
            Err(Halt::End(Diagnostic::new(Code::Internal, text)))
        };
        if self.course.phase == Phase::Working
            && self.around.watched.as_ref().is_some_and(has_ended)
        {
            return ended("watches the inbox");
        }
        if self.around.housekeeping.is_finished() {
            return ended("moves files away");
        }
        if now >= self.timers.disk {
            self.look_at_disk();
            self.timers.disk =
                now + if self.attempts.disk_low().is_some() { room::LOOK } else { DISK };
            self.results.unwritable = self.folders.unwritable();
        }
        self.attempts.room.look(now, &self.folders);
        if let Phase::Draining { until } = self.course.phase
            && now >= until
        {
            self.attempts.give_back();
        }
        Ok(())
    }

    /// Does what is due.
    pub(crate) fn due(&mut self, now: Instant) -> Turn {
        if now >= self.timers.retention {
            self.timers.retention = now + RETENTION;
            self.forget_expired()?;
        }
        self.use_room(now)?;
        if now >= self.timers.move_again {
            self.timers.move_again = now + MOVE_AGAIN;
            self.move_again()?;
        }
        if self.course.phase == Phase::Working {
            self.publish_waiting(now)?;
        }
        if now >= self.timers.round {
            self.timers.round = now + ROUND;
            self.adopt()?;
            self.write_receipts()?;
        }
        let at_work = at_work(&self.drops, &self.attempts, &self.results);
        let order = self.queue.pack_due(now, &self.folders, at_work)?;
        self.order(order);
        Ok(())
    }

    fn watch_intake(&mut self, now: Instant) {
        let Some(inbox) = self.around.watched.as_ref().map(|watched| watched.status.get()) else {
            return;
        };
        let waits = !self.around.found.is_empty();
        let longest = Duration::from_secs(self.settings.intake.rescan_s) * 2 + INTAKE_SLACK;
        let quiet = inbox.last_scan.elapsed().unwrap_or_default();
        self.watchdog.turn(now, || {
            let stuck = quiet > longest && !waits;
            stuck.then(|| format!("the inbox was last looked at {} s ago", quiet.as_secs()))
        });
    }

    /// Too little space pauses intake, visibly, and starts no job.
    fn look_at_disk(&mut self) {
        match self.attempts.look_at_disk(&self.folders, self.settings.jobs.min_free_mib) {
            Disk::IsLow => {
                let why = self.attempts.disk_low().cloned().unwrap_or_default();
                tracing::warn!(reason = why, "intake paused");
                self.around.intake.post(Control::Pause(why));
            }
            Disk::IsFine => {
                tracing::info!("enough disk space again");
                if self.course.paused_by.is_none() {
                    self.around.intake.post(Control::Resume);
                }
            }
            Disk::AsBefore => {}
        }
    }

    /// All that found no room is tried again, if it is time.
    fn use_room(&mut self, now: Instant) -> Turn {
        let Some(jobs) = self.attempts.room.take_ready() else { return Ok(()) };
        tracing::info!(jobs = jobs.len(), "what found no room on the disk is tried again");
        for id in jobs {
            self.apply(&id, What::RoomAgain)?;
            self.attempts.room.forget(&id);
        }
        self.attempts.room.was_tried(now);
        self.move_at_once(now);
        Ok(())
    }

    /// Brings the receipts up to date, if what lies in the inbox is known.
    fn write_receipts(&mut self) -> Turn {
        let Some(watched) = &self.around.watched else { return Ok(()) };
        let inbox = watched.status.get();
        if inbox.offline.is_some() || inbox.scans == 0 {
            return Ok(());
        }
        let quarantined = match self.queue.book().count(JobState::Quarantined) {
            0 => Vec::new(),
            _ => self.queue.store().scan(Some(JobState::Quarantined))?,
        };
        let order = self.drops.renew_receipts(&inbox.items, &quarantined);
        self.order(order);
        Ok(())
    }

    fn forget_expired(&mut self) -> Turn {
        let jobs = &self.settings.jobs;
        let retention = Retention {
            days_max: jobs.retain_days.into(),
            finished_max: usize::try_from(jobs.retain_max).unwrap_or(usize::MAX),
        };
        let (dropped, quarantined) = self.queue.forget_expired(&retention)?;
        if dropped.is_empty() {
            return Ok(());
        }
        tracing::info!(count = dropped.len(), "old jobs forgotten");
        self.order(quarantined.into_iter().map(|job| DiskOrder::PutAway(Box::new(job))));
        let folders = dropped.iter().map(|job| self.folders.job(&job.id).path().to_owned());
        let order = DiskOrder::Remove(folders.collect());
        self.order([order]);
        Ok(())
    }
}

impl Daemon {
    /// What could not be moved is due at once.
    pub(crate) fn move_at_once(&mut self, now: Instant) {
        self.timers.move_again = now;
        self.results.hurry(now);
    }

    /// All that waits for a time is due at once.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        let now = Instant::now();
        self.timers.round = now;
        self.queue.pack_soon(now);
        self.move_at_once(now);
        self.attempts.room.hurry();
    }
}
