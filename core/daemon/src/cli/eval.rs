//! `onnxd eval`: runs an ONNX file on arrays.

use super::context::Context;
use super::failure::Failure;
use super::place::OutputFile;
use super::{Ended, out};
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_worker::tools::{
    EngineName, ModelRunOptions, Observation, Optimization, Stats, Task, arrays, bench, evaluate,
    observe,
};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs an ONNX file on the arrays of an .npz file.
#[derive(clap::Args)]
pub(crate) struct Eval {
    /// The model.
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Arrays under the names of the model's inputs. With --observe also several files, or arrays
    /// with one axis more in front, for as many samples.
    #[arg(long, value_name = "IN.npz", required = true, num_args = 1..)]
    inputs: Vec<PathBuf>,
    /// File for the outputs, under their names. A file that onnxd did not write is never replaced.
    #[arg(long, value_name = "OUT.npz", required_unless_present_any = ["bench", "observe"])]
    out: Option<PathBuf>,
    /// What runs the model.
    #[arg(long, value_enum, default_value = "builtin")]
    engine: Engine,
    /// What ONNX Runtime may do to the model before it runs it.
    #[arg(long, value_enum, default_value = "off")]
    ort_optimization: OptimizationLevel,
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
    /// Writes statistics of the inputs and of every value over all samples to this file, as JSON.
    #[arg(long, value_name = "OUT.json", conflicts_with_all = ["bench", "out", "all_tensors"])]
    observe: Option<PathBuf>,
    /// Observes these values only.
    #[arg(long, value_name = "NAME", num_args = 1.., requires = "observe")]
    values: Vec<String>,
    /// Adds histograms with this many bins on each side of zero, rounded up to a power of two.
    #[arg(long, value_name = "BINS", requires = "observe", value_parser = bins)]
    histogram: Option<usize>,
    /// Adds the extremes of every channel along this axis.
    #[arg(long, value_name = "AXIS", requires = "observe", allow_negative_numbers = true)]
    channels: Option<i64>,
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
enum OptimizationLevel {
    /// Nothing, for exact comparisons.
    Off,
    /// What keeps the meaning.
    Basic,
    /// Also fusions.
    Extended,
    /// Everything.
    All,
}

/// Marks what `--observe` writes as such, for the next run that is to write to the same file.
const OBSERVATION: &str = "onnxd_observation";

fn is_observation(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get(OBSERVATION).is_some())
}

fn bins(text: &str) -> Result<usize, String> {
    let bins = text.parse::<usize>().map_err(|e| e.to_string())?;
    let most = onnxd_worker::tools::BINS_MAX;
    if (2..=most).contains(&bins) { Ok(bins) } else { Err(format!("from 2 to {most}")) }
}

