//! `onnxd init`: a settings file and the folders, to start from.

use super::{Ended, out};
use onnxd_config::{Environment, load, starter};
use onnxd_diagnostics::{Code, Diagnostic, escaped};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Name of the settings file.
const FILE: &str = "onnxd.toml";

/// Writes a settings file with comments, and makes the folders that it names. Nothing that exists is
/// changed.
#[derive(clap::Args)]
pub(crate) struct Init {
    /// Folder for all of it.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

impl Init {
    pub(crate) fn run(&self) -> Ended {
        let path = self.dir.join(FILE);
        let environment = Environment::of_process();
        if path.symlink_metadata().is_ok() {
            return Err(taken(&path).into());
        }
        fs::create_dir_all(&self.dir).map_err(|e| disk(&self.dir, &e))?;
        match File::create_new(&path) {
            Ok(mut file) => file
                .write_all(starter(environment.cores).as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(|e| disk(&path, &e))?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(taken(&path).into()),
            Err(e) => return Err(disk(&path, &e).into()),
        }
        let settings = load(Some(&path), &environment, &[])?.settings;
        let output = &settings.output;
        let folders = [&output.outbox, &output.done, &output.failed, &output.unmatched];
        for folder in folders.into_iter().chain([&settings.intake.inbox, &settings.state.dir]) {
            fs::create_dir_all(folder).map_err(|e| disk(folder, &e))?;
        }
        let (path, inbox) = (path.display().to_string(), self.dir.join("inbox"));
        let (path, inbox) = (escaped(&path), inbox.display().to_string());
        out::print(&format!(
            "{path} is written. Next:\n  onnxd run --config {path}\n  \
             put a network into {}; its result appears in the outbox beside it",
            escaped(&inbox)
        ));
        Ok(0)
    }
}

fn taken(path: &Path) -> Diagnostic {
    let text = format!("`{}` exists already, so nothing is written", path.display());
    Diagnostic::new(Code::OutputTaken, text).help("Use it, or name another folder.")
}

fn disk(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Disk, format!("`{}` could not be made: {error}", path.display()))
}
