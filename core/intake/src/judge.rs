//! Judges every set of a scan: still arriving, waiting, refused, or ready; asks the front-ends only
//! about settled sets, and only again when something about them changed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use onnxd_diagnostics::{Class, Diagnostic};

use crate::formats;
use crate::group::{Extent, Groups, Leftover, Set, group};
use crate::ledger::{Declined, Ledger, Probed};
use crate::names::{is_params, is_role_file, is_role_folder};
use crate::pool::{self, Pool, Pools};
use crate::refusal::{link_refused, refusal, refused_folder, special_refused, unread, unreadable};
use crate::settle::{folder_settled, is_settled};
use crate::status::{Item, State};
use crate::submission::{
    Candidate, File, Fingerprint, Found, ProbeOutcome, Prober, Submission, Unmatched, fingerprint,
    presets_fingerprint,
};
use crate::tree::{FileEntry, Folder, Seen};

/// What judging needs to know besides the tree.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Absolute path of the inbox.
    pub(crate) inbox: PathBuf,
    pub(crate) settle: Duration,
    pub(crate) unmatched_after: Option<Duration>,
    pub(crate) ready_markers: bool,
    pub(crate) ready_required: bool,
    /// Why nothing is handed over at the moment.
    pub(crate) paused: Option<String>,
}

/// The outcome of one scan.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) found: Vec<Found>,
    pub(crate) items: Vec<Item>,
    /// When to look again although nothing changes.
    pub(crate) again: Option<Instant>,
}

impl Judged {
    fn look_again(&mut self, at: Instant) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }
}

enum Verdict {
    State(State),
    Ready(Box<Submission>),
    /// A file turned out to be no network of its own: the groups have changed.
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

/// Judges all sets of a tree.
pub(crate) fn judge(
    tree: &Folder,
    rules: &Rules,
    ledger: &mut Ledger,
    prober: &mut dyn Prober,
    now: Instant,
) -> Judged {
    ledger.prune(tree);
    // Every round but the last takes at least one file off the list of networks, so this ends.
    loop {
        let declined = ledger.declined.clone();
        let groups = {
            let prober = &*prober;
            group(tree, rules.ready_markers, &|folder, file| {
                prober.is_network(&file.name) && !is_declined(&declined, folder, file)
            })
        };
        let mut round = Round {
            tree,
            rules,
            ledger,
            prober,
            now,
            declined: &declined,
            pools: Pools::default(),
            judged: Judged::default(),
        };
        if round.sets(&groups) {
            continue;
        }
        round.leftovers(&groups);
        round.links(&groups);
        let mut judged = round.judged;
        ledger.hand_over(&mut judged.found);
        ledger.keep_only(&judged.items);
        return judged;
    }
}

fn is_declined(declined: &HashMap<PathBuf, Declined>, folder: &Folder, file: &FileEntry) -> bool {
    !declined.is_empty() && declined.contains_key(&folder.path.join(&file.name))
}

struct Round<'a> {
    tree: &'a Folder,
    rules: &'a Rules,
    ledger: &'a mut Ledger,
    prober: &'a mut dyn Prober,
    now: Instant,
    declined: &'a HashMap<PathBuf, Declined>,
    pools: Pools,
    judged: Judged,
}

