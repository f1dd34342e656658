//! The front-end without a host, for the fuzz target in `fuzz/`: files are byte slices.
//!
//! No promise is made about this module; plugins are used through their header.

use std::borrow::Cow;
use std::collections::BTreeMap;

use onnxd_plugin_sdk::serde_json::Value;
use onnxd_plugin_sdk::{Imported, Params, Probe};

use crate::diag::Diagnostics;
use crate::ini::Files;
use crate::options::ImportOptions;

/// Files by path relative to the submission's root.
pub struct Dropped<'a>(pub BTreeMap<&'a str, &'a [u8]>);

impl Files for Dropped<'_> {
    fn read(&self, path: &str) -> Option<Cow<'_, [u8]>> {
        self.0.get(path).map(|bytes| Cow::Borrowed(*bytes))
    }

    fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    fn has_folder(&self, path: &str) -> bool {
        self.0.keys().any(|p| p.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

/// Says what the network needs.
pub fn probe(network: &str, files: &Dropped, params: &Value) -> Probe {
    crate::probe::probe(network, files, &options(params))
}

/// Reads the network.
///
/// # Errors
/// Everything that is wrong with the files.
pub fn import(network: &str, files: &Dropped, params: &Value) -> Result<Imported, Diagnostics> {
    crate::import::import(network, files, &options(params), &|_, _| Ok(()))
}

pub(crate) fn options(params: &Value) -> ImportOptions {
    ImportOptions::read(&Params::parse(&params.to_string()).expect("the params are an object"))
}
