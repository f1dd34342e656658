//! One plugin call as the host sees it: what the plugin may read, and what it handed over.
//!
//! Plugins know a call by a pointer. Pointers are looked up among the calls in progress and never
//! followed, so a call that is over, or a made-up one, is a refused request instead of a crash.

use crate::Refusal;
use crate::Submission;
use crate::files::Files;
use crate::tensors::{Lent, TensorTable};
use bytes::Bytes;
use onnxd_diagnostics::Diagnostic;
use onnxd_plugin_abi as abi;
use onnxd_proto::onnxd::FileDigest;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::ThreadId;

/// Log lines of one call that reach the host; the rest is dropped.
pub const LOG_LINES_MAX: u32 = 10_000;
/// Bytes of one log line; the rest is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 4096;
/// Bytes of the text of progress; the rest is cut off.
pub const ABOUT_BYTES_MAX: usize = abi::ABOUT_BYTES_MAX as usize;

/// News from a running plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum HostEvent {
    /// Work done of a total, in the plugin's own unit; total 0 means unknown.
    Progress {
        /// Work done.
        done: u64,
        /// All work.
        total: u64,
        /// What both count, in words, which are the plugin's own; empty if it did not say.
        about: String,
    },
    /// One line for the log; levels are the `LOG_` constants of the ABI.
    Log {
        /// Severity.
        level: i32,
        /// Part of the plugin that speaks.
        target: String,
        /// The line.
        text: String,
    },
}

/// Receives news; may be called from any thread.
pub type Sink = Box<dyn Fn(HostEvent) + Send + Sync>;

/// Something a plugin handed over besides the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Media type as the plugin named it.
    pub mime: String,
    /// Contents.
    pub data: Bytes,
}

#[derive(Default)]
pub(crate) struct CallState {
    pub(crate) graph_in: Option<Bytes>,
    pub(crate) graph_out: Option<Bytes>,
    pub(crate) artifacts: BTreeMap<String, Artifact>,
    pub(crate) files: Files,
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Names of the inputs that plugins mapped.
    pub(crate) mapped: BTreeSet<String>,
    /// The thread that called `run`.
    pub(crate) thread: Option<ThreadId>,
}

/// What the host's functions work on.
pub(crate) struct HostCall {
    pub(crate) submission: Bytes,
    pub(crate) inputs: BTreeMap<String, PathBuf>,
    pub(crate) tensors: Arc<TensorTable>,
    pub(crate) cancel: Arc<AtomicBool>,
    /// Where files of the result go; `None` where there is no result.
    pub(crate) outputs: Option<PathBuf>,
    state: Mutex<CallState>,
    threads: u32,
    lines: AtomicU32,
    sink: Sink,
}

impl HostCall {
    pub(crate) fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn emit(&self, event: HostEvent) {
        (self.sink)(event);
    }

    pub(crate) fn log(&self, level: i32, target: &str, text: &str) {
        if self.lines.fetch_add(1, Ordering::Relaxed) >= LOG_LINES_MAX {
            // The counter must not wrap around.
            self.lines.store(LOG_LINES_MAX, Ordering::Relaxed);
            return;
        }
        let target = cut(target, 128).to_owned();
        let text = cut(text, LOG_LINE_BYTES_MAX).to_owned();
        self.emit(HostEvent::Log { level, target, text });
    }

    /// Refuses a function that only the thread of `run` may call.
    pub(crate) fn own_thread(&self) -> Result<(), Refusal> {
        if self.state().thread == Some(std::thread::current().id()) {
            return Ok(());
        }
        Err(Refusal::invalid("called from another thread than the one that called `run`"))
    }
}

/// The first bytes of a text, at a character's end.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The submission, the graph and the results of plugin calls of one job.
pub struct JobContext {
    call: Arc<HostCall>,
    params_json: String,
}

impl JobContext {
    /// A context over a submission.
    #[must_use]
    pub fn new(
        submission: Submission<'_>,
        tensors: Arc<TensorTable>,
        threads: u32,
        cancel: Arc<AtomicBool>,
        sink: impl Fn(HostEvent) + Send + Sync + 'static,
    ) -> JobContext {
        let call = HostCall {
            submission: submission.message().encode_to_vec().into(),
            inputs: submission.paths(),
            tensors,
            cancel,
            outputs: None,
            state: Mutex::default(),
            threads: threads.max(1),
            lines: AtomicU32::new(0),
            sink: Box::new(sink),
        };
        JobContext { call: Arc::new(call), params_json: submission.params.text().to_owned() }
    }

    /// Has files that plugins hand over written below `folder`; without it they are refused.
    #[must_use]
    pub fn with_outputs(mut self, folder: PathBuf) -> JobContext {
        let call = Arc::get_mut(&mut self.call).expect("no call was started yet");
        call.outputs = Some(folder);
        self
    }

