//! What conversions are made with, shared by the threads that need it.

use std::sync::{Arc, Mutex, PoisonError};

use onnxd_plugin_host::hexadecimal;
use sha2::{Digest, Sha256};

use crate::conversion::{Launcher, Plugins};

/// What conversions are made with; a reload replaces it as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) launcher: Launcher,
    pub(crate) plugins: Arc<Plugins>,
}

/// The tools in use, for several threads.
#[derive(Clone, Debug)]
pub(crate) struct SharedTools(Arc<Mutex<Tools>>);

impl SharedTools {
    pub(crate) fn new(tools: Tools) -> SharedTools {
        SharedTools(Arc::new(Mutex::new(tools)))
    }

    pub(crate) fn get(&self) -> Tools {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, tools: Tools) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }
}

/// What an answer depends on, the files aside: with others the front-ends are asked again.
pub(crate) fn asked(plugins: &Plugins, params_json: &str) -> String {
    hexadecimal(&Sha256::digest(format!("{} {params_json}", plugins.digest())))
}
