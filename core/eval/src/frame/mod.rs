//! One activation of a graph: its live values, and the order in which they come and go.

mod chain;
mod streamed;

use crate::call::{FunctionAttributes, KernelCall};
use crate::domain::opset;
use crate::executor::{Executor, RunOptions};
use crate::fault::{Fault, layer_of};
use crate::item::RunValue;
use crate::plan::{GraphPlan, address};
use crate::shape::densified;
use crate::steps::{self, ElementStep};
use crate::table;
use crate::watch::{MAIN, Watch};
use chain::Chain;
use onnxd_diagnostics::{Code, Diagnostic, refuse, shown};
use onnxd_ir::{Attr, Function, Graph, Node, Opsets, Tensor, ValueId};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

/// Values that no run changes may take this part of the memory allowed for a run.
const KEPT_PART: usize = 4;
/// Sub-graphs and functions nested deeper are refused.
const DEPTH_MAX: usize = 32;

/// A node, the last one of those that are computed along with it, and what those do.
struct Work<'a> {
    node: &'a Node,
    last: &'a Node,
    chain: &'a Chain,
}

/// A graph while it runs.
struct Frame<'a> {
    graph: &'a Graph,
    opsets: &'a Opsets,
    scope: &'a FunctionAttributes<'a>,
    /// Where it runs.
    place: usize,
    values: Vec<Option<RunValue>>,
    /// Inputs that whoever applies the function leaves out, and what stands for them in its sub-graphs.
    left_out: Vec<ValueId>,
}

impl Frame<'_> {
    fn value(&self, id: ValueId) -> Option<RunValue> {
        let constant = || self.graph[id].initializer().cloned().map(RunValue::Tensor);
        self.values[id.index()].clone().or_else(constant)
    }
}

/// One run of a model.
pub(crate) struct ModelRunner<'e, 'm, 'o> {
    executor: &'e Executor<'m>,
    options: RunOptions<'o>,
    watch: Watch<'o>,
    /// Bytes of the values alive in all frames.
    live: usize,
    /// The most of them so far.
    pub(crate) peak: usize,
    depth: usize,
}

impl<'e, 'm, 'o> ModelRunner<'e, 'm, 'o> {
    pub(crate) fn new(executor: &'e Executor<'m>, mut options: RunOptions<'o>) -> Self {
        let watch = Watch::new(options.observer.take());
        ModelRunner { executor, options, watch, live: 0, peak: 0, depth: 0 }
    }

    /// Runs the main graph.
    pub(crate) fn main(
        &mut self,
        inputs: Vec<Option<RunValue>>,
    ) -> Result<Vec<RunValue>, Diagnostic> {
        let model = self.executor.model;
        self.graph(&model.graph, &model.opsets, &FunctionAttributes::new(), inputs, (MAIN, None))?
            .into_iter()
            .zip(model.graph.outputs())
            .map(|(y, v)| y.ok_or_else(|| undefined(&model.graph, *v)))
            .collect()
    }

