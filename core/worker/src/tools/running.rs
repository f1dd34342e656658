//! How a model is run by a command: which engine, how many threads, how much memory and time.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
#[cfg(feature = "ort")]
pub use onnxd_engine_ort::Optimization;
use onnxd_eval::{BYTES_MAX, Builtin, Engine, Observer, RunOptions};
use onnxd_quantize::observe::Limits;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs look at the clock between two nodes; one that does not end this long after its time is
/// left behind.
const GRACE: Duration = Duration::from_secs(2);
/// Sub-graphs and functions nest on it.
const STACK_BYTES: usize = 16 << 20;

/// What runs models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineName {
    /// onnxd's own executor.
    #[default]
    Builtin,
    /// ONNX Runtime.
    OnnxRuntime,
}

impl EngineName {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::Builtin => "builtin",
            EngineName::OnnxRuntime => "onnxruntime",
        }
    }
}

/// What ONNX Runtime may do to a model before it runs it.
#[cfg(not(feature = "ort"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimization {
    /// Nothing.
    #[default]
    Off,
    /// What keeps the meaning, such as folding constants.
    Basic,
    /// Also fusions.
    Extended,
    /// Also layouts for this machine.
    All,
}

/// How a model is run.
#[derive(Clone, Debug)]
pub struct ModelRunOptions {
    /// By what.
    pub engine: EngineName,
    /// The library of ONNX Runtime, if it is not to be looked for.
    pub library: Option<PathBuf>,
    /// What ONNX Runtime may do to the model first.
    pub optimization: Optimization,
    /// Threads that compute; 0 means one for each processor.
    pub threads: usize,
    /// Bytes of intermediate tensors that may be alive at a time.
    pub bytes_max: usize,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

impl Default for ModelRunOptions {
    fn default() -> Self {
        ModelRunOptions {
            engine: EngineName::default(),
            library: None,
            optimization: Optimization::default(),
            threads: 0,
            bytes_max: BYTES_MAX,
            timeout: None,
        }
    }
}

/// A task that runs models, while it is at it.
pub(crate) struct ModelRun {
    pub(crate) engine: Box<dyn Engine>,
    bytes_max: usize,
    over: Option<Box<dyn Fn() -> bool + Sync>>,
}

impl ModelRun {
    /// The options for a run with this observer.
    pub(crate) fn options<'a>(
        &'a self,
        observer: Option<&'a mut (dyn Observer + Send)>,
    ) -> RunOptions<'a> {
        let (bytes_max, stop) = (self.bytes_max, self.over.as_deref());
        RunOptions { bytes_max, observer, stop, ..RunOptions::default() }
    }
}

impl ModelRun {
    /// The same for statistics over samples.
    pub(crate) fn limits(&self) -> Limits<'_> {
        Limits { bytes_max: self.bytes_max, stop: self.over.as_deref(), ..Limits::default() }
    }
}

