//! Questions to front-ends: which networks wait, which are asked about, and what was answered.
//!
//! A child is asked about several networks of one owner in one top folder. So what a file does to
//! the process that reads it concerns nobody else's files, and top folders take turns.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onnxd_intake::{Candidate, Fingerprint, ProbeOutcome, Turns, top_folder};

use crate::conversion::Plugins;

/// Children that are asked at the same time, and those of one top folder among them.
const CHILDREN_MAX: usize = 4;
const OF_ONE_MAX: usize = 3;
/// Networks that one child is asked about, one after the other.
pub(crate) const BATCH_MAX: usize = 16;
/// Answers that wait to be fetched; of drops that went away meanwhile none is.
const ANSWERS_MAX: usize = 4_096;

/// Who is asked together: top folder and owner.
type BatchKey = (OsString, u32);

/// Networks that one child is asked about.
#[derive(Debug)]
pub(crate) struct Batch {
    top: OsString,
    pub(crate) candidates: Vec<Candidate>,
}

/// An answer, and what it is about.
#[derive(Debug)]
struct Answer {
    plugins: Arc<Plugins>,
    narrow: Fingerprint,
    wide: Option<Fingerprint>,
    outcome: ProbeOutcome,
}

/// What is known of a question.
#[derive(Debug)]
pub(crate) enum Fetched {
    Answer(ProbeOutcome),
    /// It is asked at the moment.
    Pending,
    Unasked,
}

#[derive(Debug, Default)]
pub(crate) struct Desk {
    waiting: BTreeMap<BatchKey, VecDeque<Candidate>>,
    asked: HashSet<PathBuf>,
    answers: HashMap<PathBuf, Answer>,
    children: HashMap<OsString, usize>,
    turns: Turns,
}

/// The file that a question is about.
pub(crate) fn network(candidate: &Candidate) -> PathBuf {
    candidate.root.join(&candidate.network)
}

impl Desk {
    /// The answer of these plugins about these files, if it has come.
    pub(crate) fn fetch(&mut self, candidate: &Candidate, plugins: &Arc<Plugins>) -> Fetched {
        let network = network(candidate);
        if self.asked.contains(&network) {
            return Fetched::Pending;
        }
        // An answer about files, or of plugins, that have changed since is of no use.
        let Some(answer) = self.answers.remove(&network) else { return Fetched::Unasked };
        let waits = matches!(answer.outcome, ProbeOutcome::Waiting { .. });
        let same = Arc::ptr_eq(&answer.plugins, plugins)
            && answer.narrow == candidate.narrow
            && answer.wide.is_some() == candidate.wide.is_some()
            && (answer.wide == candidate.wide || !waits);
        if same { Fetched::Answer(answer.outcome) } else { Fetched::Unasked }
    }

    /// These are to be asked about, in place of all that waited before.
    pub(crate) fn replace(&mut self, wanted: Vec<Candidate>) {
        self.waiting.clear();
        for candidate in wanted {
            let top = top_folder(&candidate.folder).to_owned();
            self.waiting.entry((top, candidate.owner)).or_default().push_back(candidate);
        }
    }

    /// The next ones to ask about, if another child may be asked.
    pub(crate) fn begin(&mut self) -> Option<Batch> {
        if self.children.values().sum::<usize>() >= CHILDREN_MAX {
            return None;
        }
        let free = |top: &&OsStr| self.children.get(*top).is_none_or(|n| *n < OF_ONE_MAX);
        let tops = self.waiting.keys().map(|(top, _)| top.as_os_str());
        let top = self.turns.next(tops.filter(free))?.to_owned();
        self.turns.served(&top);
        // Owners of one top folder share its turns; the one with most to ask goes first.
        let group = self.waiting.iter().filter(|((of, _), _)| *of == top);
        let (group, _) = group.max_by_key(|(_, waiting)| waiting.len())?;
        let group = group.clone();
        let waiting = self.waiting.get_mut(&group)?;
        let candidates: Vec<Candidate> = waiting.drain(..waiting.len().min(BATCH_MAX)).collect();
        if waiting.is_empty() {
            self.waiting.remove(&group);
        }
        self.asked.extend(candidates.iter().map(network));
        *self.children.entry(top.clone()).or_default() += 1;
        Some(Batch { top, candidates })
    }