    /// Runs `graph` on values for its inputs, at a place in the graph that encloses it; an output
    /// that nothing defines is `None`.
    fn graph(
        &mut self,
        graph: &Graph,
        opsets: &Opsets,
        scope: &FunctionAttributes,
        inputs: Vec<Option<RunValue>>,
        (place, outer): (usize, Option<&Frame>),
    ) -> Result<Vec<Option<RunValue>>, Diagnostic> {
        if self.depth == DEPTH_MAX {
            let text = format!("sub-graphs and functions are nested deeper than {DEPTH_MAX}");
            return Err(Diagnostic::new(Code::OperatorUnsupported, text));
        }
        let executor = self.executor;
        let plan = executor.plan(graph)?;
        let (values, left_out) = (vec![None; plan.values], left_out(graph, plan, &inputs, outer));
        let mut frame = Frame { graph, opsets, scope, place, values, left_out };
        for (id, sparse) in &graph.sparse {
            let dense = densified(sparse, self.room());
            let dense =
                dense.map_err(|f| f.at(&Node::new("Constant", [], []), Default::default()))?;
            frame.values[id.index()] = Some(RunValue::Tensor(dense));
        }
        for (id, value) in graph.inputs().iter().zip(inputs) {
            if let Some(item) = &value {
                self.watch.show(place, graph, *id, item);
            }
            frame.values[id.index()] = value;
        }
        for (own, from) in &plan.captures {
            frame.values[own.index()] = outer.and_then(|o| o.value(*from));
        }
        let before = self.live;
        self.depth += 1;
        let mut done = vec![false; plan.order.len()];
        for (place, (id, last_reads)) in plan.order.iter().zip(&plan.last_reads).enumerate() {
            if !done[place] {
                let chain = self.chain(&frame, plan, place);
                chain.places.iter().for_each(|place| done[*place] = true);
                let last = chain.places.last().map_or(*id, |place| plan.order[*place]);
                let work = Work { node: &graph[*id], last: &graph[last], chain: &chain };
                let kept = plan.constants[place].as_ref();
                let kept = kept.filter(|_| executor.function(work.node).is_none());
                self.node(&mut frame, &work, kept)?;
            }
            for v in last_reads {
                let freed = frame.values[v.index()].take();
                if graph.producer(*v).is_some() {
                    self.live -= freed.map_or(0, |t| t.byte_len());
                }
            }
        }
        self.depth -= 1;
        self.live = before;
        Ok(graph.outputs().iter().map(|v| frame.value(*v)).collect())
    }

    fn stop(&self) -> Result<(), Fault> {
        if self.options.stop.is_some_and(|stop| stop()) { Err(Fault::stopped()) } else { Ok(()) }
    }

    /// Bytes that may be kept for later runs.
    fn keeps(&self) -> usize {
        self.options.kept_max.min(self.options.bytes_max / KEPT_PART)
    }

    fn room(&self) -> usize {
        self.options.bytes_max.saturating_sub(self.live)
    }

