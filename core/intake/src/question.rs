//! What is known of one set by itself, and the question to the front-ends about it.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::downloads::is_download;
use crate::file::{DropFile, Fingerprint, presets_fingerprint};
use crate::group::{Extent, Set};
use crate::judge::Round;
use crate::known::SetKnowledge;
use crate::ledger::{Probed, Worth};
use crate::names::is_role_folder;
use crate::pool::{self, Around};
use crate::refusal::{refusal, unreadable};
use crate::settle::{folder_settled, is_settled};
use crate::status::InboxState;
use crate::submission::{Candidate, ProbeOutcome};
use crate::tree::{FileEntry, Folder};

/// What the front-ends see of a set at first, and what else there is.
enum Near {
    /// A whole folder.
    Whole(Arc<[DropFile]>, Fingerprint),
    /// Its own files and the shared ones of its folder.
    Beside(Rc<Around>, Vec<DropFile>, Fingerprint),
}

impl Near {
    fn print(&self) -> Fingerprint {
        match self {
            Near::Whole(_, print) | Near::Beside(_, _, print) => *print,
        }
    }

    fn files(&self) -> Arc<[DropFile]> {
        match self {
            Near::Whole(files, _) => files.clone(),
            Near::Beside(around, own, _) => {
                pool::sorted(own.iter().chain(&around.shared).cloned().collect()).into()
            }
        }
    }

    /// Files that certainly belong to the set.
    fn own(&self) -> &[DropFile] {
        match self {
            Near::Whole(files, _) => files,
            Near::Beside(_, own, _) => own,
        }
    }
}

