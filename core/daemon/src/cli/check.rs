//! `onnxd check`: everything that is wrong with an ONNX file, at once.

use super::{Ended, FINDINGS, out};
use onnxd_diagnostics::escaped;
use onnxd_proto::onnxd as message;
use serde_json::json;
use std::path::PathBuf;

/// Checks structure, types and shapes of an ONNX file; all findings at once.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// The model.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Ended {
        let found = onnxd_worker::tools::check(&self.model)?;
        if self.json {
            let findings: Vec<_> = found.iter().map(message::Diagnostic::from).collect();
            out::json(&json!({ "model": self.model, "findings": findings }));
        } else {
            for diagnostic in &found {
                out::error(&diagnostic.to_string());
            }
            let verdict = match found.len() {
                0 => "valid".to_owned(),
                n => format!("{n} findings"),
            };
            let model = self.model.display().to_string();
            out::print(&format!("{}: {verdict}", escaped(&model)));
        }
        Ok(if found.is_empty() { 0 } else { FINDINGS })
    }
}
