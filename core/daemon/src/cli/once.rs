//! `onnxd once`: the daemon until nothing is left to do.

use super::run::SettingsArgs;
use super::{Ended, FINDINGS, out};
use crate::run::left::Left;
use crate::run::{SettingsSource, Signals, run};
use onnxd_diagnostics::Class;

/// Takes what lies in the inbox, finishes it, and exits: with status 1 if a job failed, and with 75
/// if drops or jobs are left, which are named on standard error.
#[derive(clap::Args)]
pub(crate) struct Once {
    #[command(flatten)]
    settings: SettingsArgs,
}

impl Once {
    pub(crate) fn run(self) -> Ended {
        let signals = Signals::catch()?;
        let (source, settings) = SettingsSource::new(self.settings.config, self.settings.set)?;
        let ended = run(source, settings, true, signals)?;
        for Left { what, state, why } in &ended.left {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            out::error(&format!("left {state}: {what}{why}"));
        }
        Ok(match (ended.left.is_empty(), ended.any_failed) {
            (false, _) => Class::Environment.exit_code(),
            (true, true) => FINDINGS,
            (true, false) => 0,
        })
    }
}
