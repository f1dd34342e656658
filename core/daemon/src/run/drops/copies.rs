//! The daemon's own copy of what was dropped: what is hashed is what is converted.
//!
//! A claim moves the dropper's files and folders, and whoever holds a descriptor of one still
//! writes into it. So a conversion reads a copy that only the daemon can write. Copies are not
//! synced: a start after the machine stopped makes them anew and compares their digests.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use onnxd_config::settings::Take;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_files::{
    Copied, beneath, copy, digest, folder, folder_beneath, own_folder, regular_beneath,
};
use onnxd_intake::{DropFile as Taken, MovePlan};
use onnxd_proto::onnxd::Job;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::conversion::files::remove_folder;
use crate::run::layout::{JobDir, make_private_dir};

/// Not even the daemon writes a copy again.
const READ_ONLY: u32 = 0o400;

/// Copies the files of a claim to the job's `input/`, or keeps them as they are where `take` and
/// their owner permit. Gives sizes and digests in the plan's order.
///
/// # Errors
/// Of class input if the dropper changed something since the claim; else the system's.
pub(crate) fn take(plan: &MovePlan, dir: &JobDir, take: Take) -> Result<Vec<Copied>, Diagnostic> {
    let (originals, input) = (dir.originals(), dir.input());
    let disk = |path: &Path| {
        let path = path.to_owned();
        move |e: io::Error| {
            Diagnostic::new(Code::of_write(&e), format!("`{}`: {e}", path.display()))
        }
    };
    if originals.symlink_metadata().is_ok() {
        if take == Take::Move && is_ours(plan, &originals).unwrap_or(false) {
            remove_folder(&input).map_err(disk(&input))?;
            fs::rename(&originals, &input).map_err(disk(&originals))?;
        } else {
            return copied(plan, dir);
        }
    }
    let folder = own_folder(&input).map_err(disk(&input))?;
    let one = |file: &Taken| {
        let opened = regular_beneath(&folder, &file.name).map_err(|e| refused(&file.name, &e))?;
        let before = metadata(&opened, &file.name)?;
        let known = digest(&opened).map_err(|e| refused(&file.name, &e))?;
        still(&before, &metadata(&opened, &file.name)?, file)?;
        Ok(known)
    };
    plan.set.files.iter().map(one).collect()
}

/// The copy appears whole. What could not be finished leaves the disk at once: it may be full.
fn copied(plan: &MovePlan, dir: &JobDir) -> Result<Vec<Copied>, Diagnostic> {
    let done = copy_to_part(plan, dir);
    if done.is_err() {
        // The failure is reported; the next try begins with removing this.
        let _ = remove_folder(&dir.input_part());
    }
    done
}

fn copy_to_part(plan: &MovePlan, dir: &JobDir) -> Result<Vec<Copied>, Diagnostic> {
    let (part, input) = (dir.input_part(), dir.input());
    let disk = |e: io::Error| {
        Diagnostic::new(Code::of_write(&e), format!("copying to `{}`: {e}", part.display()))
    };
    remove_folder(&part).map_err(disk)?;
    remove_folder(&input).map_err(disk)?;
    make_private_dir(&part).map_err(disk)?;
    let originals = own_folder(&dir.originals()).map_err(disk)?;
    let one = |file: &Taken| {
        let from = regular_beneath(&originals, &file.name).map_err(|e| refused(&file.name, &e))?;
        let before = metadata(&from, &file.name)?;
        no_link_of_others(&before, || owner_of_folder(plan, &originals, &file.name), &file.name)?;
        let to = new_file(&part.join(&file.name)).map_err(disk)?;
        let known = copy(&from, &to).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => changed(&file.name),
            _ => disk(e),
        })?;
        still(&before, &metadata(&from, &file.name)?, file)?;
        Ok(known)
    };
    let known = plan.set.files.iter().map(one).collect::<Result<Vec<_>, Diagnostic>>()?;
    fs::rename(&part, &input).map_err(disk)?;
    Ok(known)
}

fn new_file(path: &Path) -> io::Result<File> {
    make_private_dir(path.parent().unwrap_or(Path::new("/")))?;
    OpenOptions::new().read(true).write(true).create_new(true).mode(READ_ONLY).open(path)
}

fn metadata(file: &File, name: &Path) -> Result<Metadata, Diagnostic> {
    file.metadata().map_err(|e| refused(name, &e))
}

/// Every file and every folder is the daemon's own user's.
fn is_ours(plan: &MovePlan, originals: &Path) -> io::Result<bool> {
    let (root, us) = (own_folder(originals)?, geteuid().as_raw());
    let owner = |path: &Path| Ok::<_, io::Error>(File::from(beneath(&root, path, PATH)?));
    let mut paths: Vec<&Path> = plan.set.files.iter().flat_map(|f| f.name.ancestors()).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        if owner(path)?.metadata()?.uid() != us {
            return Ok(false);
        }
    }
    Ok(File::from(root).metadata()?.uid() == us)
}

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The owner of the folder that a file was dropped in. What was not moved as a whole lies in a folder
/// of ours by now, so that the one in the inbox is asked.
fn owner_of_folder(plan: &MovePlan, originals: &OwnedFd, file: &Path) -> io::Result<u32> {
    let parent = file.parent().unwrap_or(Path::new(""));
    let found = match plan.set.whole {
        Some(_) => folder_beneath(originals, parent)?,
        None => folder_beneath(folder(&plan.set.inbox)?, &plan.set.root)?,
    };
    Ok(File::from(found).metadata()?.uid())
}

