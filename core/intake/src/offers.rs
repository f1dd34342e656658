//! Complete drops that wait to be handed over, one top folder after the other.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};

use crate::submission::InboxNews;
use crate::turns::{Turns, top_folder};

/// What the latest look found, by top folder.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    waiting: BTreeMap<OsString, VecDeque<InboxNews>>,
    turns: Turns,
}

impl Offers {
    /// In place of what an earlier look found.
    pub(crate) fn replace(&mut self, found: Vec<InboxNews>) {
        self.waiting.clear();
        for news in found {
            self.waiting.entry(top_of(&news).to_owned()).or_default().push_back(news);
        }
    }

    /// The top folder whose turn it is, among those that may hand over more.
    fn turn(&self, may: impl Fn(&OsStr) -> bool) -> Option<&OsStr> {
        self.turns.next(self.waiting.keys().map(OsString::as_os_str).filter(|top| may(top)))
    }

    pub(crate) fn any(&self, may: impl Fn(&OsStr) -> bool) -> bool {
        self.turn(may).is_some()
    }

    /// The next one, which does not wait any more.
    pub(crate) fn take(&mut self, may: impl Fn(&OsStr) -> bool) -> Option<InboxNews> {
        let top = self.turn(may)?.to_owned();
        self.turns.served(&top);
        let waiting = self.waiting.get_mut(&top)?;
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&top);
        }
        next
    }

    /// How many of a top folder wait.
    pub(crate) fn count_of(&self, top: &OsStr) -> usize {
        self.waiting.get(top).map_or(0, VecDeque::len)
    }
}

/// The top folder of a drop.
pub(crate) fn top_of(news: &InboxNews) -> &OsStr {
    match news {
        InboxNews::Ready(submission) => top_folder(&submission.folder),
        InboxNews::Unmatched(unmatched) => {
            top_folder(unmatched.id.parent().unwrap_or(&unmatched.id))
        }
    }
}