    fn call<'a>(
        &self,
        frame: &Frame<'a>,
        node: &'a Node,
        opset: i64,
        inputs: &'a [Option<Tensor>],
    ) -> KernelCall<'a> {
        let (bytes_max, winograd) = (self.room(), self.options.winograd);
        let (steps, derives) = (&[][..], false);
        KernelCall { node, opset, inputs, scope: frame.scope, bytes_max, steps, winograd, derives }
    }

    /// Computes one node and the steps behind it, unless `kept` has what it gives, and stores the
    /// outputs of the last of them.
    fn node(
        &mut self,
        frame: &mut Frame,
        work: &Work,
        kept: Option<&OnceLock<Vec<Tensor>>>,
    ) -> Result<(), Diagnostic> {
        let Work { node, last, .. } = work;
        let outputs = match kept.and_then(OnceLock::get) {
            Some(kept) => kept.iter().cloned().map(RunValue::Tensor).collect(),
            None => self.outputs(frame, work)?,
        };
        if let Some(kept) = kept {
            self.keep(kept, &outputs);
        }
        for (slot, item) in last.outputs.iter().zip(outputs) {
            let Some(v) = slot else { continue };
            self.watch.show(frame.place, frame.graph, *v, &item);
            self.live += item.byte_len();
            frame.values[v.index()] = Some(item);
        }
        self.peak = self.peak.max(self.live);
        if self.live > self.options.bytes_max {
            let text = format!("live tensors exceed {} bytes", self.options.bytes_max);
            return Err(Fault::memory(text).at(node, layer_of(node, Some(frame.graph))));
        }
        Ok(())
    }

    /// What a node and the steps behind it give.
    fn outputs(&mut self, frame: &Frame, work: &Work) -> Result<Vec<RunValue>, Diagnostic> {
        let (node, at) =
            (work.node, |fault: Fault| fault.at(work.node, layer_of(work.node, Some(frame.graph))));
        if let Some(x) = &work.chain.source {
            self.stop().map_err(at)?;
            self.call(frame, node, 0, &[]).room_like(x, x.dims()).map_err(at)?;
            return Ok(vec![RunValue::Tensor(steps::applied(x, &work.chain.steps).map_err(at)?)]);
        }
        let is_bound = node.attrs.iter().any(|(_, attr)| matches!(attr, Attr::Ref { .. }));
        let made = match is_bound || self.executor.function(node).is_some() {
            true => None,
            false => self.made_later(frame, node).or_else(|| self.rows_alone(frame, node)),
        };
        if let Some(made) = made {
            self.stop().map_err(at)?;
            return Ok(vec![made]);
        }
        let read = |(slot, v): (usize, &Option<ValueId>)| -> Result<_, Diagnostic> {
            match v {
                None => Ok(None),
                Some(v) if frame.left_out.contains(v) => Ok(None),
                Some(v) => match frame.value(*v).ok_or_else(|| undefined(frame.graph, *v))? {
                    RunValue::Tensor(x) if self.reads_columns(node, slot, &x) => {
                        Ok(Some(RunValue::Tensor(x)))
                    }
                    RunValue::Tensor(x) => Ok(Some(RunValue::Tensor(self.operand(frame, *v, x)))),
                    other => Ok(Some(other)),
                },
            }
        };
        let inputs: Vec<Option<RunValue>> = node
            .inputs
            .iter()
            .enumerate()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(|d| d.at(layer_of(node, Some(frame.graph))))?;
        let executor = self.executor;
        let outputs = self.stop().and_then(|()| match executor.function(node) {
            Some(function) => self.function(frame, node, function, inputs),
            None => self.operator(frame, node, &inputs, &work.chain.steps),
        });
        outputs.map_err(at)
    }

    /// The value `v`, `x`, as kernels read it: in memory, and a constant at a place that suits them.
    fn operand(&self, frame: &Frame, v: ValueId, x: Tensor) -> Tensor {
        let constant = frame.graph[v].initializer().is_some() && frame.values[v.index()].is_none();
        let x = if constant { self.executor.aligned(x, self.keeps()) } else { x };
        self.executor.in_memory(x, self.keeps())
    }

    /// Keeps tensors for later runs of the same graph, as far as a part of the memory goes; those of
    /// the main graph not in its first run, which may be the only one.
    fn keep(&self, kept: &OnceLock<Vec<Tensor>>, outputs: &[RunValue]) {
        if self.depth == 1 && self.executor.is_fresh() {
            return;
        }
        let bytes: usize = outputs.iter().map(RunValue::byte_len).sum();
        let room = self.keeps();
        if kept.get().is_some() || self.executor.kept.load(Relaxed).saturating_add(bytes) > room {
            return;
        }
        let tensors: Option<Vec<Tensor>> = outputs.iter().map(|y| y.tensor().cloned()).collect();
        if tensors.is_some_and(|tensors| kept.set(tensors).is_ok()) {
            self.executor.kept.fetch_add(bytes, Relaxed);
        }
    }

    fn operator(
        &mut self,
        frame: &Frame,
        node: &Node,
        inputs_given: &[Option<RunValue>],
        steps: &[ElementStep],
    ) -> Result<Vec<RunValue>, Fault> {
        let opset = opset(frame.opsets, &node.domain);
        let row = table::find(node, opset)
            .ok_or_else(|| Fault::unsupported(format!("opset {opset} has no kernel")))?;
        let tensors: Vec<Option<Tensor>> =
            inputs_given.iter().map(|x| x.as_ref().and_then(RunValue::tensor).cloned()).collect();
        let inputs = &tensors[..];
        let call = KernelCall { steps, ..self.call(frame, node, opset, inputs) };
        let mut body = |graph: &Graph, inputs: Vec<RunValue>| {
            let fed = inputs.into_iter().map(Some).collect();
            let nested = |d| Fault::Nested(Box::new(d));
            self.stop()?;
            let name = attribute_of(node, frame.scope, graph);
            let place = self.watch.enter(frame.place, address(graph), (frame.graph, node), name);
            let at = (place, Some(frame));
            let found = self.graph(graph, frame.opsets, frame.scope, fed, at);
            let outputs = found.map_err(nested)?;
            outputs
                .into_iter()
                .zip(graph.outputs())
                .map(|(y, v)| y.ok_or_else(|| nested(undefined(graph, *v))))
                .collect()
        };
        row.run(&call, inputs_given, &mut body)
    }

    /// Applies a local function.
    fn function(
        &mut self,
        frame: &Frame,
        node: &Node,
        function: &Function,
        mut inputs: Vec<Option<RunValue>>,
    ) -> Result<Vec<RunValue>, Fault> {
        refuse!(inputs.len() > function.graph.inputs().len() => "the function has no input {}", inputs.len() - 1);
        inputs.resize(function.graph.inputs().len(), None);
        let mut scope: FunctionAttributes =
            function.defaults.iter().map(|(n, a)| (n.as_str(), a)).collect();
        for (name, attr) in &node.attrs {
            let attr_value = match attr {
                Attr::Ref { name, .. } => frame.scope.get(name.as_str()).copied(),
                attr => Some(attr),
            };
            if let Some(attr_value) = attr_value {
                scope.insert(name, attr_value);
            }
        }
        let (place, called) = (frame.place, (frame.graph, node));
        let place = self.watch.enter(place, address(node), called, &function.name);
        let outputs = self
            .graph(&function.graph, &function.opsets, &scope, inputs, (place, None))
            .map_err(|d| Fault::Nested(Box::new(d)))?;
        let wanted = node.outputs.iter().chain(std::iter::repeat(&None)).map(Option::is_some);
        let mut present_outputs = Vec::new();
        for ((y, v), wanted) in outputs.into_iter().zip(function.graph.outputs()).zip(wanted) {
            match y {
                Some(y) => present_outputs.push(y),
                None if wanted => {
                    return Err(Fault::Nested(Box::new(undefined(&function.graph, *v))));
                }
                None => present_outputs.push(RunValue::Empty),
            }
        }
        Ok(present_outputs)
    }
}

