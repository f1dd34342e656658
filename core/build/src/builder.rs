//! The graph under construction: sub-graphs, layers, names, constants.

use crate::draft::snake;
use crate::node_names::NodeNames;
use crate::{Operand, Result};
use bytes::Bytes;
use onnxd_diagnostics::{Code, Diagnostic, Layer};
use onnxd_ir::infer::{GraphKnowledge, Inference};
use onnxd_ir::{
    DataType, Dim, Function, Graph, Layers, Node, NodeId, Opsets, Origin, Tensor, ValueId,
    ValueType,
};
use std::borrow::Cow;
use std::cell::{Ref, RefCell};
use std::collections::{HashMap, HashSet};

/// Constants up to this size are held once in a graph, however often they are needed.
const SHARED_BYTES_MAX: usize = 256;

/// Nodes of type `Identity` between a value and its constant that are looked through.
const IDENTITIES_MAX: usize = 16;

/// A value of the graph that is built, or of a sub-graph of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Var {
    /// Number of the graph that it belongs to; the main graph is 0.
    pub(crate) frame: u32,
    pub(crate) id: ValueId,
}

/// One graph, the main one or a sub-graph under construction.
pub(crate) struct GraphFrame {
    pub(crate) serial: u32,
    pub(crate) graph: Graph,
    pub(crate) scope: GraphKnowledge,
    shared: HashMap<(DataType, Vec<usize>, Bytes), ValueId>,
    /// Values below this bound were there before.
    pub(crate) first_new: usize,
    /// Sizes without name that were numbered before.
    pub(crate) numbered: usize,
    /// Those of them that inference looked at again.
    pub(crate) touched: Vec<ValueId>,
}

impl GraphFrame {
    /// Forgets constants that are to go.
    pub(crate) fn forget_shared(&mut self, bound: usize) {
        self.shared.retain(|_, v| v.index() < bound);
    }

    /// Notes that the types of what `id` computes have marked names from now on.
    pub(crate) fn touch(&mut self, id: NodeId) {
        let outputs = self.graph[id].outputs.iter().flatten();
        self.touched.extend(outputs.filter(|v| v.index() < self.first_new));
    }
}

pub(crate) struct BuilderState {
    /// The main graph, then the sub-graphs inside which nodes are added at present.
    pub(crate) frames: Vec<GraphFrame>,
    serial: u32,
    pub(crate) opsets: Opsets,
    pub(crate) inference: Inference<'static>,
    /// Layers that nodes are added for; the last list counts.
    layers: Vec<Layers>,
    /// Names of new values start with it.
    pub(crate) prefix: String,
    pub(crate) reserved: HashSet<String>,
    pub(crate) folding: bool,
    pub(crate) strict: bool,
    pub(crate) checked: bool,
    pub(crate) typed: bool,
    pub(crate) node_names: NodeNames,
    pub(crate) functions: Vec<Function>,
}

/// Adds nodes to a graph. All methods take `&self`, so that calls nest like a formula.
pub struct GraphBuilder {
    pub(crate) state: RefCell<BuilderState>,
}

impl GraphBuilder {
    /// A builder that adds to `graph`, whose operators are those of `opsets`.
    pub fn new(graph: Graph, opsets: Opsets) -> GraphBuilder {
        let state = BuilderState {
            frames: vec![],
            serial: 0,
            inference: Inference::new(Cow::Owned(opsets.clone()), &[]),
            opsets,
            layers: vec![],
            prefix: String::new(),
            reserved: HashSet::new(),
            folding: true,
            strict: true,
            checked: true,
            typed: true,
            node_names: NodeNames::Absent,
            functions: vec![],
        };
        let builder = GraphBuilder { state: RefCell::new(state) };
        builder.push(graph);
        builder
    }

    /// The graph that was built, without functions. Sizes of the values that were added have names for readers.
    pub fn finish(self) -> Graph {
        self.pop().0
    }

    // ---- where nodes are added ----

    /// Begins a sub-graph; nodes are added to it until [`GraphBuilder::pop`].
    pub(crate) fn push(&self, graph: Graph) {
        let mut state = self.state.borrow_mut();
        let first_new = graph.value_ids().len();
        let (serial, scope, shared) = (state.serial, GraphKnowledge::default(), HashMap::new());
        let (touched, numbered) = (vec![], state.inference.numbered());
        state.frames.push(GraphFrame {
            serial,
            graph,
            scope,
            shared,
            first_new,
            numbered,
            touched,
        });
        state.serial += 1;
    }

