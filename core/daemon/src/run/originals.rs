//! What becomes of the dropped files when a job is finished, and the words that go with them.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use onnxd_config::settings::Originals;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_intake::Plan;
use onnxd_proto::onnxd::{FileDigest, Job, JobState, Report};

use super::layout::{Folders, JobDir, is_filled, make_dir, sync_dir};
use super::moving::move_new;
use crate::conversion::files::{remove_file, remove_folder};

/// Largest receipt that is read to recognise a result.
const RECEIPT_BYTES_MAX: u64 = 64 * 1024;
const RECEIPT: &str = "receipt.txt";

/// Moves the originals of a finished job out of its folder, with a receipt. Doing it again after a
/// crash finishes it.
pub(crate) fn put_away(
    job: &Job,
    folders: &Folders,
    policy: Originals,
    keep_work: bool,
) -> io::Result<()> {
    let dir = folders.job(&job.id);
    if is_filled(&dir.input()) {
        let succeeded = matches!(job.state(), JobState::Succeeded | JobState::Duplicate);
        match (succeeded, policy) {
            (true, Originals::Delete) => {}
            (true, Originals::Move) => {
                let words = match job.state() {
                    JobState::Duplicate => duplicate_receipt(job),
                    _ => success_receipt(job),
                };
                write_beside_originals(&dir, &[(RECEIPT, words)])?;
                move_new(&dir.input(), &folders.done_job(job))?;
            }
            (false, _) => {
                let report = report_of(job, &dir);
                let views = [
                    ("report.json", onnxd_report::json(&report)),
                    ("report.txt", onnxd_report::text(&report)),
                    ("report.html", onnxd_report::html(&report)),
                    (RECEIPT, onnxd_report::receipt(&report)),
                ];
                write_beside_originals(&dir, &views)?;
                move_new(&dir.input(), &folders.failed_job(job))?;
            }
        }
    }
    remove_folder(&dir.input())?;
    if !keep_work {
        remove_folder(&dir.work())?;
    }
    Ok(())
}

/// Brings the originals of a failed job back for another attempt.
pub(crate) fn fetch(job: &Job, folders: &Folders) -> Result<(), Diagnostic> {
    let dir = folders.job(&job.id);
    if is_filled(&dir.input()) {
        return Ok(());
    }
    let failed = folders.failed_job(job);
    let gone = |why: String| {
        let message =
            format!("The originals of job {} are not in {}: {why}", job.id, failed.display());
        Diagnostic::new(Code::Unreadable, message).help("Drop the files again.")
    };
    let plan = Plan::load(&dir.claim()).map_err(|d| gone(d.message))?;
    for file in &plan.files {
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
    let own = own_names(&plan, job);
    for name in own {
        remove_file(&failed.join(name)).map_err(disk)?;
    }
    remove_folder(&dir.input()).map_err(disk)?;
    move_new(&failed, &dir.input()).map_err(disk)
}

/// Whether a folder holds the result of this job: its receipt says so.
pub(crate) fn is_result_of(folder: &Path, job: &str) -> bool {
    let mut text = String::new();
    let read = fs::File::open(folder.join(RECEIPT))
        .and_then(|file| file.take(RECEIPT_BYTES_MAX).read_to_string(&mut text));
    read.is_ok() && text.lines().any(|line| line == format!("job: {job}"))
}

/// The report of the latest attempt, or what the job's record alone can tell.
pub(crate) fn report_of(job: &Job, dir: &JobDir) -> Report {
    let written = fs::read_to_string(dir.report()).ok();
    let report = written.and_then(|text| onnxd_report::from_json(&text).ok());
    let of_this_end = |r: &Report| r.verdict == onnxd_report::FAILED && r.attempt == job.attempts;
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
        role: if f.name == job.network { "network" } else { "other" }.to_owned(),
    });
    Report {
        schema: onnxd_report::SCHEMA,
        job: job.id.clone(),
        name: job.name.clone(),
        verdict: onnxd_report::FAILED.to_owned(),
        summary,
        params: job.params.clone(),
        onnxd_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: source.collect(),
        diagnostics: job.diagnostics.clone(),
        attempt: job.attempts,
        ..Report::default()
    }
}

/// The receipt of a drop that an earlier job had answered already.
pub(crate) fn duplicate_receipt(job: &Job) -> String {
    format!(
        "onnxd {}: {}\nresult: duplicate of job {}: the same files, params and plugins\n\
         model: {}\nnext: nothing; the result is the earlier one\njob: {}\n",
        env!("CARGO_PKG_VERSION"),
        one_line(&job.name),
        job.duplicate_of,
        one_line(&job.published),
        job.id
    )
}

fn success_receipt(job: &Job) -> String {
    format!(
        "onnxd {}: {}\nresult: succeeded\nmodel: {}\njob: {}\n",
        env!("CARGO_PKG_VERSION"),
        one_line(&job.name),
        one_line(&job.published),
        job.id
    )
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Writes into the folder of the originals before it is moved, so that both appear together.
fn write_beside_originals(dir: &JobDir, files: &[(&str, String)]) -> io::Result<()> {
    let taken = original_names(dir);
    for (name, text) in files {
        let path = dir.input().join(free_name(name, &taken, dir));
        fs::write(&path, text)?;
        fs::File::open(&path)?.sync_all()?;
    }
    sync_dir(&dir.input())
}

fn original_names(dir: &JobDir) -> HashSet<PathBuf> {
    let plan = Plan::load(&dir.claim());
    plan.map(|p| p.files.into_iter().map(|f| f.name).collect()).unwrap_or_default()
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

fn own_names(plan: &Plan, job: &Job) -> Vec<String> {
    let taken = |name: &str| plan.files.iter().any(|f| f.name == Path::new(name));
    let all = ["report.json", "report.txt", "report.html", RECEIPT];
    let own = all.iter().map(|name| match (taken(name), name.rsplit_once('.')) {
        (true, Some((stem, suffix))) => format!("{stem}.{}.{suffix}", job.id),
        _ => (*name).to_owned(),
    });
    own.collect()
}

/// Moves the folder of a job nobody knows to where a person can look at it.
pub(crate) fn set_aside(folders: &Folders, name: &Path) -> io::Result<()> {
    make_dir(&folders.orphans())?;
    let target = (0..).map(|n: u32| match n {
        0 => folders.orphans().join(name),
        n => folders.orphans().join(format!("{}.{n}", name.display())),
    });
    let target = target.into_iter().find(|t| !t.exists()).unwrap_or_default();
    move_new(&folders.jobs().join(name), &target)
}
