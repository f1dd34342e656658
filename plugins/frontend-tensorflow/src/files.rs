//! The files of a SavedModel: dropped, or members of an archive.

use onnxd_plugin_sdk::Submission;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::Diagnostic;

/// Files by their paths below the folder that has `saved_model.pb`.
pub(crate) enum Files<'s> {
    /// Dropped ones; the folder is empty, or ends with `/`.
    Dropped(&'s Submission, String),
    /// For tests: names and contents.
    #[cfg(test)]
    Fixed(Vec<(String, Bytes)>),
}

impl<'s> Files<'s> {
    /// The files beside a dropped one.
    pub(crate) fn beside(submission: &'s Submission, path: &str) -> Files<'s> {
        let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
        Files::Dropped(submission, folder.unwrap_or_default())
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Files::Dropped(submission, folder) => submission.has(&format!("{folder}{path}")),
            #[cfg(test)]
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
            #[cfg(test)]
            Files::Fixed(all) => {
                let found = all.iter().find(|(name, _)| name == path);
                found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| {
                    use onnxd_plugin_sdk::diagnostics::Code;
                    Diagnostic::new(Code::FileMissing, format!("`{path}` was not dropped"))
                })
            }
        }
    }
}
