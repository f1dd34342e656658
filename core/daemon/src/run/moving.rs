//! Moves and copies whole folders so that the target appears complete or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::layout::{make_dir, sync_dir};
use crate::conversion::files::{move_folder, remove_folder, unfinished};

/// Moves a folder to a place that is free, also across file systems, and makes both ends durable.
/// Repeating it after a crash is safe.
pub(crate) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    make_dir(parent(to))?;
    move_folder(from, to)?;
    sync_dir(parent(from))
}

/// A second folder with the same files: hard links where the file system permits, else copies.
/// `change` sees it before it appears.
pub(crate) fn link_new(
    from: &Path,
    to: &Path,
    change: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    make_dir(parent(to))?;
    let part = unfinished(from, to);
    remove_folder(&part)?;
    let linked = link_tree(from, &part).and_then(|()| change(&part));
    let done = linked.and_then(|()| move_folder(&part, to));
    if done.is_err() {
        // The failure is reported; the next try begins with removing this.
        let _ = remove_folder(&part);
    }
    done
}

fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link_tree(&from, &to)?;
        } else if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to)?;
            File::open(&to)?.sync_all()?;
        }
    }
    sync_dir(to)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(at: &Path) {
        fs::create_dir_all(at.join("sub")).unwrap();
        fs::write(at.join("a"), "1").unwrap();
        fs::write(at.join("sub/b"), "2").unwrap();
    }

    #[test]
    fn links_are_changed_before_they_appear() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        tree(&from);
        fs::create_dir_all(unfinished(&from, &to).join("left over")).unwrap();
        link_new(&from, &to, |part| fs::write(part.join("c"), "3")).unwrap();
        assert_eq!(fs::read(to.join("c")).unwrap(), b"3");
        assert_eq!(fs::read(to.join("a")).unwrap(), b"1");
        assert!(!from.join("c").exists());
        assert!(link_new(&from, &to, |_| Ok(())).is_err(), "nothing is replaced");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_move_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("x/y/to"));
        tree(&from);
        move_new(&from, &to).unwrap();
        assert!(!from.exists() && to.join("sub/b").exists());
    }
}
