//! Brings a result to the place where people look for it: whole, or not at all.
//!
//! Everything is first written and synced in the attempt's own folder. A new destination appears by
//! one rename. An existing folder given to `onnxd convert` is updated file by file: the old model
//! goes first and the new one comes last, so a model that is there belongs to the report beside it.

use super::files::{inner, move_folder, remove_file, remove_folder, replace_file};
use super::files::{sync, sync_folder, write};
use super::{Outcome, Verdict};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::Report;
use onnxd_report::{BYTES_MAX, from_json, html, json, receipt, text};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Names of what is beside the model.
pub(crate) const REPORT: &str = "report.json";
const RECEIPT: &str = "receipt.txt";
/// What a model is called unless the params ask for N2D2's naming.
const MODEL_FILES: [&str; 2] = ["model.onnx", "model.onnx.data"];
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
    } else if let Some(folder) = own_naming(report) {
        rename_outputs(report, out, &folder)?;
    }
    write(&out.join(REPORT), json(report).as_bytes())?;
    write(&out.join("report.txt"), text(report).as_bytes())?;
    write(&out.join("report.html"), html(report).as_bytes())?;
    write(&out.join(RECEIPT), receipt(report).as_bytes())?;
    sync(out, mode)
}

/// The folder that N2D2 would write to, if the params ask for it.
fn own_naming(report: &Report) -> Option<String> {
    let of = |key: &str| {
        let param = report.params.iter().find(|p| p.key == key);
        param.map_or("", |p| p.value.trim_matches('"'))
    };
    if of("export.naming") != "N2D2" {
        return None;
    }
    Some(match (of("quantization.format"), of("export.float_type")) {
        ("N2D2", _) => format!("export_ONNX_int{}", of("quantization.n2d2.nbbits")),
        (_, "float64" | "float16") => format!("export_ONNX_{}", of("export.float_type")),
        _ => "export_ONNX_float32".to_owned(),
    })
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

/// Brings a prepared result to the folder `out`.
///
/// # Errors
/// `N0304`.
pub(crate) fn to_folder(result: &Path, report: &Report, out: &Path) -> Result<(), Diagnostic> {
    match move_folder(result, out) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done.map_err(|e| disk("published", out, &e)),
    }
    update(result, report, out).map_err(|e| disk("published", out, &e))
}

fn update(result: &Path, report: &Report, out: &Path) -> io::Result<()> {
    remove_stale(out)?;
    // External data before the model that refers to it.
    let mut outputs: Vec<&str> = report.outputs.iter().map(|f| f.path.as_str()).collect();
    outputs.sort_by_key(|path| report.outputs.iter().any(|f| f.path == *path && f.role == "model"));
    for name in ["report.txt", "report.html", RECEIPT, REPORT].into_iter().chain(outputs) {
        let (from, to) = (result.join(name), out.join(name));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        replace_file(&from, &to)?;
    }
    sync_folder(out)
}

/// Removes the model of an earlier conversion, so that nobody takes it for the new one.
pub(crate) fn remove_stale(out: &Path) -> io::Result<()> {
    let earlier = read_report(&out.join(REPORT)).unwrap_or_default();
    let listed = earlier.outputs.iter().map(|f| f.path.as_str());
    for name in MODEL_FILES.into_iter().chain(listed).filter_map(inner) {
        remove_file(&out.join(&name))?;
        // A folder goes with its last file.
        if let Some(folder) = name.parent().filter(|p| *p != Path::new("")) {
            let _ = fs::remove_dir(out.join(folder));
        }
    }
    Ok(())
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
    from_json(&text).map_err(|why| unreadable(why.message))
}

