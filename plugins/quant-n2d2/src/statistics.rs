//! What calibration samples tell: the range of the inputs, and ranges and histograms of the cells'
//! results. Samples are taken one after the other, and none is kept.

use crate::histogram::{Histogram, bins};
use crate::options::{Clipping, PlanOptions};
use crate::plan::CellNetwork;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::eval::{Executor, Observer, RunOptions, quoted};
use onnxd_plugin_sdk::ir::{Graph, Tensor};
use onnxd_quantize::accuracy::Samples;
use onnxd_quantize::observe::{Extremes, Feeds};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Samples for two ends.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    /// All there are: N2D2 takes the range of the inputs from its whole set.
    pub all: Samples<'a>,
    /// Those that the network runs on to find ranges.
    pub calibrating: Samples<'a>,
}

impl<'a> Data<'a> {
    /// The same samples for both.
    pub fn same(samples: Samples<'a>) -> Data<'a> {
        Data { all: samples, calibrating: samples }
    }
}

/// A range with another largest magnitude, if it is given; the sign stays.
pub(crate) fn or_given(range: Extremes, reach: Option<f64>) -> Extremes {
    match reach {
        Some(max) => Extremes { min: if range.min < 0.0 { -max } else { 0.0 }, max },
        None => range,
    }
}

/// The range of all inputs over all samples.
pub(crate) fn input_range(graph: &Graph, samples: Samples) -> Result<Extremes, Diagnostics> {
    let mut range = Extremes::default();
    for sample in samples() {
        for (name, tensor) in sample? {
            let values = floats(&tensor).ok_or_else(|| unusable(&name))?;
            let is_input = graph.inputs().iter().any(|v| graph[*v].name == name);
            refuse!(is_input && range.see_floats(&values).is_none() => unusable(&name).into());
        }
    }
    refuse!(range.range().is_none() => Diagnostic::new(Code::EvalInputs, "there are no calibration samples").into());
    Ok(range)
}

pub(crate) fn unusable(name: &str) -> Diagnostic {
    let text = format!("a sample of input `{}` is not made of finite floats", shown(name));
    Diagnostic::new(Code::EvalInputs, text)
}

pub(crate) fn floats(tensor: &Tensor) -> Option<Cow<'_, [f32]>> {
    if let Some(values) = tensor.as_slice::<f32>() {
        return Some(values);
    }
    let reals = tensor.dtype().is_float().then(|| tensor.to_reals()).flatten()?;
    Some(reals.values.iter().map(|x| *x as f32).collect())
}

/// What was seen of a cell's result.
#[derive(Clone, Debug)]
pub(crate) struct CellStatistics {
    pub(crate) range: Extremes,
    /// Of those that want one, in units of the input's range.
    pub(crate) histogram: Option<Histogram>,
}

/// All that the samples tell.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    /// Of the network's inputs.
    pub(crate) inputs: Extremes,
    /// Per cell.
    pub(crate) seen: Vec<CellStatistics>,
}

impl Statistics {
    /// What one unit of the cells' values is: the largest magnitude of the inputs.
    pub(crate) fn unit(&self) -> f64 {
        if self.inputs.abs_max() > 0.0 { self.inputs.abs_max() } else { 1.0 }
    }
}

/// Which results get a histogram, and whether they have a sign.
pub(crate) type WantedHistograms = BTreeMap<usize, bool>;

struct Collector<'a> {
    cells: HashMap<String, usize>,
    seen: Vec<CellStatistics>,
    wanted: &'a WantedHistograms,
    unit: f64,
    bins: usize,
    /// Whether histograms are filled already.
    counts: bool,
    problem: Option<Diagnostic>,
}

impl Observer for Collector<'_> {
    fn wants(&mut self, value: &str) -> bool {
        self.cells.contains_key(value)
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        let (Some(at), Some(values)) = (self.cells.get(value), floats(tensor)) else { return };
        let seen = &mut self.seen[*at];
        if seen.range.see_floats(&values).is_none() {
            let text = format!("`{}` is not finite on a calibration sample", shown(value));
            self.problem.get_or_insert(Diagnostic::new(Code::EvalInputs, text));
            return;
        }
        let Some(signed) = self.wanted.get(at).filter(|_| self.counts) else { return };
        let reach = seen.range.abs_max() / self.unit;
        let histogram =
            seen.histogram.get_or_insert_with(|| Histogram::new(reach, *signed, self.bins));
        if let Err(problem) = histogram.reach(reach) {
            self.problem.get_or_insert(problem);
            return;
        }
        histogram.see(values.iter().map(|x| f64::from(*x) / self.unit));
    }
}

/// Samples that run at once.
fn count(feeds: &Feeds) -> usize {
    let axis = feeds.values().filter_map(|tensor| tensor.dims().first()).copied().next();
    axis.unwrap_or(1).max(1)
}

/// Runs the network on all samples.
pub(crate) fn collect(
    network: &CellNetwork,
    samples: Samples,
    wanted: &WantedHistograms,
    unit: f64,
    options: &PlanOptions,
) -> Result<Vec<CellStatistics>, Diagnostics> {
    let graph = &network.model.graph;
    let names = network.cells.iter().enumerate();
    let mut collector = Collector {
        cells: names.map(|(i, cell)| (quoted(&graph[cell.output].name), i)).collect(),
        seen: vec![
            CellStatistics { range: Extremes::default(), histogram: None };
            network.cells.len()
        ],
        wanted,
        unit,
        bins: bins(options.activations, options.bits),
        counts: false,
        problem: None,
    };
    let executor = Executor::new(&network.model)?;
    let run = |collector: &mut Collector, sample: Result<Feeds, Diagnostics>| {
        let options = RunOptions { observer: Some(collector), ..RunOptions::default() };
        executor.run(&sample?, options).map(|_| ())
    };
    // The first batch sets the grid of the histograms, so its range must be known before they are
    // filled.
    let grid = options.activations != Clipping::None && options.batch > 1;
    let mut left = if grid { options.batch } else { 0 };
    let mut first = samples();
    while left > 0
        && let Some(sample) = first.next()
    {
        left = left.saturating_sub(sample.as_ref().map_or(1, count));
        run(&mut collector, sample)?;
    }
    drop(first);
    collector.counts = options.activations != Clipping::None;
    for sample in samples() {
        run(&mut collector, sample)?;
        refuse!(let Some(problem) = collector.problem.take() => problem.into());
    }
    Ok(collector.seen)
}
