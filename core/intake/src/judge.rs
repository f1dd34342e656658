//! Judges every set of a scan: still arriving, waiting, refused, or ready; asks the front-ends only
//! about settled sets, and only again when something about them changed.
//!
//! A look asks about a few sets of each top folder and prepares a few to be handed over, however
//! many lie there: one person's thousand drops must not keep another person's single drop waiting.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onnxd_diagnostics::{Class, Diagnostic};

use crate::file::{DropFile, fingerprint};
use crate::formats;
use crate::group::{Extent, InboxSets, Leftover, Set, group};
use crate::known::SetKnowledge;
use crate::ledger::{Declined, Ledger};
use crate::names::{NameRules, is_params};
use crate::plan::FileSet;
use crate::pool::{self, Pools};
use crate::refusal::{link_refused, refused_folder, special_refused, unread};
use crate::settle::is_settled;
use crate::siblings::Siblings;
use crate::status::{InboxItem, InboxState};
use crate::submission::{InboxNews, ProbeOutcome, Prober, Submission, Unmatched};
use crate::tree::{FileEntry, Folder, SeenTimes};
use crate::turns::top_folder;
use crate::writers::Writers;

/// How soon files that are open for writing are looked at again.
const WRITTEN_AGAIN: Duration = Duration::from_secs(1);
/// Files of sets of a top folder that are prepared; with more, no further set is. Each of them is
/// looked at whenever the inbox is judged.
const FILES_AHEAD_MAX: usize = 512;

/// What judging needs to know besides the tree.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Absolute path of the inbox.
    pub(crate) inbox: PathBuf,
    pub(crate) settle: Duration,
    pub(crate) unmatched_after: Option<Duration>,
    pub(crate) ready_markers: bool,
    pub(crate) ready_required: bool,
    /// Files that are open for writing.
    pub(crate) writers: Writers,
    pub(crate) names: NameRules,
    /// Sets of a top folder that the front-ends are asked about, or that are prepared to be handed
    /// over, at a time.
    pub(crate) ahead_max: usize,
    /// Why nothing is handed over at the moment.
    pub(crate) paused: Option<String>,
}

/// The outcome of one scan.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// What can be handed over.
    pub(crate) found: Vec<InboxNews>,
    pub(crate) items: Vec<InboxItem>,
    /// When to look again although nothing changes.
    pub(crate) again: Option<Instant>,
    /// There is more than was prepared: to be judged again once less is left.
    pub(crate) more: bool,
}

impl Judged {
    /// Takes note of what there is no room for.
    fn asks(&mut self, room: bool) -> bool {
        self.more |= !room;
        room
    }

    pub(crate) fn look_again(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }
}

enum Verdict {
    State(InboxState),
    Ready(Box<Submission>),
    Regroup,
}

impl Verdict {
    fn with(mut self, change: impl FnOnce(&mut Submission)) -> Verdict {
        if let Verdict::Ready(submission) = &mut self {
            change(submission);
        }
        self
    }
}

/// Judges all sets of a tree. `waiting` says how many sets of a top folder wait to be handed over.
pub(crate) fn judge(
    tree: &Folder,
    rules: &Rules,
    ledger: &mut Ledger,
    prober: &mut dyn Prober,
    waiting: &dyn Fn(&OsStr) -> usize,
    now: Instant,
) -> Judged {
    ledger.prune(tree);
    // Every round but the last takes at least one file off the list of networks, so this ends.
    let judged = loop {
        prober.begin();
        let declined = ledger.declined.clone();
        let groups = {
            let (prober, ledger) = (&*prober, &*ledger);
            let is_network = |folder: &Folder, file: &FileEntry| {
                prober.is_network(&file.name) && !is_declined(&declined, folder, file)
            };
            let stays_beside = |folder: &Folder, file: &FileEntry| {
                ledger.beside.contains_key(&folder.path.join(&file.name))
            };
            group(tree, &rules.names, rules.ready_markers, &is_network, &stays_beside)
        };
        let mut round = Round {
            tree,
            rules,
            ledger,
            prober,
            waiting,
            now,
            declined: &declined,
            groups: &groups,
            pools: Pools::default(),
            asked: HashMap::new(),
            ready: HashMap::new(),
            judged: Judged::default(),
        };
        if round.sets() {
            continue;
        }
        round.leftovers();
        round.links();
        break round.judged;
    };
    ledger.keep_only(&judged.items);
    prober.ask();
    judged
}

