//! How a complete result gets to its place once, whatever ends in between.
//!
//! ```text
//! work/out -> jobs/<id>/result.<lease> -> recorded with its destination -> renamed -> recorded
//! ```
//! One rename shows the result, and both its ends are on record before it. So a staged folder that
//! is missing afterwards was renamed, also if the result has been taken away since.
//!
//! Across file systems, and for copies of earlier results, the folder to rename lies beside its
//! destination in a hidden one of the job, which stays until the rename is recorded. Without that,
//! the outbox is not the one that the result was copied to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_files::{copy_tree, own_folder};
use onnxd_proto::onnxd::Job;

use super::receipt::duplicate_receipt;
use crate::conversion::files::{remove_folder, rename_new, sync, write};
use crate::conversion::publish::RECEIPT;
use crate::run::crash;
use crate::run::event::Placed;
use crate::run::held::Held;
use crate::run::layout::{Folders, exists, sync_dir};

/// What the disk tells of a staged folder that is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    /// It was not renamed.
    Here,
    /// It was renamed: the result is in the outbox, or somebody has taken it away.
    Moved,
    /// What it lay in is missing, too.
    Gone,
}

/// The folder that waits to be renamed; an earlier onnxd left it where the worker wrote it.
pub(crate) fn staged_folder(job: &Job, folders: &Folders) -> PathBuf {
    match job.staged.is_empty() {
        true => folders.job(&job.id).work().join("out"),
        false => job.staged.clone().into(),
    }
}

/// Looks for it.
pub(crate) fn look(staged: &Path) -> io::Result<Staged> {
    Ok(match (exists(staged)?, staged.parent().map_or(Ok(true), exists)?) {
        (true, _) => Staged::Here,
        (false, true) => Staged::Moved,
        (false, false) => Staged::Gone,
    })
}

/// Moves a complete and synced result out of the folder of its attempt, durably: from here on only
/// the rename to the outbox, or an end without a result, takes it away.
pub(crate) fn stage(result: &Path, staged: &Path) -> io::Result<()> {
    remove_folder(staged)?;
    fs::rename(result, staged)?;
    crash::point("result staged");
    sync_dir(parent(staged))
}

/// Renames what is staged to its destination. Both are on record.
pub(crate) fn place(job: &Job, folders: &Folders) -> Result<Placed, Diagnostic> {
    let (staged, dest) = (staged_folder(job, folders), PathBuf::from(&job.published));
    let failed = |what: &str, path: &Path, e: &io::Error| {
        let text = format!("`{}` could not be {what}: {e}", path.display());
        Diagnostic::new(Code::of_write(e), text)
    };
    let folder = parent(&dest);
    let held = Held::make(folder).map_err(|e| failed("made", folder, &e))?;
    let there = || match sync_dir(folder) {
        Ok(()) => Ok(Placed::There),
        Err(e) => Err(failed("synced", folder, &e)),
    };
    let near = match staged.starts_with(folders.jobs()) {
        true => crash::far(),
        false => Ok(()),
    };
    match near.and_then(|()| rename_new(&staged, &held.at(dest.file_name().unwrap_or_default()))) {
        Ok(()) => {
            crash::point("result renamed");
            there()
        }
        Err(e) if is_taken(&e) => elsewhere(job, folders, staged, &dest),
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
            let copied = pass(&staged, &folders.passage(job));
            let staged = copied.map_err(|e| failed("copied", &staged, &e))?;
            Ok(Placed::Elsewhere { staged, dest })
        }
        // Renamed before, and the answer was lost.
        Err(e) if e.kind() == io::ErrorKind::NotFound => match look(&staged) {
            Ok(Staged::Moved) => there(),
            _ => Err(failed("published", &dest, &e)),
        },
        Err(e) => Err(failed("published", &dest, &e)),
    }
}

fn is_taken(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// The next free name: a result is never written over another one.
fn elsewhere(
    job: &Job,
    folders: &Folders,
    staged: PathBuf,
    taken: &Path,
) -> Result<Placed, Diagnostic> {
    let disk = |e: io::Error| {
        let text = format!("`{}` could not be published: {e}", taken.display());
        Diagnostic::new(Code::of_write(&e), text)
    };
    let dest = folders.free_destination(job).map_err(disk)?;
    if !job.duplicate_of.is_empty() {
        // The receipt of a copy names its place.
        let moved = Job { published: dest.to_string_lossy().into_owned(), ..job.clone() };
        replace_receipt(&staged, &moved).map_err(disk)?;
    }
    Ok(Placed::Elsewhere { staged, dest })
}

fn replace_receipt(staged: &Path, job: &Job) -> io::Result<()> {
    let folder = own_folder(staged)?;
    onnxd_files::replace_in(&folder, RECEIPT.as_ref(), duplicate_receipt(job).as_bytes())?;
    sync_dir(staged)
}

/// Copies a result to the file system of the outbox.
fn pass(staged: &Path, passage: &Path) -> io::Result<PathBuf> {
    let name = staged.file_name().unwrap_or_default();
    through(passage, name.as_ref(), |to| {
        copy_tree(&own_folder(staged)?, to)?;
        sync(to, None)
    })
}

/// Lets `fill` make and sync a folder in a hidden one of the job, durably.
pub(crate) fn through(
    passage: &Path,
    name: &Path,
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let above = Held::make(parent(passage))?;
    let own_name = passage.file_name().unwrap_or_default();
    remove_folder(&above.at(own_name))?;
    // Others may write into the folder around it, but not into this one. If they move it away, all goes
    // with it.
    let here = above.make_private(own_name)?;
    crash::point("passage made");
    let done = fill(&here.at(name.as_os_str())).and_then(|()| sync_dir(&here.path()));
    crash::point("result copied");
    let done = done.and_then(|()| sync_dir(&above.path()));
    if done.is_err() {
        // The failure is reported; the next try begins with removing this.
        let _ = remove_folder(&above.at(own_name));
    }
    done.map(|()| passage.join(name))
}

/// Removes the hidden folder of a job that is finished.
pub(crate) fn remove_passage(job: &Job, folders: &Folders) -> io::Result<()> {
    let passage = folders.passage(job);
    let Some(above) = Held::open_if_there(parent(&passage))? else { return Ok(()) };
    remove_folder(&above.at(passage.file_name().unwrap_or_default()))
}

/// Writes the receipt of a copy.
pub(crate) fn write_receipt(folder: &Path, job: &Job) -> io::Result<()> {
    write(&folder.join(RECEIPT), duplicate_receipt(job).as_bytes())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
#[path = "publication_tests.rs"]
mod tests;
