//! Files of a submission: reading by relative path, and what a path in a network file means there.
//!
//! N2D2 finds files through environment variables and working directories; a submission has
//! neither, so only its own folder is searched.

use std::borrow::Cow;
use std::io::{BufRead, Cursor};

use onnxd_plugin_sdk::Room;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::DataType;

use crate::diag::Diagnostic;

/// A file to be read once, from its beginning to its end.
pub(crate) struct Opened<'f> {
    pub(crate) content: Box<dyn BufRead + 'f>,
    /// Its size.
    pub(crate) bytes: usize,
}

/// The files that were dropped, by path relative to the submission's root, separated by `/`.
pub(crate) trait Files {
    /// The content of a file, or nothing if there is no such file.
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>>;
    /// As [`Files::read`], to be shared.
    fn bytes(&self, path: &str) -> Option<Bytes> {
        self.read(path).map(|content| Bytes::copy_from_slice(&content))
    }
    /// As [`Files::read`], for a file that is large and read once.
    fn open(&self, path: &str) -> Option<Opened<'_>> {
        let content = self.read(path)?;
        Some(Opened { bytes: content.len(), content: Box::new(Cursor::new(content)) })
    }
    /// Room for a tensor of the model.
    fn room(&self, dtype: DataType, dims: &[usize]) -> Result<Room, Diagnostic> {
        Room::new(dtype, dims)
    }
    /// Whether there is such a file.
    fn has(&self, path: &str) -> bool;
    /// Whether there is a file in a folder.
    fn has_folder(&self, path: &str) -> bool;
}

/// Folder of a path, without the closing `/`; empty for the submission's root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Paths to try for a file that an INI in `folder` names: as written (an environment variable at
/// the start stands for the INI's folder), then its bare name beside the INI.
pub(crate) fn candidates(folder: &str, written: &str) -> Vec<String> {
    let relative = without_environment(written);
    let bare = relative.rsplit('/').next().unwrap_or(relative);
    let mut paths: Vec<String> = [relative, bare].iter().filter_map(|p| join(folder, p)).collect();
    paths.dedup();
    paths
}

/// `folder/relative` without `.` and `..`; nothing if that is absolute or leaves the submission.
pub(crate) fn join(folder: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The name under which N2D2 writes the files of a layer.
pub(crate) fn file_name_of(layer: &str) -> String {
    let refused = |c: char| c.is_control() || "<>:\"|?*".contains(c);
    layer.chars().map(|c| if refused(c) { '_' } else { c }).collect()
}

/// Removes `${NAME}/` or `$NAME/` from the start.
fn without_environment(path: &str) -> &str {
    let Some(rest) = path.strip_prefix('$') else { return path };
    let after = match rest.strip_prefix('{') {
        Some(braced) => braced.split_once('}').map(|(_, after)| after),
        None => rest.find('/').map(|at| &rest[at..]),
    };
    after.map_or(path, |after| after.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_stay_inside() {
        for (folder, written, paths) in [
            ("", "a.tpl", &["a.tpl"][..]),
            ("net", "a.tpl", &["net/a.tpl"]),
            ("net", "tpl/./a.tpl", &["net/tpl/a.tpl", "net/a.tpl"]),
            ("net", "../a.tpl", &["a.tpl", "net/a.tpl"]),
            ("net", "../../a.tpl", &["net/a.tpl"]),
            ("", "${N2D2_MODELS}/a.tpl", &["a.tpl"]),
            ("net", "$N2D2_MODELS/b/a.tpl", &["net/b/a.tpl", "net/a.tpl"]),
            ("", "/opt/models/a.tpl", &["a.tpl"]),
            ("", "x/${Y}/a.tpl", &["x/${Y}/a.tpl", "a.tpl"]),
            ("", "..", &[]),
            ("", "", &[]),
        ] {
            assert_eq!(candidates(folder, written), paths, "{folder} {written}");
        }
    }

    #[test]
    fn layer_file_names() {
        assert_eq!(file_name_of("conv1.1"), "conv1.1");
        assert_eq!(file_name_of("a/b:0<\t>|?*\""), "a/b_0_______");
    }
}
