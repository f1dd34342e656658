//! Runs a model on samples, one after the other, and keeps statistics of its values instead of the
//! values.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_eval::{BYTES_MAX, Engine, Observer, RunOptions};
use onnxd_ir::{Model, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by the names of a model's inputs.
pub type Feeds = BTreeMap<String, Tensor>;

/// What is kept of a value. It depends on the tensors and their order alone.
pub trait Statistic {
    /// Takes in one tensor.
    fn see(&mut self, tensor: &Tensor);

    /// Takes in what another one saw after this one.
    fn merge(&mut self, later: &Self);
}

/// Which values are looked at. Others cost nothing.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All that the engine shows.
    All,
    /// Those of these names, see [`Observer`].
    Names(BTreeSet<String>),
    /// Those of these names that runs come by: sub-graphs may never run.
    Reached(BTreeSet<String>),
}

/// What the runs may take.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Bytes of tensors alive at a time.
    pub bytes_max: usize,
    /// Whether it is time to stop.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// Bytes of dequantized weights and the like that are kept from sample to sample: it takes less time
/// to compute those of large models anew than their memory is worth.
const KEPT_MAX: usize = 32 << 20;

impl<'a> Limits<'a> {
    /// A run that an observer sees.
    pub(crate) fn options<'o>(self, observer: &'o mut (dyn Observer + 'o)) -> RunOptions<'o>
    where
        'a: 'o,
    {
        let Limits { bytes_max, stop } = self;
        RunOptions { bytes_max, kept_max: KEPT_MAX, stop, observer: Some(observer) }
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { bytes_max: BYTES_MAX, stop: None }
    }
}

struct Collector<'a, S> {
    wanted: &'a Wanted,
    make: &'a dyn Fn(&str) -> S,
    found: BTreeMap<String, S>,
}

impl<S: Statistic> Observer for Collector<'_, S> {
    fn wants(&mut self, value: &str) -> bool {
        match self.wanted {
            Wanted::All => true,
            Wanted::Names(names) | Wanted::Reached(names) => names.contains(value),
        }
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        match self.found.get_mut(value) {
            Some(statistic) => statistic.see(tensor),
            None => {
                let mut statistic = (self.make)(value);
                statistic.see(tensor);
                self.found.insert(value.to_owned(), statistic);
            }
        }
    }
}

/// Runs `model` on every sample, and gives what `make` made of the values that are wanted.
///
/// # Errors
/// Why a sample cannot be had or a run failed; `N0507` if a value was named that no run computed.
pub fn observe<S: Statistic>(
    engine: &dyn Engine,
    model: &Model,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    wanted: &Wanted,
    make: &dyn Fn(&str) -> S,
    limits: Limits,
) -> Result<BTreeMap<String, S>, Diagnostics> {
    let mut prepared = engine.prepare(model)?;
    let mut collector = Collector { wanted, make, found: BTreeMap::new() };
    for sample in samples {
        prepared.run(&sample?, limits.options(&mut collector))?;
    }
    let found = collector.found;
    let mut missing = Diagnostics::default();
    if let Wanted::Names(names) = wanted {
        for name in names.iter().filter(|name| !found.contains_key(*name)) {
            let text = format!("no run showed a value `{}`", shown(name));
            let help = "`onnxd print` names the values of the main graph.";
            missing.push(Diagnostic::new(Code::EvalInputs, text).help(help));
        }
    }
    missing.or_ok(found)
}
