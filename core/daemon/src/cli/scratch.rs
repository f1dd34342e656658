//! A folder for unfinished work that goes away with the command.

use onnxd_diagnostics::{Code, Diagnostic};
use std::path::{Path, PathBuf};

/// A folder that is removed with all its contents when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder and those above it.
    ///
    /// # Errors
    /// `N0304`.
    pub(crate) fn new(path: PathBuf) -> Result<Scratch, Diagnostic> {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::create_dir(&path)).map_err(|e| {
            Diagnostic::new(Code::Disk, format!("`{}` could not be made: {e}", path.display()))
        })?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left over has a hidden name and does no harm.
        let _ = crate::conversion::files::remove_folder(&self.0);
    }
}
