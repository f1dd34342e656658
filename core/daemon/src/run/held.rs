//! A folder in which others can write, held open: what happens in it happens there, whatever they put
//! in place of its path meanwhile.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use onnxd_files::{folder, make_folder, own_folder};
use rustix::io::Errno;

/// A folder of results or originals.
#[derive(Debug)]
pub(crate) struct Held(OwnedFd);

impl Held {
    /// Opens a folder, and makes what is missing of its path. No component may be a link.
    pub(crate) fn make(path: &Path) -> io::Result<Held> {
        make_folder(path).map(Held).map_err(|e| named(path, &e))
    }

    /// Opens a folder that is there.
    pub(crate) fn open(path: &Path) -> io::Result<Held> {
        folder(path).map(Held).map_err(|e| named(path, &e))
    }

    /// The same, or nothing where there is no folder without links: none of ours is there then.
    pub(crate) fn open_if_there(path: &Path) -> io::Result<Option<Held>> {
        match folder(path) {
            Ok(folder) => Ok(Some(Held(folder))),
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
                _ => Err(e),
            },
        }
    }

    /// Makes a folder in it that only the daemon's user may enter, and holds that.
    pub(crate) fn make_private(&self, name: &OsStr) -> io::Result<Held> {
        let path = self.at(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        own_folder(&path).map(Held)
    }

    /// The path of the folder itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.at(OsStr::new(""))
    }

    /// The path of an entry, for as long as the folder is held.
    pub(crate) fn at(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name)
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel's words for a link on the way do not say what to do.
fn named(path: &Path, e: &io::Error) -> io::Error {
    match Errno::from_io_error(e) {
        Some(Errno::LOOP | Errno::NOTDIR) => {
            let text = "is reached through a symbolic link, or a file is in its way";
            io::Error::other(format!("{} {text}", path.display()))
        }
        Some(errno) => errno.into(),
        None => e.kind().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Whoever takes results away may also put a link in place of a folder.
    #[test]
    fn nothing_is_put_where_a_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("outbox/team")).unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        let held = Held::make(&root.join("outbox/team")).unwrap();
        fs::rename(root.join("outbox/team"), root.join("outbox/old")).unwrap();
        symlink(root.join("elsewhere"), root.join("outbox/team")).unwrap();
        fs::write(held.at("model".as_ref()), "1").unwrap();
        assert!(root.join("outbox/old/model").exists());
        let refused = Held::make(&root.join("outbox/team/net")).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        assert!(Held::open(&root.join("outbox/team")).is_err());
        assert_eq!(fs::read_dir(root.join("elsewhere")).unwrap().count(), 0);
    }
}
