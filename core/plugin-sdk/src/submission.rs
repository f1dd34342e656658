//! What was dropped, as a front-end sees it.

use crate::Params;
use crate::contract::contract;
use crate::diagnostics::{Code, Diagnostic};
use crate::host::JobHandle;
use bytes::Bytes;
use onnxd_proto::onnxd as message;
use prost::Message;
use serde_json::Value;
use std::sync::Arc;

/// How grave a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something went wrong.
    Error,
    /// A person should look at it.
    Warning,
    /// For whoever asks for it.
    Info,
    /// For the plugin's author.
    Debug,
}

/// The dropped files and the resolved params of one conversion.
pub struct Submission {
    job: Arc<JobHandle>,
    network: String,
    files: Vec<(String, u64)>,
    params: Params,
    lowered: Vec<String>,
}

impl Submission {
    /// What the host says that was dropped.
    pub(crate) fn of(job: JobHandle) -> Result<Submission, Diagnostic> {
        let from = message::Submission::decode(job.submission()?);
        Submission::new(job, from.map_err(|e| contract(format!("submission: {e}")))?)
    }

    fn new(job: JobHandle, from: message::Submission) -> Result<Submission, Diagnostic> {
        let params =
            Params::parse(&from.params_json).map_err(|e| contract(format!("params: {e}")))?;
        let files = from.files.into_iter().map(|f| (f.path, f.bytes)).collect();
        let (network, lowered) = (from.network, from.lowered);
        Ok(Submission { job: Arc::new(job), network, files, params, lowered })
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

    /// Operators that passes of plugins lower after the import (`my::gelu_tanh`), for
    /// [`Fallback::of`](crate::lower::Fallback::of).
    pub fn lowered(&self) -> impl Iterator<Item = &str> {
        self.lowered.iter().map(String::as_str)
    }

    /// The content of a file, mapped. Views of it stay valid until the call that was given this submission returns.
    ///
    /// # Errors
    /// `N0103` if there is no such file, `N0107` if it cannot be read.
    pub fn read(&self, path: &str) -> Result<Bytes, Diagnostic> {
        self.dropped(path)?;
        self.job.input_map(path)
    }

    pub(crate) fn dropped(&self, path: &str) -> Result<(), Diagnostic> {
        match self.has(path) {
            true => Ok(()),
            false => Err(Diagnostic::new(Code::FileMissing, format!("`{path}` was not dropped"))),
        }
    }

    /// What `f` makes of the content of a file, which is mapped only while `f` looks at it: for files of which there
    /// may be very many.
    ///
    /// # Errors
    /// As [`Submission::read`].
    pub fn look<T>(&self, path: &str, f: impl FnOnce(&[u8]) -> T) -> Result<T, Diagnostic> {
        self.dropped(path)?;
        self.job.with_input(path, f)
    }

    /// Puts a file beside the model: `statistics.json`, `stimuli/env001.pgm`. It is written at once, so that many do
    /// not add up in memory. Names have letters, digits, `.`, `-` and `_`, and folders between `/`.
    ///
    /// # Errors
    /// `N0406` for another name, `N0107` if it cannot be written.
    pub fn file(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic> {
        self.job.file(name, data)
    }

    /// The params of the conversion.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// As [`Params::get`], by section and key.
    pub fn param(&self, section: &str, key: &str) -> &Value {
        self.params.get(&format!("{section}.{key}"))
    }

    /// Reports progress (`total` 0 = unknown). To be called at least once per second of work.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    pub fn progress(&self, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.job.progress(done, total, "")
    }

    /// As [`Submission::progress`], and says in the singular what is counted: `count("layer", 4, 21)` is shown as
    /// `layer 5 of 21`.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    pub fn count(&self, noun: &str, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.job.progress(done, total, noun)
    }

    /// Writes a line to the log, for `part` of the plugin. `onnxd convert` shows errors and warnings, and the report
    /// keeps them; [`Imported::notes`](crate::Imported) and [`QuantizeContext::note`](crate::QuantizeContext::note) are
    /// for what concerns the network.
    pub fn log(&self, level: LogLevel, part: &str, text: &str) {
        self.job.log(level, part, text);
    }

    /// How many threads may be kept busy.
    pub fn threads(&self) -> usize {
        self.job.threads()
    }

    pub(crate) fn job(&self) -> &Arc<JobHandle> {
        &self.job
    }
}
