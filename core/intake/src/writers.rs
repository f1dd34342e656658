//! Which files are open for writing, as far as the system tells: a writer that pauses for longer
//! than the settle time has not finished.
//!
//! The kernel knows it of files of our own user. Of others, events tell: a file was changed, and has
//! not been closed since.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind};
use onnxd_files::{folder, is_open_for_writing, regular_beneath};

/// A file is waited for this long after its latest change, should its end have gone unnoticed: a
/// file can be cut without being opened.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Files that are followed at a time.
const FILES_MAX: usize = 100_000;

/// Files that changed and were not closed since, with the time of their latest change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers(Arc<Mutex<HashMap<PathBuf, Instant>>>);

impl Writers {
    /// Follows one event.
    pub(crate) fn note(&self, event: &Event, now: Instant) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What happened meanwhile is not known.
        if event.need_rescan() || open.len() >= FILES_MAX {
            open.clear();
        }
        match (&event.kind, event.paths.as_slice()) {
            (EventKind::Modify(ModifyKind::Data(_)), [path]) => {
                open.insert(path.clone(), now);
            }
            (EventKind::Modify(ModifyKind::Name(RenameMode::Both)), [from, to]) => {
                if let Some(changed) = open.remove(from) {
                    open.insert(to.clone(), changed);
                }
            }
            (
                EventKind::Access(AccessKind::Close(AccessMode::Write))
                // Another file has the name from now on, or none.
                | EventKind::Modify(ModifyKind::Name(RenameMode::To))
                | EventKind::Create(_)
                | EventKind::Remove(_),
                paths,
            ) => {
                for path in paths {
                    open.remove(path);
                }
            }
            _ => {}
        }
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn has(&self, path: &Path, now: Instant) -> bool {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(path).is_some_and(|changed| now.saturating_duration_since(*changed) < LONGEST)
    }

    /// The first of the files in the folder `root` that is open for writing.
    pub(crate) fn first(
        &self,
        root: &Path,
        names: impl IntoIterator<Item = PathBuf>,
        now: Instant,
    ) -> Option<PathBuf> {
        let folder = folder(root).ok()?;
        let is_open = |name: &PathBuf| {
            let opened = regular_beneath(&folder, name);
            let told = opened.ok().and_then(|opened| is_open_for_writing(&opened));
            told.unwrap_or_else(|| self.has(&root.join(name), now))
        };
        names.into_iter().find(is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, Flag, RemoveKind};

    fn event(kind: EventKind, paths: &[&str]) -> Event {
        paths.iter().fold(Event::new(kind), |event, path| event.add_path(path.into()))
    }

    const CHANGED: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));

    #[test]
    fn a_file_is_open_from_its_change_until_it_is_closed() {
        let (writers, now) = (Writers::default(), Instant::now());
        let note = |kind, paths: &[&str]| writers.note(&event(kind, paths), now);
        let has = |path: &str| writers.has(Path::new(path), now);
        note(EventKind::Create(CreateKind::File), &["/a"]);
        assert!(!has("/a"));
        note(CHANGED, &["/a"]);
        assert!(has("/a") && !has("/b"));
        note(EventKind::Access(AccessKind::Close(AccessMode::Read)), &["/a"]);
        assert!(has("/a"));
        note(EventKind::Access(AccessKind::Close(AccessMode::Write)), &["/a"]);
        assert!(!has("/a"));
        note(CHANGED, &["/a"]);
        assert!(!writers.has(Path::new("/a"), now + LONGEST), "its end went unnoticed");
        note(EventKind::Remove(RemoveKind::File), &["/a"]);
        assert!(!has("/a"));
    }

    #[test]
    fn a_renamed_file_is_still_open() {
        let (writers, now) = (Writers::default(), Instant::now());
        let name = |mode| EventKind::Modify(ModifyKind::Name(mode));
        let note = |kind, paths: &[&str]| writers.note(&event(kind, paths), now);
        note(CHANGED, &["/a.part"]);
        note(CHANGED, &["/a"]);
        note(name(RenameMode::From), &["/a.part"]);
        note(name(RenameMode::To), &["/a"]);
        assert!(!writers.has(Path::new("/a"), now), "what was there is gone");
        note(name(RenameMode::Both), &["/a.part", "/a"]);
        assert!(writers.has(Path::new("/a"), now) && !writers.has(Path::new("/a.part"), now));
        writers.note(&Event::new(EventKind::Other).set_flag(Flag::Rescan), now);
        assert!(!writers.has(Path::new("/a"), now), "events were lost");
    }
}
