//! Moves a complete set out of the inbox by renames, all or nothing, repeatable after a crash.
//!
//! The plan is saved before the first rename. Executing it again finishes what is left: a source
//! that is gone and whose destination is there was moved. Every file is compared with what the scan
//! saw, before and after its move; if it changed, everything goes back.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fsync, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::copy;
use crate::names::Names;
use crate::scan::{ENTRIES_MAX, Limits, scan_opened};
use crate::submission::File;
use crate::tree::Stamp;

/// What to move where. Fields are public so that a job record can show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Absolute path of the inbox.
    pub inbox: PathBuf,
    /// Path below the inbox that file names are relative to.
    pub root: PathBuf,
    /// The folder `root` itself, if it is moved as a whole.
    pub whole: Option<Stamp>,
    /// Files relative to `root`.
    pub files: Vec<File>,
    /// Marker file below the inbox, removed after the move.
    pub marker: Option<File>,
    /// Absolute folder that becomes the new root; only its parents need to exist.
    pub dest: PathBuf,
}

/// Why nothing was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// A file is not what the scan saw. It is offered again once it has settled.
    Changed(PathBuf),
    /// Neither source nor destination exists.
    Gone(PathBuf),
    /// The system does not permit it; trying again at once is useless.
    Blocked(Diagnostic),
    /// Disk full, input or output error.
    Failed(Diagnostic),
    /// Something was touched while it was moved, and its old place is taken by a newer file: the
    /// older one stays in the destination.
    Kept(PathBuf),
}

impl ClaimError {
    /// In the words of the report.
    pub fn diagnostic(&self) -> Diagnostic {
        let input = |what: String| Diagnostic::new(Code::Unreadable, what);
        match self {
            ClaimError::Changed(path) => {
                input(format!("{} changed while it was being taken", path.display()))
                    .help("Nothing to do: it is taken once it has settled.")
            }
            ClaimError::Gone(path) => {
                input(format!("{} went away while it was being taken", path.display()))
            }
            ClaimError::Kept(path) => {
                input(format!("{} was replaced while it was being taken", path.display()))
                    .help("The older file is in the job folder; the newer one is taken by itself.")
            }
            ClaimError::Blocked(d) | ClaimError::Failed(d) => d.clone(),
        }
    }
}

type Result<T> = std::result::Result<T, ClaimError>;

impl Plan {
    /// Moves what is not moved yet. On any error everything is where it was before. `names` are those
    /// of the scan.
    pub fn execute(&self, names: &Names) -> Result<()> {
        let parent = self.dest.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(|e| system(parent, to_errno(&e)))?;
        match self.whole {
            Some(folder) => self.move_folder(&folder, names)?,
            None => self.move_files()?,
        }
        self.remove_marker();
        sync_dir(parent)
    }

