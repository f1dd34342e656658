//! Whether the folder at the inbox's path is the inbox: its file system is mounted as it was before,
//! and no other daemon takes from it.
//!
//! The lock is the kernel's, on the folder itself, and goes with the process. File systems without
//! locks do without: two daemons then share an inbox, and each drop is taken by one of them.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The mounts of this process, as the kernel lists them.
const MOUNTS: &str = "/proc/self/mountinfo";

/// What is known about the folder.
#[derive(Debug)]
pub(crate) struct InboxFolder {
    inbox: PathBuf,
    /// The file that remembers the mount across restarts, if any.
    memory: Option<PathBuf>,
    /// The folder that was found to be mounted as before: device and inode.
    known: Option<(u64, u64)>,
    lock: Option<File>,
}

impl InboxFolder {
    pub(crate) fn new(inbox: &Path, memory: Option<PathBuf>) -> InboxFolder {
        InboxFolder { inbox: inbox.to_owned(), memory, known: None, lock: None }
    }

    /// Why the folder with this device and inode is not to be taken from, if so.
    pub(crate) fn check(&mut self, folder: (u64, u64)) -> Result<(), String> {
        if self.known != Some(folder) {
            (self.known, self.lock) = (None, None);
            self.check_mount()?;
            self.known = Some(folder);
        }
        if self.lock.is_none() {
            self.lock = lock(&self.inbox)?;
        }
        Ok(())
    }

    /// The folder went away: what comes next is looked at afresh.
    pub(crate) fn lost(&mut self) {
        (self.known, self.lock) = (None, None);
    }

    fn check_mount(&self) -> Result<(), String> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let Some(now) = fs::read(MOUNTS).ok().and_then(|list| mount_of(&self.inbox, &list)) else {
            return Ok(());
        };
        let written = fs::read(memory).unwrap_or_default();
        let before = remembered(&written, &self.inbox);
        if let Some(before) = before.filter(|before| is_missing(before, &now)) {
            return Err(format!(
                "the file system at {} is not mounted, and the folder {} in its place is not the \
                 inbox; mount it, or remove {} if the inbox is to lie here from now on",
                before.display(),
                self.inbox.display(),
                memory.display()
            ));
        }
        let text = [self.inbox.as_os_str().as_bytes(), b"\0", now.as_os_str().as_bytes()].concat();
        if text != written {
            let new = memory.with_extension("new");
            // On a full disk the next start, or the next mount, remembers it.
            let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, memory));
        }
        Ok(())
    }
}

fn lock(inbox: &Path) -> Result<Option<File>, String> {
    // Some file systems cannot open a folder for a lock: as those without locks.
    let Ok(folder) = File::open(inbox) else { return Ok(None) };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another onnxd with a state folder of its own takes the drops of {}; this one waits \
             until that ends",
            inbox.display()
        )),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The mount point that was remembered for this inbox.
fn remembered(text: &[u8], inbox: &Path) -> Option<PathBuf> {
    let mut parts = text.split(|b| *b == 0);
    let (of, mount) = (parts.next()?, parts.next()?);
    (of == inbox.as_os_str().as_bytes()).then(|| OsString::from_vec(mount.to_vec()).into())
}

/// The inbox lay on a file system that was mounted further down.
fn is_missing(before: &Path, now: &Path) -> bool {
    before != now && before.starts_with(now)
}

/// The mount point that a path lies on.
fn mount_of(path: &Path, list: &[u8]) -> Option<PathBuf> {
    let points = list.split(|b| *b == b'\n').filter_map(|line| {
        let point = line.split(|b| *b == b' ').nth(4)?;
        Some(PathBuf::from(OsString::from_vec(unescaped(point))))
    });
    points.filter(|point| path.starts_with(point)).max_by_key(|point| point.as_os_str().len())
}

/// Blanks and the like are written as `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            digits.iter().try_fold(0_u32, |n, d| Some(n * 8 + char::from(*d).to_digit(8)?))
        });
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                out.push(code);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        30 22 0:40 / /mnt/nfs rw - nfs4 server:/x rw\n\
        31 22 0:41 / /mnt/my\\040disk rw - ext4 /dev/sdb rw\n";

    #[test]
    fn the_innermost_mount_counts() {
        let of = |path: &str| mount_of(Path::new(path), LIST).unwrap();
        assert_eq!(of("/mnt/nfs/inbox"), Path::new("/mnt/nfs"));
        assert_eq!(of("/mnt/nfs2/inbox"), Path::new("/"));
        assert_eq!(of("/mnt/my disk/inbox"), Path::new("/mnt/my disk"));
        assert!(is_missing(Path::new("/mnt/nfs"), Path::new("/")));
        assert!(!is_missing(Path::new("/"), Path::new("/mnt/nfs")), "it was mounted since");
        assert!(!is_missing(Path::new("/"), Path::new("/")));
    }

    #[test]
    fn a_mount_that_is_gone_is_no_empty_inbox() {
        let dir = tempfile::tempdir().unwrap();
        let (inbox, memory) = (dir.path().join("inbox"), dir.path().join("memory"));
        fs::create_dir(&inbox).unwrap();
        let open = || InboxFolder::new(&inbox, Some(memory.clone()));
        open().check((1, 2)).unwrap();
        // As if the inbox itself had been a mount point at the last start.
        let path = inbox.as_os_str().as_bytes();
        fs::write(&memory, [path, b"\0", path].concat()).unwrap();
        let mut place = open();
        let why = place.check((1, 2)).unwrap_err();
        assert!(why.contains("is not mounted"), "{why}");
        assert!(place.check((1, 2)).is_err(), "and stays so");
        // Another inbox has its own history; a person may decide that this is it.
        fs::write(&memory, [&b"/other\0"[..], path].concat()).unwrap();
        open().check((1, 2)).unwrap();
    }

    #[test]
    fn one_daemon_takes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = InboxFolder::new(dir.path(), None);
        let mut second = InboxFolder::new(dir.path(), None);
        first.check((1, 1)).unwrap();
        first.check((1, 1)).unwrap();
        assert!(second.check((1, 1)).unwrap_err().contains("another onnxd"));
        first.lost();
        second.check((1, 1)).unwrap();
    }
}
