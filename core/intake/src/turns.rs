//! Turns of top folders: however many drops lie in one of them, it has one turn after the other.
//!
//! A top folder is a folder directly in the inbox; what lies in the inbox itself is one, too. Most
//! often it is a user or a team. Whoever waited longest is next.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

/// Top folders whose last turn is remembered; of more, the longest ago are forgotten.
const REMEMBERED_MAX: usize = 4_096;

/// The top folder of a path below the inbox: its first component, or nothing.
#[must_use]
pub fn top_folder(below: &Path) -> &OsStr {
    match below.components().next() {
        Some(Component::Normal(name)) => name,
        _ => OsStr::new(""),
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    last: HashMap<OsString, u64>,
    count: u64,
}

impl Turns {
    /// The one of `tops` whose last turn is longest ago; among equals the first by name.
    pub fn next<'k>(&self, tops: impl Iterator<Item = &'k OsStr>) -> Option<&'k OsStr> {
        tops.min_by_key(|top| (self.last.get(*top).copied().unwrap_or_default(), *top))
    }

    /// It was this one's turn.
    pub fn served(&mut self, top: &OsStr) {
        self.count += 1;
        self.last.insert(top.to_owned(), self.count);
        if self.last.len() > REMEMBERED_MAX {
            let recent = self.count.saturating_sub(REMEMBERED_MAX as u64 / 2);
            self.last.retain(|_, last| *last > recent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_folders_are_first_components() {
        for (path, top) in [("", ""), ("a", "a"), ("a/b/c", "a")] {
            assert_eq!(top_folder(Path::new(path)), top);
        }
    }

    #[test]
    fn whoever_waited_longest_is_next() {
        let mut turns = Turns::default();
        let all = ["a", "b", "c"].map(OsStr::new);
        let mut order = String::new();
        for step in 0..7 {
            // From the third step on there is a third one, which has never had a turn.
            let there = if step < 2 { &all[..2] } else { &all };
            let next = turns.next(there.iter().copied()).unwrap();
            turns.served(next);
            order.push_str(next.to_str().unwrap());
        }
        assert_eq!(order, "abcabca");
        assert_eq!(turns.next(std::iter::empty()), None);
    }

    #[test]
    fn many_top_folders_do_not_fill_the_memory() {
        let mut turns = Turns::default();
        (0..3 * REMEMBERED_MAX).for_each(|n| turns.served(OsStr::new(&n.to_string())));
        assert!(turns.last.len() <= REMEMBERED_MAX);
    }
}