fn is_declined(declined: &HashMap<PathBuf, Declined>, folder: &Folder, file: &FileEntry) -> bool {
    !declined.is_empty() && declined.contains_key(&folder.path.join(&file.name))
}

pub(crate) struct Round<'a> {
    pub(crate) tree: &'a Folder,
    pub(crate) rules: &'a Rules,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) prober: &'a mut dyn Prober,
    waiting: &'a dyn Fn(&OsStr) -> usize,
    pub(crate) now: Instant,
    declined: &'a HashMap<PathBuf, Declined>,
    pub(crate) groups: &'a InboxSets<'a>,
    pub(crate) pools: Pools,
    /// Sets without an answer that the front-ends are asked about, by top folder.
    asked: HashMap<OsString, usize>,
    /// Sets that were prepared, and their files, by top folder.
    ready: HashMap<OsString, (usize, usize)>,
    pub(crate) judged: Judged,
}

impl Round<'_> {
    /// True if the groups have to be made again.
    fn sets(&mut self) -> bool {
        let groups = self.groups;
        let knowledge: Vec<SetKnowledge> =
            groups.sets.iter().map(|set| self.known(set, &set.id())).collect();
        if knowledge.iter().any(|k| matches!(k, SetKnowledge::Regroup)) {
            return true;
        }
        let siblings = Siblings::from_sets(&groups.sets, &knowledge);
        if siblings.note(&groups.sets, &knowledge, &mut self.ledger.beside) {
            return true;
        }
        let mut regroup = false;
        for (set, knowledge) in groups.sets.iter().zip(knowledge) {
            let (id, since) = (set.id(), set.seen().first);
            let verdict = match knowledge {
                SetKnowledge::State(state) => Verdict::State(state),
                SetKnowledge::Answer(outcome) if !siblings.may_change(set) => {
                    self.verdict(set, &id, outcome)
                }
                SetKnowledge::Open | SetKnowledge::Answer(_) => Verdict::State(InboxState::Asked),
                SetKnowledge::Unasked => Verdict::State(InboxState::Queued),
                SetKnowledge::Regroup => Verdict::Regroup,
            };
            let state = match verdict {
                Verdict::Regroup => {
                    regroup = true;
                    continue;
                }
                Verdict::State(state) => state,
                Verdict::Ready(submission) => {
                    let folder = submission.folder.clone();
                    self.is_prepared(&folder, InboxNews::Ready(submission));
                    InboxState::Queued
                }
            };
            self.judged.items.push(InboxItem { id, since, state });
        }
        regroup
    }

    /// Whether the front-ends may be asked about a further set of this top folder.
    pub(crate) fn may_ask(&mut self, folder: &Path) -> bool {
        let top = top_folder(folder);
        let asked = self.asked.get(top).copied().unwrap_or_default();
        let (waiting, most) = ((self.waiting)(top), self.rules.ahead_max);
        // Several are asked about in one worker: not one at a time, as they are handed over.
        self.judged.asks(waiting < most - most / 4 && asked + waiting < most)
    }

    /// They are asked about a set.
    pub(crate) fn is_asked(&mut self, folder: &Path) {
        *self.asked.entry(top_folder(folder).to_owned()).or_default() += 1;
    }

    /// Whether a further set of this top folder may be prepared to be handed over.
    fn may_prepare(&mut self, folder: &Path) -> bool {
        let (sets, files) = self.ready.get(top_folder(folder)).copied().unwrap_or_default();
        self.judged.asks(sets < self.rules.ahead_max && files < FILES_AHEAD_MAX)
    }

    fn is_prepared(&mut self, folder: &Path, news: InboxNews) {
        let (sets, files) = self.ready.entry(top_folder(folder).to_owned()).or_default();
        *sets += 1;
        *files += match &news {
            InboxNews::Ready(submission) => submission.set.files.len(),
            InboxNews::Unmatched(unmatched) => unmatched.set.files.len(),
        };
        self.judged.found.push(news);
    }

    fn verdict(&mut self, set: &Set<'_>, id: &Path, outcome: ProbeOutcome) -> Verdict {
        match outcome {
            ProbeOutcome::NotMine(reason) => {
                let stamp = set.network.stamp;
                self.decline(set.network_path(), Declined { stamp, reason, part_of: None })
            }
            ProbeOutcome::Waiting { missing } => Verdict::State(InboxState::WaitingFor { missing }),
            ProbeOutcome::Failed(problem) if problem.class == Class::Environment => {
                Verdict::State(InboxState::Blocked { reason: problem.to_string() })
            }
            ProbeOutcome::Failed(problem) => {
                let ready = self.ready(set, id, &[]);
                ready.with(|submission| submission.problem = Some(problem))
            }
            ProbeOutcome::Complete { used, answer } => {
                self.ready(set, id, &used).with(|submission| submission.answer = answer)
            }
        }
    }

    fn decline(&mut self, path: PathBuf, why: Declined) -> Verdict {
        self.ledger.declined.insert(path, why);
        Verdict::Regroup
    }

    /// Remembers that a set's file is no network, as the front-ends say.
    pub(crate) fn declines(&mut self, set: &Set<'_>, reason: String) {
        let stamp = set.network.stamp;
        self.decline(set.network_path(), Declined { stamp, reason, part_of: None });
    }

    pub(crate) fn is_settled(&self, seen: SeenTimes) -> bool {
        is_settled(seen, self.now, self.rules.settle)
    }

    fn ready(&mut self, set: &Set<'_>, id: &Path, used: &[PathBuf]) -> Verdict {
        if !self.may_prepare(&set.results_folder()) {
            return Verdict::State(InboxState::Queued);
        }
        let (files, whole) = match &set.extent {
            Extent::Whole => (pool::whole(set.place).0.to_vec(), Some(set.place.stamp)),
            Extent::Beside { own, alone, shared, .. } => {
                match self.members(set, own, shared, *alone, used) {
                    Ok(files) => (files, None),
                    Err(verdict) => return verdict,
                }
            }
        };
        if let Some(reason) = &self.rules.paused {
            return Verdict::State(InboxState::Blocked { reason: reason.clone() });
        }
        let root = set.place.path.clone();
        let names = files.iter().map(|file| file.name.clone()).chain(set.coming());
        if let Some(part) = self.rules.writers.first(&self.rules.inbox.join(&root), names, self.now)
        {
            self.judged.look_again(self.now + WRITTEN_AGAIN);
            return Verdict::State(InboxState::Arriving { part: set.place.path.join(part) });
        }
        let marker =
            set.marker.map(|m| DropFile { name: set.parent.path.join(&m.name), stamp: m.stamp });
        Verdict::Ready(Box::new(Submission {
            id: id.to_owned(),
            folder: set.results_folder(),
            name: set.name(),
            network: PathBuf::from(&set.network.name),
            set: FileSet { inbox: self.rules.inbox.clone(), root, whole, files, marker },
            ..Submission::default()
        }))
    }

    /// Own files and the used ones, where the used ones are no other set's.
    fn members(
        &mut self,
        set: &Set<'_>,
        own: &[&FileEntry],
        shared: &[&FileEntry],
        alone: bool,
        used: &[PathBuf],
    ) -> Result<Vec<DropFile>, Verdict> {
        let mut files: Vec<DropFile> =
            own.iter().map(|f| pool::named(set.place, set.place, f)).collect();
        if used.is_empty() {
            return Ok(pool::sorted(files));
        }
        let names: HashSet<&OsStr> = own.iter().map(|f| f.name.as_os_str()).collect();
        let is_own = |f: &DropFile| names.contains(f.name.as_os_str());
        let all = self.all_around(set, shared);
        for path in used.iter().filter(|path| !names.contains(path.as_os_str())) {
            let at = all.partition_point(|f| f.name < *path);
            let wanted: Vec<&DropFile> =
                all[at..].iter().take_while(|f| f.name.starts_with(path)).collect();
            if wanted.is_empty() {
                let missing = vec![path.display().to_string()];
                return Err(Verdict::State(InboxState::WaitingFor { missing }));
            }
            for file in wanted.into_iter().filter(|f| !is_own(f)) {
                // Where no other network is left, the file is nobody else's.
                let was_beside = self.ledger.beside.remove(&set.network_path()).is_some();
                if was_beside && self.is_only_network(set) {
                    return Err(Verdict::Regroup);
                }
                if !alone {
                    return Err(self.not_its_own(set, file));
                }
                files.push(file.clone());
            }
        }
        files = pool::sorted(files);
        files.dedup_by(|a, b| a.name == b.name);
        Ok(files)
    }

    fn is_only_network(&self, set: &Set<'_>) -> bool {
        set.place.files.iter().filter(|f| self.groups.is_network(f)).count() == 1
    }

    /// A used file that carries no name of the network, in a folder with several networks.
    fn not_its_own(&mut self, set: &Set<'_>, file: &DropFile) -> Verdict {
        let path = set.place.path.join(&file.name);
        let name = file.name.as_os_str();
        if self.prober.is_network(name) && !is_params(name) && !self.declined.contains_key(&path) {
            let network = set.network_path();
            let reason = format!("it is a part of {}", network.display());
            let (stamp, part_of) = (file.stamp, Some(network));
            return self.decline(path, Declined { stamp, reason, part_of });
        }
        let reason = format!(
            "{} may belong to any of the networks beside it; put each network in a folder of its \
             own, or begin the file's name with the network's",
            path.display()
        );
        Verdict::State(InboxState::Blocked { reason })
    }

    fn leftovers(&mut self) {
        for leftover in &self.groups.leftovers {
            let id = leftover.id();
            let seen = leftover.seen();
            let state = match leftover {
                Leftover::Folder(folder) => refused_folder(folder),
                Leftover::File(..) => None,
            };
            let state = state.unwrap_or_else(|| {
                if self.is_settled(seen) {
                    InboxState::Unmatched { reason: self.unmatched_reason(leftover, &id) }
                } else {
                    InboxState::Arriving { part: id.clone() }
                }
            });
            if let InboxState::Unmatched { reason } = &state {
                self.put_aside(leftover, &id, seen, reason);
            }
            self.judged.items.push(InboxItem { id, since: seen.first, state });
        }
    }

    /// Why no front-end takes it, and what it is, if its content tells.
    fn unmatched_reason(&mut self, leftover: &Leftover<'_>, id: &Path) -> String {
        let why = self.declined_reason(leftover, id);
        let path = self.rules.inbox.join(id);
        let files = fingerprint(&listed(leftover));
        match self.ledger.recognised(id, files, || formats::sentence(&path)) {
            Some(what) => format!("{what} ({why})"),
            None => why,
        }
    }

    fn declined_reason(&self, leftover: &Leftover<'_>, id: &Path) -> String {
        let inside = |path: &PathBuf| match leftover {
            Leftover::Folder(_) => path.starts_with(id),
            Leftover::File(..) => path == id,
        };
        match self.declined.iter().filter(|(path, _)| inside(path)).min_by_key(|(path, _)| *path) {
            Some((path, why)) => format!("{}: {}", path.display(), why.reason),
            None => "no network is with it, and no front-end claims a file of its name".to_owned(),
        }
    }

    fn put_aside(&mut self, leftover: &Leftover<'_>, id: &Path, seen: SeenTimes, reason: &str) {
        let Some(after) = self.rules.unmatched_after else { return };
        let at = seen.changed + after;
        if self.now < at {
            return self.judged.look_again(at);
        }
        let (root, whole) = match *leftover {
            Leftover::Folder(f) => (f.path.clone(), Some(f.stamp)),
            Leftover::File(f, _) => (f.path.clone(), None),
        };
        let files = listed(leftover);
        let news = !self.ledger.is_announced(id, fingerprint(&files));
        if self.rules.paused.is_none() && news && self.may_prepare(above(id)) {
            let (id, reason) = (id.to_owned(), reason.to_owned());
            let inbox = self.rules.inbox.clone();
            let set = FileSet { inbox, root, whole, files, marker: None };
            let unmatched = Unmatched { id, set, reason };
            let folder = above(&unmatched.id).to_owned();
            self.is_prepared(&folder, InboxNews::Unmatched(Box::new(unmatched)));
        }
    }

    /// Links and special files that lie side by side with sets; and folders that cannot be read.
    fn links(&mut self) {
        for folder in &self.groups.shared {
            let refuse = |id: PathBuf, reason: Diagnostic| InboxItem {
                id,
                since: folder.seen.first,
                state: InboxState::Refused { reason },
            };
            let links = folder.links.iter().map(|name| folder.path.join(name));
            let specials = folder.specials.iter().map(|name| folder.path.join(name));
            self.judged.items.extend(links.map(|id| refuse(id.clone(), link_refused(&id))));
            self.judged.items.extend(specials.map(|id| refuse(id.clone(), special_refused(&id))));
            if let Some(why) = &folder.unread {
                self.judged.items.push(refuse(folder.path.clone(), unread(folder, why)));
            }
        }
    }
}

fn listed(leftover: &Leftover<'_>) -> Vec<DropFile> {
    match *leftover {
        Leftover::Folder(f) => pool::list(f, f),
        Leftover::File(f, file) => vec![pool::named(f, f, file)],
    }
}

fn above(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
