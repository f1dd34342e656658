//! Moves a complete set out of the inbox by renames, all or nothing, repeatable after a crash.
//!
//! The plan is saved before the first rename. Executing it again finishes what is left: a source
//! that is gone and whose destination is there was moved. Every file is compared with what the scan
//! saw, before and after its move; if it changed, everything goes back.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, RenameFlags, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::claim_error::{ClaimError, system, to_errno};
use crate::copy;
use crate::file::DropFile;
use crate::folders::{O_OWN, fsync_dir, make_dir, open_beneath, open_dir, sync_dir};
use crate::names::NameRules;
use crate::plan::MovePlan;
use crate::tree::Stamp;

type Result<T> = std::result::Result<T, ClaimError>;

impl MovePlan {
    /// Moves what is not moved yet. On any error everything is where it was before. `names` are those
    /// of the scan.
    pub fn execute(&self, names: &NameRules) -> Result<()> {
        let parent = self.dest.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(|e| system(parent, to_errno(&e)))?;
        match self.set.whole {
            Some(folder) => self.move_folder(&folder, names)?,
            None => self.move_files()?,
        }
        self.remove_marker();
        sync_dir(parent)
    }

    /// Folder above a path below the inbox, opened without following links.
    fn open_parent<'p>(&self, below: &'p Path) -> Result<(OwnedFd, &'p OsStr)> {
        let name = below.file_name().ok_or_else(|| ClaimError::Gone(self.set.inbox.clone()))?;
        let parent = below.parent().unwrap_or(Path::new(""));
        Ok((open_beneath(&self.set.inbox, parent)?, name))
    }

    fn move_folder(&self, folder: &Stamp, names: &NameRules) -> Result<()> {
        let source = self.set.root_dir();
        let (above, name) = match self.open_parent(&self.set.root) {
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

    fn check_moved_folder(&self, names: &NameRules) -> Result<()> {
        let name = self.dest.file_name().unwrap_or_default();
        let parent = self.dest.parent().unwrap_or(Path::new("/"));
        let parent = openat(CWD, parent, O_OWN, Mode::empty()).map_err(|e| system(parent, e))?;
        // After a copy the inode is another; size and time are kept.
        self.check_folder(open_dir(&parent, name, &self.dest)?, names, Stamp::same_bytes)
    }

    fn move_files(&self) -> Result<()> {
        make_dir(&self.dest)?;
        let mut moved = Vec::new();
        for file in &self.set.files {
            if let Err(e) = self.move_file(file) {
                // This one too may have been moved before it was found to be changed.
                moved.push(file);
                return Err(self.move_back(&moved).err().unwrap_or(e));
            }
            moved.push(file);
        }
        self.sync_folders()
    }

    fn move_file(&self, file: &DropFile) -> Result<()> {
        let below = self.set.root.join(&file.name);
        let source = self.set.inbox.join(&below);
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
    fn move_back(&self, moved: &[&DropFile]) -> Result<()> {
        let mut kept = None;
        for file in moved.iter().rev() {
            let dest = self.dest.join(&file.name);
            if lstat(&dest).is_none() {
                continue;
            }
            let below = self.set.root.join(&file.name);
            let back = self.open_parent(&below).and_then(|(above, name)| {
                match rename_new(CWD, dest.as_os_str(), &above, Path::new(name)) {
                    Err(Errno::XDEV) => copy::file_back(&dest, &above, name),
                    other => other.map_err(|e| system(&dest, e)),
                }
            });
            if back.is_err() {
                kept = Some(self.set.inbox.join(below));
            }
        }
        // Only an empty one goes; what is kept stays.
        let _ = fs::remove_dir(&self.dest);
        kept.map_or(Ok(()), |path| Err(ClaimError::Kept(path)))
    }

    /// Makes the renames durable; removes the sub-folders of the inbox that they emptied.
    fn sync_folders(&self) -> Result<()> {
        let mut folders: Vec<&Path> =
            self.set.files.iter().flat_map(|f| f.name.ancestors().skip(1)).collect();
        folders.sort();
        folders.dedup();
        for folder in folders.iter().rev() {
            sync_dir(&self.dest.join(folder))?;
            let below = self.set.root.join(folder);
            if !folder.as_os_str().is_empty() {
                let Ok((above, name)) = self.open_parent(&below) else { continue };
                // Not empty: something in it was not part of the claim, and stays.
                let _ = unlinkat(&above, name, AtFlags::REMOVEDIR);
            }
        }
        if let Ok(root) = open_beneath(&self.set.inbox, &self.set.root) {
            fsync_dir(&root);
        }
        Ok(())
    }

    fn remove_marker(&self) {
        let Some(marker) = &self.set.marker else { return };
        let Ok((above, name)) = self.open_parent(&marker.name) else { return };
        let here = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Stamp::from(&s));
        if here.is_ok_and(|s| s.same_content(&marker.stamp)) {
            // A marker that stays is left over, shown as such, and does no harm.
            let _ = unlinkat(&above, name, AtFlags::empty());
        }
    }
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
