//! What the plugin calls of one conversion are about.

use onnxd_params::Resolved;
use onnxd_proto::onnxd::{self as message, InputFile, SubmissionFile};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What was dropped, and the params of its conversion.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// All files.
    pub files: &'a [InputFile],
    /// The network, one of them.
    pub network: &'a str,
    /// The resolved params.
    pub params: &'a Resolved,
    /// Operators that passes of plugins lower.
    pub lowered: &'a [String],
}

impl Submission<'_> {
    /// What plugins are told of it.
    pub(crate) fn message(&self) -> message::Submission {
        let file = |f: &InputFile| SubmissionFile { path: f.name.clone(), bytes: f.bytes };
        message::Submission {
            files: self.files.iter().map(file).collect(),
            network: self.network.to_owned(),
            params_json: self.params.text().to_owned(),
            lowered: self.lowered.to_vec(),
        }
    }

    /// Where the files lie, by the names that plugins know.
    pub(crate) fn paths(&self) -> BTreeMap<String, PathBuf> {
        self.files.iter().map(|f| (f.name.clone(), PathBuf::from(&f.path))).collect()
    }
}
