//! Runs whole models: checks first what can be checked without data, then runs the graph node by
//! node.

use crate::frame::{Plan, Runner};
use crate::parallel::alone;
use crate::watch::Observer;
use crate::{inputs, support};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{DataType, Function, Graph, Model, Tensor};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// Bytes of intermediate tensors that a run may hold unless the caller says otherwise.
pub const BYTES_MAX: usize = 16 << 30;

/// Bytes of intermediate tensors of samples that run at once.
const AT_ONCE_MAX: usize = 128 << 20;

/// Tensors by the names of a model's inputs.
type Feeds = BTreeMap<String, Tensor>;

/// How to run.
pub struct RunOptions<'a> {
    /// Bytes of intermediate tensors that may be alive at a time; tensors that share memory count
    /// each.
    pub bytes_max: usize,
    /// Bytes of what only constants feed that are kept for later runs beside them; at most a quarter
    /// of [`RunOptions::bytes_max`].
    pub kept_max: usize,
    /// Whether float convolutions of 3x3 with stride 1 may be computed by Winograd's algorithm where
    /// that takes less time. Results are then off by up to some millionths of the largest magnitude,
    /// about five times as much as else, and where sums of integers were exact, they are not: this
    /// is for statistics of float networks, never for results that are compared to the bit.
    pub winograd: bool,
    /// Sees the values it wants, those of sub-graphs and functions included.
    pub observer: Option<&'a mut (dyn Observer + Send + 'a)>,
    /// Asked before every node; the run ends with `N0309` when it says so.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        RunOptions {
            bytes_max: BYTES_MAX,
            kept_max: usize::MAX,
            winograd: false,
            observer: None,
            stop: None,
        }
    }
}

/// A model made ready to run many times.
pub struct Executor<'m> {
    pub(crate) model: &'m Model,
    /// By domain, name and overload.
    pub(crate) functions: HashMap<(&'m str, &'m str, &'m str), &'m Function>,
    /// By address of the graph, which the borrow of the model keeps in place.
    plans: HashMap<usize, Plan>,
    /// Bytes of values that are kept from run to run.
    pub(crate) kept: AtomicUsize,
    /// Derived tensors and the same in memory, by what derives them.
    computed: Mutex<HashMap<(usize, usize), (Tensor, Tensor)>>,
    /// The most bytes of values alive at a time in a run so far.
    peak: AtomicUsize,
}

impl<'m> Executor<'m> {
    /// Prepares `model`.
    ///
    /// # Errors
    /// All nodes at once that no kernel computes (`N0506`), or a graph that has a cycle (`N0502`).
    pub fn new(model: &'m Model) -> Result<Executor<'m>, Diagnostics> {
        let functions = model
            .functions
            .iter()
            .map(|f| ((standard(&f.domain), f.name.as_str(), f.overload.as_str()), f))
            .collect();
        let (plans, kept, computed, peak) = Default::default();
        let mut executor = Executor { model, functions, plans, kept, computed, peak };
        support::check(&executor)?;
        let mut problems = Diagnostics::default();
        model.for_each_graph(|graph| match Plan::new(graph) {
            Ok(plan) => {
                executor.plans.insert(address(graph), plan);
            }
            Err(problem) => problems.push(problem),
        });
        problems.or_ok(executor)
    }

    /// Runs the model on tensors by input name; gives the outputs in the graph's order, those that are
    /// not tensors as [`crate::parts`] says. Inputs that have an initializer may be left out.
    ///
    /// # Errors
    /// All that is wrong with the inputs at once (`N0507`), or the first node that fails, which is
    /// named.
    pub fn run(
        &self,
        inputs: &Feeds,
        options: RunOptions,
    ) -> Result<Vec<(String, Tensor)>, Diagnostics> {
        let graph = &self.model.graph;
        let fed = inputs::items(graph, inputs)?;
        let mut runner = Runner::new(self, options);
        let outputs = runner.main(fed)?;
        self.peak.fetch_max(runner.peak, Relaxed);
        let mut named = Vec::with_capacity(outputs.len());
        for (item, v) in outputs.into_iter().zip(graph.outputs()) {
            let name = &graph[*v].name;
            let kind = item.kind();
            named.extend(item.named(name).ok_or_else(|| {
                let text = format!("output `{}` is {kind}, which has no arrays", shown(name));
                Diagnostic::new(Code::OperatorUnsupported, text)
            })?);
        }
        Ok(named)
    }

    /// The most bytes of values alive at a time so far.
    #[cfg(test)]
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    /// Whether nothing has run yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.peak.load(Relaxed) == 0
    }

