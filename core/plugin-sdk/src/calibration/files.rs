//! Which of the dropped files hold calibration data, and which arrays lie in them.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_arrays::{Stored, stored};

/// Most files of a submission that are read.
const FILES_MAX: usize = 50_000;

/// One file and its arrays.
pub(super) struct Found {
    pub(super) path: String,
    pub(super) arrays: Vec<Stored>,
}

/// The calibration data of the submission, in the order of the files' names; empty if there is none.
pub(super) fn found(submission: &Submission) -> Result<Vec<Found>, Diagnostics> {
    let named = submission.param("calibration", "data").as_str();
    let paths = match named {
        Some(named) => below(submission, named.trim_end_matches('/')),
        None => match below(submission, "calib.npz") {
            found if found.is_empty() => below(submission, "calib"),
            found => found,
        },
    };
    if let (Some(named), true) = (named, paths.is_empty()) {
        let text = format!("calibration data `{}` was not dropped", shown(named));
        return Err(Diagnostic::new(Code::FileMissing, text).into());
    }
    read_all(submission, paths)
}

/// What lies at a path of the submission; empty if there is nothing.
pub(super) fn at(submission: &Submission, path: &str) -> Result<Vec<Found>, Diagnostics> {
    read_all(submission, below(submission, path.trim_end_matches('/')))
}

fn read_all(submission: &Submission, mut paths: Vec<&str>) -> Result<Vec<Found>, Diagnostics> {
    paths.sort_unstable();
    if paths.len() > FILES_MAX {
        let text = format!("more than {FILES_MAX} files of calibration data");
        let help = "Put the samples into one `.npz` file.";
        return Err(Diagnostic::new(Code::ArrayFile, text).help(help).into());
    }
    let mut files = Vec::with_capacity(paths.len());
    let mut wrong = Diagnostics::default();
    for path in paths {
        match read(submission, path) {
            Ok(arrays) => files.push(Found { path: path.to_owned(), arrays }),
            Err(why) => wrong.push(why),
        }
    }
    wrong.or_ok(files)
}

/// The file of this path, or the files in the folder of this path.
fn below<'s>(submission: &'s Submission, path: &str) -> Vec<&'s str> {
    let is = |name: &&str| {
        name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    submission.files().map(|(name, _)| name).filter(is).collect()
}

fn read(submission: &Submission, path: &str) -> Result<Vec<Stored>, Diagnostic> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let bytes = submission.read(path)?;
    stored(&bytes, stem)
        .map_err(|why| Diagnostic::new(Code::ArrayFile, format!("`{}`: {why}", shown(path))))
}