/// A second name of a file of somebody else would make the daemon read what the dropper may not.
fn no_link_of_others(
    file: &Metadata,
    owner_of_folder: impl FnOnce() -> io::Result<u32>,
    name: &Path,
) -> Result<(), Diagnostic> {
    if file.nlink() < 2 || owner_of_folder().map_err(|e| refused(name, &e))? == file.uid() {
        return Ok(());
    }
    let text =
        format!("`{}` is a hard link to a file of another user than its folder's", name.display());
    Err(Diagnostic::new(Code::SymlinkRefused, text)
        .help("Drop a copy of the file: `cp` without `-l`."))
}

/// The file was the planned one before and after it was read, and nothing changed meanwhile.
fn still(before: &Metadata, after: &Metadata, planned: &Taken) -> Result<(), Diagnostic> {
    let times = |m: &Metadata| (m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
    let same = times(before) == times(after) && is_planned(after, planned);
    if same { Ok(()) } else { Err(changed(&planned.name)) }
}

/// Size, time of change and inode are those that the scan saw. A claim across file systems makes
/// other inodes.
fn is_planned(found: &Metadata, planned: &Taken) -> bool {
    let stamp = &planned.stamp;
    let mtime_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    (found.len(), mtime_ns) == (stamp.size, stamp.mtime_ns)
        && (found.dev() != stamp.dev || found.ino() == stamp.ino)
}

/// Whether the dropper left his files alone since they were copied: what `done/` shows has to be
/// what the report tells of.
///
/// # Errors
/// `N0113` with the first file that is another one.
pub(crate) fn unchanged(plan: &MovePlan, dir: &JobDir) -> Result<(), Diagnostic> {
    let kept = dir.kept();
    let Ok(root) = own_folder(&kept) else { return Err(changed(&kept)) };
    for file in &plan.set.files {
        let found = beneath(&root, &file.name, PATH).map(File::from).ok();
        match found.and_then(|found| found.metadata().ok()) {
            Some(found) if found.is_file() && is_planned(&found, file) => {}
            _ => return Err(changed(&file.name)),
        }
    }
    Ok(())
}

/// Makes the copy again where it is missing: after the machine stopped, or of a job that is tried
/// again by hand.
///
/// # Errors
/// As [`take`]; also if a digest is not the recorded one.
pub(crate) fn ensure(job: &Job, dir: &JobDir) -> Result<(), Diagnostic> {
    if dir.input().symlink_metadata().is_ok() {
        return Ok(());
    }
    let plan = MovePlan::load(&dir.claim())?;
    let known = copied(&plan, dir)?;
    let pairs = job.files.iter().zip(&known);
    match pairs.into_iter().find(|(file, known)| file.sha256 != known.sha256) {
        None => Ok(()),
        Some((file, _)) => {
            // Not to be taken for the right one by the next attempt.
            let _ = remove_folder(&dir.input());
            Err(changed(Path::new(&file.name)))
        }
    }
}

fn changed(name: &Path) -> Diagnostic {
    let text = format!("`{}` changed after it was taken", name.display());
    Diagnostic::new(Code::ChangedAfterTaking, text)
        .help("Drop the files again, once nothing writes to them any more.")
}

fn refused(name: &Path, e: &io::Error) -> Diagnostic {
    let errno = Errno::from_io_error(e);
    match errno {
        Some(Errno::LOOP | Errno::NOTDIR) => {
            let text = format!("`{}` was replaced by a symbolic link", name.display());
            Diagnostic::new(Code::SymlinkRefused, text)
                .help("Drop the files again, as files: copy with `cp -rL FROM TO`.")
        }
        Some(Errno::NOENT) => changed(name),
        // No regular file any more.
        None => changed(name),
        Some(_) => Diagnostic::new(Code::Disk, format!("Reading {}: {e}", name.display())),
    }
}

/// Removes half a copy, and a whole one that may be lost: an attempt makes it again.
pub(crate) fn forget(dir: &JobDir, lost: bool) -> io::Result<()> {
    remove_folder(&dir.input_part())?;
    match lost && dir.originals().try_exists()? {
        true => remove_folder(&dir.input()),
        false => Ok(()),
    }
}

/// The file that remembers which start of the machine the copies are of.
fn boot_file(state: &Path) -> PathBuf {
    state.join("boot")
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// Whether the machine started since the copies were made: then their bytes may be lost.
pub(crate) fn may_be_lost(state: &Path) -> bool {
    let before = fs::read_to_string(boot_file(state)).ok();
    before.is_none() || before != boot()
}

/// To be called once all copies that may be lost are forgotten.
pub(crate) fn remember_boot(state: &Path) {
    // Where it cannot be written, copies are made again at every start.
    let _ = boot().map(|boot| fs::write(boot_file(state), boot));
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