    /// Folder above a path below the inbox, opened without following links.
    fn open_parent<'p>(&self, below: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
        let name = below.file_name().ok_or_else(|| ClaimError::Gone(self.inbox.clone()))?;
        let parent = below.parent().unwrap_or(Path::new(""));
        Ok((open_beneath(&self.inbox, parent)?, name))
    }

    fn move_folder(&self, folder: &Stamp, names: &Names) -> Result<()> {
        let source = self.inbox.join(&self.root);
        let (above, name) = match self.open_parent(&self.root) {
            Err(ClaimError::Gone(_)) if is_filled(&self.dest) => {
                return self.check_moved_folder(names);
            }
            opened => opened?,
        };
        let here = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Stamp::from(&s));
        let is_ours = here.is_ok_and(|s| (s.dev, s.ino) == (folder.dev, folder.ino));
        match (is_ours, is_filled(&self.dest)) {
            (false, true) => return self.check_moved_folder(names),
            (false, false) if here == Err(Errno::NOENT) => return Err(ClaimError::Gone(source)),
            (false, false) if here.is_ok() => return Err(ClaimError::Changed(source)),
            (false, false) => return Err(system(&source, here.err().unwrap_or(Errno::IO))),
            // The remainder of a copy that was complete.
            (true, true) => {
                self.check_moved_folder(names)?;
                return copy::remove_sources(&above, name, self);
            }
            (true, false) => {}
        }
        self.check_folder(open_dir(&above, name, &source)?, names, Stamp::same_content)?;
        // A plain rename of a folder replaces an empty folder only.
        match renameat(&above, name, CWD, &self.dest) {
            Ok(()) => {}
            Err(Errno::XDEV) => return copy::folder(&above, name, self, names),
            Err(e) => return Err(system(&source, e)),
        }
        if let Err(changed) = self.check_moved_folder(names) {
            return match renameat_with(CWD, &self.dest, &above, name, RenameFlags::NOREPLACE) {
                Ok(()) => Err(changed),
                Err(_) => Err(ClaimError::Kept(source)),
            };
        }
        fsync_dir(&above);
        Ok(())
    }

    fn check_moved_folder(&self, names: &Names) -> Result<()> {
        let name = self.dest.file_name().unwrap_or_default();
        let parent = self.dest.parent().unwrap_or(Path::new("/"));
        let parent = openat(CWD, parent, O_OWN, Mode::empty()).map_err(|e| system(parent, e))?;
        // After a copy the inode is another; size and time are kept.
        self.check_folder(open_dir(&parent, name, &self.dest)?, names, Stamp::same_bytes)
    }

    /// The folder holds exactly the files of the plan, as the scan saw them.
    pub(crate) fn check_folder(
        &self,
        folder: OwnedFd,
        names: &Names,
        same: fn(&Stamp, &Stamp) -> bool,
    ) -> Result<()> {
        let source = self.inbox.join(&self.root);
        let depth_max = self.files.iter().map(|f| f.name.components().count()).max().unwrap_or(0);
        let limits = Limits { depth_max, entries_max: self.files.len() + ENTRIES_MAX };
        let tree = scan_opened(folder, names, limits).map_err(|e| system(&source, e))?;
        let mut count = 0;
        tree.each_file(&mut |_, _| count += 1);
        for file in &self.files {
            match tree.find(&file.name) {
                Some(now) if same(&now.stamp, &file.stamp) => {}
                _ => return Err(ClaimError::Changed(source.join(&file.name))),
            }
        }
        match count == self.files.len() && tree.first_link().is_none() {
            true => Ok(()),
            false => Err(ClaimError::Changed(source)),
        }
    }

    fn move_files(&self) -> Result<()> {
        make_dir(&self.dest)?;
        let mut moved = Vec::new();
        for file in &self.files {
            if let Err(e) = self.move_file(file) {
                // This one too may have been moved before it was found to be changed.
                moved.push(file);
                return Err(self.move_back(&moved).err().unwrap_or(e));
            }
            moved.push(file);
        }
        self.sync_folders()
    }

    fn move_file(&self, file: &File) -> Result<()> {
        let below = self.root.join(&file.name);
        let source = self.inbox.join(&below);
        let dest = self.dest.join(&file.name);
        let was_moved = || match lstat(&dest) {
            Some(there) if there.same_bytes(&file.stamp) => Ok(()),
            Some(_) => Err(ClaimError::Changed(source.clone())),
            None => Err(ClaimError::Gone(source.clone())),
        };
        let (above, name) = match self.open_parent(&below) {
            Err(ClaimError::Gone(_)) => return was_moved(),
            opened => opened?,
        };
        let here = match statat(&above, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Stamp::from(&stat),
            Err(Errno::NOENT) => return was_moved(),
            Err(e) => return Err(system(&source, e)),
        };
        if lstat(&dest).is_some() {
            // Either the remainder of a copy, or a new drop of the same name, which stays.
            was_moved()?;
            if here.same_content(&file.stamp) {
                unlinkat(&above, name, AtFlags::empty()).map_err(|e| system(&source, e))?;
            }
            return Ok(());
        }
        if !here.same_content(&file.stamp) {
            return Err(ClaimError::Changed(source));
        }
        make_dir(dest.parent().unwrap_or(&self.dest))?;
        match rename_new(&above, name, CWD, &dest) {
            Ok(()) => was_moved(),
            Err(Errno::XDEV) => copy::file(&above, name, &file.stamp, &source, &dest),
            Err(e) => Err(system(&source, e)),
        }
    }

    /// Puts files back where they were, latest first.
    fn move_back(&self, moved: &[&File]) -> Result<()> {
        let mut kept = None;
        for file in moved.iter().rev() {
            let dest = self.dest.join(&file.name);
            if lstat(&dest).is_none() {
                continue;
            }
            let below = self.root.join(&file.name);
            let back = self.open_parent(&below).and_then(|(above, name)| {
                match rename_new(CWD, dest.as_os_str(), &above, Path::new(name)) {
                    Err(Errno::XDEV) => copy::file_back(&dest, &above, name),
                    other => other.map_err(|e| system(&dest, e)),
                }
            });
            if back.is_err() {
                kept = Some(self.inbox.join(below));
            }
        }
        // Only an empty one goes; what is kept stays.
        let _ = fs::remove_dir(&self.dest);
        kept.map_or(Ok(()), |path| Err(ClaimError::Kept(path)))
    }

    /// Makes the renames durable; removes the sub-folders of the inbox that they emptied.
    fn sync_folders(&self) -> Result<()> {
        let mut folders: Vec<&Path> =
            self.files.iter().flat_map(|f| f.name.ancestors().skip(1)).collect();
        folders.sort();
        folders.dedup();
        for folder in folders.iter().rev() {
            sync_dir(&self.dest.join(folder))?;
            let below = self.root.join(folder);
            if !folder.as_os_str().is_empty() {
                let Ok((above, name)) = self.open_parent(&below) else { continue };
                // Not empty: something in it was not part of the claim, and stays.
                let _ = unlinkat(&above, name, AtFlags::REMOVEDIR);
            }
        }
        if let Ok(root) = open_beneath(&self.inbox, &self.root) {
            fsync_dir(&root);
        }
        Ok(())
    }

    fn remove_marker(&self) {
        let Some(marker) = &self.marker else { return };
        let Ok((above, name)) = self.open_parent(&marker.name) else { return };
        let here = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Stamp::from(&s));
        if here.is_ok_and(|s| s.same_content(&marker.stamp)) {
            // A marker that stays is left over, shown as such, and does no harm.
            let _ = unlinkat(&above, name, AtFlags::empty());
        }
    }
}

