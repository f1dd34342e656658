//! How a model is run by a command: which engine, how many threads, how much memory and time.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{BYTES_MAX, Builtin, Engine, Observer, RunOptions};
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

/// How a model is run.
#[derive(Clone, Debug)]
pub struct Running {
    /// By what.
    pub engine: EngineName,
    /// Threads that compute; 0 means one for each processor.
    pub threads: usize,
    /// Bytes of intermediate tensors that may be alive at a time.
    pub bytes_max: usize,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

impl Default for Running {
    fn default() -> Self {
        Running { engine: EngineName::default(), threads: 0, bytes_max: BYTES_MAX, timeout: None }
    }
}

/// A task that runs models, while it is at it.
pub(crate) struct Run {
    pub(crate) engine: Box<dyn Engine>,
    bytes_max: usize,
    over: Box<dyn Fn() -> bool + Sync>,
}

impl Run {
    /// The options for a run with this observer.
    pub(crate) fn options<'a>(&'a self, observer: Option<&'a mut dyn Observer>) -> RunOptions<'a> {
        RunOptions { bytes_max: self.bytes_max, observer, stop: Some(&*self.over) }
    }
}

impl Running {
    /// Does `work` on threads of its own, within the time there is.
    ///
    /// # Errors
    /// What `work` says, `N0309` if it does not end in time.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Run) -> Result<T, Diagnostics> + Send + 'static,
    ) -> Result<T, Diagnostics> {
        let threads = self.threads();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK_BYTES);
        let pool = pool.build().map_err(|e| {
            Diagnostic::new(Code::WorkerStart, format!("{threads} threads cannot be started: {e}"))
        })?;
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

    fn begin(&self, begun: Instant) -> Result<Run, Diagnostic> {
        let timeout = self.timeout;
        let over = move || timeout.is_some_and(|most| begun.elapsed() >= most);
        Ok(Run { engine: self.engine()?, bytes_max: self.bytes_max, over: Box::new(over) })
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
            EngineName::OnnxRuntime => {
                let text = "this onnxd is built without the engine `onnxruntime`";
                Err(Diagnostic::new(Code::FeatureUnsupported, text))
            }
        }
    }
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
        let running = Running { threads: 1, timeout: Some(Duration::ZERO), ..Running::default() };
        let found = running.within(|_| {
            std::thread::sleep(GRACE * 10);
            Ok(())
        });
        assert_eq!(found.unwrap_err().0[0].code, "N0309");
    }

    #[test]
    fn a_panic_is_an_error() {
        let found = Running::default().within::<()>(|_| panic!("on purpose"));
        assert_eq!(found.unwrap_err().0[0].code, "N0902");
    }
}