    /// A child has answered.
    pub(crate) fn answered(
        &mut self,
        candidate: &Candidate,
        plugins: &Arc<Plugins>,
        outcome: ProbeOutcome,
    ) {
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.clear();
        }
        let network = network(candidate);
        self.asked.remove(&network);
        let (narrow, wide) = (candidate.narrow, candidate.wide);
        self.answers
            .insert(network, Answer { plugins: Arc::clone(plugins), narrow, wide, outcome });
    }

    /// A child has ended; what it did not answer can be asked again.
    pub(crate) fn end(&mut self, batch: &Batch) {
        for candidate in &batch.candidates {
            self.asked.remove(&network(candidate));
        }
        if let Some(n) = self.children.get_mut(&batch.top) {
            *n -= 1;
            if *n == 0 {
                self.children.remove(&batch.top);
            }
        }
    }

    /// Whether a network is asked about and has no answer.
    pub(crate) fn is_asked(&self, network: &Path) -> bool {
        self.asked.contains(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(folder: &str, name: &str, owner: u32) -> Candidate {
        let print = Fingerprint::of([]);
        Candidate {
            root: Path::new("/inbox").join(folder),
            folder: folder.into(),
            name: name.into(),
            network: name.into(),
            owner,
            files: Vec::new().into(),
            narrow: print,
            wide: None,
        }
    }

    /// Top folder, owner of the first and number of each batch that may begin.
    fn batches(desk: &mut Desk) -> Vec<(String, u32, usize)> {
        let begun = std::iter::from_fn(|| desk.begin());
        begun
            .map(|b| {
                let top = b.top.to_string_lossy().into_owned();
                (top, b.candidates[0].owner, b.candidates.len())
            })
            .collect()
    }

    #[test]
    fn top_folders_take_turns_and_one_leaves_children_for_others() {
        let mut desk = Desk::default();
        let many = (0..100).map(|n| candidate("a/x", &n.to_string(), 1));
        desk.replace(many.chain([candidate("b", "one", 1), candidate("c", "one", 1)]).collect());
        let begun = batches(&mut desk);
        let name = |(top, _, n): &(String, u32, usize)| format!("{top}{n}");
        let begun: Vec<String> = begun.iter().map(name).collect();
        assert_eq!(begun, ["a16", "b1", "c1", "a16"]);
    }

    #[test]
    fn a_child_sees_files_of_one_owner_only() {
        let mut desk = Desk::default();
        let all = [candidate("a", "1", 7), candidate("a", "2", 8), candidate("a", "3", 7)];
        desk.replace(all.into());
        assert_eq!(batches(&mut desk), [("a".into(), 7, 2), ("a".into(), 8, 1)]);
    }

    #[test]
    fn an_answer_is_for_the_files_and_plugins_that_were_asked() {
        let (mut desk, plugins) = (Desk::default(), Arc::new(Plugins::default()));
        let asked = candidate("a", "net", 1);
        assert!(matches!(desk.fetch(&asked, &plugins), Fetched::Unasked));
        desk.replace(vec![asked.clone()]);
        let batch = desk.begin().unwrap();
        assert!(desk.is_asked(&network(&asked)));
        assert!(matches!(desk.fetch(&asked, &plugins), Fetched::Pending));
        let no = || ProbeOutcome::NotMine("no".into());
        desk.answered(&asked, &plugins, no());
        desk.end(&batch);
        assert!(matches!(desk.fetch(&asked, &plugins), Fetched::Answer(_)));
        desk.answered(&asked, &plugins, no());
        assert!(matches!(desk.fetch(&asked, &Arc::default()), Fetched::Unasked));
        desk.answered(&asked, &plugins, no());
        let wide = Candidate { wide: Some(Fingerprint::of([])), ..asked };
        assert!(matches!(desk.fetch(&wide, &plugins), Fetched::Unasked));
    }
}
