//! The files of a SavedModel: dropped, or members of an archive.

use crate::graph::saved::{NETWORK, TEXT};
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::{Archive, Submission};

/// Files by their paths below the folder that has `saved_model.pb`.
pub(crate) enum Files<'s> {
    /// Dropped ones; the folder is empty, or ends with `/`.
    Dropped(&'s Submission, String),
    /// Members of an archive; the folder is as above.
    Members(Box<Archive>, String),
    /// For tests and fuzz targets: names and contents.
    Fixed(Vec<(String, Bytes)>),
}

impl<'s> Files<'s> {
    /// The files beside a dropped one.
    pub(crate) fn beside(submission: &'s Submission, path: &str) -> Files<'s> {
        let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        Files::Dropped(submission, folder.unwrap_or_default())
    }

    /// The files of a SavedModel in an archive, at its root or in a folder; `None` if there is none, or several.
    ///
    /// # Errors
    /// What is wrong with the archive.
    pub(crate) fn inside(bytes: Bytes) -> Result<Option<Files<'s>>, Diagnostic> {
        let archive = Archive::open_any(bytes)?;
        let network = |name: &'_ str| {
            name.strip_suffix(NETWORK).or(name.strip_suffix(TEXT)).map(str::to_owned)
        };
        let folders = archive.names().filter_map(network);
        let mut folders: Vec<String> =
            folders.filter(|f| f.is_empty() || f.ends_with('/')).collect();
        folders.retain(|folder| folder.matches('/').count() <= 1);
        folders.sort_unstable();
        folders.dedup();
        let folder = match folders.as_slice() {
            [first, ..] if first.is_empty() => String::new(),
            [one] => one.clone(),
            _ => return Ok(None),
        };
        Ok(Some(Files::Members(Box::new(archive), folder)))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Files::Dropped(submission, folder) => submission.has(&format!("{folder}{path}")),
            Files::Members(archive, folder) => archive.has(&format!("{folder}{path}")),
            Files::Fixed(all) => all.iter().any(|(name, _)| name == path),
        }
    }

    /// The content of a file, which is not copied.
    ///
    /// # Errors
    /// `N0103` if there is no such file.
    pub(crate) fn read(&self, path: &str) -> Result<Bytes, Diagnostic> {
        match self {
            Files::Dropped(submission, folder) => submission.read(&format!("{folder}{path}")),
            Files::Members(archive, folder) if self.has(path) => {
                archive.read(&format!("{folder}{path}"))
            }
            Files::Members(..) => {
                let message = format!("The archive has no `{path}`.");
                Err(Diagnostic::new(Code::FileMissing, message))
            }
            Files::Fixed(all) => {
                let found = all.iter().find(|(name, _)| name == path);
                found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| {
                    Diagnostic::new(Code::FileMissing, format!("`{path}` was not dropped"))
                })
            }
        }
    }
}
