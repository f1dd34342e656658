//! `onnxd eval`: runs a model.

use super::arrays::{self, Arrays};
use super::running::{ModelRun, ModelRunOptions};
use crate::summary::peak_rss_bytes;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A model, and what it is run on.
#[derive(Clone, Debug)]
pub struct Task {
    /// The ONNX file.
    pub model: PathBuf,
    /// Arrays under the names of its inputs.
    pub inputs: PathBuf,
}

/// What a run gave.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The graph's outputs, in its order.
    pub outputs: Arrays,
    /// Every value that was fed or computed, by name, if asked for.
    pub all: Arrays,
}

/// How long runs of a model took.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Version of the engine.
    pub version: String,
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

/// Runs a model once.
///
/// # Errors
/// Everything that is wrong with the model, its operators or the inputs.
pub fn evaluate(
    task: Task,
    running: &ModelRunOptions,
    all: bool,
) -> Result<Evaluated, Diagnostics> {
    running.within(move |run: &ModelRun| {
        let model = onnxd_onnx::load(&task.model)?.model;
        let feeds = arrays::feeds(&model, &arrays::read(&task.inputs)?);
        let mut seen: Arrays = Vec::new();
        let mut keep = |name: &str, tensor: &Tensor| seen.push((name.to_owned(), tensor.clone()));
        let options = run.options(if all { Some(&mut keep) } else { None });
        let outputs = run.engine.prepare(&model)?.run(&feeds, options)?;
        Ok(Evaluated { outputs, all: seen })
    })
}

/// Runs a model once to warm up, and then `runs` times by the clock.
///
/// # Errors
/// Those of [`evaluate`].
pub fn bench(task: Task, running: &ModelRunOptions, runs: usize) -> Result<Timed, Diagnostics> {
    running.within(move |run: &ModelRun| {
        let inputs = arrays::read(&task.inputs)?;
        let begun = Instant::now();
        let model = onnxd_onnx::load(&task.model)?.model;
        let mut prepared = run.engine.prepare(&model)?;
        let load = begun.elapsed();
        let feeds = arrays::feeds(&model, &inputs);
        let mut once = || {
            let begun = Instant::now();
            prepared.run(&feeds, run.options(None)).map(|_| begun.elapsed())
        };
        let warm_up = once()?;
        let mut runs = (0..runs).map(|_| once()).collect::<Result<Vec<Duration>, Diagnostics>>()?;
        runs.sort_unstable();
        let (version, peak_rss_bytes) = (run.engine.version(), peak_rss_bytes());
        Ok(Timed { version, load, warm_up, runs, peak_rss_bytes })
    })
}

/// Runs `model` with the built-in executor on arrays by name; a model with a single input takes a
/// single array of any name.
pub(crate) fn run(model: &Model, inputs: &Arrays, all: bool) -> Result<Evaluated, Diagnostics> {
    let executor = Executor::new(model)?;
    let mut seen: Arrays = Vec::new();
    let mut keep = |name: &str, tensor: &Tensor| {
        if all {
            seen.push((name.to_owned(), tensor.clone()));
        }
    };
    let options = RunOptions { observer: Some(&mut keep), ..RunOptions::default() };
    let outputs = executor.run(&arrays::feeds(model, inputs), options)?;
    Ok(Evaluated { outputs, all: seen })
}
