//! What commands are given beside the paths of a network: params, presets and plugins.

use super::context::Context;
use crate::conversion::companions::samples_named;
use crate::conversion::probe::ask;
use crate::conversion::submission_params::presets_of;
use crate::conversion::{Plugins, Submission};
use onnxd_config::{Params, Preset};
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use std::path::{Path, PathBuf};

/// The switches for them.
#[derive(clap::Args)]
pub(crate) struct DropOptions {
    /// Params (TOML or INI), instead of those among the paths.
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// Reads `onnxd.params.toml` of DIR and of its folders down to the drop; the inbox's own are read anyway.
    #[arg(long, value_name = "DIR")]
    presets: Option<PathBuf>,
    /// Sets one param; wins over the files.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Uses this library beside the installed plugins; may be given several times.
    #[arg(long = "plugin", value_name = "FILE")]
    pub(crate) plugins: Vec<PathBuf>,
}

/// What a command is about.
pub(crate) struct ResolvedDrop {
    pub(crate) submission: Submission,
    pub(crate) params: Params,
    /// Params that may have been meant, and were not named.
    pub(crate) unread: Vec<Diagnostic>,
}

impl DropOptions {
    /// Finds the network among `paths`, and resolves its params. Files that are `ours` are no part of it.
    ///
    /// # Errors
    /// Everything that is wrong with paths and params.
    pub(crate) fn resolve(
        &self,
        paths: &[PathBuf],
        (context, plugins): (&Context, &Plugins),
        ours: &dyn Fn(&Path) -> bool,
    ) -> Result<ResolvedDrop, Diagnostics> {
        let inbox = &context.settings.intake.inbox;
        let found = presets_of(paths, self.presets.as_deref(), inbox)?;
        let presets = found.as_deref().unwrap_or_default();
        let file = self.params.as_deref();
        let resolve = |submission: &Submission, presets: &[Preset]| {
            submission.params(plugins, presets, file, &self.set)
        };
        let about = |submission: &Submission| {
            ask(&context.launcher, plugins, submission, &resolve(submission, presets)?)
        };
        let submission = Submission::from_paths(paths, plugins, &context.names(), ours, &about)?;
        let mut params = resolve(&submission, presets)?;
        if let Some(samples) = samples_named(paths, &submission, &params) {
            params = resolve(&submission, &[presets, &[samples]].concat())?;
        }
        let unread = submission.unread_params(paths, file, &found);
        Ok(ResolvedDrop { submission, params, unread })
    }
}