fn disk(what: &str, path: &Path, error: &io::Error) -> Diagnostic {
    let text = format!("`{}` could not be {what}: {error}", path.display());
    Diagnostic::new(Code::Disk, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_diagnostics::{Class, Diagnostics};
    use onnxd_proto::onnxd::{FileDigest, Param};
    use onnxd_report::SUCCEEDED;

    fn success(root: &Path, job: &str, external: bool) -> Outcome {
        let out_dir = root.join(format!("work-{job}"));
        fs::create_dir(&out_dir).unwrap();
        let names = if external { &MODEL_FILES[..] } else { &MODEL_FILES[..1] };
        let file = |name: &&str| {
            fs::write(out_dir.join(name), job).unwrap();
            let role = if *name == MODEL_FILES[0] { "model" } else { "external_data" };
            FileDigest { path: (*name).into(), role: role.into(), ..Default::default() }
        };
        let report = Report {
            schema: 1,
            job: job.into(),
            name: "net".into(),
            verdict: SUCCEEDED.into(),
            outputs: names.iter().map(file).collect(),
            ..Report::default()
        };
        Outcome { report, verdict: Verdict::Succeeded, out_dir }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const REPORTS: [&str; 4] = ["receipt.txt", "report.html", "report.json", "report.txt"];

    #[test]
    fn a_folder_appears_whole_and_is_updated_later() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let mut first = success(root.path(), "J1", true);
        prepare(&mut first, Some(0o640)).unwrap();
        to_folder(&first.out_dir, &first.report, &out).unwrap();
        assert_eq!(names(&out)[..2], MODEL_FILES);
        assert_eq!(names(&out)[2..], REPORTS);
        fs::write(out.join("mine.txt"), b"kept").unwrap();

        let mut second = success(root.path(), "J2", false);
        prepare(&mut second, None).unwrap();
        to_folder(&second.out_dir, &second.report, &out).unwrap();
        assert_eq!(fs::read(out.join("model.onnx")).unwrap(), b"J2");
        assert!(!out.join("model.onnx.data").exists());
        assert!(out.join("mine.txt").exists());

        let found = Diagnostics::from(Diagnostic::new(Code::SourceSyntax, "bad"));
        let mut third = Outcome::failed("J3", "net", &found, root.path().join("work-J3"));
        prepare(&mut third, None).unwrap();
        to_folder(&third.out_dir, &third.report, &out).unwrap();
        assert!(!out.join("model.onnx").exists());
        assert_eq!(read_report(&out.join(REPORT)).unwrap().job, "J3");
        assert_eq!(third.verdict.exit_code(), Class::Input.exit_code());
    }

    #[test]
    fn the_outbox_keeps_every_result_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("outbox/a/b");
        let publish = |job: &str| {
            let mut outcome = success(root.path(), job, false);
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
    fn the_naming_of_n2d2() {
        let root = tempfile::tempdir().unwrap();
        let mut outcome = success(root.path(), "J1", false);
        let param = |key: &str, value: &str| Param {
            key: key.into(),
            value: value.into(),
            origin: String::new(),
        };
        outcome.report.params =
            vec![param("export.naming", "\"N2D2\""), param("quantization.format", "\"none\"")];
        fs::create_dir(outcome.out_dir.join("stimuli")).unwrap();
        fs::write(outcome.out_dir.join("stimuli/env0.pgm"), b"P5").unwrap();
        outcome
            .report
            .outputs
            .push(FileDigest { path: "stimuli/env0.pgm".into(), ..Default::default() });
        prepare(&mut outcome, None).unwrap();
        assert!(!outcome.out_dir.join("stimuli").exists());
        assert_eq!(outcome.report.outputs[0].path, "export_ONNX_float32/model.onnx");
        let out = root.path().join("out");
        fs::create_dir(&out).unwrap();
        to_folder(&outcome.out_dir, &outcome.report, &out).unwrap();
        assert!(out.join("export_ONNX_float32/model.onnx").exists());
        assert!(out.join("export_ONNX_float32/stimuli/env0.pgm").exists());
        remove_stale(&out).unwrap();
        assert!(!out.join("export_ONNX_float32/stimuli").exists());
    }
}
