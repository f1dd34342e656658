//! What intake remembers between scans: answers of front-ends, sets given to the daemon, sets that
//! could not be moved. Nothing of it outlives the process; the folder itself is the truth.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onnxd_diagnostics::Class;

use crate::file::{DropFile, Fingerprint, presets_fingerprint};
use crate::group::{Extent, Set};
use crate::pool::whole;
use crate::status::InboxItem;
use crate::submission::{InboxNews, ProbeOutcome, Submission};
use crate::tree::{Folder, Stamp};
use crate::turns::top_folder;

/// First and longest pause before front-ends are asked again after a failure of the machine.
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// First and longest pause before they are asked again because other networks came or went.
const AROUND_MIN: Duration = Duration::from_millis(250);
const AROUND_MAX: Duration = Duration::from_secs(10);

/// Answers that are kept of sets that are not there at the moment.
const ABSENT_MAX: u64 = 64;

/// An answer of the front-ends and what it was about.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    pub(crate) outcome: ProbeOutcome,
    /// Of everything around, if the front-ends saw it: else of its own and shared files alone.
    wide: Option<Fingerprint>,
    retry_at: Option<Instant>,
    pause: Duration,
    /// The look that needed it last.
    look: u64,
}

/// What an answer is worth now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It stands.
    Holds,
    /// It stands, and then they are asked again.
    Until(Instant),
    /// The front-ends have seen the set's own files, and have to see all.
    Widen,
    /// They have to be asked again.
    Stale,
}

impl Probed {
    pub(crate) fn new(
        outcome: ProbeOutcome,
        wide: Option<Fingerprint>,
        before: Option<&Probed>,
        now: Instant,
    ) -> Probed {
        let environment =
            matches!(&outcome, ProbeOutcome::Failed(d) if d.class == Class::Environment);
        let (least, most) =
            if environment { (RETRY_MIN, RETRY_MAX) } else { (AROUND_MIN, AROUND_MAX) };
        let again = |b: &&Probed| {
            let same = std::mem::discriminant(&b.outcome) == std::mem::discriminant(&outcome);
            same && b.retry_at.is_some() && (environment || b.wide.is_some())
        };
        let pause = match before.filter(again) {
            Some(before) => (before.pause * 2).clamp(least, most),
            None => least,
        };
        let waits = matches!(outcome, ProbeOutcome::Waiting { .. });
        let retry_at = (environment || waits).then(|| now + pause);
        Probed { outcome, wide, retry_at, pause, look: 0 }
    }

    /// Whether the front-ends saw everything around.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    /// What the answer is worth where `wide` is the fingerprint of everything around, or `None` if
    /// there is nothing but what was asked about. What is complete needs nothing else. What is
    /// missing may turn out to be a network itself.
    pub(crate) fn worth(&self, wide: impl FnOnce() -> Option<Fingerprint>, now: Instant) -> Worth {
        let wait = match self.retry_at {
            Some(at) if now < at => Worth::Until(at),
            _ => Worth::Stale,
        };
        match (&self.outcome, self.wide) {
            (ProbeOutcome::Complete { .. }, _) => Worth::Holds,
            (ProbeOutcome::Failed(d), _) if d.class == Class::Environment => wait,
            (ProbeOutcome::Waiting { .. }, Some(seen)) => match wide() {
                // Other drops come and go all the time: not each of them is worth a question.
                Some(now) if now != seen => wait,
                _ => Worth::Holds,
            },
            // A front-end that broke would break again.
            (ProbeOutcome::Failed(d), None) if d.class == Class::Internal => Worth::Holds,
            (_, None) if wide().is_some() => Worth::Widen,
            _ => Worth::Holds,
        }
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
struct HandedOver {
    submission: Submission,
    /// The daemon has answered; a scan from before that still shows the files.
    released: bool,
}

#[derive(Debug)]
struct Blocked {
    reason: String,
    /// Of the files and folders when it was first judged after the failure.
    signature: Option<Vec<Stamp>>,
}

/// All memories, by path below the inbox; answers by what the question was about.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    probes: HashMap<Fingerprint, Probed>,
    look: u64,
    pub(crate) declined: HashMap<PathBuf, Declined>,
    /// Networks that lay beside others when they, or the others, were found to be complete.
    pub(crate) beside: HashMap<PathBuf, Stamp>,
    presets: Option<Fingerprint>,
    handed_over: HashMap<PathBuf, HandedOver>,
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
        self.beside.retain(|path, stamp| tree.find(path).is_some_and(|f| f.stamp == *stamp));
        self.declined.retain(|path, why| {
            tree.find(path).is_some_and(|f| f.stamp == why.stamp)
                && why.part_of.as_ref().is_none_or(|network| tree.find(network).is_some())
        });
    }

    /// The answer about these files.
    pub(crate) fn answer(&mut self, about: Fingerprint) -> Option<&Probed> {
        let look = self.look;
        let probed = self.probes.get_mut(&about)?;
        probed.look = look;
        Some(probed)
    }

    /// The front-ends have answered.
    pub(crate) fn answered(&mut self, about: Fingerprint, probed: Probed) {
        let probed = Probed { look: self.look, ..probed };
        self.probes.insert(about, probed);
    }

    /// Forgets everything about sets that are no longer there, except what the daemon still holds,
    /// and answers that may be of use if the same files come again.
    pub(crate) fn keep_only(&mut self, items: &[InboxItem]) {
        let ids: HashSet<&Path> = items.iter().map(|i| i.id.as_path()).collect();
        let look = self.look;
        self.probes.retain(|_, probed| look - probed.look <= ABSENT_MAX);
        self.look += 1;
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

    /// From now on the daemon has it.
    pub(crate) fn hand_over(&mut self, news: &InboxNews) {
        match news {
            InboxNews::Ready(submission) => {
                let submission = submission.as_ref().clone();
                let id = submission.id.clone();
                self.handed_over.insert(id, HandedOver { submission, released: false });
            }
            InboxNews::Unmatched(unmatched) => {
                let files = unmatched.set.fingerprint();
                self.announced.insert(unmatched.id.clone(), files);
            }
        }
    }

    /// Drops of a top folder that the daemon has in hand.
    pub(crate) fn in_hand(&self, top: &OsStr) -> usize {
        let of = |h: &&HandedOver| !h.released && top_folder(&h.submission.folder) == top;
        self.handed_over.values().filter(of).count()
    }

    /// The daemon has the set as it is now.
    pub(crate) fn is_handed_over(&self, id: &Path, set: &Set<'_>) -> bool {
        let Some(HandedOver { submission, .. }) = self.handed_over.get(id) else { return false };
        let same = |f: &DropFile| {
            set.place.find(&f.name).is_some_and(|now| now.stamp.same_content(&f.stamp))
        };
        match set.extent {
            Extent::Whole => submission.set.fingerprint() == whole(set.place).1,
            Extent::Beside { .. } => submission.set.files.iter().all(same),
        }
    }

    /// The daemon has answered: the set is gone, or may be offered again. The next scan tells.
    pub(crate) fn release(&mut self, id: &Path) {
        self.handed_over.get_mut(id).into_iter().for_each(|h| h.released = true);
    }

    /// A scan begins: it sees what the daemon has left of the sets that it had.
    pub(crate) fn scan_begins(&mut self) {
        self.handed_over.retain(|_, h| !h.released);
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

    /// Whether the daemon was told of these files.
    pub(crate) fn is_announced(&self, id: &Path, files: Fingerprint) -> bool {
        self.announced.get(id) == Some(&files)
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
