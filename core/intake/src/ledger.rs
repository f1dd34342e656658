//! What intake remembers between scans: answers of front-ends, sets given to the daemon, sets that
//! could not be moved. Nothing of it outlives the process; the folder itself is the truth.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onnxd_diagnostics::Class;

use crate::group::{Extent, Set};
use crate::pool::Pool;
use crate::status::Item;
use crate::submission::{File, Fingerprint, Found, ProbeOutcome, Submission, presets_fingerprint};
use crate::tree::{Folder, Stamp};

/// First and longest pause before front-ends are asked again after a failure of the machine.
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// An answer of the front-ends and what it was about.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    pub(crate) outcome: ProbeOutcome,
    /// The set's own files and the plain files around.
    narrow: Fingerprint,
    /// Those and the networks around.
    wide: Fingerprint,
    pub(crate) retry_at: Option<Instant>,
    pause: Duration,
}

impl Probed {
    pub(crate) fn new(
        outcome: ProbeOutcome,
        narrow: Fingerprint,
        wide: Fingerprint,
        before: Option<&Probed>,
        now: Instant,
    ) -> Probed {
        let environment =
            matches!(&outcome, ProbeOutcome::Failed(d) if d.class == Class::Environment);
        let pause = match before.filter(|b| b.retry_at.is_some()) {
            Some(before) => (before.pause * 2).min(RETRY_MAX),
            None => RETRY_MIN,
        };
        let retry_at = environment.then(|| now + pause);
        Probed { outcome, narrow, wide, retry_at, pause }
    }

    /// Whether the answer still stands. What is missing may turn out to be a network itself.
    pub(crate) fn holds(&self, narrow: Fingerprint, wide: Fingerprint, now: Instant) -> bool {
        let waiting = matches!(self.outcome, ProbeOutcome::Waiting { .. });
        self.narrow == narrow
            && (!waiting || self.wide == wide)
            && self.retry_at.is_none_or(|at| now < at)
    }
}

/// A file that a glob takes for a network and that is none.
#[derive(Clone, Debug)]
pub(crate) struct Declined {
    pub(crate) stamp: Stamp,
    pub(crate) reason: String,
    /// The network that uses it, if that is why.
    pub(crate) part_of: Option<PathBuf>,
}

#[derive(Debug)]
struct Blocked {
    reason: String,
    /// Of the files and folders when it was first judged after the failure.
    signature: Option<Vec<Stamp>>,
}

/// All memories, by path below the inbox.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) probes: HashMap<PathBuf, Probed>,
    pub(crate) declined: HashMap<PathBuf, Declined>,
    presets: Option<Fingerprint>,
    handed_over: HashMap<PathBuf, Submission>,
    blocked: HashMap<PathBuf, Blocked>,
    announced: HashMap<PathBuf, Fingerprint>,
    recognised: HashMap<PathBuf, (Fingerprint, Option<String>)>,
}

impl Ledger {
    /// Forgets verdicts about files that changed or went away, and all where presets changed: these may name a
    /// front-end.
    pub(crate) fn prune(&mut self, tree: &Folder) {
        let mut presets = Vec::new();
        tree.each_folder(&mut |folder| {
            presets.extend(folder.preset.iter().map(|file| (folder.path.as_path(), file)));
        });
        let presets = Some(presets_fingerprint(&presets));
        if std::mem::replace(&mut self.presets, presets) != presets {
            self.declined.clear();
        }
        self.declined.retain(|path, why| {
            tree.find(path).is_some_and(|f| f.stamp == why.stamp)
                && why.part_of.as_ref().is_none_or(|network| tree.find(network).is_some())
        });
    }

    /// Forgets everything about sets that are no longer there, except what the daemon still holds.
    pub(crate) fn keep_only(&mut self, items: &[Item]) {
        let ids: HashSet<&Path> = items.iter().map(|i| i.id.as_path()).collect();
        self.probes.retain(|id, _| ids.contains(id.as_path()));
        self.blocked.retain(|id, _| ids.contains(id.as_path()));
        self.announced.retain(|id, _| ids.contains(id.as_path()));
        self.recognised.retain(|id, _| ids.contains(id.as_path()));
    }

    /// Every front-end is asked again.
    pub(crate) fn forget_probes(&mut self) {
        self.probes.clear();
        self.declined.clear();
        self.announced.clear();
    }

    /// From now on the daemon has them.
    pub(crate) fn hand_over(&mut self, found: &mut [Found]) {
        for news in found {
            if let Found::Ready(submission) = news {
                self.handed_over.insert(submission.id.clone(), submission.as_ref().clone());
            }
        }
    }

    /// The daemon has the set as it is now.
    pub(crate) fn is_handed_over(&self, id: &Path, set: &Set<'_>, pool: &Pool) -> bool {
        let Some(submission) = self.handed_over.get(id) else { return false };
        let same =
            |f: &File| set.place.find(&f.name).is_some_and(|now| now.stamp.same_content(&f.stamp));
        match set.extent {
            Extent::Whole => submission.fingerprint() == pool.all,
            Extent::Beside { .. } => submission.files.iter().all(same),
        }
    }

    /// The daemon has answered: the set is gone, or may be offered again.
    pub(crate) fn release(&mut self, id: &Path) {
        self.handed_over.remove(id);
    }

    /// The daemon could not move it; not offered again before it changes.
    pub(crate) fn block(&mut self, id: &Path, reason: String) {
        self.handed_over.remove(id);
        self.blocked.insert(id.to_owned(), Blocked { reason, signature: None });
    }

    /// Everything that could not be moved is offered again.
    pub(crate) fn unblock(&mut self) {
        self.blocked.clear();
    }

    /// Why the set cannot be moved, as far as is known.
    pub(crate) fn blocked(&mut self, id: &Path, set: &Set<'_>) -> Option<String> {
        let blocked = self.blocked.get_mut(id)?;
        let now = signature(set);
        if *blocked.signature.get_or_insert_with(|| now.clone()) == now {
            return Some(blocked.reason.clone());
        }
        self.blocked.remove(id);
        None
    }

    /// What `look` says about these files; it is asked once.
    pub(crate) fn recognised(
        &mut self,
        id: &Path,
        files: Fingerprint,
        look: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        match self.recognised.get(id) {
            Some((of, what)) if *of == files => what.clone(),
            _ => {
                let what = look();
                self.recognised.insert(id.to_owned(), (files, what.clone()));
                what
            }
        }
    }

    /// True the first time for these files.
    pub(crate) fn announce(&mut self, id: &Path, files: Fingerprint) -> bool {
        self.announced.insert(id.to_owned(), files) != Some(files)
    }
}

/// Changes when files or permissions change, also those of the folder they would be moved out of.
fn signature(set: &Set<'_>) -> Vec<Stamp> {
    // Other drops come and go in the folder above: only its permissions count.
    let parent = Stamp { size: 0, mtime_ns: 0, ctime_ns: 0, ..set.parent.stamp };
    let mut all = vec![parent];
    match &set.extent {
        Extent::Beside { own, .. } => all.extend(own.iter().map(|f| f.stamp)),
        Extent::Whole => set.place.each_folder(&mut |folder| {
            all.push(folder.stamp);
            all.extend(folder.files.iter().map(|f| f.stamp));
        }),
    }
    all
}
