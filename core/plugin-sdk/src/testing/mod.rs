//! Runs components as a worker does, without a host: for the tests of a plugin.
//!
//! ```ignore
//! let dropped = Dropped::file("a.line", "scale 1 2\n").param("source.weights", "w");
//! let imported = testing::import(&Line, &dropped).unwrap();
//! let outputs = testing::run(&imported.model, [("x", Tensor::vector(vec![0.5f32]))]);
//! ```

pub(crate) mod host;
pub mod mutations;
#[cfg(test)]
mod tests;

/// The messages in which components answer.
pub use onnxd_proto::onnxd as messages;

use crate::diagnostics::{Code, Diagnostic, Diagnostics};
use crate::eval::{Executor, RunOptions};
use crate::host::{JobHandle, with_current};
use crate::ir::{Model, Tensor, VerifyLevel, examine};
use crate::tensors::HostTensors;
use crate::{Frontend, Probe, Submission};
use bytes::Bytes;
use host::TestHost;
use onnxd_plugin_abi as abi;
use prost::{DecodeError, Message};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What is dropped, and the params.
#[derive(Clone, Debug, Default)]
pub struct Dropped {
    network: String,
    files: BTreeMap<String, Bytes>,
    params: Value,
    lowered: Vec<String>,
}

impl Dropped {
    /// A network of one file.
    pub fn file(path: impl Into<String>, content: impl AsRef<[u8]>) -> Dropped {
        let network = path.into();
        Dropped { network: network.clone(), ..Dropped::default() }.and(network, content)
    }

    /// The files of a folder, of which `network` is the network.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn folder(folder: &Path, network: impl Into<String>) -> std::io::Result<Dropped> {
        let mut dropped = Dropped { network: network.into(), ..Dropped::default() };
        let mut pending = vec![folder.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in std::fs::read_dir(next)? {
                let path = entry?.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Ok(name) = path.strip_prefix(folder) {
                    let name = name.to_string_lossy().into_owned();
                    dropped = dropped.and(name, std::fs::read(&path)?);
                }
            }
        }
        Ok(dropped)
    }

    /// One more file.
    #[must_use]
    pub fn and(mut self, path: impl Into<String>, content: impl AsRef<[u8]>) -> Dropped {
        self.files.insert(path.into(), Bytes::copy_from_slice(content.as_ref()));
        self
    }

    /// A param by its dotted key: `param("quantization.weight_type", "int4")`. Others are unset, as defaults are the
    /// host's.
    #[must_use]
    pub fn param(mut self, key: &str, value: impl Into<Value>) -> Dropped {
        let at = key.split('.').fold(&mut self.params, |at, name| &mut at[name]);
        *at = value.into();
        self
    }

    /// An operator that a pass of some plugin lowers: `lowered("my::gelu_tanh")`.
    #[must_use]
    pub fn lowered(mut self, op: &str) -> Dropped {
        self.lowered.push(op.to_owned());
        self
    }

    /// What a front-end is given, for tests of its parts.
    ///
    /// # Panics
    /// If the params are no object.
    #[must_use]
    pub fn submission(&self) -> Submission {
        let (_, job) = self.host();
        Submission::of(job).expect("the params are an object")
    }

    fn host(&self) -> (&'static TestHost, JobHandle) {
        let file = |(path, content): (&String, &Bytes)| messages::SubmissionFile {
            path: path.clone(),
            bytes: content.len() as u64,
        };
        let submission = messages::Submission {
            files: self.files.iter().map(file).collect(),
            network: self.network.clone(),
            params_json: match self.params {
                Value::Null => String::new(),
                ref params => params.to_string(),
            },
            lowered: self.lowered.clone(),
        };
        let host = TestHost::new(submission.encode_to_vec(), self.files.clone());
        // SAFETY: a job of this table's, which is never freed.
        (host, unsafe { JobHandle::of(&host::TABLE, host.job()) })
    }
}

