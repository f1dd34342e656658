//! A store that refuses changes, for instance because the disk is full: what had to be recorded
//! waits in order, nothing new begins, and `health` names the reason.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use onnxd_diagnostics::Diagnostic;
use onnxd_jobs::StoreError;

use crate::run::event::Event;

/// First and longest wait before a refused change is tried again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// What waits for the store.
#[derive(Debug)]
pub(crate) struct Refused {
    /// In the order in which they happened: a later event of a job says nothing without the earlier.
    events: VecDeque<Event>,
    why: Option<Diagnostic>,
    /// The store has to be opened anew first.
    closed: bool,
    /// It was, and what its last change finished has to be settled.
    reopened: bool,
    again: Instant,
    wait: Duration,
}

impl Refused {
    pub(crate) fn new(now: Instant) -> Refused {
        let (events, wait) = (VecDeque::new(), AGAIN_MIN);
        Refused { events, why: None, closed: false, reopened: false, again: now, wait }
    }

    /// Why nothing may begin that has to be recorded.
    pub(crate) fn why(&self) -> Option<&Diagnostic> {
        self.why.as_ref()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.why.as_ref().map(|_| self.again)
    }

    /// What waits is due at once.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.again = Instant::now();
    }

    /// The store has refused something; `event` is to be carried out before all that wait.
    pub(crate) fn note(&mut self, e: StoreError, event: Option<Event>) {
        let begins = self.why.is_none();
        if begins || e.fatal {
            tracing::error!(reason = %e, "the store refuses changes; they are tried again");
        }
        if !begins {
            self.wait = (self.wait * 2).min(AGAIN_MAX);
        }
        self.closed |= e.fatal;
        self.again = Instant::now() + self.wait;
        self.why = Some(e.diagnostic);
        event.into_iter().for_each(|event| self.events.push_front(event));
    }

    /// Keeps an event until the store takes changes again; gives it back if it does.
    pub(crate) fn keep(&mut self, event: Event) -> Option<Event> {
        if self.why.is_none() || !event.changes_jobs() {
            return Some(event);
        }
        self.events.push_back(event);
        None
    }

    /// The event that was refused first.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How many events wait.
    pub(crate) fn waiting(&self) -> usize {
        self.events.len()
    }

    /// The store has to be opened anew first.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The store was opened anew, and what its last change finished has to be settled.
    pub(crate) fn is_reopened(&self) -> bool {
        self.reopened
    }

    pub(crate) fn was_reopened(&mut self) {
        (self.closed, self.reopened) = (false, true);
    }

    /// A change was recorded: the next refusal is a new one.
    pub(crate) fn was_recorded(&mut self) {
        if self.why.is_none() {
            self.wait = AGAIN_MIN;
        }
    }

    /// All that waited is carried out. A refusal right after this waits longer; after a while it is a
    /// new one.
    pub(crate) fn end(&mut self, now: Instant) {
        tracing::info!("the store is asked for changes again");
        *self = Refused { wait: (self.wait * 2).min(AGAIN_MAX), ..Refused::new(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::Code;

    #[test]
    fn what_was_refused_comes_first_and_waits_double() {
        let mut now = Instant::now();
        let mut refused = Refused::new(now);
        let told = |job: &str| Event::Abandoned { job: job.into() };
        assert!(refused.keep(told("a")).is_some(), "the store takes changes");
        let full = || StoreError { fatal: false, diagnostic: Diagnostic::new(Code::Disk, "full") };
        refused.note(full(), Some(told("a")));
        assert!(refused.keep(told("b")).is_none() && refused.keep(Event::Tick).is_some());
        let first = refused.next_event();
        refused.note(full(), first);
        let all: Vec<Event> = std::iter::from_fn(|| refused.next_event()).collect();
        assert_eq!(all.iter().map(Event::job).collect::<Vec<_>>(), [Some("a"), Some("b")]);
        let mut waits = Vec::new();
        for _ in 0..4 {
            refused.end(now);
            refused.note(full(), None);
            waits.push(refused.wait.as_secs());
            now += refused.wait;
        }
        assert_eq!(waits, [4, 8, 10, 10]);
        refused.end(now);
        refused.was_recorded();
        assert_eq!(refused.wait, AGAIN_MIN);
    }
}
