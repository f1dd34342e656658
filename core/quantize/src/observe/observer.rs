//! Runs a model on samples and keeps statistics of its values instead of the values.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_eval::{BYTES_MAX, Engine, Observer, Prepared, RunOptions};
use onnxd_ir::{Model, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by the names of a model's inputs.
pub type Feeds = BTreeMap<String, Tensor>;

/// What is kept of a value. It depends on the tensors and their order alone.
pub trait Statistic: Send + Sized {
    /// Whether it takes little memory and can be put together from parts, so that several samples
    /// may run at once.
    const PARTS: bool = false;

    /// One without values, for some of the tensors: parts that are merged in the order of their
    /// tensors give what the tensors one after the other would have given.
    #[must_use]
    fn part(self) -> Self {
        self
    }

    /// Takes in one tensor.
    fn see(&mut self, tensor: &Tensor);

    /// Takes in what another one saw after this one.
    fn merge(&mut self, later: &Self);
}

/// Which values are looked at. Others cost nothing.
#[derive(Clone, Debug)]
pub enum WantedValues {
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
    /// Elements of a value that are compared with others.
    pub compared_max: usize,
    /// Samples that run at the same time when values are compared: the values of each take memory.
    pub at_once_max: usize,
    /// Whether convolutions may round a little more, see [`RunOptions::winograd`].
    pub winograd: bool,
}

/// Bytes of dequantized weights and the like that are kept from sample to sample: it takes less time
/// to compute those of large models anew than their memory is worth.
const KEPT_MAX: usize = 32 << 20;

impl<'a> Limits<'a> {
    /// Those of float networks and of what is compared with them: convolutions may round a little
    /// more and take less time.
    #[must_use]
    pub fn of_floats() -> Limits<'a> {
        Limits { winograd: true, ..Limits::default() }
    }

    /// A run that an observer sees.
    pub(crate) fn options<'o>(self, observer: &'o mut (dyn Observer + Send + 'o)) -> RunOptions<'o>
    where
        'a: 'o,
    {
        let Limits { bytes_max, stop, winograd, .. } = self;
        RunOptions { bytes_max, kept_max: KEPT_MAX, winograd, stop, observer: Some(observer) }
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits {
            bytes_max: BYTES_MAX,
            stop: None,
            compared_max: usize::MAX,
            at_once_max: usize::MAX,
            winograd: false,
        }
    }
}

struct Collector<'a, S> {
    wanted: &'a WantedValues,
    make: Make<'a, S>,
    found: BTreeMap<String, S>,
}

/// Makes a statistic without values for the value of a name.
type Make<'a, S> = &'a (dyn Fn(&str) -> S + Sync);

impl<S: Statistic> Observer for Collector<'_, S> {
    fn wants(&mut self, value: &str) -> bool {
        match self.wanted {
            WantedValues::All => true,
            WantedValues::Names(names) | WantedValues::Reached(names) => names.contains(value),
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
    wanted: &WantedValues,
    make: Make<S>,
    limits: Limits,
) -> Result<BTreeMap<String, S>, Diagnostics> {
    let mut found = BTreeMap::new();
    observe_more(engine, model, samples, (wanted, make), &mut found, limits)?;
    Ok(found)
}

/// The same, where `statistics` has seen earlier samples.
///
/// # Errors
/// As [`observe`].
pub fn observe_more<S: Statistic>(
    engine: &dyn Engine,
    model: &Model,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    (wanted, make): (&WantedValues, Make<S>),
    statistics: &mut BTreeMap<String, S>,
    limits: Limits,
) -> Result<(), Diagnostics> {
    let mut prepared = engine.prepare(model)?;
    match S::PARTS {
        true => in_parts(&mut *prepared, samples, (wanted, make), statistics, limits)?,
        false => {
            let mut collector = Collector { wanted, make, found: std::mem::take(statistics) };
            for sample in samples {
                prepared.run(&sample?, limits.options(&mut collector))?;
            }
            *statistics = collector.found;
        }
    }
    let mut missing = Diagnostics::default();
    if let WantedValues::Names(names) = wanted {
        for name in names.iter().filter(|name| !statistics.contains_key(*name)) {
            let text = format!("no run showed a value `{}`", shown(name));
            let help = "`onnxd print` names the values of the main graph.";
            missing.push(Diagnostic::new(Code::EvalInputs, text).help(help));
        }
    }
    missing.or_ok(())
}

/// Runs as many samples at once as the engine takes; what each of them shows is merged in their
/// order.
fn in_parts<S: Statistic>(
    prepared: &mut dyn Prepared,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    (wanted, make): (&WantedValues, Make<S>),
    found: &mut BTreeMap<String, S>,
    limits: Limits,
) -> Result<(), Diagnostics> {
    loop {
        let now = samples.take(prepared.at_once());
        let now = now.collect::<Result<Vec<Feeds>, Diagnostics>>()?;
        if now.is_empty() {
            return Ok(());
        }
        let part = |name: &str| make(name).part();
        let collector = |_| Collector { wanted, make: &part, found: BTreeMap::new() };
        let mut seen: Vec<Collector<S>> = now.iter().map(collector).collect();
        let runs = now.iter().zip(&mut seen).map(|(feeds, seen)| (feeds, limits.options(seen)));
        prepared.run_all(runs.collect())?;
        for (name, part) in seen.into_iter().flat_map(|seen| seen.found) {
            let all = found.entry(name);
            all.or_insert_with_key(|name| make(name)).merge(&part);
        }
    }
}
