//! `onnxd eval`: runs an ONNX file on arrays.

use super::failure::Failure;
use super::{Ended, out};
use onnxd_diagnostics::{Code, Diagnostic};
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs an ONNX file on the arrays of an .npz file.
#[derive(clap::Args)]
pub(crate) struct Eval {
    /// The model.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Arrays under the names of the model's inputs.
    #[arg(long, value_name = "IN.npz")]
    inputs: PathBuf,
    /// File for the outputs, under their names.
    #[arg(long, value_name = "OUT.npz", required_unless_present = "bench")]
    out: Option<PathBuf>,
    /// What runs the model.
    #[arg(long, value_enum, default_value = "builtin")]
    engine: Engine,
    /// Writes every intermediate value too.
    #[arg(long)]
    all_tensors: bool,
    /// Threads that compute; 0 means one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Runs once to warm up and N times by the clock, and prints the times and the peak of memory as JSON.
    #[arg(long, value_name = "N", conflicts_with = "all_tensors")]
    bench: Option<NonZeroUsize>,
    /// Prints what was written as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Engine {
    /// onnxd's own executor: exact, not fast.
    Builtin,
    /// ONNX Runtime.
    Onnxruntime,
}

impl Eval {
    pub(crate) fn run(&self) -> Ended {
        if self.engine == Engine::Onnxruntime {
            let text = "this onnxd is built without the engine `onnxruntime`";
            let found = Diagnostic::new(Code::FeatureUnsupported, text);
            return Err(found.help("Leave out `--engine`, or use `--engine builtin`.").into());
        }
        if let Some(runs) = self.bench {
            self.bench(runs)?;
        }
        self.out.as_deref().map_or(Ok(()), |out| self.write(out))?;
        Ok(0)
    }

    fn bench(&self, runs: NonZeroUsize) -> Result<(), Failure> {
        let timed =
            onnxd_worker::tools::bench(&self.model, &self.inputs, runs.get(), self.threads)?;
        let ms = |d: Duration| (d.as_secs_f64() * 1e6).round() / 1e3;
        out::json(&json!({
            "engine": "builtin",
            "threads": timed.threads,
            "load_ms": ms(timed.load),
            "warm_up_ms": ms(timed.warm_up),
            "runs": timed.runs.len(),
            "min_ms": timed.runs.first().copied().map(ms),
            "median_ms": ms(timed.median()),
            "max_ms": timed.runs.last().copied().map(ms),
            "peak_rss_bytes": timed.peak_rss_bytes,
        }));
        Ok(())
    }

    fn write(&self, file: &Path) -> Result<(), Failure> {
        let (model, inputs) = (&self.model, &self.inputs);
        let evaluated =
            onnxd_worker::tools::evaluate(model, inputs, self.all_tensors, self.threads)?;
        let mut arrays = evaluated.outputs;
        for (name, tensor) in evaluated.all {
            if !arrays.iter().any(|(n, _)| *n == name) {
                arrays.push((name, tensor));
            }
        }
        onnxd_worker::tools::arrays::write(file, &arrays)?;
        if self.bench.is_some() {
            return Ok(());
        }
        let shapes = arrays.iter().map(|(name, t)| (name, t.dtype().to_string(), t.dims()));
        if self.json {
            let shapes = shapes.map(|(n, t, d)| json!({ "name": n, "type": t, "shape": d }));
            out::json(&json!({ "out": file, "arrays": shapes.collect::<Vec<_>>() }));
        } else {
            let rows = shapes.map(|(n, t, d)| vec![n.clone(), t, format!("{d:?}")]);
            out::print(&out::table(&rows.collect::<Vec<_>>()));
        }
        Ok(())
    }
}
