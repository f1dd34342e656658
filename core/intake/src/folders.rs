//! Folders that a claim works in, opened without following links.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fsync, openat};
use rustix::io::Errno;

use crate::claim_error::{ClaimError, system, to_errno};

type Result<T> = std::result::Result<T, ClaimError>;

const O_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A folder of the daemon, which may be given as a descriptor below `/proc/self/fd`.
pub(crate) const O_OWN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Enough for lookups and renames, also in a folder that may not be listed.
const O_WALK: OFlags = O_DIR.union(OFlags::PATH);

/// Opens a folder below the inbox component by component, so that no link is followed.
pub(crate) fn open_beneath(inbox: &Path, below: &Path) -> Result<OwnedFd> {
    let mut at = inbox.to_owned();
    let gone_or = |path: &Path, e| match e {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => ClaimError::Gone(path.to_owned()),
        e => system(path, e),
    };
    let mut dir = openat(CWD, inbox, O_WALK, Mode::empty()).map_err(|e| gone_or(inbox, e))?;
    for component in below.components() {
        at.push(component);
        dir = openat(&dir, component.as_os_str(), O_WALK, Mode::empty())
            .map_err(|e| gone_or(&at, e))?;
    }
    Ok(dir)
}

pub(crate) fn open_dir(above: &OwnedFd, name: &OsStr, shown: &Path) -> Result<OwnedFd> {
    openat(above, name, O_DIR, Mode::empty()).map_err(|e| system(shown, e))
}

pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| system(path, to_errno(&e)))
}

pub(crate) fn sync_dir(path: &Path) -> Result<()> {
    let dir = openat(CWD, path, O_OWN, Mode::empty()).map_err(|e| system(path, e))?;
    fsync_dir(&dir);
    Ok(())
}

/// Best effort: some file systems do not sync folders, and `O_PATH` descriptors cannot.
pub(crate) fn fsync_dir(dir: &OwnedFd) {
    if let Ok(readable) = openat(dir, ".", O_DIR, Mode::empty()) {
        let _ = fsync(readable);
    }
}