impl Round<'_> {
    /// True if the groups have to be made again.
    fn sets(&mut self, groups: &Groups<'_>) -> bool {
        let mut regroup = false;
        for set in &groups.sets {
            let (id, since) = (set.id(), set.seen().first);
            let state = match self.set(set, &id) {
                Verdict::Regroup => {
                    regroup = true;
                    continue;
                }
                Verdict::State(state) => state,
                Verdict::Ready(submission) => {
                    self.judged.found.push(Found::Ready(submission));
                    State::HandedOver
                }
            };
            self.judged.items.push(Item { id, since, state });
        }
        regroup
    }

    fn set(&mut self, set: &Set<'_>, id: &Path) -> Verdict {
        if let Some(refusal) = refusal(set) {
            return Verdict::State(State::Refused { reason: refusal });
        }
        let sure = set.marker.is_some();
        if self.rules.ready_required && !sure {
            let missing = vec![format!("{}.ready", id.display())];
            return Verdict::State(State::WaitingFor { missing });
        }
        if !sure && let Some(part) = self.unsettled(set) {
            return Verdict::State(State::Arriving { part });
        }
        let pool = self.pool(set, sure);
        if self.ledger.is_handed_over(id, set, &pool) {
            return Verdict::State(State::HandedOver);
        }
        if let Some(reason) = self.ledger.blocked(id, set) {
            return Verdict::State(State::Blocked { reason });
        }
        let Some(outcome) = self.outcome(set, id, &pool) else {
            return Verdict::State(State::Asked);
        };
        match outcome {
            ProbeOutcome::NotMine(reason) => {
                let stamp = set.network.stamp;
                self.decline(network_path(set), Declined { stamp, reason, part_of: None })
            }
            ProbeOutcome::Waiting { missing } => Verdict::State(State::WaitingFor { missing }),
            ProbeOutcome::Failed(problem) if problem.class == Class::Environment => {
                Verdict::State(State::Blocked { reason: problem.to_string() })
            }
            ProbeOutcome::Failed(problem) => {
                let ready = self.ready(set, id, &pool, &[]);
                ready.with(|submission| submission.problem = Some(problem))
            }
            ProbeOutcome::Complete { used, answer } => {
                self.ready(set, id, &pool, &used).with(|submission| submission.answer = answer)
            }
        }
    }

    fn decline(&mut self, path: PathBuf, why: Declined) -> Verdict {
        self.ledger.declined.insert(path, why);
        Verdict::Regroup
    }

    fn is_settled(&self, seen: Seen) -> bool {
        is_settled(seen, self.now, self.rules.settle)
    }

    /// A part that must be settled before the front-ends are asked, and is not.
    fn unsettled(&self, set: &Set<'_>) -> Option<PathBuf> {
        let place = set.place;
        let presets = self.tree.presets(&set.parent.path);
        // Half a preset would fail the drop.
        if let Some((at, file)) = presets.into_iter().find(|(_, f)| !self.is_settled(f.seen)) {
            return Some(at.join(&file.name));
        }
        match &set.extent {
            Extent::Whole => self.unsettled_in(place),
            Extent::Beside { own, coming, alone, .. } => {
                let role = place.files.iter().filter(|f| is_role_file(&f.name));
                let mut files = own.iter().chain(coming).copied().chain(role);
                let busy = files.find(|f| !self.is_settled(f.seen));
                let folders = || {
                    let mut role =
                        place.folders.iter().filter(|f| *alone && is_role_folder(f.name()));
                    role.find_map(|f| self.unsettled_in(f))
                };
                busy.map(|f| place.path.join(&f.name)).or_else(folders)
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

    fn pool(&mut self, set: &Set<'_>, sure: bool) -> Pool {
        match set.extent {
            Extent::Whole => pool::whole(set.place),
            Extent::Beside { .. } => {
                let (prober, declined) = (&*self.prober, self.declined);
                let is_network = |folder: &Folder, file: &FileEntry| {
                    prober.is_network(&file.name)
                        && !is_params(&file.name)
                        && !is_declined(declined, folder, file)
                };
                let Rules { settle, .. } = *self.rules;
                self.pools.beside(set.place, sure, self.now, settle, &is_network)
            }
        }
    }

    /// The front-ends' answer, from the last time if nothing changed since; `None` before it comes.
    fn outcome(&mut self, set: &Set<'_>, id: &Path, pool: &Pool) -> Option<ProbeOutcome> {
        let narrow = match &set.extent {
            Extent::Whole => pool.all,
            Extent::Beside { own, .. } => {
                let own = Fingerprint::of(own.iter().map(|f| (Path::new(&f.name), &f.stamp)));
                own.and(pool.plain)
            }
        };
        // Other presets are other params, which may need other files.
        let presets = self.tree.presets(&results_folder(set));
        let narrow = narrow.and(presets_fingerprint(&presets));
        if let Some(probed) = self.ledger.probes.get(id)
            && probed.holds(narrow, pool.all, self.now)
        {
            let (outcome, retry_at) = (probed.outcome.clone(), probed.retry_at);
            retry_at.into_iter().for_each(|at| self.judged.look_again(at));
            return Some(outcome);
        }
        let candidate = Candidate {
            root: self.rules.inbox.join(&set.place.path),
            folder: results_folder(set),
            name: set.name(),
            network: PathBuf::from(&set.network.name),
            files: pool.files.clone(),
            narrow,
            wide: pool.all,
        };
        // Nothing is remembered: permissions may change without the files.
        if let Some(why) = unreadable(&candidate.root, &self.own_files(set, pool)) {
            return Some(ProbeOutcome::Failed(why));
        }
        let outcome = self.prober.probe(&candidate)?;
        let probed = Probed::new(outcome, narrow, pool.all, self.ledger.probes.get(id), self.now);
        let outcome = probed.outcome.clone();
        probed.retry_at.into_iter().for_each(|at| self.judged.look_again(at));
        self.ledger.probes.insert(id.to_owned(), probed);
        Some(outcome)
    }

    /// Files that certainly belong to the set.
    fn own_files(&self, set: &Set<'_>, pool: &Pool) -> Vec<File> {
        let is_own = |f: &&File| match &set.extent {
            Extent::Whole => true,
            Extent::Beside { own, .. } => own.iter().any(|o| f.name.as_os_str() == o.name),
        };
        pool.files.iter().filter(is_own).cloned().collect()
    }

    fn ready(&mut self, set: &Set<'_>, id: &Path, pool: &Pool, used: &[PathBuf]) -> Verdict {
        let (files, whole) = match &set.extent {
            Extent::Whole => (pool.files.to_vec(), Some(set.place.stamp)),
            Extent::Beside { own, alone, .. } => {
                let own: Vec<&OsStr> = own.iter().map(|f| f.name.as_os_str()).collect();
                match self.members(set, &own, *alone, pool, used) {
                    Ok(files) => (files, None),
                    Err(verdict) => return verdict,
                }
            }
        };
        if let Some(reason) = &self.rules.paused {
            return Verdict::State(State::Blocked { reason: reason.clone() });
        }
        let marker =
            set.marker.map(|m| File { name: set.parent.path.join(&m.name), stamp: m.stamp });
        Verdict::Ready(Box::new(Submission {
            id: id.to_owned(),
            inbox: self.rules.inbox.clone(),
            folder: results_folder(set),
            name: set.name(),
            root: set.place.path.clone(),
            network: PathBuf::from(&set.network.name),
            files,
            whole,
            marker,
            problem: None,
            answer: Arc::default(),
        }))
    }

    /// Own files and the used ones, where the used ones are no other set's.
    fn members(
        &mut self,
        set: &Set<'_>,
        own: &[&OsStr],
        alone: bool,
        pool: &Pool,
        used: &[PathBuf],
    ) -> Result<Vec<File>, Verdict> {
        let is_own = |f: &File| own.iter().any(|name| f.name.as_os_str() == *name);
        let mut files: Vec<File> = pool.files.iter().filter(|f| is_own(f)).cloned().collect();
        for path in used {
            let at = pool.files.partition_point(|f| f.name < *path);
            let wanted: Vec<&File> =
                pool.files[at..].iter().take_while(|f| f.name.starts_with(path)).collect();
            if wanted.is_empty() {
                let missing = vec![path.display().to_string()];
                return Err(Verdict::State(State::WaitingFor { missing }));
            }
            for file in wanted.into_iter().filter(|f| !is_own(f)) {
                if !alone {
                    return Err(self.not_its_own(set, file));
                }
                files.push(file.clone());
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files.dedup_by(|a, b| a.name == b.name);
        Ok(files)
    }

    /// A used file that carries no name of the network, in a folder with several networks.
    fn not_its_own(&mut self, set: &Set<'_>, file: &File) -> Verdict {
        let path = set.place.path.join(&file.name);
        let name = file.name.as_os_str();
        if self.prober.is_network(name) && !is_params(name) && !self.declined.contains_key(&path) {
            let network = network_path(set);
            let reason = format!("it is a part of {}", network.display());
            let (stamp, part_of) = (file.stamp, Some(network));
            return self.decline(path, Declined { stamp, reason, part_of });
        }
        let reason = format!(
            "{} may belong to any of the networks beside it; put each network in a folder of its \
             own, or begin the file's name with the network's",
            path.display()
        );
        Verdict::State(State::Blocked { reason })
    }

    fn leftovers(&mut self, groups: &Groups<'_>) {
        for leftover in &groups.leftovers {
            let id = leftover.id();
            let seen = leftover.seen();
            let state = match leftover {
                Leftover::Folder(folder) => refused_folder(folder),
                Leftover::File(..) => None,
            };
            let state = state.unwrap_or_else(|| {
                if self.is_settled(seen) {
                    State::Unmatched { reason: self.unmatched_reason(leftover, &id) }
                } else {
                    State::Arriving { part: id.clone() }
                }
            });
            if let State::Unmatched { reason } = &state {
                self.put_aside(leftover, &id, seen, reason);
            }
            self.judged.items.push(Item { id, since: seen.first, state });
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

    fn put_aside(&mut self, leftover: &Leftover<'_>, id: &Path, seen: Seen, reason: &str) {
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
        if self.rules.paused.is_none() && self.ledger.announce(id, fingerprint(&files)) {
            let (id, reason) = (id.to_owned(), reason.to_owned());
            let inbox = self.rules.inbox.clone();
            let unmatched = Unmatched { id, inbox, root, files, whole, reason };
            self.judged.found.push(Found::Unmatched(Box::new(unmatched)));
        }
    }

    /// Links and special files that lie side by side with sets; and folders that cannot be read.
    fn links(&mut self, groups: &Groups<'_>) {
        for folder in &groups.shared {
            let refuse = |id: PathBuf, reason: Diagnostic| Item {
                id,
                since: folder.seen.first,
                state: State::Refused { reason },
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

fn listed(leftover: &Leftover<'_>) -> Vec<File> {
    match *leftover {
        Leftover::Folder(f) => pool::list(f, f),
        Leftover::File(f, file) => vec![pool::named(f, f, file)],
    }
}

fn network_path(set: &Set<'_>) -> PathBuf {
    set.place.path.join(&set.network.name)
}

fn results_folder(set: &Set<'_>) -> PathBuf {
    set.parent.path.clone()
}
