//! What belongs to the network of a command beside what was named: files that it refers to, and arrays to calibrate on.

use super::launch::Launcher;
use super::plugins::Plugins;
use super::probe::ask;
use super::submission::Submission;
use onnxd_config::{Params, Preset};
use onnxd_diagnostics::Diagnostics;
use onnxd_intake::names::NameRules;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How often companions may lead to further ones.
const ROUNDS_MAX: usize = 16;

/// Arrays with a meaning of their own.
const NAMED_ARRAYS: [&str; 4] = ["calib", "inputs", "outputs", "test"];

/// The folder in which a network lies that was named as a file.
pub(crate) fn folder_of_network<'p>(paths: &'p [PathBuf], network: &str) -> Option<&'p Path> {
    let is_network = |path: &&PathBuf| path.file_name().is_some_and(|name| name == network);
    let path = paths.iter().filter(|path| path.is_file()).find(is_network)?;
    let folder = path.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// Adds what the network needs and what lies in `folder`; a companion may need others. Whether there was anything.
///
/// # Errors
/// Why front-ends cannot be asked; what is wrong with a companion.
pub(crate) fn completed(
    submission: &mut Submission,
    folder: &Path,
    names: &NameRules,
    (launcher, plugins, params): (&Launcher, &Plugins, &Params),
) -> Result<bool, Diagnostics> {
    let mut any = false;
    for _ in 0..ROUNDS_MAX {
        let choice = ask(launcher, plugins, submission, params)?;
        if !submission.complete(folder, names, &choice.needs)? {
            break;
        }
        any = true;
    }
    Ok(any)
}

/// A param that takes the only file of arrays on the command line as calibration data, where the params quantize and
/// neither they nor another file say what is: whoever names an array beside a network means that. What lies in a folder
/// is left alone, because a dropped folder gives the same.
pub(crate) fn samples_named(
    paths: &[PathBuf],
    submission: &Submission,
    params: &Params,
) -> Option<Preset> {
    let values = params.resolved();
    let format = values.peek("quantization.format").as_str();
    let quantizes = format.is_some_and(|format| format != "none");
    let mut files = submission.files.iter().map(|file| file.name.as_str());
    let has_samples = files.any(|name| name == "calib.npz" || name.starts_with("calib/"));
    if !quantizes || has_samples || !values.peek("calibration.data").is_null() {
        return None;
    }
    let files = paths.iter().filter(|path| path.is_file());
    let names = files.filter_map(|path| path.file_name()?.to_str());
    let mut arrays = names.filter(|name| {
        let stem = name.strip_suffix(".npz").or(name.strip_suffix(".npy"));
        stem.is_some_and(|stem| !NAMED_ARRAYS.contains(&stem)) && !names_file(values.peek(""), name)
    });
    let only = arrays.next().filter(|_| arrays.next().is_none())?;
    let text = format!("[calibration]\ndata = {}\n", Value::from(only));
    Some(Preset::of_file("command line".into(), text))
}

/// Whether a param has this text, as `source.weights` has the name of a file.
fn names_file(values: &Value, name: &str) -> bool {
    match values {
        Value::String(text) => text == name,
        Value::Object(inner) => inner.values().any(|value| names_file(value, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_that_of_the_network() {
        let root = tempfile::tempdir().unwrap();
        let (network, other) = (root.path().join("net.onnx"), root.path().join("a/my.npz"));
        std::fs::create_dir(root.path().join("a")).unwrap();
        for file in [&network, &other] {
            std::fs::write(file, "").unwrap();
        }
        let paths = [other, network];
        assert_eq!(folder_of_network(&paths, "net.onnx"), Some(root.path()));
        assert_eq!(folder_of_network(&paths, "absent.onnx"), None);
        assert_eq!(folder_of_network(&[root.path().to_owned()], "net.onnx"), None);
    }

    #[test]
    fn params_that_name_a_file_are_seen() {
        let values = serde_json::json!({"source": {"weights": "w.npz", "seed": 1}});
        assert!(names_file(&values, "w.npz") && !names_file(&values, "x.npz"));
    }
}
