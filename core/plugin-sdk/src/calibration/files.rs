//! Which of the dropped files hold calibration data, and what lies in them.

use crate::Submission;
use crate::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_arrays::{StoredArray, is_stored, stored};
use onnxd_diagnostics::refuse;
use onnxd_image::is_picture;
use onnxd_params::host::Calibration as Params;

/// Most files of a submission that are read.
const FILES_MAX: usize = 50_000;

/// Most files that are named because they hold something else.
const OTHERS_MAX: usize = 10;

/// One file.
pub(super) struct CalibrationFile {
    pub(super) path: String,
    pub(super) content: Content,
}

/// What a file holds.
pub(super) enum Content {
    Arrays(Vec<StoredArray>),
    /// Decoded when its turn comes.
    Picture,
}

impl CalibrationFile {
    /// None of a picture.
    pub(super) fn arrays(&self) -> &[StoredArray] {
        match &self.content {
            Content::Arrays(arrays) => arrays,
            Content::Picture => &[],
        }
    }
}

/// The calibration data of the submission, in the order of the files' names; empty if there is none.
pub(super) fn found(
    submission: &Submission,
    params: &Params,
) -> Result<Vec<CalibrationFile>, Diagnostics> {
    let named = params.data();
    let paths = match &named {
        Some(named) => below(submission, named.trim_end_matches('/')),
        None => match below(submission, "calib.npz") {
            found if found.is_empty() => below(submission, "calib"),
            found => found,
        },
    };
    refuse!(let (Some(named), true) = (&named, paths.is_empty()) =>
        Diagnostic::new(Code::FileMissing, format!("calibration data `{}` was not dropped", shown(named))).into());
    read_all(submission, paths)
}

/// What lies at a path of the submission; empty if there is nothing.
pub(super) fn at(submission: &Submission, path: &str) -> Result<Vec<CalibrationFile>, Diagnostics> {
    read_all(submission, below(submission, path.trim_end_matches('/')))
}

fn read_all(
    submission: &Submission,
    mut paths: Vec<&str>,
) -> Result<Vec<CalibrationFile>, Diagnostics> {
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
            Ok(Some(content)) => files.push(CalibrationFile { path: path.to_owned(), content }),
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        if wrong.0.len() > OTHERS_MAX {
            break;
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

/// Nothing for labels, which lie beside the pictures of IDX files.
fn read(submission: &Submission, path: &str) -> Result<Option<Content>, Diagnostic> {
    let wrong = |why: &str| Diagnostic::new(Code::ArrayFile, format!("`{}`: {why}", shown(path)));
    // A picture is looked at and given back: there may be very many.
    match submission.look(path, |b| (is_picture(b), is_stored(b)))? {
        (true, _) => return Ok(Some(Content::Picture)),
        (_, true) => {}
        _ => {
            let why = "neither arrays (`.npz`, `.npy`, IDX) nor a picture (PNG, JPEG, BMP, WebP, \
                       PBM, PGM, PPM)";
            return Err(wrong(why).help("Only calibration data may lie there; move the file away."));
        }
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let arrays = stored(&submission.read(path)?, stem).map_err(|why| wrong(&why))?;
    let labels = |array: &StoredArray| array.is_idx() && array.dims().len() == 1;
    Ok((!arrays.iter().any(labels)).then_some(Content::Arrays(arrays)))
}