impl ModelRunOptions {
    /// Does `work` on threads of its own, within the time there is.
    ///
    /// # Errors
    /// What `work` says, `N0309` if it does not end in time.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ModelRun) -> Result<T, Diagnostics> + Send + 'static,
    ) -> Result<T, Diagnostics> {
        let threads = self.threads();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK_BYTES);
        let pool = pool.build().map_err(|e| {
            Diagnostic::new(Code::WorkerStart, format!("{threads} threads cannot be started: {e}"))
        })?;
        keep_freed_memory();
        let begun = Instant::now();
        let running = self.clone();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let done = pool.install(move || work(&running.begin(begun)?));
            // The receiver is gone if this took too long.
            let _ = sender.send(done);
        });
        match self.timeout {
            Some(timeout) => receiver.recv_timeout(timeout.saturating_add(GRACE)),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
        .unwrap_or_else(|why| Err(lost(why).into()))
    }

    fn begin(&self, begun: Instant) -> Result<ModelRun, Diagnostic> {
        let over = self.timeout.map(|most| -> Box<dyn Fn() -> bool + Sync> {
            Box::new(move || begun.elapsed() >= most)
        });
        Ok(ModelRun { engine: self.engine()?, bytes_max: self.bytes_max, over })
    }

    /// Threads that compute.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    fn engine(&self) -> Result<Box<dyn Engine>, Diagnostic> {
        match self.engine {
            EngineName::Builtin => Ok(Box::new(Builtin)),
            EngineName::OnnxRuntime => self.onnx_runtime(),
        }
    }

    #[cfg(feature = "ort")]
    fn onnx_runtime(&self) -> Result<Box<dyn Engine>, Diagnostic> {
        use onnxd_engine_ort::{OnnxRuntime, OrtLibrary, OrtOptions};
        let library = OrtLibrary::load(self.library.as_deref())?;
        // It takes no limit for its memory, so the process gets one.
        let limits = onnxd_proto::onnxd::Limits {
            memory_bytes: self.bytes_max as u64,
            threads: self.threads().try_into().unwrap_or(u32::MAX),
            ..Default::default()
        };
        crate::confine::limits::apply(&limits, 0)
            .map_err(|e| Diagnostic::new(Code::WorkerStart, format!("resource limits: {e}")))?;
        let (optimization, threads) = (self.optimization, self.threads());
        let options = OrtOptions { optimization, threads, ..OrtOptions::default() };
        Ok(Box::new(OnnxRuntime::new(library, options)))
    }

    #[cfg(not(feature = "ort"))]
    fn onnx_runtime(&self) -> Result<Box<dyn Engine>, Diagnostic> {
        let text = "this onnxd is built without the engine `onnxruntime`";
        Err(Diagnostic::new(Code::EngineMissing, text).help("Build it with the feature `ort`."))
    }
}

/// Lets the allocator keep what is freed: a run frees and takes large tensors all the time, and new
/// pages from the kernel cost more than filling them does (a third of MobileNetV2's time at batch 8).
fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` takes numbers alone, and changes only when the allocator asks the system for
    // memory and gives it back.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}

/// What a program needs to know about an engine before it is used.
#[derive(Clone, Debug)]
pub struct EngineAvailability {
    /// Its name.
    pub name: EngineName,
    /// Version and place, or why it is not there and how to get it.
    pub state: Result<String, Diagnostic>,
}

/// The engines that this program knows. A library is loaded to look at it, which runs code of it.
#[must_use]
pub fn engines(library: Option<&Path>) -> Vec<EngineAvailability> {
    let version = Ok(Builtin.version());
    let builtin = EngineAvailability { name: EngineName::Builtin, state: version };
    #[cfg(feature = "ort")]
    let state = onnxd_engine_ort::OrtLibrary::load(library)
        .map(|library| format!("{} {}", library.version(), library.path().display()));
    #[cfg(not(feature = "ort"))]
    let state =
        ModelRunOptions { library: library.map(Path::to_owned), ..ModelRunOptions::default() }
            .onnx_runtime()
            .map(|_| String::new());
    vec![builtin, EngineAvailability { name: EngineName::OnnxRuntime, state }]
}

fn lost(why: RecvTimeoutError) -> Diagnostic {
    match why {
        RecvTimeoutError::Timeout => {
            Diagnostic::new(Code::RunStopped, "the time for the run was over within a node")
        }
        RecvTimeoutError::Disconnected => {
            Diagnostic::new(Code::Internal, "the thread that ran the model has ended early")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_look_at_the_clock_is_left_behind() {
        let running = ModelRunOptions {
            threads: 1,
            timeout: Some(Duration::ZERO),
            ..ModelRunOptions::default()
        };
        let found = running.within(|_| {
            std::thread::sleep(GRACE * 10);
            Ok(())
        });
        assert_eq!(found.unwrap_err().0[0].code, "N0309");
    }

    #[test]
    fn a_panic_is_an_error() {
        let found = ModelRunOptions::default().within::<()>(|_| panic!("on purpose"));
        assert_eq!(found.unwrap_err().0[0].code, "N0902");
    }
}
