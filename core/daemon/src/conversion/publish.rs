//! Brings a result to the place where people look for it: whole, or not at all.
//!
//! Everything is first written and synced in the attempt's own folder. How it gets into the outbox,
//! `run/results/publication.rs` says, and what happens to a folder given to `onnxd convert`, `target.rs`.

use super::files::{remove_folder, sync, write};
use super::{Outcome, Verdict};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_proto::onnxd::{Param, Report};
use onnxd_report::{BYTES_MAX, from_json, html, json, receipt, text};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Names of what is beside the model.
pub(crate) const REPORT: &str = "report.json";
pub(crate) const RECEIPT: &str = "receipt.txt";
pub(crate) const VIEWS: [&str; 4] = [REPORT, "report.txt", "report.html", RECEIPT];
/// What a model is called, if it is the only one; in a folder below if the params name one.
pub(crate) const MODEL_FILES: [&str; 2] = ["model.onnx", "model.onnx.data"];

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
    write_views(report, out)?;
    sync(out, mode)
}

/// Writes what stands beside a model.
pub(crate) fn write_views(report: &Report, out: &Path) -> io::Result<()> {
    // One after the other: each may be larger than the report itself.
    let views: [fn(&Report) -> String; 4] = [json, text, html, receipt];
    let mut named = VIEWS.into_iter().zip(views);
    named.try_for_each(|(name, view)| write(&out.join(name), view(report).as_bytes()))
}

/// The folder in the result's that the params want the outputs in.
fn own_folder(params: &[Param]) -> Option<String> {
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
