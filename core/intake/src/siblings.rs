//! What answers that are still out may change for other sets of the same folder.
//!
//! A file that turns out to be no network belongs to one of its neighbours, or makes the folder a
//! drop as a whole. A set must not be taken without what is its own, so it waits for answers about
//! neighbours that share its name, and for all of them where it might be the only network.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use onnxd_diagnostics::Class;

use crate::group::{Extent, Set};
use crate::known::SetKnowledge;
use crate::names::stem;
use crate::status::InboxState;
use crate::submission::ProbeOutcome;
use crate::tree::{Folder, Stamp};

/// Of a folder with more networks none is noted: it is not near the last.
const NOTED_MAX: usize = 1_024;

/// One folder with sets side by side.
#[derive(Default)]
struct FolderSets<'t> {
    /// Sets without an answer.
    open: usize,
    /// All others, and those among them that can be taken as they are.
    settled: usize,
    complete: usize,
    /// Names and stems of the open ones, and all beginnings of their names.
    open_names: HashSet<&'t [u8]>,
    open_beginnings: HashSet<&'t [u8]>,
}

/// The folders in which something is open.
pub(crate) struct Siblings<'t>(HashMap<*const Folder, FolderSets<'t>>);

impl<'t> Siblings<'t> {
    pub(crate) fn from_sets(sets: &[Set<'t>], known: &[SetKnowledge]) -> Siblings<'t> {
        let mut places: HashMap<*const Folder, FolderSets<'t>> = HashMap::new();
        for (set, known) in sets.iter().zip(known) {
            if let Extent::Whole = set.extent {
                continue;
            }
            let place = places.entry(std::ptr::from_ref(set.place)).or_default();
            if matches!(known, SetKnowledge::Open | SetKnowledge::Unasked) {
                place.open += 1;
                let name = set.network.name.as_os_str();
                place.open_names.extend([name.as_bytes(), stem(name)]);
                place.open_beginnings.extend(beginnings(name));
            } else {
                place.settled += 1;
                place.complete += usize::from(is_complete(known));
            }
        }
        Siblings(places)
    }

    /// Whether an answer about another set may change what belongs to this one, which has its own.
    pub(crate) fn may_change(&self, set: &Set<'t>) -> bool {
        let Extent::Beside { shared, .. } = &set.extent else { return false };
        let Some(place) = self.0.get(&std::ptr::from_ref(set.place)) else { return false };
        if place.open == 0 {
            return false;
        }
        let name = set.network.name.as_os_str();
        let may_be_only = place.settled <= 1;
        // The inbox is never a drop as a whole.
        let gains = !shared.is_empty() || !set.place.path.as_os_str().is_empty();
        let owned = [name.as_bytes(), stem(name)].iter().any(|n| place.open_beginnings.contains(n));
        let owns = beginnings(name).any(|b| place.open_names.contains(b));
        owned || owns || (may_be_only && gains)
    }
}

impl Siblings<'_> {
    /// Remembers which networks lie beside others that can be taken: these go one after the other,
    /// and the last one is no other drop because of that. True if one is not complete by itself
    /// and no other is left, so that the groups have to be made again.
    pub(crate) fn note(
        &self,
        sets: &[Set<'_>],
        knowledge: &[SetKnowledge],
        beside: &mut HashMap<PathBuf, Stamp>,
    ) -> bool {
        let mut regroup = false;
        for (set, knowledge) in sets.iter().zip(knowledge) {
            let Some(place) = self.0.get(&std::ptr::from_ref(set.place)) else { continue };
            let others = place.complete - usize::from(is_complete(knowledge));
            let path = || set.network_path();
            let may_be = !matches!(knowledge, SetKnowledge::Answer(ProbeOutcome::Waiting { .. }));
            match place.open + place.settled {
                1 if !may_be => regroup |= beside.remove(&path()).is_some(),
                1 => {}
                2..=NOTED_MAX if may_be && others > 0 => {
                    beside.insert(path(), set.network.stamp);
                }
                _ if !may_be && !beside.is_empty() => {
                    beside.remove(&path());
                }
                _ => {}
            }
        }
        regroup
    }
}

/// Whether a set is complete without anything that may belong to others.
fn is_complete(known: &SetKnowledge) -> bool {
    match known {
        SetKnowledge::Answer(ProbeOutcome::Complete { .. })
        | SetKnowledge::State(InboxState::HandedOver) => true,
        SetKnowledge::Answer(ProbeOutcome::Failed(why)) => why.class != Class::Environment,
        _ => false,
    }
}

/// A name, and what lies before each of its dots.
fn beginnings(name: &OsStr) -> impl Iterator<Item = &[u8]> {
    let name = name.as_bytes();
    let dots = name.iter().enumerate().filter(|(at, byte)| **byte == b'.' && *at > 0);
    dots.map(|(at, _)| &name[..at]).chain([name])
}
