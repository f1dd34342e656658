//! `onnxd once`: the daemon until nothing is left to do.

use super::run::SettingsArgs;
use super::{Ended, FINDINGS};
use crate::run::{Source, run};

/// Takes what lies in the inbox, finishes it, and exits; with status 1 if a job failed.
#[derive(clap::Args)]
pub(crate) struct Once {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Once {
    pub(crate) fn run(self) -> Ended {
        let (source, settings) = Source::new(self.settings.config, self.settings.set)?;
        let any_failed = run(source, settings, true)?;
        Ok(if any_failed { FINDINGS } else { 0 })
    }
}
