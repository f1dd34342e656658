//! A model in sessions of ONNX Runtime: one that computes its outputs, and for an observer as many
//! as its values take, so that only some of them are held at a time.

use crate::message::Message;
use crate::{OnnxRuntime, given, refused, value};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_eval::{Observer, Prepared, RunOptions, engine::check_inputs, quoted};
use onnxd_ir::{Dim, Graph, Model, Tensor, ValueId};
use ort::logging::LogLevel;
use ort::session::{Session, SessionInputValue};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the caller is asked whether to stop.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Values of unknown size that are shown in one go.
const UNKNOWN_AT_ONCE: usize = 16;

/// A model, ready to run.
pub(crate) struct Ready<'m> {
    engine: OnnxRuntime,
    model: &'m Model,
    message: Message,
    /// Computes the outputs.
    plain: Option<Session>,
    watched: Watched,
}

/// Sessions that compute the outputs and what an observer wants: each the values named with it.
#[derive(Default)]
struct Watched {
    wanted: Vec<ValueId>,
    batches: Vec<(Vec<ValueId>, Session)>,
}

impl<'m> Ready<'m> {
    pub(crate) fn new(engine: &OnnxRuntime, model: &'m Model) -> Result<Self, Diagnostics> {
        let (engine, message) = (engine.clone(), Message::new(model)?);
        let mut ready = Ready { engine, model, message, plain: None, watched: Watched::default() };
        // An observed model that does not run fails as early as any other.
        ready.plain = Some(ready.session(true, &[])?);
        Ok(ready)
    }

    fn session(&self, own: bool, more: &[String]) -> Result<Session, Diagnostic> {
        let build = || -> Result<Session, ort::Error> {
            let options = self.engine.options;
            let mut builder = Session::builder(self.engine.library.environment())?
                .with_log_level(LogLevel::Fatal)?
                .with_optimization_level(options.optimization.level())?
                .with_intra_threads(options.threads)?
                .with_inter_threads(1)?;
            for (name, weight) in &self.message.weights {
                builder = builder.with_external_initializer(name, weight.clone())?;
            }
            builder.commit_from_memory(&self.message.with_outputs(own, more))
        };
        build().map_err(|e| refused(&e))
    }

    /// Has a session ready for every batch of the values that `observer` wants.
    fn watch(
        &mut self,
        observer: &mut dyn Observer,
        feeds: &BTreeMap<String, Tensor>,
    ) -> Result<(), Diagnostic> {
        let graph = &self.model.graph;
        let computed = graph.nodes().flat_map(|(_, n)| n.outputs.iter().flatten().copied());
        let wanted: Vec<ValueId> =
            computed.filter(|v| observer.wants(&quoted(&graph[*v].name))).collect();
        if wanted == self.watched.wanted && !self.watched.batches.is_empty() {
            return Ok(());
        }
        self.plain = None;
        self.watched = Watched { wanted: wanted.clone(), batches: Vec::new() };
        let sizes = ValueSizes::new(graph, feeds, self.engine.options.watched_bytes_max);
        for (i, batch) in sizes.batches(&wanted).into_iter().enumerate() {
            let names: Vec<String> = batch
                .iter()
                .filter(|v| i > 0 || !graph.is_output(**v))
                .map(|v| graph[*v].name.clone())
                .collect();
            let session = self.session(i == 0, &names)?;
            self.watched.batches.push((batch, session));
        }
        Ok(())
    }
}

impl Prepared for Ready<'_> {
    fn run(
        &mut self,
        inputs: &BTreeMap<String, Tensor>,
        options: RunOptions,
    ) -> Result<Vec<(String, Tensor)>, Diagnostics> {
        let graph = &self.model.graph;
        check_inputs(graph, inputs)?;
        let feeds = given::inputs(graph, inputs)?.into_iter();
        let feeds: Vec<(String, SessionInputValue)> =
            feeds.map(|(name, value)| (name, value.into())).collect();
        let own: Vec<ValueId> = graph.outputs().to_vec();
        let stop = options.stop;
        let Some(observer) = options.observer else {
            if self.plain.is_none() {
                self.plain = Some(self.session(true, &[])?);
            }
            let Some(session) = &mut self.plain else { return Ok(Vec::new()) };
            return Ok(run(session, graph, feeds, &own, stop)?.concat());
        };
        for id in graph.inputs() {
            let name = &graph[*id].name;
            if let Some(tensor) = inputs.get(name)
                && observer.wants(&quoted(name))
            {
                observer.see(&quoted(name), tensor);
            }
        }
        self.watch(observer, inputs)?;
        let feeds: Vec<(&String, &SessionInputValue)> = feeds.iter().map(|(n, v)| (n, v)).collect();
        let mut outputs = Vec::new();
        for (i, (batch, session)) in self.watched.batches.iter_mut().enumerate() {
            let fed = feeds.iter().map(|(n, v)| ((*n).clone(), v.view().into())).collect();
            let more = batch.iter().filter(|v| i > 0 || !own.contains(v)).copied();
            let ids: Vec<ValueId> =
                if i == 0 { own.iter().copied().chain(more).collect() } else { more.collect() };
            let found = run(session, graph, fed, &ids, stop)?;
            for (id, parts) in ids.iter().zip(&found) {
                // Observers see tensors only.
                if let ([(name, tensor)], true) = (&parts[..], batch.contains(id))
                    && *name == graph[*id].name
                {
                    observer.see(&quoted(name), tensor);
                }
            }
            if i == 0 {
                outputs = found[..own.len()].concat();
            }
        }
        Ok(outputs)
    }
}

