//! Front-end for N2D2 networks: an INI file with its templates, and the weights of its layers.
//!
//! N2D2 spreads a network over an INI file, templates and one or more files per layer; this crate
//! reads all of them without running anything they contain, and builds the graph that computes
//! what N2D2 computes.
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod activation;
mod cell;
mod dropped;
mod environment;
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod import;
mod ini;
mod known_types;
mod layers;
mod mapping;
mod network;
mod onnx;
mod options;
mod preprocessing;
mod probe;
mod quantizers;
mod sections;
mod source;
mod targets;
mod transformations;
mod weights;

mod diag {
    pub(crate) use onnxd_plugin_sdk::diagnostics::*;
}

use diag::Diagnostics;
use dropped::Dropped;
use onnxd_plugin_sdk::{Frontend, Imported, Probe, Submission};
use options::ImportOptions;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-n2d2",
    summary: "Reads N2D2 networks: INI files with templates and weights",
    components: [
        frontend("n2d2", "N2D2 networks"; "*.ini"; declares [include_str!("component.toml")] => || Box::new(N2d2)),
    ],
}

struct N2d2;

impl Frontend for N2d2 {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let files = Dropped::new(submission);
        let options = ImportOptions::read(submission.params());
        let probe = probe::probe(submission.network(), &files, &options);
        files.check()?;
        Ok(probe)
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let files = Dropped::new(submission);
        let options = ImportOptions::read(submission.params());
        let progress = |done, total| submission.count("layer", done, total);
        let imported = import::import(submission.network(), &files, &options, &progress);
        files.check()?;
        imported
    }
}

#[cfg(test)]
mod tests;
