//! What becomes of the dropped files when a job is finished, and the words that go with them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onnxd_config::settings::Originals;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_files::{own_folder, replace_in};
use onnxd_intake::MovePlan;
use onnxd_proto::onnxd::{FileDigest, Job, JobState, Report, Verdict, Versions};
use onnxd_worker::recognition::role;

use super::publication::remove_passage;
use super::receipt::{duplicate_receipt, success_receipt};
use crate::conversion::files::{digest, remove_file, remove_folder};
use crate::conversion::publish::RECEIPT;
use crate::run::crash;
use crate::run::layout::{Folders, JobDir, holds, is_filled, make_dir, sync_dir};
use crate::run::moving::move_new;

/// Moves the originals of a finished job out of its folder, with a receipt. Doing it again after a
/// crash finishes it.
pub(crate) fn put_away(
    job: &Job,
    folders: &Folders,
    policy: Originals,
    keep_work: bool,
) -> io::Result<()> {
    let dir = folders.job(&job.id);
    remove_passage(job, folders)?;
    crash::point("passage removed");
    // The copy goes first: once the originals are away it would be taken for them.
    if dir.originals().try_exists()? {
        remove_folder(&dir.input())?;
    }
    crash::point("copy removed");
    // Also an empty one: whoever dropped it may have removed the files meanwhile.
    if dir.originals().try_exists()? || holds(&dir.kept())? {
        let succeeded = matches!(job.state(), JobState::Succeeded | JobState::Duplicate);
        match (succeeded, policy) {
            (true, Originals::Delete) => {}
            (true, Originals::Move) => {
                let words = match job.state() {
                    JobState::Duplicate => duplicate_receipt(job),
                    _ => success_receipt(job),
                };
                bring(job, &dir, &folders.done_job(job), &[(RECEIPT, words)])?;
            }
            (false, _) => {
                let report = report_of(job, &dir);
                let views = [
                    ("report.json", onnxd_report::json(&report)),
                    ("report.txt", onnxd_report::text(&report)),
                    ("report.html", onnxd_report::html(&report)),
                    (RECEIPT, onnxd_report::receipt(&report)),
                ];
                bring(job, &dir, &folders.failed_job(job), &views)?;
            }
        }
    }
    crash::point("originals moved");
    for path in leftovers(&dir, keep_work)? {
        match fs::symlink_metadata(&path)?.is_dir() {
            true => remove_folder(&path)?,
            false => remove_file(&path)?,
        }
    }
    Ok(())
}

/// What the folder of a finished job holds besides what is kept of it: the claim and the report.
pub(crate) fn leftovers(dir: &JobDir, keep_work: bool) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir.path()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let kept = |path: &PathBuf| {
        *path == dir.claim() || *path == dir.report() || (keep_work && *path == dir.work())
    };
    let paths = entries.map(|e| Ok(e?.path()));
    let paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
    Ok(paths.into_iter().filter(|path| !kept(path)).collect())
}

/// Moves the originals to `to`, with words beside them. Across file systems a crash may leave a part
/// of what was moved already: that part goes, whichever side it is on.
fn bring(job: &Job, dir: &JobDir, to: &Path, words: &[(&str, String)]) -> io::Result<()> {
    let (kept, own) = (dir.kept(), own_names(&original_names(dir), job));
    let mut to = to.to_owned();
    if to.symlink_metadata().is_ok() {
        if is_part(&kept, &to, &own)? {
            return remove_folder(&kept);
        }
        match is_part(&to, &kept, &own)? {
            true => remove_folder(&to)?,
            // Other files have this name: both stay.
            false => to = free_beside(&to),
        }
    }
    write_beside_originals(dir, words)?;
    move_new(&kept, &to)
}

fn free_beside(path: &Path) -> PathBuf {
    let numbered = |n: u32| PathBuf::from(format!("{}.{n}", path.display()));
    (1..).map(numbered).find(|p| p.symlink_metadata().is_err()).unwrap_or_default()
}

