//! The way of a complete result into the outbox, also where that takes a while.
//!
//! A result that cannot be put there keeps its job in `publishing`, and its name: nothing about the
//! job is wrong. It is tried again until the outbox permits, or until a user cancels the job.

use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use onnxd_proto::onnxd::Job;

use super::Results;
use super::publication::place;
use crate::run::event::Event;
use crate::run::layout::Folders;

/// First and longest wait before a result is moved again.
const AGAIN_MIN: Duration = Duration::from_secs(5);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Tries after which `once` leaves a result to the next start.
const ONCE_TRIES: u32 = 3;

/// A result that waits for the outbox.
#[derive(Clone, Debug)]
pub(crate) struct Unpublished {
    why: String,
    at: Instant,
    tries: u32,
}

impl Results {
    /// The result of a job could not be moved to the outbox: it waits, longer each time.
    pub(crate) fn postpone(&mut self, id: &str, why: String, now: Instant) {
        let tries = self.unpublished.get(id).map_or(0, |u| u.tries) + 1;
        let wait = AGAIN_MIN.saturating_mul(1 << tries.min(10) >> 1).min(AGAIN_MAX);
        self.unpublished.insert(id.to_owned(), Unpublished { why, at: now + wait, tries });
    }

    /// The result of a job does not wait for the outbox any more.
    pub(crate) fn forget_unpublished(&mut self, id: &str) {
        self.unpublished.remove(id);
    }

    /// Whether the result of a job waits for the outbox.
    pub(crate) fn waits(&self, id: &str) -> bool {
        self.unpublished.contains_key(id)
    }

    /// Why the result of a job waits for the outbox, if it does.
    pub(crate) fn why_unpublished(&self, id: &str) -> Option<&str> {
        self.unpublished.get(id).map(|u| u.why.as_str())
    }

    /// Why results wait for the outbox.
    pub(crate) fn whys_unpublished(&self) -> impl ExactSizeIterator<Item = &String> {
        self.unpublished.values().map(|u| &u.why)
    }

    /// Jobs whose results are due to be moved again. Those that are `at_work` are being moved.
    pub(crate) fn due_again(&self, now: Instant, at_work: impl Fn(&str) -> bool) -> Vec<String> {
        let due = self.unpublished.iter().filter(|(id, u)| u.at <= now && !at_work(id));
        due.map(|(id, _)| id.clone()).collect()
    }

    /// The result is moved again: whatever becomes of it, it is not due at once.
    pub(crate) fn begin_again(&mut self, id: &str, now: Instant) {
        self.unpublished.get_mut(id).into_iter().for_each(|u| u.at = now + AGAIN_MAX);
    }

    /// When the next result is due.
    pub(crate) fn next_again(&self, at_work: impl Fn(&str) -> bool) -> Option<Instant> {
        self.unpublished.iter().filter(|(id, _)| !at_work(id)).map(|(_, u)| u.at).min()
    }

    /// All results that wait are due.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.unpublished.values_mut().for_each(|u| u.at = now);
    }

    /// Results for which the outbox was asked often enough for `once`.
    pub(crate) fn stuck(&self) -> usize {
        self.unpublished.values().filter(|u| u.tries >= ONCE_TRIES).count()
    }
}

/// The best place for the result of a job.
pub(crate) fn best_destination(job: &Job, folders: &Folders) -> String {
    folders.destinations(job).next().map(|dest| text(&dest)).unwrap_or_default()
}

/// Whether the place on record is in the outbox of now.
pub(crate) fn is_in_outbox(job: &Job, folders: &Folders) -> bool {
    Path::new(&job.published).parent() == Some(&folders.outbox.join(&job.folder))
}

/// A path as it is recorded.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What the thread does that moves a complete result: across file systems that is a copy.
pub(crate) fn moving(
    job: Job,
    folders: Folders,
    events: Sender<Event>,
) -> impl FnOnce() + Send + 'static {
    move || {
        let done = Box::new(place(&job, &folders));
        // Without a receiver the daemon has ended; the next one finds the result.
        let _ = events.send(Event::Published { job: job.id, lease: job.lease, done });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_moved_again_and_again_and_once_gives_up() {
        let mut now = Instant::now();
        let mut results = Results::default();
        let free = |_: &str| false;
        let mut waits = Vec::new();
        for n in 1..7 {
            results.postpone("a", "full".into(), now);
            assert_eq!(results.stuck(), usize::from(n >= ONCE_TRIES));
            let due = results.next_again(free).unwrap();
            waits.push(due.duration_since(now).as_secs());
            assert!(results.due_again(now, free).is_empty());
            now = due;
            assert_eq!(results.due_again(now, free), ["a"]);
            assert!(results.due_again(now, |id| id == "a").is_empty(), "it is being moved");
            results.begin_again("a", now);
            assert!(results.due_again(now, free).is_empty());
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        results.hurry(now);
        assert_eq!(results.due_again(now, free), ["a"]);
        results.forget_unpublished("a");
        assert!(results.next_again(free).is_none() && !results.waits("a"));
    }
}