/// Inputs that are given nothing and have no initializer, and captures of such.
fn left_out(
    graph: &Graph,
    plan: &GraphPlan,
    inputs: &[Option<RunValue>],
    outer: Option<&Frame>,
) -> Vec<ValueId> {
    let given = graph.inputs().iter().zip(inputs);
    let left = given.filter(|(v, x)| x.is_none() && graph[**v].initializer().is_none());
    let around = |v: &ValueId| outer.is_some_and(|outer| outer.left_out.contains(v));
    let captured = plan.captures.iter().filter(|(_, from)| around(from)).map(|(own, _)| *own);
    left.map(|(v, _)| *v).chain(captured).collect()
}

/// The attribute of `node` that holds `graph`.
fn attribute_of<'n>(node: &'n Node, scope: &FunctionAttributes, graph: &Graph) -> &'n str {
    let holds = |attr: &Attr| match attr {
        Attr::Ref { name, .. } => scope.get(name.as_str()).is_some_and(|a| is(a, graph)),
        attr => is(attr, graph),
    };
    node.attrs.iter().find(|(_, attr)| holds(attr)).map_or("", |(name, _)| name)
}

fn is(attr: &Attr, graph: &Graph) -> bool {
    matches!(attr, Attr::Graph(held) if std::ptr::eq(held.as_ref(), graph))
}

fn undefined(graph: &Graph, v: ValueId) -> Diagnostic {
    let name = shown(&graph[v].name);
    Diagnostic::new(Code::OnnxInvalid, format!("nothing defines the value `{name}`"))
}