impl Round<'_> {
    /// Why a set is not to be taken yet, or the front-ends' answer.
    pub(crate) fn known(&mut self, set: &Set<'_>, id: &Path) -> SetKnowledge {
        if let Some(refusal) = refusal(set) {
            return SetKnowledge::State(InboxState::Refused { reason: refusal });
        }
        let sure = set.marker.is_some();
        if self.rules.ready_required && !sure {
            let missing = vec![format!("{}.ready", id.display())];
            return SetKnowledge::State(InboxState::WaitingFor { missing });
        }
        if !sure && let Some(part) = self.unsettled(set) {
            return SetKnowledge::State(InboxState::Arriving { part });
        }
        if !sure && let Some(download) = set.coming().into_iter().find(|path| is_unfinished(path)) {
            let download = set.place.path.join(download);
            let missing = vec![format!("the end of a download, {}", download.display())];
            return SetKnowledge::State(InboxState::WaitingFor { missing });
        }
        if self.ledger.is_handed_over(id, set) {
            return SetKnowledge::State(InboxState::HandedOver);
        }
        if let Some(reason) = self.ledger.blocked(id, set) {
            return SetKnowledge::State(InboxState::Blocked { reason });
        }
        match self.outcome(set) {
            SetKnowledge::Answer(ProbeOutcome::NotMine(reason)) => {
                self.declines(set, reason);
                SetKnowledge::Regroup
            }
            known => known,
        }
    }

    /// A part that must be settled before the front-ends are asked, and is not.
    fn unsettled(&mut self, set: &Set<'_>) -> Option<PathBuf> {
        let place = set.place;
        let presets = self.tree.presets(&set.parent.path);
        // Half a preset would fail the drop.
        if let Some((at, file)) = presets.into_iter().find(|(_, f)| !self.is_settled(f.seen)) {
            return Some(at.join(&file.name));
        }
        match &set.extent {
            Extent::Whole => self.unsettled_in(place),
            Extent::Beside { own, coming, alone, .. } => {
                let busy = own.iter().chain(coming).find(|f| !self.is_settled(f.seen));
                if let Some(file) = busy {
                    return Some(place.path.join(&file.name));
                }
                let (now, settle) = (self.now, self.rules.settle);
                let role = self.pools.busy_role(place, |f| is_settled(f.seen, now, settle));
                let mut folders =
                    place.folders.iter().filter(|f| *alone && is_role_folder(f.name()));
                role.or_else(|| folders.find_map(|f| self.unsettled_in(f)))
            }
        }
    }

    fn unsettled_in(&self, folder: &Folder) -> Option<PathBuf> {
        if folder_settled(folder, self.now, self.rules.settle) {
            return None;
        }
        let mut latest = (folder.path.clone(), folder.seen.changed);
        folder.each_folder(&mut |f| {
            for file in f.files.iter().chain(&f.transient) {
                if file.seen.changed >= latest.1 {
                    latest = (f.path.join(&file.name), file.seen.changed);
                }
            }
        });
        Some(latest.0)
    }

    fn settled(&self, set: &Set<'_>) -> impl Fn(&FileEntry) -> bool + use<> {
        let (sure, now, settle) = (set.marker.is_some(), self.now, self.rules.settle);
        move |file| sure || is_settled(file.seen, now, settle)
    }

    fn around(&mut self, set: &Set<'_>, shared: &[&FileEntry]) -> Rc<Around> {
        let (sure, now, settle) = (set.marker.is_some(), self.now, self.rules.settle);
        let complete = |folder: &Folder| sure || folder_settled(folder, now, settle);
        let settled = self.settled(set);
        self.pools.around(set, shared, self.groups, settled, complete)
    }

    /// All settled files of the folder of a set that lies beside others.
    pub(crate) fn all_around(&mut self, set: &Set<'_>, shared: &[&FileEntry]) -> Arc<[DropFile]> {
        let settled = self.settled(set);
        Arc::clone(&self.around(set, shared).all(set.place, settled).0)
    }

    fn near(&mut self, set: &Set<'_>) -> Near {
        match &set.extent {
            Extent::Whole => {
                let (files, print) = pool::whole(set.place);
                Near::Whole(files, print)
            }
            Extent::Beside { own, shared, .. } => {
                let around = self.around(set, shared);
                let print = Fingerprint::of(own.iter().map(|f| (Path::new(&f.name), &f.stamp)));
                let own = own.iter().map(|f| pool::named(set.place, set.place, f)).collect();
                let print = print.and(around.shared_print);
                Near::Beside(around, own, print)
            }
        }
    }

    /// The front-ends' answer, from the last time if nothing changed since.
    ///
    /// Where networks lie side by side, the front-ends see a set's own files and the shared ones
    /// first. Only if that is not enough they see all, which may be thousands.
    fn outcome(&mut self, set: &Set<'_>) -> SetKnowledge {
        let near = self.near(set);
        // Other presets are other params, which may need other files.
        let presets = self.tree.presets(&set.results_folder());
        let about = near.print().and(presets_fingerprint(&presets));
        let settled = self.settled(set);
        let wide = || match &near {
            Near::Whole(..) => None,
            Near::Beside(around, own, _) => {
                let (all, print) = around.all(set.place, &settled);
                (all.len() > own.len() + around.shared.len()).then_some((all, *print))
            }
        };
        loop {
            let mut widen = false;
            if let Some(probed) = self.ledger.answer(about) {
                let outcome = probed.outcome.clone();
                match probed.worth(|| wide().map(|(_, print)| print), self.now) {
                    Worth::Holds => return SetKnowledge::Answer(outcome),
                    Worth::Until(at) => {
                        self.judged.look_again(at);
                        return SetKnowledge::Answer(outcome);
                    }
                    Worth::Widen => widen = true,
                    Worth::Stale => widen = probed.is_wide(),
                }
            }
            if !self.may_ask(&set.results_folder()) {
                return SetKnowledge::Unasked;
            }
            // Nothing is remembered: permissions may change without the files.
            let root = self.rules.inbox.join(&set.place.path);
            if let Some(why) = unreadable(&root, near.own()) {
                return SetKnowledge::Answer(ProbeOutcome::Failed(why));
            }
            let seen = wide().filter(|_| widen);
            let candidate = Candidate {
                root,
                folder: set.results_folder(),
                name: set.name(),
                network: PathBuf::from(&set.network.name),
                owner: set.network.stamp.uid,
                files: seen.map_or_else(|| near.files(), |(all, _)| Arc::clone(all)),
                narrow: about,
                wide: seen.map(|(_, print)| print),
            };
            let Some(outcome) = self.prober.probe(&candidate) else {
                self.is_asked(&candidate.folder);
                return SetKnowledge::Open;
            };
            let probed = Probed::new(outcome, candidate.wide, self.ledger.answer(about), self.now);
            self.ledger.answered(about, probed);
        }
    }
}

fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(is_download)
}
