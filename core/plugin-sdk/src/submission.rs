//! What was dropped, as a front-end sees it.

use crate::diagnostics::{Code, Diagnostic};
use crate::host::JobHandle;
use bytes::Bytes;
use onnxd_proto::onnxd as message;
use serde_json::Value;
use std::sync::Arc;

/// The dropped files and the resolved params of one conversion.
pub struct Submission {
    job: Arc<JobHandle>,
    network: String,
    files: Vec<(String, u64)>,
    params: Value,
}

impl Submission {
    pub(crate) fn new(job: JobHandle, from: message::Submission) -> Result<Submission, Diagnostic> {
        let params = match from.params_json.is_empty() {
            true => Value::Object(serde_json::Map::new()),
            false => serde_json::from_str(&from.params_json)
                .map_err(|e| Diagnostic::new(Code::PluginContract, format!("params: {e}")))?,
        };
        let files = from.files.into_iter().map(|f| (f.path, f.bytes)).collect();
        Ok(Submission { job: Arc::new(job), network: from.network, files, params })
    }

    /// Path of the network file, relative to the submission's root, `/` separated.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// All files with their sizes in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), *bytes))
    }

    /// Whether a file of this path was dropped.
    pub fn has(&self, path: &str) -> bool {
        self.files.iter().any(|(p, _)| p == path)
    }

    /// The content of a file, mapped. Views of it stay valid until the call that was given this submission returns.
    ///
    /// # Errors
    /// `N0103` if there is no such file, `N0107` if it cannot be read.
    pub fn read(&self, path: &str) -> Result<Bytes, Diagnostic> {
        if !self.has(path) {
            return Err(Diagnostic::new(Code::FileMissing, format!("`{path}` was not dropped")));
        }
        self.job.input_map(path)
    }

    /// A resolved param by section and key: `param("source", "weights")`. Null if there is none.
    pub fn param(&self, section: &str, key: &str) -> &Value {
        &self.params[section][key]
    }

    /// All resolved params.
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// Reports progress (`total` 0 = unknown). To be called at least once per second of work.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    pub fn progress(&self, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.job.progress(done, total)
    }

    /// How many threads may be kept busy.
    pub fn threads(&self) -> usize {
        self.job.threads()
    }

    pub(crate) fn job(&self) -> &Arc<JobHandle> {
        &self.job
    }
}
