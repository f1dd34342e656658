//! A full disk: what found no room on it waits, and goes on as soon as some is free.
//!
//! How much room the next try needs is not known, so all that waits is tried again when there is
//! more than there was. Room may come back before it is looked at, and a quota does not show in
//! free space, so it is also tried again after a while, which doubles each time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onnxd_diagnostics::{Code, Diagnostic};

use crate::run::layout::{Folders, free_bytes};

/// How often free space is looked at while something waits for it.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Free space has to grow by this much: what onnxd itself removes after a failure is less.
const GROWTH_BYTES: u64 = 1 << 20;

/// First and longest wait without more free space.
const AGAIN_MIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// Folders that onnxd writes to, which may lie on as many disks.
const FOLDERS: usize = 5;

/// What waits for room.
#[derive(Debug)]
pub(crate) struct WaitingForDisk {
    /// Jobs whose last attempt found none, and where.
    jobs: BTreeMap<String, String>,
    /// Drops, results or originals could not be moved for lack of it.
    moves: bool,
    /// The least free space of each folder since then.
    least: [u64; FOLDERS],
    look: Instant,
    /// All is tried again then, whatever is free.
    again: Instant,
    wait: Duration,
    /// It is time to try.
    ready: bool,
}

impl WaitingForDisk {
    pub(crate) fn new(now: Instant) -> WaitingForDisk {
        WaitingForDisk {
            jobs: BTreeMap::new(),
            moves: false,
            least: [u64::MAX; FOLDERS],
            look: now,
            again: now,
            wait: AGAIN_MIN,
            ready: false,
        }
    }

    /// An attempt of a job found none.
    pub(crate) fn lacks(&mut self, id: &str, why: String) {
        self.begin(Instant::now());
        self.jobs.insert(id.to_owned(), why);
    }

    /// A move failed, perhaps for lack of it.
    pub(crate) fn blocks(&mut self, why: &Diagnostic) {
        if why.code == Code::DiskFull.as_str() {
            self.begin(Instant::now());
            self.moves = true;
        }
    }

    /// Something waits from now on, if nothing did.
    fn begin(&mut self, now: Instant) {
        if self.waits() {
            return;
        }
        // What fails again soon waits longer; after a while it is a new want.
        let soon = now < self.again + self.wait;
        self.wait = if soon { (self.wait * 2).min(AGAIN_MAX) } else { AGAIN_MIN };
        self.again = now + self.wait;
        self.least = [u64::MAX; FOLDERS];
    }

    /// The job does not wait any more.
    pub(crate) fn forget(&mut self, id: &str) {
        self.jobs.remove(id);
    }

    /// Why jobs wait.
    pub(crate) fn whys(&self) -> impl ExactSizeIterator<Item = &String> {
        self.jobs.values()
    }

    fn waits(&self) -> bool {
        self.moves || !self.jobs.is_empty()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.waits().then_some(self.look)
    }

    /// What waits is tried again at once.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.ready |= self.waits();
    }

    /// Looks for room if something waits for it.
    pub(crate) fn look(&mut self, now: Instant, folders: &Folders) {
        if self.waits() && now >= self.look {
            self.look = now + LOOK;
            let grew = self.grew(&free(folders));
            self.ready |= grew || now >= self.again;
        }
    }

    /// The jobs that are to be tried again, if it is time for that and for all else that waits.
    pub(crate) fn take_ready(&mut self) -> Option<Vec<String>> {
        let ready = std::mem::take(&mut self.ready);
        ready.then(|| self.jobs.keys().cloned().collect())
    }

    /// All that was to be tried again was.
    pub(crate) fn was_tried(&mut self, now: Instant) {
        (self.moves, self.again) = (false, now);
    }

    /// Takes note of free space; whether it has grown enough to try again.
    fn grew(&mut self, free: &[u64; FOLDERS]) -> bool {
        let grown = |(now, least): (&u64, &u64)| *now >= least.saturating_add(GROWTH_BYTES);
        if free.iter().zip(&self.least).any(grown) {
            return true;
        }
        free.iter().zip(&mut self.least).for_each(|(now, least)| *least = *now.min(least));
        false
    }
}

/// Free bytes for this user where onnxd writes; 0 where the system does not tell.
fn free(folders: &Folders) -> [u64; FOLDERS] {
    let all = [&folders.state, &folders.outbox, &folders.done, &folders.failed, &folders.unmatched];
    all.map(|folder| free_bytes(folder).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_more_than_the_least_that_there_was() {
        let mut room = WaitingForDisk::new(Instant::now());
        assert_eq!(room.due(), None);
        room.blocks(&Diagnostic::new(Code::Disk, "Permission denied"));
        assert_eq!(room.due(), None, "no room would change that");
        room.lacks("a", "full".into());
        assert!(room.due().is_some());
        assert!(!room.grew(&[5000, 10, 0, 0, 0]));
        assert!(!room.grew(&[4000, 300_000, 0, 0, 0]), "what the attempt left was removed");
        assert!(!room.grew(&[4000 + GROWTH_BYTES - 1, 10, 0, 0, 0]));
        assert!(room.grew(&[4000 + GROWTH_BYTES, 10, 0, 0, 0]));
        room.forget("a");
        assert_eq!(room.due(), None);
        room.blocks(&Diagnostic::new(Code::DiskFull, "No space left on device"));
        assert!(room.due().is_some());
    }

    #[test]
    fn waits_double_while_there_is_no_room() {
        let mut now = Instant::now();
        let mut room = WaitingForDisk::new(now);
        now += Duration::from_secs(3600);
        let mut waits = Vec::new();
        for _ in 0..8 {
            room.begin(now);
            waits.push(room.again.duration_since(now).as_secs());
            // Tried again at that time, and refused at once.
            now = room.again;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        room.begin(now + AGAIN_MAX * 2);
        assert_eq!(room.wait, AGAIN_MIN, "another time");
    }
}