/// Runs a session; gives the values of these ids, of those that are not tensors their parts.
fn run(
    session: &mut Session,
    graph: &Graph,
    feeds: Vec<(String, SessionInputValue)>,
    ids: &[ValueId],
    stop: Option<&(dyn Fn() -> bool + Sync)>,
) -> Result<Vec<Vec<(String, Tensor)>>, Diagnostic> {
    let options = ort::session::RunOptions::new().map_err(|e| refused(&e))?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = stop.map(|stop| {
            let (done, options) = (&done, &options);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    if stop() {
                        // What cannot be stopped ends by itself.
                        let _ = options.terminate();
                        return;
                    }
                    std::thread::park_timeout(ASK_EVERY);
                }
            })
        });
        let found = session.run_with_options(feeds, &options);
        done.store(true, Ordering::Release);
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
        }
        let found = found.map_err(|e| match stop {
            Some(stop) if stop() => {
                Diagnostic::new(Code::RunStopped, "the time for the run was over")
            }
            _ => refused(&e),
        })?;
        let missing = |name: &str| {
            Diagnostic::new(Code::EngineRefused, format!("ONNX Runtime gives no value `{name}`"))
        };
        let one = |id: &ValueId| {
            let name = graph[*id].name.as_str();
            value::taken(found.get(name).ok_or_else(|| missing(name))?, name)
        };
        ids.iter().map(one).collect()
    })
}

/// How much memory values take, as far as their types tell.
struct ValueSizes<'g> {
    graph: &'g Graph,
    /// Dimensions that are named in the types of inputs, as they were fed.
    named: HashMap<String, usize>,
    bytes_max: usize,
}

impl<'g> ValueSizes<'g> {
    fn new(graph: &'g Graph, feeds: &BTreeMap<String, Tensor>, bytes_max: usize) -> Self {
        let mut named = HashMap::new();
        for id in graph.inputs() {
            let shape = graph[*id].shape().unwrap_or_default();
            let dims = feeds.get(&graph[*id].name).map(Tensor::dims).unwrap_or_default();
            for (dim, size) in shape.iter().zip(dims) {
                if let Dim::Symbol(name) = dim {
                    named.insert(name.to_string(), *size);
                }
            }
        }
        ValueSizes { graph, named, bytes_max }
    }

    fn bytes(&self, id: ValueId) -> Option<usize> {
        let ty = self.graph[id].ty.as_ref()?;
        let sizes = ty.shape()?.iter().map(|dim| match dim {
            Dim::Known(n) => usize::try_from(*n).ok(),
            Dim::Symbol(name) => self.named.get(&**name).copied(),
            Dim::Unknown => None,
        });
        let elements = sizes.into_iter().try_fold(1usize, |n, d| n.checked_mul(d?))?;
        ty.dtype()?.byte_len(elements)
    }

    /// The values in groups that may be held at a time; at least one.
    fn batches(&self, values: &[ValueId]) -> Vec<Vec<ValueId>> {
        let mut batches = vec![Vec::new()];
        let mut held = 0usize;
        for id in values {
            let bytes = self.bytes(*id).unwrap_or(self.bytes_max / UNKNOWN_AT_ONCE);
            if held.saturating_add(bytes) > self.bytes_max && held > 0 {
                batches.push(Vec::new());
                held = 0;
            }
            held = held.saturating_add(bytes);
            if let Some(batch) = batches.last_mut() {
                batch.push(*id);
            }
        }
        batches
    }
}
