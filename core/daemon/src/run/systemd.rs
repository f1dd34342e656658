//! What systemd is told. Outside of systemd every call does nothing.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Recovery may take this much longer from each call on, in microseconds.
const EXTEND_US: u32 = 30_000_000;

pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

pub(crate) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

pub(crate) fn status(text: &str) {
    tell(&[NotifyState::Status(text)]);
}

/// Asks for more time before the start counts as failed.
pub(crate) fn still_starting(status: &str) {
    tell(&[NotifyState::ExtendTimeoutUsec(EXTEND_US), NotifyState::Status(status)]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        tracing::debug!(reason = %e, "systemd was not told");
    }
}

/// Pings systemd's watchdog, only from the event loop and only while the daemon is healthy.
#[derive(Debug)]
pub(crate) struct Watchdog {
    period: Option<Duration>,
    next: Instant,
}

impl Watchdog {
    pub(crate) fn new(now: Instant) -> Watchdog {
        // Twice per period, so that one late turn of the loop does no harm.
        Watchdog { period: sd_notify::watchdog_enabled().map(|p| p / 2), next: now }
    }

    /// When the next ping is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.period.map(|_| self.next)
    }

    /// Pings if it is time; not at all while something stands still.
    pub(crate) fn turn(&mut self, now: Instant, stuck: impl FnOnce() -> Option<String>) {
        let Some(period) = self.period.filter(|_| now >= self.next) else { return };
        self.next = now + period;
        match stuck() {
            None => tell(&[NotifyState::Watchdog]),
            Some(what) => tracing::error!(reason = what, "no watchdog ping"),
        }
    }
}
