//! `onnxd eval`: runs an ONNX file on arrays.

use super::context::Context;
use super::failure::Failure;
use super::{Ended, out};
use onnxd_worker::tools::{EngineName, Optimization, Running, Task, arrays, bench, evaluate};
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
    /// What ONNX Runtime may do to the model before it runs it.
    #[arg(long, value_enum, default_value = "off")]
    ort_optimization: Level,
    /// Settings file; `engine.onnxruntime_library` names the library of ONNX Runtime.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Writes the inputs and every intermediate value too; those of sub-graphs as
    /// OWNER::ATTRIBUTE::VALUE.
    #[arg(long)]
    all_tensors: bool,
    /// Threads that compute; 0 means one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Memory that intermediate values may take, in bytes or with a suffix KiB, MiB, GiB.
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = size)]
    memory: usize,
    /// Seconds after which the run is stopped.
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Runs once to warm up and N times by the clock, and prints the times and the peak of memory
    /// as JSON.
    #[arg(long, value_name = "N", conflicts_with = "all_tensors")]
    bench: Option<NonZeroUsize>,
    /// Prints what was written as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Engine {
    /// onnxd's own executor: exact.
    Builtin,
    /// ONNX Runtime.
    Onnxruntime,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Level {
    /// Nothing, for exact comparisons.
    Off,
    /// What keeps the meaning.
    Basic,
    /// Also fusions.
    Extended,
    /// Everything.
    All,
}

/// Bytes from a number with or without a suffix.
fn size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find_map(|(suffix, bits)| Some((text.strip_suffix(suffix)?, *bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    let number = number.trim().parse::<usize>().map_err(|e| e.to_string())?;
    number.checked_mul(1 << bits).ok_or_else(|| "too large".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

impl Eval {
    pub(crate) fn run(&self) -> Ended {
        if let Some(runs) = self.bench {
            self.bench(runs)?;
        }
        self.out.as_deref().map_or(Ok(()), |out| self.write(out))?;
        Ok(0)
    }

    fn task(&self) -> Task {
        Task { model: self.model.clone(), inputs: self.inputs.clone() }
    }

    fn running(&self) -> Result<Running, Failure> {
        let (threads, bytes_max, timeout) = (self.threads, self.memory, self.timeout);
        let running = Running { threads, bytes_max, timeout, ..Running::default() };
        Ok(match self.engine {
            Engine::Builtin => running,
            Engine::Onnxruntime => Running {
                engine: EngineName::OnnxRuntime,
                library: Context::load(self.config.as_deref())?.onnx_runtime(),
                optimization: match self.ort_optimization {
                    Level::Off => Optimization::Off,
                    Level::Basic => Optimization::Basic,
                    Level::Extended => Optimization::Extended,
                    Level::All => Optimization::All,
                },
                ..running
            },
        })
    }

    fn bench(&self, runs: NonZeroUsize) -> Result<(), Failure> {
        let running = self.running()?;
        let timed = bench(self.task(), &running, runs.get())?;
        let ms = |d: Duration| (d.as_secs_f64() * 1e6).round() / 1e3;
        out::json(&json!({
            "engine": running.engine.as_str(),
            "version": timed.version,
            "threads": running.threads(),
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
        let evaluated = evaluate(self.task(), &self.running()?, self.all_tensors)?;
        let mut arrays = evaluated.outputs;
        for (name, tensor) in evaluated.all {
            if !arrays.iter().any(|(n, _)| *n == name) {
                arrays.push((name, tensor));
            }
        }
        arrays::write(file, &arrays)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seconds() {
        assert_eq!(size("12"), Ok(12));
        assert_eq!(size("3 GiB"), Ok(3 << 30));
        assert!(["", "1.5MiB", "-1", "99999999999GiB", "4 TB"].iter().all(|t| size(t).is_err()));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(["", "-1", "inf", "nan"].iter().all(|t| seconds(t).is_err()));
    }
}