    /// Ends the innermost graph.
    pub(crate) fn pop(&self) -> (Graph, u32) {
        let mut state = self.state.borrow_mut();
        let GraphFrame { mut graph, scope, first_new, touched, serial, .. } =
            state.frames.pop().expect("a graph is open");
        let new = graph.values_from(first_new);
        scope.restore_values(&mut graph, new.clone().chain(touched));
        let computed = |v: &ValueId| graph.producer(*v).is_some();
        let untyped: Vec<ValueId> = new.filter(|_| !state.typed).filter(computed).collect();
        untyped.into_iter().for_each(|v| graph[v].ty = None);
        (graph, serial)
    }

    /// What `f` adds belongs to `layer` of the source network, and its names start with the layer's.
    pub fn in_layer<R>(&self, layer: Layer, f: impl FnOnce(&GraphBuilder) -> R) -> R {
        let name = layer.name.clone();
        self.in_layers(layer.into(), &name, f)
    }

    /// As [`GraphBuilder::in_layer`], for nodes that stand for several layers; new names start with
    /// `prefix`.
    pub fn in_layers<R>(
        &self,
        layers: Layers,
        prefix: &str,
        f: impl FnOnce(&GraphBuilder) -> R,
    ) -> R {
        let before = {
            let mut state = self.state.borrow_mut();
            state.layers.push(layers);
            std::mem::replace(&mut state.prefix, prefix.to_owned())
        };
        let result = f(self);
        let mut state = self.state.borrow_mut();
        state.layers.pop();
        state.prefix = before;
        result
    }

    /// The layer that nodes are added for.
    pub fn layer(&self) -> Option<Layer> {
        self.state.borrow().layers.last().and_then(|layers| layers.first().cloned())
    }

    /// A finding about the layer that nodes are added for.
    pub fn diagnostic(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        let found = Diagnostic::new(code, message);
        match self.layer() {
            Some(layer) => found.at(layer),
            None => found,
        }
    }