    /// The graph that the next call works on.
    pub fn set_graph(&mut self, model: Bytes) {
        self.call.state().graph_in = Some(model);
    }

    /// The graph that the last call put.
    pub fn take_graph(&mut self) -> Option<Bytes> {
        self.call.state().graph_out.take()
    }

    /// The artifacts handed over since they were last taken, by name.
    pub fn take_artifacts(&mut self) -> BTreeMap<String, Artifact> {
        std::mem::take(&mut self.call.state().artifacts)
    }

    /// One artifact, if it was handed over.
    pub fn take_artifact(&mut self, name: &str) -> Option<Artifact> {
        self.call.state().artifacts.remove(name)
    }

    /// Why a file could not be written since that was last asked.
    pub(crate) fn take_unwritten(&mut self) -> Option<Diagnostic> {
        self.call.state().files.take_unwritten()
    }

    /// The files written since they were last taken, by name.
    pub fn take_files(&mut self) -> Vec<FileDigest> {
        self.call.state().files.take()
    }

    /// The names of the inputs that plugins looked into since they were last taken.
    pub fn take_mapped(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.call.state().mapped)
    }

    /// The metrics handed over since they were last taken, by key.
    pub fn take_metrics(&mut self) -> BTreeMap<String, f64> {
        std::mem::take(&mut self.call.state().metrics)
    }

    /// The table that graphs refer to.
    #[must_use]
    pub fn tensors(&self) -> &Arc<TensorTable> {
        &self.call.tensors
    }

    /// Whether the job was asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.call.cancel.load(Ordering::Relaxed)
    }

    /// The resolved params, one JSON object.
    pub(crate) fn params_json(&self) -> &str {
        &self.params_json
    }

    /// Makes the context known to the host's functions until the guard is dropped.
    pub(crate) fn start(&mut self) -> RunningCall {
        {
            let mut state = self.call.state();
            state.graph_out = None;
            state.artifacts.clear();
            state.thread = Some(std::thread::current().id());
        }
        // Never freed: a plugin that keeps the pointer after `run` reads stale but valid memory,
        // and no later call has the same address. A worker makes a few calls of eight bytes each.
        let job: &'static abi::Job = Box::leak(Box::new(abi::Job {
            struct_size: size_of::<abi::Job>() as u32,
            threads: self.call.threads,
        }));
        let lent = self.call.tensors.lend();
        let address = std::ptr::from_ref(job) as usize;
        live(|calls| calls.insert(address, Arc::clone(&self.call)));
        RunningCall { job, _lent: lent }
    }
}

/// Calls in progress, by the address of their job.
static CALLS: RwLock<BTreeMap<usize, Arc<HostCall>>> = RwLock::new(BTreeMap::new());

fn live<T>(change: impl FnOnce(&mut BTreeMap<usize, Arc<HostCall>>) -> T) -> T {
    change(&mut CALLS.write().unwrap_or_else(PoisonError::into_inner))
}

/// The call in progress behind a plugin's pointer.
pub(crate) fn find(job: *const abi::Job) -> Option<Arc<HostCall>> {
    let calls = CALLS.read().unwrap_or_else(PoisonError::into_inner);
    calls.get(&(job as usize)).cloned()
}

/// A plugin call in progress.
pub(crate) struct RunningCall {
    pub(crate) job: &'static abi::Job,
    _lent: Lent,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let address = std::ptr::from_ref(self.job) as usize;
        live(|calls| calls.remove(&address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_params::Resolved;

    fn nothing(params: &Resolved) -> Submission<'_> {
        Submission { files: &[], network: "", params, lowered: &[] }
    }

    #[test]
    fn a_call_is_known_only_while_it_runs() {
        let mut context = JobContext::new(
            nothing(&Resolved::default()),
            TensorTable::new(),
            0,
            Arc::default(),
            |_| {},
        );
        let running = context.start();
        let job = std::ptr::from_ref(running.job);
        assert_eq!(running.job.threads, 1);
        assert!(find(job).is_some());
        drop(running);
        assert!(find(job).is_none());
        assert!(find(std::ptr::null()).is_none());
    }

    #[test]
    fn log_lines_are_bounded_in_length_and_number() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let context = JobContext::new(
            nothing(&Resolved::default()),
            TensorTable::new(),
            1,
            Arc::default(),
            move |event| seen.lock().unwrap().push(event),
        );
        for _ in 0..LOG_LINES_MAX + 5 {
            context.call.log(3, "t", &"\u{e9}".repeat(LOG_LINE_BYTES_MAX));
        }
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), LOG_LINES_MAX as usize);
        let HostEvent::Log { text, .. } = &lines[0] else { panic!() };
        assert_eq!(text.len(), LOG_LINE_BYTES_MAX);
    }
}
