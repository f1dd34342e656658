//! What most commands need: settings, a launcher of confined children, and the plugins.

use super::out;
use crate::conversion::submission::names;
use crate::conversion::{Launcher, Plugins};
use onnxd_config::{Environment, Settings, load};
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_intake::names::NameRules;
use std::path::{Path, PathBuf};

/// The surroundings of a command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) settings: Settings,
    pub(crate) launcher: Launcher,
}

impl Context {
    /// Reads the settings from `file`, or from where they usually are.
    pub(crate) fn load(file: Option<&Path>) -> Result<Context, Diagnostics> {
        let environment = Environment::of_process();
        let settings = load(file, &environment, &[])?.settings;
        let launcher = Launcher::new(&settings);
        Ok(Context { environment, settings, launcher })
    }

    /// Names that the settings call unfinished or ignored.
    pub(crate) fn names(&self) -> NameRules {
        names(&self.settings)
    }

    /// The library of ONNX Runtime that the settings name.
    pub(crate) fn onnx_runtime(&self) -> Option<PathBuf> {
        let named = &self.settings.engine.onnxruntime_library;
        Some(PathBuf::from(named)).filter(|_| !named.is_empty())
    }

    /// The plugins in use; those that cannot be used are named on standard error.
    pub(crate) fn plugins(&self) -> Result<Plugins, Diagnostic> {
        let plugins = Plugins::discover(&self.settings, &self.environment, &self.launcher)?;
        for refused in &plugins.refused {
            out::error(&format!("warning: {refused}"));
        }
        Ok(plugins)
    }

    /// The plugins in use and these libraries, which come first.
    pub(crate) fn plugins_and(&self, libraries: &[PathBuf]) -> Result<Plugins, Diagnostic> {
        let mut plugins = self.plugins()?;
        libraries.iter().rev().try_for_each(|library| plugins.add(&self.launcher, library))?;
        Ok(plugins)
    }
}