/// What a component left behind.
#[derive(Clone, Debug)]
pub struct Done<Log> {
    /// The model. It is valid.
    pub model: Model,
    /// Further models of the network, by the names of their files. They are valid.
    pub further: BTreeMap<String, Model>,
    /// What goes into the report.
    pub log: Log,
    /// Lines of the log, with their levels: `warning: reader: eight bytes`.
    pub logged: Vec<String>,
    /// Files that it put beside the model.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// What the front-end answers when it is asked whether the network is its own.
///
/// # Errors
/// The front-end's.
pub fn probe(frontend: &dyn Frontend, dropped: &Dropped) -> Result<Probe, Diagnostics> {
    frontend.probe(&dropped.submission())
}

/// Imports the network, and examines the model as the host does.
///
/// # Errors
/// The front-end's; `N0406` or what is wrong with the model.
pub fn import(
    frontend: &dyn Frontend,
    dropped: &Dropped,
) -> Result<Done<messages::ImportLog>, Diagnostics> {
    let log = (abi::ARTIFACT_IMPORT_LOG, |log: &[u8]| messages::ImportLog::decode(log));
    let (mut done, job) = called(dropped, None, log, |job| crate::frontend::import(frontend, job))?;
    for messages::NamedGraph { name, graph } in &done.log.further {
        done.further.insert(name.clone(), examined(graph.clone(), &job)?);
    }
    Ok(done)
}

/// A model that a component handed over.
fn examined(graph: Bytes, job: &JobHandle) -> Result<Model, Diagnostics> {
    let mut model = onnxd_onnx::decode(graph, &mut HostTensors(job))?.model;
    examine(&mut model, VerifyLevel::Full).or_ok(model)
}

/// Runs a pass on a model.
///
/// # Errors
/// The pass's; what is wrong with the model that it leaves.
#[cfg(feature = "pass")]
pub fn run_pass(
    pass: Box<dyn crate::rewrite::Pass>,
    model: &Model,
) -> Result<Done<messages::PassLog>, Diagnostics> {
    let log = (abi::ARTIFACT_PASS_LOG, |log: &[u8]| Message::decode(log));
    let done = called(&Dropped::default(), Some(model), log, |job| {
        crate::passes::rewrite(&[pass], 0, &crate::Params::default(), &job)
    });
    done.map(|(done, _)| done)
}

/// Quantizes a model, with the dropped files as calibration data.
///
/// # Errors
/// The quantizer's; what is wrong with the model that it leaves.
#[cfg(feature = "quantizer")]
pub fn quantize(
    quantizer: &mut dyn crate::Quantizer,
    model: &Model,
    dropped: &Dropped,
) -> Result<Done<(messages::QuantizeLog, messages::Quantization)>, Diagnostics> {
    let both = |log: &[u8]| Ok((Message::decode(log)?, Message::decode(log)?));
    let done = called(dropped, Some(model), (abi::ARTIFACT_QUANTIZE_LOG, both), |job| {
        crate::quantize::quantize(quantizer, job)
    });
    done.map(|(done, _)| done)
}

/// Runs a model with the built-in executor: its outputs, by name.
///
/// # Errors
/// What the executor cannot do.
pub fn run<'n>(
    model: &Model,
    feeds: impl IntoIterator<Item = (&'n str, Tensor)>,
) -> Result<Vec<(String, Tensor)>, Diagnostics> {
    let feeds = feeds.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    Executor::new(model)?.run(&feeds, RunOptions::default())
}

/// Calls a component as a worker does, and takes what it left.
fn called<Log>(
    dropped: &Dropped,
    model: Option<&Model>,
    (log, decode): (&str, impl FnOnce(&[u8]) -> Result<Log, DecodeError>),
    f: impl FnOnce(JobHandle) -> Result<(), Diagnostics>,
) -> Result<(Done<Log>, JobHandle), Diagnostics> {
    let (host, job) = dropped.host();
    if let Some(model) = model {
        let graph = onnxd_onnx::encode_to_bytes(model, &mut HostTensors(&job))?;
        host.state().graph = graph;
    }
    // SAFETY: a job of this table's, which is never freed.
    let own = unsafe { JobHandle::of(&host::TABLE, host.job()) };
    with_current(&job, || f(own))?;
    let (graph, mut files, logged) = {
        let mut state = host.state();
        let artifacts = std::mem::take(&mut state.artifacts);
        (state.graph.clone(), artifacts, std::mem::take(&mut state.logged))
    };
    let model = examined(graph, &job)?;
    let log = files.remove(log).unwrap_or_default();
    let log = decode(log.as_slice())
        .map_err(|e| Diagnostic::new(Code::PluginContract, format!("its log: {e}")))?;
    Ok((Done { model, further: BTreeMap::new(), log, logged, files }, job))
}