/// Whether `whole` has every file of `part` with the same content; what onnxd wrote is not compared.
fn is_part(part: &Path, whole: &Path, own: &[String]) -> io::Result<bool> {
    for entry in fs::read_dir(part)? {
        let entry = entry?;
        let (here, there) = (entry.path(), whole.join(entry.file_name()));
        let same = match (entry.file_type()?, fs::symlink_metadata(&there)) {
            (_, Err(e)) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            (kind, Ok(found)) if kind.is_dir() && found.is_dir() => is_part(&here, &there, &[])?,
            _ if own.iter().any(|name| entry.file_name() == name.as_str()) => true,
            (kind, Ok(found)) if kind.is_file() && found.is_file() => {
                digest(&here)? == digest(&there)?
            }
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the originals of a failed job back for another attempt.
pub(crate) fn fetch(job: &Job, folders: &Folders) -> Result<(), Diagnostic> {
    let dir = folders.job(&job.id);
    let failed = folders.failed_job(job);
    if is_filled(&dir.kept()) {
        // Brought back before a crash, which may have left a part of the other side.
        let own = own_names(&original_names(&dir), job);
        if is_part(&failed, &dir.kept(), &own).is_ok_and(|part| part)
            && let Err(e) = remove_folder(&failed)
        {
            tracing::warn!(folder = %failed.display(), reason = %e, "it stays");
        }
        return Ok(());
    }
    let gone = |why: String| {
        let message =
            format!("The originals of job {} are not in {}: {why}", job.id, failed.display());
        Diagnostic::new(Code::Unreadable, message).help("Drop the files again.")
    };
    let plan = MovePlan::load(&dir.claim()).map_err(|d| gone(d.into_finding().message))?;
    for file in &plan.set.files {
        let metadata = fs::symlink_metadata(failed.join(&file.name));
        let metadata = metadata.map_err(|e| gone(format!("{}: {e}", file.name.display())))?;
        if !metadata.is_file() {
            return Err(gone(format!("{} is no regular file", file.name.display())));
        }
    }
    let disk = |e: io::Error| {
        Diagnostic::new(Code::Disk, format!("Moving {} back: {e}", failed.display()))
    };
    // What was written beside the originals is not theirs; the copy of the report stays.
    let own = own_names(&plan.set.files.iter().map(|f| f.name.clone()).collect(), job);
    for name in own {
        remove_file(&failed.join(name)).map_err(disk)?;
    }
    for stale in [dir.input(), dir.originals()] {
        remove_folder(&stale).map_err(disk)?;
    }
    move_new(&failed, &dir.originals()).map_err(disk)
}

/// The report of the latest attempt, or what the job's record alone can tell.
pub(crate) fn report_of(job: &Job, dir: &JobDir) -> Report {
    let written = fs::read_to_string(dir.report()).ok();
    let report = written.and_then(|text| onnxd_report::from_json(&text).ok());
    let of_this_end = |r: &Report| r.verdict() == Verdict::Failed && r.attempt == job.attempts;
    match report.filter(of_this_end) {
        Some(report) if job.state() == JobState::Failed => report,
        _ => bare_report(job),
    }
}

/// A report without an attempt.
pub(crate) fn bare_report(job: &Job) -> Report {
    let last = job.events.last().map(|e| e.reason.clone()).unwrap_or_default();
    let summary = match job.state() {
        JobState::Cancelled => "The job was cancelled.".to_owned(),
        _ => job.diagnostics.first().map_or(last, |d| d.message.clone()),
    };
    let source = job.files.iter().map(|f| FileDigest {
        path: f.name.clone(),
        bytes: f.bytes,
        sha256: f.sha256.clone(),
        role: role(&f.name, &job.network).into(),
    });
    Report {
        schema: onnxd_report::SCHEMA,
        job: job.id.clone(),
        name: job.name.clone(),
        verdict: Verdict::Failed.into(),
        summary,
        params: job.params.clone(),
        versions: Some(Versions {
            onnxd: env!("CARGO_PKG_VERSION").to_owned(),
            plugins: Vec::new(),
        }),
        source: source.collect(),
        diagnostics: job.diagnostics.clone(),
        attempt: job.attempts,
        ..Report::default()
    }
}

/// Writes into the folder of the originals before it is moved, so that both appear together. Whoever
/// dropped it can still make entries there: none of them is followed.
fn write_beside_originals(dir: &JobDir, files: &[(&str, String)]) -> io::Result<()> {
    let (taken, folder) = (original_names(dir), own_folder(&dir.kept())?);
    for (name, text) in files {
        replace_in(&folder, free_name(name, &taken, dir).as_ref(), text.as_bytes())?;
    }
    sync_dir(&dir.kept())
}

fn original_names(dir: &JobDir) -> HashSet<PathBuf> {
    let plan = MovePlan::load(&dir.claim());
    plan.map(|p| p.set.files.into_iter().map(|f| f.name).collect()).unwrap_or_default()
}

/// `receipt.txt`, or `receipt.<job>.txt` where the drop has a file of that name.
fn free_name(name: &str, taken: &HashSet<PathBuf>, dir: &JobDir) -> String {
    if !taken.contains(Path::new(name)) {
        return name.to_owned();
    }
    let id = dir.path().file_name().unwrap_or_default().to_string_lossy();
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    format!("{stem}.{id}.{suffix}")
}

fn own_names(originals: &HashSet<PathBuf>, job: &Job) -> Vec<String> {
    let taken = |name: &str| originals.contains(Path::new(name));
    let all = ["report.json", "report.txt", "report.html", RECEIPT];
    let own = all.iter().map(|name| match (taken(name), name.rsplit_once('.')) {
        (true, Some((stem, suffix))) => format!("{stem}.{}.{suffix}", job.id),
        _ => (*name).to_owned(),
    });
    own.collect()
}

/// Moves the folder of an unknown job to where a person can look at it.
pub(crate) fn set_aside(folders: &Folders, name: &Path) -> io::Result<()> {
    make_dir(&folders.orphans())?;
    let target = (0..).map(|n: u32| match n {
        0 => folders.orphans().join(name),
        n => folders.orphans().join(format!("{}.{n}", name.display())),
    });
    let target = target.into_iter().find(|t| !t.exists()).unwrap_or_default();
    move_new(&folders.jobs().join(name), &target)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn site() -> (tempfile::TempDir, Folders, Job) {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::below(dir.path());
        let mut job = Job { id: "01J".into(), name: "net".into(), ..Job::default() };
        job.set_state(JobState::Succeeded);
        (dir, folders, job)
    }

    fn fill(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// A copy to another file system that was complete, and a removal that was not.
    #[test]
    fn the_remainder_of_a_move_goes() {
        let (_dir, folders, job) = site();
        let (dir, done) = (folders.job("01J"), folders.done_job(&job));
        fill(&done, &[("model.onnx", "m"), ("w/a", "1"), ("receipt.txt", "job: 01J\n")]);
        fill(&dir.originals(), &[("w/a", "1"), ("receipt.txt", "job: 01J")]);
        fill(dir.path(), &[("claim", ""), ("report.json", ""), ("work/out/x", ""), ("y.part", "")]);
        put_away(&job, &folders, Originals::Move, false).unwrap();
        assert!(leftovers(&dir, false).unwrap().is_empty(), "only claim and report stay");
        assert!(dir.claim().exists() && dir.report().exists());
        assert_eq!(fs::read_dir(&folders.done).unwrap().count(), 1);
        assert!(done.join("model.onnx").exists());
    }

    /// The daemon is killed once the originals are away, and they are taken out of `done`.
    #[test]
    fn a_copy_is_never_put_away() {
        let (_dir, folders, job) = site();
        let (dir, done) = (folders.job("01J"), folders.done_job(&job));
        fill(&dir.originals(), &[("model.onnx", "m")]);
        fill(&dir.input(), &[("model.onnx", "m")]);
        let at = Some(("originals moved".to_owned(), 1));
        crash::enter(Some(Arc::new(crash::CrashPlan { at, ..crash::CrashPlan::default() })));
        let put = || put_away(&job, &folders, Originals::Move, false);
        let killed = std::panic::catch_unwind(put).unwrap_err();
        crash::enter(None);
        assert!(killed.is::<crash::Killed>() && done.join("model.onnx").exists());
        fs::remove_dir_all(&done).unwrap();
        put().unwrap();
        assert!(!done.exists() && leftovers(&dir, false).unwrap().is_empty());
    }

    #[test]
    fn files_of_others_are_not_taken_for_a_remainder() {
        let (_dir, folders, job) = site();
        let (dir, done) = (folders.job("01J"), folders.done_job(&job));
        fill(&done, &[("model.onnx", "somebody's")]);
        fill(&dir.originals(), &[("model.onnx", "m"), ("w/a", "1")]);
        put_away(&job, &folders, Originals::Move, false).unwrap();
        assert_eq!(fs::read(done.join("model.onnx")).unwrap(), b"somebody's");
        let beside = free_beside(&done).with_file_name("net.01J.1");
        assert_eq!(fs::read(beside.join("model.onnx")).unwrap(), b"m");
    }

    /// Originals on their way back for another try, and the removal that was not complete.
    #[test]
    fn a_part_of_the_originals_gives_way_to_the_whole() {
        let (_dir, folders, mut job) = site();
        job.set_state(JobState::Failed);
        let (dir, failed) = (folders.job("01J"), folders.failed_job(&job));
        fill(&failed, &[("w/a", "1")]);
        fill(&dir.originals(), &[("model.onnx", "m"), ("w/a", "1")]);
        put_away(&job, &folders, Originals::Move, false).unwrap();
        assert!(failed.join("model.onnx").exists() && failed.join("receipt.txt").exists());
        assert_eq!(fs::read_dir(&folders.failed).unwrap().count(), 1);

        fill(&dir.originals(), &[("model.onnx", "m"), ("w/a", "1")]);
        fs::remove_file(failed.join("model.onnx")).unwrap();
        fetch(&job, &folders).unwrap();
        assert!(!failed.exists() && dir.originals().join("w/a").exists());
    }
}