/// What `--observe` writes of a value.
fn statistics(name: &str, s: &Stats) -> Value {
    let range = |range: Option<(f64, f64)>| range.map(|(min, max)| json!([min, max]));
    let used = |side: &[u64]| {
        let end = side.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        side[..end].to_vec()
    };
    let any = s.moments.count > 0;
    let mut value = json!({
        "name": name,
        "tensors": s.tensors,
        "elements": s.elements,
        "zeros": s.zeros,
        "nans": s.nans,
        "infinities": s.infinities,
        "min": s.extremes.range().map(|r| r.0),
        "max": s.extremes.range().map(|r| r.1),
        "mean": any.then_some(s.moments.mean),
        "std": any.then(|| s.moments.deviation()),
        "third_moment": any.then(|| s.moments.third()),
        "fourth_moment": any.then(|| s.moments.fourth()),
        "moving_range": range(s.moving.range()),
    });
    if let Some(channels) = &s.channels {
        let ranges: Vec<_> = channels.extremes.iter().map(|c| range(c.range())).collect();
        value["channels"] = json!({ "axis": channels.axis, "ranges": ranges });
    }
    if let Some(h) = &s.histogram {
        let (negative, positive) = (used(h.negative()), used(h.positive()));
        value["histogram"] =
            json!({ "width": h.width(), "negative": negative, "positive": positive });
    }
    value
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
        if let Some(file) = &self.observe {
            self.observe(file)?;
            return Ok(0);
        }
        // A place that is taken is refused before anything is computed.
        let place = self.out.as_deref().map(|out| self.place(out, arrays::is_own)).transpose()?;
        if let Some(runs) = self.bench {
            self.bench(runs)?;
        }
        place.map_or(Ok(()), |place| self.write(place))?;
        Ok(0)
    }

    fn task(&self) -> Result<Task, Failure> {
        match self.inputs.as_slice() {
            [inputs] => Ok(Task { model: self.model.clone(), inputs: inputs.clone() }),
            _ => {
                let text = "several files of inputs are samples for `--observe`";
                Err(Diagnostic::new(Code::Usage, text).into())
            }
        }
    }

    fn place(&self, file: &Path, is_own: fn(&Path) -> bool) -> Result<OutputFile, Diagnostic> {
        let named = self.inputs.iter().chain([&self.model]).chain(&self.config);
        OutputFile::new(file, named.map(PathBuf::as_path), is_own)
    }

    fn observe(&self, file: &Path) -> Result<(), Failure> {
        let place = self.place(file, is_observation)?;
        let task = Observation {
            model: self.model.clone(),
            samples: self.inputs.clone(),
            values: self.values.iter().cloned().collect(),
            bins: self.histogram,
            channel_axis: self.channels,
        };
        let found = observe(task, &self.running()?)?;
        let values: Vec<Value> = found.iter().map(|(name, s)| statistics(name, s)).collect();
        let text = format!("{:#}\n", json!({ OBSERVATION: 1, "values": values }));
        std::fs::write(place.part(), text).map_err(|e| place.disk(&e))?;
        place.done()?;
        if self.json {
            out::json(&json!({ "out": file, "values": found.len() }));
        }
        Ok(())
    }

    fn running(&self) -> Result<ModelRunOptions, Failure> {
        let (threads, bytes_max, timeout) = (self.threads, self.memory, self.timeout);
        let running = ModelRunOptions { threads, bytes_max, timeout, ..ModelRunOptions::default() };
        Ok(match self.engine {
            Engine::Builtin => running,
            Engine::Onnxruntime => ModelRunOptions {
                engine: EngineName::OnnxRuntime,
                library: Context::load(self.config.as_deref())?.onnx_runtime(),
                optimization: match self.ort_optimization {
                    OptimizationLevel::Off => Optimization::Off,
                    OptimizationLevel::Basic => Optimization::Basic,
                    OptimizationLevel::Extended => Optimization::Extended,
                    OptimizationLevel::All => Optimization::All,
                },
                ..running
            },
        })
    }

    fn bench(&self, runs: NonZeroUsize) -> Result<(), Failure> {
        let running = self.running()?;
        let timed = bench(self.task()?, &running, runs.get())?;
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

    fn write(&self, place: OutputFile) -> Result<(), Failure> {
        let evaluated = evaluate(self.task()?, &self.running()?, self.all_tensors)?;
        let mut arrays = evaluated.outputs;
        for (name, tensor) in evaluated.all {
            if !arrays.iter().any(|(n, _)| *n == name) {
                arrays.push((name, tensor));
            }
        }
        arrays::write(place.part(), &arrays)?;
        place.done()?;
        if self.bench.is_some() {
            return Ok(());
        }
        let shapes = arrays.iter().map(|(name, t)| (name, t.dtype().to_string(), t.dims()));
        if self.json {
            let shapes = shapes.map(|(n, t, d)| json!({ "name": n, "type": t, "shape": d }));
            out::json(&json!({ "out": self.out, "arrays": shapes.collect::<Vec<_>>() }));
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
