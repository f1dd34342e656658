//! `onnxd run`: the daemon, in the foreground.

use super::Ended;
use crate::run::{SettingsSource, Signals, run};
use std::path::PathBuf;

/// Runs the daemon in the foreground until it is told to stop; systemd starts this.
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Where the settings come from.
#[derive(clap::Args)]
pub(crate) struct SettingsArgs {
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Overrides one setting; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Run {
    pub(crate) fn run(self) -> Ended {
        let signals = Signals::catch()?;
        let (source, settings) = SettingsSource::new(self.settings.config, self.settings.set)?;
        run(source, settings, false, signals)?;
        Ok(0)
    }
}
