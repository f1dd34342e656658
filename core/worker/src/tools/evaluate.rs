//! `onnxd eval`: runs a model with the built-in executor.

use super::arrays::{self, Arrays};
use crate::stages::summary::peak_rss_bytes;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::Model;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a run gave.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The graph's outputs, in its order.
    pub outputs: Arrays,
    /// Every computed value by name, if asked for.
    pub all: Arrays,
}

/// How long runs of a model took.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Threads that computed.
    pub threads: usize,
    /// Reading the model and making it ready.
    pub load: Duration,
    /// The first run, which is not among the others.
    pub warm_up: Duration,
    /// The other runs, shortest first.
    pub runs: Vec<Duration>,
    /// Most memory the process ever held.
    pub peak_rss_bytes: u64,
}

impl Timed {
    /// The run in the middle.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.runs.get(self.runs.len() / 2).copied().unwrap_or_default()
    }
}

/// Runs the model at `path` on the arrays of `inputs`.
///
/// # Errors
/// Everything that is wrong with the model, its operators or the inputs.
pub fn evaluate(
    path: &Path,
    inputs: &Path,
    all: bool,
    threads: usize,
) -> Result<Evaluated, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    let inputs = arrays::read(inputs)?;
    pool(threads)?.install(|| run(&model, &inputs, all))
}

/// Runs the model once to warm up, and then `runs` times by the clock. No thread count means one
/// for each processor.
///
/// # Errors
/// Those of [`evaluate`].
pub fn bench(
    path: &Path,
    inputs: &Path,
    runs: usize,
    threads: usize,
) -> Result<Timed, Diagnostics> {
    let inputs = arrays::read(inputs)?;
    let begun = Instant::now();
    let model = onnxd_onnx::load(path)?.model;
    let executor = Executor::new(&model)?;
    let load = begun.elapsed();
    let feeds = arrays::feeds(&model, &inputs);
    let pool = pool(threads)?;
    let once = || {
        let begun = Instant::now();
        executor.run(&feeds, RunOptions::default()).map(|_| begun.elapsed())
    };
    let (warm_up, mut runs) = pool.install(|| {
        let warm_up = once()?;
        let runs = (0..runs).map(|_| once()).collect::<Result<Vec<Duration>, Diagnostics>>()?;
        Ok::<_, Diagnostics>((warm_up, runs))
    })?;
    runs.sort_unstable();
    let threads = pool.current_num_threads();
    Ok(Timed { threads, load, warm_up, runs, peak_rss_bytes: peak_rss_bytes() })
}

/// Threads that kernels share; none means one for each processor.
fn pool(threads: usize) -> Result<rayon::ThreadPool, Diagnostic> {
    let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    built.map_err(|e| Diagnostic::new(Code::WorkerStart, format!("{threads} threads: {e}")))
}

/// Runs `model` on arrays by name; a model with a single input takes a single array of any name.
pub(crate) fn run(model: &Model, inputs: &Arrays, all: bool) -> Result<Evaluated, Diagnostics> {
    let executor = Executor::new(model)?;
    let mut seen: Arrays = Vec::new();
    let mut keep = |name: &str, tensor: &onnxd_ir::Tensor| {
        if all {
            seen.push((name.to_owned(), tensor.clone()));
        }
    };
    let options = RunOptions { observer: Some(&mut keep), ..RunOptions::default() };
    let outputs = executor.run(&arrays::feeds(model, inputs), options)?;
    Ok(Evaluated { outputs, all: seen })
}
