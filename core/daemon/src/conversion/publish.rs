//! Brings a result to the place where people look for it: whole, or not at all.
//!
//! Everything is first written and synced in the attempt's own folder. A new destination appears by
//! one rename. What happens to an existing folder given to `onnxd convert`, `target.rs` says.

use super::files::{move_folder, remove_folder, sync, write};
use super::{Outcome, Verdict};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{Param, Report};
use onnxd_report::{BYTES_MAX, from_json, html, json, receipt, text};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Names of what is beside the model.
pub(crate) const REPORT: &str = "report.json";
pub(crate) const VIEWS: [&str; 4] = [REPORT, "report.txt", "report.html", "receipt.txt"];
/// What a model is called; in a folder below if the params name one.
pub(crate) const MODEL_FILES: [&str; 2] = ["model.onnx", "model.onnx.data"];
/// Names tried with a number before giving up, should even the job's name be taken.
const COLLISIONS_MAX: usize = 100;

/// Writes the reports beside the outputs and brings all of it to the disk.
///
/// `mode` sets the permissions of the files.
///
/// # Errors
/// `N0304`.
pub(crate) fn prepare(outcome: &mut Outcome, mode: Option<u32>) -> Result<(), Diagnostic> {
    let failed = matches!(outcome.verdict, Verdict::Failed { .. });
    written(&mut outcome.report, &outcome.out_dir, failed, mode)
        .map_err(|e| disk("written", &outcome.out_dir, &e))
}

fn written(report: &mut Report, out: &Path, failed: bool, mode: Option<u32>) -> io::Result<()> {
    if failed {
        remove_folder(out)?;
        fs::create_dir(out)?;
    } else if let Some(folder) = own_folder(&report.params) {
        rename_outputs(report, out, &folder)?;
    }
    let views = [json(report), text(report), html(report), receipt(report)];
    for (name, text) in VIEWS.into_iter().zip(views) {
        write(&out.join(name), text.as_bytes())?;
    }
    sync(out, mode)
}

/// The folder in the result's that the params want the outputs in.
pub(crate) fn own_folder(params: &[Param]) -> Option<String> {
    let param = params.iter().find(|p| p.key == "export.folder").filter(|p| p.value != "unset")?;
    Some(param.value.trim_matches('"').to_owned())
}

fn rename_outputs(report: &mut Report, out: &Path, folder: &str) -> io::Result<()> {
    fs::create_dir(out.join(folder))?;
    for file in &mut report.outputs {
        let renamed = format!("{folder}/{}", file.path);
        if let Some(parent) = out.join(&renamed).parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(out.join(&file.path), out.join(&renamed))?;
        // Removes the folder only when it is empty.
        if let Some(parent) = Path::new(&file.path).parent().filter(|p| *p != Path::new("")) {
            let _ = fs::remove_dir(out.join(parent));
        }
        file.path = renamed;
    }
    Ok(())
}

/// Moves a prepared result to `<folder>/<name>`, or `<folder>/<name>.<job>` if that is taken, and
/// says where it is. A result of the same job that is there already is kept.
///
/// # Errors
/// `N0304`.
#[allow(dead_code, reason = "the daemon publishes through it")]
pub(crate) fn to_outbox(
    result: &Path,
    folder: &Path,
    name: &str,
    job: &str,
) -> Result<PathBuf, Diagnostic> {
    fs::create_dir_all(folder).map_err(|e| disk("made", folder, &e))?;
    if let Some(there) = published(folder, name, job) {
        remove_folder(result).map_err(|e| disk("removed", result, &e))?;
        return Ok(there);
    }
    for to in destinations(folder, name, job) {
        match move_folder(result, &to) {
            Ok(()) => return Ok(to),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(disk("published", &to, &e)),
        }
    }
    let taken = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(disk("published", &folder.join(name), &taken))
}

/// Where a job's result is, if it was published already: a crash may come right after the rename.
pub(crate) fn published(folder: &Path, name: &str, job: &str) -> Option<PathBuf> {
    let of_job = |to: &PathBuf| read_report(&to.join(REPORT)).is_ok_and(|r| r.job == job);
    destinations(folder, name, job).take(2).find(of_job)
}

fn destinations(folder: &Path, name: &str, job: &str) -> impl Iterator<Item = PathBuf> {
    let numbered = (2..COLLISIONS_MAX).map(move |i| format!("{name}.{job}.{i}"));
    let names = [name.to_owned(), format!("{name}.{job}")].into_iter().chain(numbered);
    names.map(move |name| folder.join(name))
}

/// Reads a report back.
///
/// # Errors
/// `N0107`.
pub(crate) fn read_report(path: &Path) -> Result<Report, Diagnostic> {
    let unreadable = |why: String| {
        Diagnostic::new(Code::Unreadable, format!("report `{}`: {why}", path.display()))
    };
    let file = File::open(path).map_err(|e| unreadable(e.to_string()))?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.map_err(|e| unreadable(e.to_string()))?;
    if bytes as u64 > BYTES_MAX {
        return Err(unreadable(format!("more than {BYTES_MAX} bytes")));
    }
    from_json(&text).map_err(|why| unreadable(why.into_finding().message))
}

fn disk(what: &str, path: &Path, error: &io::Error) -> Diagnostic {
    let text = format!("`{}` could not be {what}: {error}", path.display());
    Diagnostic::new(Code::of_write(error), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversion::testing::success;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_outbox_keeps_every_result_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("outbox/a/b");
        let publish = |job: &str| {
            let mut outcome = success(root.path(), job, &["model.onnx"]);
            prepare(&mut outcome, None).unwrap();
            to_outbox(&outcome.out_dir, &folder, "net", job).unwrap()
        };
        assert_eq!(publish("J1"), folder.join("net"));
        assert_eq!(publish("J2"), folder.join("net.J2"));
        // After a crash the same job publishes again.
        assert_eq!(publish("J2"), folder.join("net.J2"));
        assert_eq!(names(&folder), ["net", "net.J2"]);
        assert_eq!(published(&folder, "net", "J3"), None);
    }

    #[test]
    fn outputs_go_to_the_folder_of_the_params() {
        let root = tempfile::tempdir().unwrap();
        let mut outcome = success(root.path(), "J1", &["model.onnx", "stimuli/env0.pgm"]);
        let param = |key: &str, value: &str| Param {
            key: key.into(),
            value: value.into(),
            origin: String::new(),
        };
        outcome.report.params = vec![param("export.folder", "\"export_float32\"")];
        prepare(&mut outcome, None).unwrap();
        assert!(!outcome.out_dir.join("stimuli").exists());
        assert_eq!(outcome.report.outputs[0].path, "export_float32/model.onnx");
        assert!(outcome.out_dir.join("export_float32/model.onnx").exists());
        assert!(outcome.out_dir.join("export_float32/stimuli/env0.pgm").exists());
    }
}
