//! A file that a command writes where a person said: a new one, or in the place of its own earlier one.

use crate::conversion::files::move_file;
use onnxd_diagnostics::{Code, Diagnostic};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file in the making lies beside its place, under a hidden name, until it is complete.
pub(crate) struct OutputFile {
    path: PathBuf,
    part: PathBuf,
    replaces: bool,
}

impl OutputFile {
    /// `path` is free, or what lies there is a file that `is_own` and none of `inputs`.
    ///
    /// # Errors
    /// `N0705` with what lies there.
    pub(crate) fn new<'a>(
        path: &Path,
        inputs: impl IntoIterator<Item = &'a Path>,
        is_own: impl Fn(&Path) -> bool,
    ) -> Result<OutputFile, Diagnostic> {
        let taken = |what: &str| {
            let text = format!("`{}` {what}, so nothing is written", path.display());
            let help = "Name another file, or move this one away.";
            Diagnostic::new(Code::OutputTaken, text).help(help)
        };
        let there = path.metadata().ok();
        let inode = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
        let same = |input: &Path| inode(input).is_some() && inode(input) == inode(path);
        match &there {
            None if path.is_symlink() => return Err(taken("is a link that leads nowhere")),
            None => {}
            Some(_) if inputs.into_iter().any(same) => {
                return Err(taken("is what this command reads"));
            }
            Some(data) if !data.is_file() => return Err(taken("is no regular file")),
            Some(_) if !is_own(path) => return Err(taken("is a file that onnxd did not write")),
            Some(_) => {}
        }
        // What a link leads to is written, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let part = path.with_file_name(format!(".onnxd-{}.part", ulid::Ulid::generate()));
        Ok(OutputFile { path, part, replaces: there.is_some() })
    }

    /// Where the file is written first.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// The file is complete.
    ///
    /// # Errors
    /// `N0304`, also if something came to lie there meanwhile.
    pub(crate) fn done(self) -> Result<(), Diagnostic> {
        let moved = match self.replaces {
            true => std::fs::rename(&self.part, &self.path),
            false => move_file(&self.part, &self.path),
        };
        moved.map_err(|e| self.disk(&e))
    }

    /// That writing failed.
    pub(crate) fn disk(&self, error: &io::Error) -> Diagnostic {
        let text = format!("`{}` could not be written: {error}", self.path.display());
        Diagnostic::new(Code::Disk, text)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Gone if the file is complete. Else it has a hidden name.
        let _ = std::fs::remove_file(&self.part);
    }
}
