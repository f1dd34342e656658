//! What is kept of a model from run to run, and how to run it.

use crate::domain::standard;
use crate::plan::{GraphPlan, address};
use crate::watch::Observer;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{DataType, Function, Graph, Model, Node, Tensor};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

/// Bytes of intermediate tensors that a run may hold unless the caller says otherwise.
pub const BYTES_MAX: usize = 16 << 30;

/// Bytes of intermediate tensors of samples that run at once.
const AT_ONCE_MAX: usize = 128 << 20;

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
    functions: HashMap<(&'m str, &'m str, &'m str), &'m Function>,
    /// By address of the graph, which the borrow of the model keeps in place.
    plans: HashMap<usize, GraphPlan>,
    /// Bytes of values that are kept from run to run.
    pub(crate) kept: AtomicUsize,
    /// Derived tensors and the same in memory, by what derives them.
    computed: Mutex<HashMap<(usize, usize), (Tensor, Tensor)>>,
    /// The most bytes of values alive at a time in a run so far.
    peak: AtomicUsize,
}

impl<'m> Executor<'m> {
    /// An executor that knows the functions of `model`, and no graph yet.
    pub(crate) fn prepare(model: &'m Model) -> Executor<'m> {
        let functions = model
            .functions
            .iter()
            .map(|f| ((standard(&f.domain), f.name.as_str(), f.overload.as_str()), f))
            .collect();
        let (plans, kept, computed, peak) = Default::default();
        Executor { model, functions, plans, kept, computed, peak }
    }

    pub(crate) fn add_plan(&mut self, graph: &Graph, plan: GraphPlan) {
        self.plans.insert(address(graph), plan);
    }

    /// The local function that `node` applies.
    pub(crate) fn function(&self, node: &Node) -> Option<&Function> {
        let key = (standard(&node.domain), node.op.as_str(), node.overload.as_str());
        self.functions.get(&key).copied()
    }

    /// Takes note of the most bytes of values that were alive at a time in a run.
    pub(crate) fn has_run(&self, peak: usize) {
        self.peak.fetch_max(peak, Relaxed);
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

    pub(crate) fn plan(&self, graph: &Graph) -> Result<&GraphPlan, Diagnostic> {
        self.plans.get(&address(graph)).ok_or_else(|| {
            Diagnostic::new(Code::Internal, format!("graph `{}` was not prepared", graph.name))
        })
    }
}
