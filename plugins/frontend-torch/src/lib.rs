//! The front-end for PyTorch files: TorchScript archives and exported programs, read without Python.
//!
//! An archive gives a program and its weights (`archive`, `script`, `program`). The machine runs the program on
//! values of a graph that it builds on the way: what Python computes is computed, what tensors compute becomes nodes
//! (`machine`). Each ATen operator has a row in a table of its family (`aten`), with the signature that torch
//! declares (`schema`).
// A diagnostic is one large value by design, and errors are rare.
#![allow(clippy::result_large_err)]

mod archive;
mod aten;
#[doc(hidden)]
pub mod fuzzing;
mod machine;
mod options;
mod outputs;
mod params;
mod program;
mod schema;
mod script;
mod syntax;

mod diag {
    pub(crate) use onnxd_plugin_sdk::diagnostics::*;
}

use archive::kind::{FileKind, file_kind};
use archive::objects::ScriptArchive;
use archive::zip::Archive;
use diag::Diagnostics;
use onnxd_plugin_sdk::{Claim, ExportOptions, Frontend, Imported, Probe, Submission};
use options::TorchOptions;

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.frontend-torch",
    summary: "Reads PyTorch models: TorchScript archives and exported programs",
    components: [
        frontend("torch", "PyTorch models"; "*.pt", "*.pth", "*.ts", "*.jit", "*.torchscript", "*.pt2"; declares [
            "is_source = true\n", params::Source::ROWS
        ] => || Box::new(Torch)),
    ],
}

struct Torch;

impl Frontend for Torch {
    fn probe(&self, submission: &Submission) -> Result<Probe, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        Ok(match file_kind(&bytes) {
            Ok(FileKind::Unknown) => Probe::new(Claim::No, "the file is none of torch's"),
            Ok(_) => Probe::new(Claim::ByContent, "the file is one of torch's"),
            // A damaged file is still ours: the import says what is wrong with it.
            Err(_) => Probe::new(Claim::ByExtension, "the file's name is one of torch's"),
        })
    }

    fn import(&self, submission: &Submission) -> Result<Imported, Diagnostics> {
        let bytes = submission.read(submission.network())?;
        let mut options = TorchOptions::read(submission)?;
        let found = file_kind(&bytes)?;
        if let Some(refusal) = found.refusal() {
            return Err(refusal.into());
        }
        let archive = Archive::open(bytes)?;
        if let FileKind::Program(graphs) = &found {
            return ExportOptions::at_lowest_opset(&mut options, |options| {
                program::import::import(submission, &archive, graphs, options)
            });
        }
        let archive = ScriptArchive::open(archive)?;
        ExportOptions::at_lowest_opset(&mut options, |options| {
            script::import::import(submission, &archive, options)
        })
    }
}