    /// As many samples as there are threads, as far as memory goes. How much a sample takes is not
    /// known before the first one ran.
    pub(crate) fn at_once(&self) -> usize {
        match self.peak.load(Relaxed) {
            0 => 1,
            peak => (AT_ONCE_MAX / peak).clamp(1, rayon::current_num_threads()),
        }
    }

    /// Runs the model on each sample, all at once. Where there are threads for each and more, they
    /// share the work of the samples, too.
    pub(crate) fn run_all(&self, runs: Vec<(&Feeds, RunOptions)>) -> Result<(), Diagnostics> {
        let share = runs.len() < rayon::current_num_threads();
        let run = |(inputs, options)| match share {
            true => self.run(inputs, options),
            false => alone(|| self.run(inputs, options)),
        };
        let done: Vec<_> = runs.into_par_iter().map(run).collect();
        done.into_iter().try_for_each(|done| done.map(drop))
    }

    /// A tensor in memory. What is computed of a derived one stays for later runs as far as `room` goes for all
    /// that is kept, but not in the first run, which may be the only one.
    pub(crate) fn in_memory(&self, tensor: Tensor, room: usize) -> Tensor {
        if tensor.derivation().is_none() {
            return tensor;
        }
        let computed = || self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = computed().get(&tensor.identity()).map(|(_, held)| held.clone());
        let held = known.unwrap_or_else(|| tensor.held());
        let bytes = tensor.byte_len();
        let lasts = !self.is_fresh() && self.kept.load(Relaxed).saturating_add(bytes) <= room;
        let both = (tensor.clone(), held.clone());
        if lasts && computed().insert(tensor.identity(), both).is_none() {
            self.kept.fetch_add(bytes, Relaxed);
        }
        held.reshaped(tensor.dims()).unwrap_or(held)
    }

    /// A constant whose numbers lie at places that are multiples of their width. In files that are mapped they lie
    /// anywhere, and each kernel would copy them each time. The copy is kept as in [`Executor::in_memory`].
    pub(crate) fn aligned(&self, tensor: Tensor, room: usize) -> Tensor {
        let plain = tensor.derivation().is_none() && tensor.dtype() == DataType::Float;
        let displaced = |x: &Tensor| !x.bytes().as_ptr().addr().is_multiple_of(size_of::<f32>());
        if !plain || self.is_fresh() || !displaced(&tensor) {
            return tensor;
        }
        let computed = || self.computed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = computed().get(&tensor.identity()).map(|(_, held)| held.clone());
        if let Some(held) = known {
            return held.reshaped(tensor.dims()).unwrap_or(held);
        }
        let bytes = tensor.byte_len();
        if self.kept.load(Relaxed).saturating_add(bytes) > room {
            return tensor;
        }
        let Some(Cow::Owned(copy)) = tensor.as_slice::<f32>() else { return tensor };
        let held = Tensor::from_vec(tensor.dims(), copy);
        let both = (tensor.clone(), held.clone());
        if computed().insert(tensor.identity(), both).is_none() {
            self.kept.fetch_add(bytes, Relaxed);
        }
        held
    }

    pub(crate) fn plan(&self, graph: &Graph) -> Result<&Plan, Diagnostic> {
        self.plans.get(&address(graph)).ok_or_else(|| {
            Diagnostic::new(Code::Internal, format!("graph `{}` was not prepared", graph.name))
        })
    }
}

pub(crate) fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}

/// The standard's domain has two spellings.
pub(crate) fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
