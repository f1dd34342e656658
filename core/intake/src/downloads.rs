//! Downloads that have not ended. Other temporary names are an orphan's once nothing changes them. A download that
//! broke off is gone on with, even after days, and without what it fetches the rest may be worth nothing.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use crate::tree::Stamp;

/// How the name of a file ends that is being fetched.
const UNFINISHED: &[u8] = b".incomplete";

/// Where clients of Hugging Face keep what they have fetched so far, in the folder that files will lie in. Its name is
/// that of a hidden folder, which is not looked at otherwise.
pub(crate) const HIDDEN: &str = ".cache";
const BELOW: [&str; 2] = ["huggingface", "download"];

/// Folders below it, and entries that are looked at.
const DEPTH_MAX: usize = 8;
const ENTRIES_MAX: usize = 10_000;

const OPEN_FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether a name is that of a file that is being fetched.
pub fn is_download(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let at = name.len().checked_sub(UNFINISHED.len());
    at.is_some_and(|at| at > 0 && name[at..].eq_ignore_ascii_case(UNFINISHED))
}

/// What is being fetched into a folder by clients of Hugging Face: paths relative to it, sorted.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = openat(CWD, folder, OPEN_FOLDER, Mode::empty()) else { return Vec::new() };
    hidden(folder).into_iter().map(|(path, _)| path).collect()
}

/// The same of a folder that is open, with the inodes.
pub(crate) fn hidden(folder: impl AsFd) -> Vec<(PathBuf, Stamp)> {
    let open = |dir: &dyn AsFd, name: &str| {
        openat(dir.as_fd(), name, OPEN_FOLDER, Mode::empty()).and_then(Dir::new)
    };
    let mut path = PathBuf::from(HIDDEN);
    let mut opened = open(&folder, HIDDEN);
    for name in BELOW {
        path.push(name);
        opened = opened.and_then(|dir| open(&dir.fd()?, name));
    }
    let (mut found, mut entries) = (Vec::new(), 0);
    if let Ok(dir) = opened {
        collect(dir, &path, (0, &mut entries), &mut found);
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    found
}

fn collect(
    mut dir: Dir,
    path: &Path,
    (depth, entries): (usize, &mut usize),
    found: &mut Vec<(PathBuf, Stamp)>,
) {
    while let Some(Ok(entry)) = dir.read() {
        *entries += 1;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if *entries > ENTRIES_MAX || name == "." || name == ".." {
            continue;
        }
        let Ok(fd) = dir.fd() else { return };
        let Ok(stat) = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_download(name) => {
                found.push((path.join(name), Stamp::from(&stat)));
            }
            FileType::Directory if depth < DEPTH_MAX => {
                let below = openat(fd, name, OPEN_FOLDER, Mode::empty()).and_then(Dir::new);
                if let Ok(below) = below {
                    collect(below, &path.join(name), (depth + 1, &mut *entries), found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_of_downloads() {
        for name in ["model.safetensors.incomplete", "a.INCOMPLETE"] {
            assert!(is_download(OsStr::new(name)), "{name}");
        }
        for name in [".incomplete", "incomplete", "a.incomplete.txt", "a.part"] {
            assert!(!is_download(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn what_clients_fetch_is_found_and_their_locks_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(".cache/huggingface/download").join(name);
        fs::create_dir_all(at("1_Pooling")).unwrap();
        assert!(below(dir.path()).is_empty());
        for name in ["b.etag.incomplete", "1_Pooling/a.incomplete", "b.lock", "b.metadata"] {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", at("c.incomplete")).unwrap();
        let found = below(dir.path());
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        let folder = ".cache/huggingface/download";
        let wanted = ["1_Pooling/a.incomplete", "b.etag.incomplete"];
        assert_eq!(names, wanted.map(|name| format!("{folder}/{name}")));
        assert!(below(&dir.path().join("none")).is_empty());
    }
}