    /// A finding about a layer that cannot be said in ONNX: `N0203`.
    pub fn unsupported(&self, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Code::LayerUnsupported, message)
    }

    /// A finding about a layer with a parameter that is wrong or missing: `N0204`.
    pub fn wrong(&self, message: impl Into<String>) -> Diagnostic {
        self.diagnostic(Code::LayerParameter, message)
    }

    /// Version of the standard's operators; 0 if the graph has none.
    pub fn opset(&self) -> i64 {
        self.version("").unwrap_or(0)
    }

    /// Version of the operators of `domain`.
    pub fn version(&self, domain: &str) -> Option<i64> {
        let opsets = &self.state.borrow().opsets;
        let other = if domain.is_empty() { "ai.onnx" } else { domain };
        opsets.get(domain).or_else(|| opsets.get(other)).copied()
    }

    /// Lets operators of a foreign domain be added, in version 1 unless the graph has another.
    pub fn import_domain(&self, domain: &str) {
        self.state.borrow_mut().opsets.entry(domain.to_owned()).or_insert(1);
    }

    // ---- values ----

    /// The graph that nodes are added to, to be looked at. It must be let go before the next node is
    /// added.
    pub fn graph(&self) -> Ref<'_, Graph> {
        Ref::map(self.state.borrow(), |s| &s.frames.last().expect("a graph is open").graph)
    }

    /// A value that was in the graph before, or was added to it by other means.
    pub fn var(&self, id: ValueId) -> Var {
        let frame = self.state.borrow().frames.last().expect("a graph is open").serial;
        Var { frame, id }
    }

    /// `v` as a value of the graph that nodes are added to; a value of an enclosing graph is
    /// captured.
    ///
    /// # Errors
    /// `N0901` if it belongs to a sub-graph that is finished, or to another builder.
    pub fn id(&self, v: Var) -> Result<ValueId> {
        let mut state = self.state.borrow_mut();
        let Some(at) = state.frames.iter().position(|f| f.serial == v.frame) else {
            drop(state);
            let message = "A value is used outside of the sub-graph that it belongs to.";
            return Err(self.diagnostic(Code::InvariantBroken, message));
        };
        let mut id = v.id;
        for i in at + 1..state.frames.len() {
            let (name, ty) = {
                let outer = &state.frames[i - 1].graph[id];
                (outer.name.clone(), outer.ty.clone())
            };
            id = state.frames[i].graph.capture(id, &name, ty);
        }
        Ok(id)
    }

    /// Whether `v` belongs to the graph that nodes are added to, and not to one around it.
    pub fn is_own(&self, v: Var) -> bool {
        self.state.borrow().frames.last().is_some_and(|frame| frame.serial == v.frame)
    }

    /// Type of `v` as far as known. Equal sizes without name have equal marked names.
    pub fn type_of(&self, v: Var) -> Option<ValueType> {
        let state = self.state.borrow();
        let frame = state.frames.iter().find(|f| f.serial == v.frame)?;
        frame.graph[v.id].ty.clone()
    }

    /// Declares the type of `v`, which an operator of a foreign domain computes: nothing else says it.
    pub fn declare(&self, v: Var, ty: ValueType) {
        let mut state = self.state.borrow_mut();
        if let Some(frame) = state.frames.iter_mut().find(|f| f.serial == v.frame) {
            frame.graph[v.id].ty = Some(ty);
        }
    }

    /// Name of `v`; empty if it belongs to a sub-graph that is finished.
    pub fn name_of(&self, v: Var) -> String {
        let state = self.state.borrow();
        let frame = state.frames.iter().find(|f| f.serial == v.frame);
        frame.map_or_else(String::new, |f| f.graph[v.id].name.clone())
    }

    /// Element type of `v`.
    pub fn dtype_of(&self, v: Var) -> Option<DataType> {
        self.type_of(v)?.dtype()
    }

    /// Shape of `v`, if its rank is known.
    pub fn shape_of(&self, v: Var) -> Option<Vec<Dim>> {
        self.type_of(v)?.shape().map(<[Dim]>::to_vec)
    }

    /// Number of axes of `v`.
    pub fn rank_of(&self, v: Var) -> Option<usize> {
        self.type_of(v)?.shape().map(<[Dim]>::len)
    }

    /// All sizes of `v`, if they are known.
    pub fn dims_of(&self, v: Var) -> Option<Vec<i64>> {
        self.type_of(v)?.dims()
    }

    /// `v` as a constant, also one of an enclosing graph, and one that `Identity` passes on.
    pub fn constant_of(&self, v: Var) -> Option<Tensor> {
        let state = self.state.borrow();
        let mut at = state.frames.iter().position(|f| f.serial == v.frame)?;
        let mut id = v.id;
        for _ in 0..at + IDENTITIES_MAX {
            let graph = &state.frames[at].graph;
            match graph[id].origin() {
                Origin::Captured(outer) if at > 0 => (id, at) = (outer, at - 1),
                Origin::Node(node, _) if graph[node].is("Identity") => id = graph[node].input(0)?,
                Origin::Node(node, _) if graph[node].is("Constant") => {
                    let (_, attr) = graph[node].attrs.first()?;
                    return Operand::from(attr.clone()).to_tensor(None);
                }
                _ => return graph.constant(id).cloned(),
            }
        }
        None
    }

    /// The elements of a small integer tensor of rank 0 or 1, if they are known: a constant, or what
    /// follows from known shapes.
    pub fn ints_of(&self, v: Var) -> Option<Vec<i64>> {
        if let Some(tensor) = self.constant_of(v) {
            return tensor.to_i64s().filter(|_| tensor.rank() <= 1);
        }
        let state = self.state.borrow();
        let frame = state.frames.iter().find(|f| f.serial == v.frame)?;
        Some(frame.scope.elements(v.id)?.1)
    }

    /// Adds an input to the graph.
    pub fn input(&self, name: &str, ty: ValueType) -> Var {
        let mut state = self.state.borrow_mut();
        let BuilderState { frames, inference, .. } = &mut *state;
        let frame = frames.last_mut().expect("a graph is open");
        let id = frame.graph.add_input(name, Some(ty));
        inference.input(&mut frame.graph[id]);
        Var { frame: frame.serial, id }
    }

    /// Lists `v` as an output of the graph, under the name `name`.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::id`].
    pub fn output(&self, v: Var, name: &str) -> Result<()> {
        let id = self.own_output(v)?;
        let mut state = self.state.borrow_mut();
        let graph = &mut state.frames.last_mut().expect("a graph is open").graph;
        if graph[id].name != name {
            let name = graph.fresh_name(name);
            let old = graph[id].name.clone();
            graph.rename(id, &name);
            state.rename_node(id, &old);
        }
        let graph = &mut state.frames.last_mut().expect("a graph is open").graph;
        graph.mark_output(id);
        Ok(())
    }

    /// `v` as a value that can be listed as an output: one that no node of the graph computes, or that
    /// is listed already, goes through `Identity`, as runtimes demand.
    pub(crate) fn own_output(&self, v: Var) -> Result<ValueId> {
        let id = self.id(v)?;
        let (direct, name) = {
            let graph = self.graph();
            let computed = matches!(graph[id].origin(), Origin::Node(..));
            (computed && !graph.is_output(id), graph[id].name.clone())
        };
        if direct {
            return Ok(id);
        }
        let out = self.value(&name);
        self.add_node(Node::new("Identity", [id], [out]))?;
        Ok(out)
    }

    /// A value that nothing computes, for graphs that are thrown away: a front-end looks at what reads
    /// an operator that it cannot lower.
    pub fn placeholder(&self, ty: Option<ValueType>) -> Var {
        let id = self.value("placeholder");
        let mut state = self.state.borrow_mut();
        let frame = state.frames.last_mut().expect("a graph is open");
        frame.graph[id].ty = ty;
        Var { frame: frame.serial, id }
    }

    /// A new value that nothing computes yet.
    pub(crate) fn value(&self, name: &str) -> ValueId {
        let mut state = self.state.borrow_mut();
        state.frames.last_mut().expect("a graph is open").graph.add_value(name, None)
    }

    /// A constant. Small ones are held once.
    pub fn constant(&self, tensor: Tensor) -> Var {
        self.shared("constant", tensor)
    }

    /// A constant, named `<prefix>_<role>` unless the graph holds one like it already.
    pub(crate) fn shared(&self, role: &str, tensor: Tensor) -> Var {
        let small = tensor.as_strings().is_none() && tensor.byte_len() <= SHARED_BYTES_MAX;
        let key = small.then(|| (tensor.dtype(), tensor.dims().to_vec(), tensor.bytes().clone()));
        let found = {
            let state = self.state.borrow();
            let frame = state.frames.last().expect("a graph is open");
            key.as_ref().and_then(|key| frame.shared.get(key)).map(|id| (frame.serial, *id))
        };
        if let Some((frame, id)) = found {
            return Var { frame, id };
        }
        let v = self.parameter(role, tensor);
        if let Some(key) = key {
            let mut state = self.state.borrow_mut();
            state.frames.last_mut().expect("a graph is open").shared.insert(key, v.id);
        }
        v
    }

    /// A constant `<prefix>_<role>` of its own, as weights have.
    pub fn parameter(&self, role: &str, tensor: Tensor) -> Var {
        let name = self.fresh(role);
        let mut state = self.state.borrow_mut();
        let frame = state.frames.last_mut().expect("a graph is open");
        let id = frame.graph.add_initializer(&name, tensor);
        Var { frame: frame.serial, id }
    }

    // ---- nodes ----

    /// Adds a node that is complete: its values are those of the graph that nodes are added to. Its
    /// layers are those of the builder.
    ///
    /// # Errors
    /// `N0502` and `N0215` where it contradicts the standard or its inputs; then it is not added.
    pub fn add_node(&self, mut node: Node) -> Result<NodeId> {
        if let Some(layers) = self.state.borrow().layers.last() {
            node.layers.add(layers);
        }
        if let Some(out) = node.outputs.iter().flatten().next().filter(|_| node.name.is_empty()) {
            let state = self.state.borrow();
            let graph = &state.frames.last().expect("a graph is open").graph;
            node.name = state.node_name(&graph[*out].name);
        }
        if !self.state.borrow().checked {
            return Ok(self.graph_mut().add_node(node));
        }
        self.check(&node)?;
        let mut state = self.state.borrow_mut();
        let BuilderState { frames, inference, strict, .. } = &mut *state;
        let frame = frames.last_mut().expect("a graph is open");
        let id = frame.graph.add_node(node);
        let inferred = inference.step(&mut frame.graph, id, &mut frame.scope);
        frame.touch(id);
        let Some(found) = inferred.err().filter(|_| *strict) else { return Ok(id) };
        frame.graph.remove_node(id);
        drop(state);
        Err(self.at_layer(found.0.into_iter().next().expect("a finding")))
    }

    pub(crate) fn folds(&self) -> bool {
        self.state.borrow().folding
    }

    /// What is given as an operand, as a value of the element type `dtype`.
    pub(crate) fn materialize(
        &self,
        operand: &Operand,
        dtype: Option<DataType>,
        (op, role): (&str, &str),
    ) -> Result<Option<ValueId>> {
        match operand {
            Operand::Absent => Ok(None),
            Operand::Var(v) => self.id(*v).map(Some),
            Operand::Value(id) => Ok(Some(*id)),
            other => match other.to_tensor(dtype) {
                Some(tensor) => {
                    // The names of operands tell nothing about a number.
                    let plain = other.is_number() && matches!(role, "A" | "B" | "X" | "Y");
                    let role = if plain { "constant" } else { role };
                    self.id(self.shared(&snake(role), tensor)).map(Some)
                }
                None => {
                    let dtype = dtype.map_or("a tensor", DataType::word);
                    let message = format!("{op}: `{role}` cannot be {dtype}: {other:?}.");
                    Err(self.diagnostic(Code::OnnxInvalid, message))
                }
            },
        }
    }
}