const O_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A folder of the daemon, which may be given as a descriptor below `/proc/self/fd`.
const O_OWN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Enough for lookups and renames, also in a folder that may not be listed.
const O_WALK: OFlags = O_DIR.union(OFlags::PATH);

/// Opens a folder below the inbox component by component, so that no link is followed.
fn open_beneath(inbox: &Path, below: &Path) -> Result<OwnedFd> {
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

/// Renames without replacing anything.
fn rename_new(
    from: impl AsFd,
    name: &OsStr,
    to: impl AsFd,
    dest: &Path,
) -> std::result::Result<(), Errno> {
    match renameat_with(&from, name, &to, dest, RenameFlags::NOREPLACE) {
        // Some network file systems do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(&to, dest, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(&from, name, &to, dest),
            Err(e) => Err(e),
            Ok(_) => Err(Errno::EXIST),
        },
        other => other,
    }
}

fn lstat(path: &Path) -> Option<Stamp> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|s| Stamp::from(&s))
}

fn is_filled(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| system(path, to_errno(&e)))
}

fn sync_dir(path: &Path) -> Result<()> {
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

pub(crate) fn to_errno(e: &std::io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Whose problem an error of the system is.
pub(crate) fn system(path: &Path, e: Errno) -> ClaimError {
    let shown = path.display();
    match e {
        Errno::NOENT => ClaimError::Gone(path.to_owned()),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ClaimError::Blocked(
            Diagnostic::new(Code::Disk, format!("cannot move {shown}: {e}")).help(
                "onnxd needs write permission on the folder it is in, and on the folder itself if \
                 it is one; a shared inbox needs a common group and umask 002.",
            ),
        ),
        e => {
            let code = Code::of_write(&e.into());
            ClaimError::Failed(Diagnostic::new(code, format!("moving {shown} failed: {e}")))
        }
    }
}
