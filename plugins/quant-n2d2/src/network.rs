//! Recognises the cells of a float graph.

use crate::Floats;
use crate::canonical::{canonicalize, exchange, transposed};
use crate::constants::reals;
use crate::plan::{Activation, Blocks, Cell, CellInput, CellKind, CellNetwork, Parameters};
use crate::statistics;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::ir::ops::{Clip, Conv, Gemm, Relu};
use onnxd_plugin_sdk::ir::{
    At, DataType, Dim, Graph, Model, Node, NodeId, Op, Origin, Reals, Tensor, ValueId,
};
use onnxd_quantize::plan::Propagation;
use std::collections::{BTreeSet, HashMap};

/// Reads the cells of `model`.
///
/// # Errors
/// All nodes that belong to no cell.
pub fn recognize(model: &Model) -> Result<CellNetwork, Diagnostics> {
    let mut model = model.clone();
    canonicalize(&mut model.graph, &model.opsets);
    let graph = &model.graph;
    let mut reader =
        CellReader { graph, cells: Vec::new(), made: HashMap::new(), names: BTreeSet::new() };
    let mut problems = Diagnostics::default();
    let order = graph.topological().map_err(|cycle| {
        let node = cycle.first().map_or("", |id| &graph[*id].name);
        Diagnostic::new(Code::OnnxInvalid, format!("node `{}` is on a cycle", shown(node)))
    })?;
    let mut taken = vec![false; graph.node_bound()];
    for id in order {
        if taken[id.index()] || graph[id].is("Constant") {
            continue;
        }
        match reader.cell(id) {
            Ok(cell) => {
                cell.nodes.iter().for_each(|node| taken[node.index()] = true);
                reader.add(cell);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let cells = reader.cells;
    problems.or_ok(())?;
    Ok(CellNetwork { cells, model })
}

struct CellReader<'g> {
    graph: &'g Graph,
    cells: Vec<Cell>,
    made: HashMap<ValueId, usize>,
    names: BTreeSet<String>,
}

/// What a node is by itself.
struct NodeRole {
    kind: CellKind,
    /// The inputs that flow; others are constants.
    inputs: Vec<ValueId>,
    parameters: Option<Parameters>,
    activation: Activation,
}

impl NodeRole {
    fn plain(kind: CellKind, inputs: Vec<ValueId>) -> NodeRole {
        NodeRole { kind, inputs, parameters: None, activation: Activation::Linear }
    }
}

impl CellReader<'_> {
    fn add(&mut self, cell: Cell) {
        self.made.insert(cell.output, self.cells.len());
        self.names.insert(cell.name.clone());
        self.cells.push(cell);
    }

    fn cell(&self, id: NodeId) -> Result<Cell, Diagnostic> {
        let graph = self.graph;
        let node = &graph[id];
        let mut outputs = node.outputs.iter().flatten().filter(|v| graph.uses(**v) > 0);
        let output = outputs.next().or(node.outputs.iter().flatten().next()).copied();
        let (Some(mut output), None) = (output, outputs.next()) else {
            return Err(refusal(graph, id, "has several results"));
        };
        refuse!(node.subgraphs().next().is_some() => refusal(graph, id, "has a sub-graph"));
        let mut node_role =
            self.find(id).unwrap_or_else(|| NodeRole::plain(CellKind::Float, flowing(graph, node)));
        let mut nodes = vec![id];
        let blocks = self.blocks(&mut node_role, id, output);
        if let Some(blocks) = &blocks {
            output = graph[blocks.node].output(0).unwrap_or(output);
            nodes.push(blocks.node);
        }
        let absorbs =
            matches!(node_role.kind, CellKind::Conv | CellKind::Fc | CellKind::Sum | CellKind::Max);
        if let Some((next, activation)) = absorbs.then(|| self.absorbed(output)).flatten() {
            node_role.activation = activation;
            output = graph[next].output(0).unwrap_or(output);
            nodes.push(next);
        }
        let source = |v: &ValueId| {
            self.source(*v).ok_or_else(|| {
                refusal(
                    graph,
                    id,
                    &format!("reads `{}`, which no cell makes", shown(&graph[*v].name)),
                )
            })
        };
        let inputs = node_role.inputs.iter().map(source).collect::<Result<_, _>>()?;
        let channels = channels(graph, output, node_role.kind)
            .or_else(|| node_role.parameters.as_ref().map(|p| p.dims[0]));
        Ok(Cell {
            name: self.name(id, output, node_role.parameters.is_some()),
            kind: node_role.kind,
            node: id,
            nodes,
            inputs,
            parameters: node_role.parameters,
            blocks,
            activation: node_role.activation,
            output,
            channels: channels.unwrap_or(0),
        })
    }

    fn find(&self, id: NodeId) -> Option<NodeRole> {
        let (graph, node) = (self.graph, &self.graph[id]);
        // Shapes and indices are no activations.
        if !node.is_standard() || !is_real(self.graph, node.output(0)?) {
            return None;
        }
        let first = node.input(0)?;
        let all = || node.inputs.iter().copied().collect::<Option<Vec<_>>>();
        let flow = || all().filter(|all| all.iter().all(|v| graph.constant(*v).is_none()));
        Some(match node.op.as_str() {
            "Conv" => self.weighted(node, CellKind::Conv)?,
            "Gemm" | "MatMul" => self.weighted(node, CellKind::Fc)?,
            "MaxPool" | "GlobalMaxPool" => NodeRole::plain(CellKind::MaxPool, vec![first]),
            "AveragePool" | "GlobalAveragePool" => {
                NodeRole::plain(CellKind::AveragePool, vec![first])
            }
            "Add" | "Sum" => NodeRole::plain(CellKind::Sum, self.alike(flow()?, node)?),
            "Max" => NodeRole::plain(CellKind::Max, self.alike(flow()?, node)?),
            "Concat" => NodeRole::plain(CellKind::Concat, flow()?),
            "Relu" | "Clip" => {
                let activation = activation(graph, id)?;
                NodeRole { activation, ..NodeRole::plain(CellKind::Activation, vec![first]) }
            }
            _ if is_layout(graph, id) => NodeRole::plain(CellKind::Layout, vec![first]),
            _ => return None,
        })
    }

    /// The inputs of an element-wise operator, if no one is broadcast.
    fn alike(&self, inputs: Vec<ValueId>, node: &Node) -> Option<Vec<ValueId>> {
        let shape = |v: ValueId| self.graph[v].shape();
        let out = shape(node.output(0)?)?;
        let same = |v: &ValueId| {
            shape(*v)
                .is_some_and(|s| s.len() == out.len() && s.iter().zip(out).all(|(a, b)| a.same(b)))
        };
        (inputs.len() > 1 && inputs.iter().all(same)).then_some(inputs)
    }

    fn weighted(&self, node: &Node, kind: CellKind) -> Option<NodeRole> {
        let graph = self.graph;
        let (x, w) = (node.input(0)?, node.input(1)?);
        let stored = graph.constant(w).filter(|t| t.dtype().is_float())?;
        if node.is("Gemm") {
            let gemm = Gemm::view(node)?;
            if gemm.transA != 0 || gemm.transB == 0 || gemm.alpha != 1.0 || gemm.beta != 1.0 {
                return None;
            }
        }
        let (dims, weights) = if node.is("MatMul") {
            let turned = stored.to_reals().filter(|w| w.dims.len() == 2).map(|w| transposed(&w))?;
            (turned.dims, Floats::from(floats(&turned.values)))
        } else {
            let weights = match Floats::from_tensor(stored) {
                Some(shared) => shared,
                None => statistics::floats(stored)?.into_owned().into(),
            };
            (stored.dims().to_vec(), weights)
        };
        if graph.constant(x).is_some() || weights.is_empty() {
            return None;
        }
        let outputs = *dims.first()?;
        let bias = match node.input(2) {
            None => None,
            Some(b) => {
                let bias = reals(graph, b)?.values;
                let one = if bias.len() == 1 { Some(vec![bias[0]; outputs]) } else { None };
                Some(one.unwrap_or(bias)).filter(|b| b.len() == outputs).map(|b| floats(&b)).into()
            }
        };
        let bias: Option<Option<Vec<f32>>> = match bias {
            None => Some(None),
            Some(None) => None,
            Some(some) => Some(some),
        };
        let parameters = Parameters { dims, weights, bias: bias? };
        Some(NodeRole { parameters: Some(parameters), ..NodeRole::plain(kind, vec![x]) })
    }

    /// The sums of blocks of `v`, a convolution without bias, if a convolution with ones alone reads
    /// it. Their bias becomes the cell's.
    fn blocks(&self, node_role: &mut NodeRole, id: NodeId, v: ValueId) -> Option<Blocks> {
        let graph = self.graph;
        let parameters =
            node_role.parameters.as_mut().filter(|_| node_role.kind == CellKind::Conv)?;
        let ([reader], 1, None) = (graph.readers(v), graph.uses(v), &parameters.bias) else {
            return None;
        };
        let sums = At::<Conv>::find(graph, *reader).filter(|sums| sums.x == v)?;
        let (op, next) = (&sums.op, self.weighted(&graph[*reader], CellKind::Conv)?.parameters?);
        let shape = graph[v].shape()?;
        let &[channels, 1, rows, columns] = next.dims.as_slice() else { return None };
        let [_, _, height, width] = shape else { return None };
        let (sizes, plane) = ([rows as i64, columns as i64], [height.known()?, width.known()?]);
        let blocks = Blocks { node: *reader, sizes, plane };
        let [below, right] = blocks.missing();
        let one_after_the_other = op.group == channels as i64
            && op.strides == sizes
            && op.pads == [0, 0, below, right]
            && op.dilations.iter().all(|d| *d == 1)
            && next.weights.iter().all(|w| *w == 1.0)
            && graph[*reader].layers.first() == graph[id].layers.first();
        if !one_after_the_other {
            return None;
        }
        parameters.bias = next.bias;
        Some(blocks)
    }

    /// The activation that alone reads `v`.
    fn absorbed(&self, v: ValueId) -> Option<(NodeId, Activation)> {
        match (self.graph.readers(v), self.graph.uses(v)) {
            ([reader], 1) => Some((*reader, activation(self.graph, *reader)?)),
            _ => None,
        }
    }

    fn source(&self, v: ValueId) -> Option<CellInput> {
        match self.graph[v].origin() {
            Origin::Input => {
                let at = self.graph.inputs().iter().position(|i| *i == v)?;
                Some(CellInput::Input(at))
            }
            _ => self.made.get(&v).map(|i| CellInput::Cell(*i)),
        }
    }

    /// The source layer's name for a cell with weights, not that of a normalization folded into it;
    /// or the result's.
    fn name(&self, id: NodeId, output: ValueId, weighted: bool) -> String {
        let layers = &self.graph[id].layers;
        let layer = layers.iter().find(|l| l.kind != "BatchNorm").or(layers.first());
        let layer = layer.map(|l| &l.name).filter(|_| weighted);
        let value = &self.graph[output].name;
        let name = layer.filter(|name| !self.names.contains(*name)).unwrap_or(value);
        name.clone()
    }
}

fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|x| *x as f32).collect()
}

/// Whether the node only moves elements of its first input, as constants say.
fn is_layout(graph: &Graph, id: NodeId) -> bool {
    let node = &graph[id];
    let constant = |v: &ValueId| graph.constant(*v);
    let training = node.input(2).as_ref().and_then(constant);
    let same = match node.op.as_str() {
        "Dropout" => training.is_none_or(|t| t.bytes().iter().all(|b| *b == 0)),
        // Runtimes sort no bytes.
        "TopK" => false,
        _ => {
            Propagation::of_node(graph, id) == Some(Propagation::Layout) && node.outputs.len() == 1
        }
    };
    same && node.inputs.iter().skip(1).flatten().all(|v| constant(v).is_some())
}

/// Whether `v` holds reals as far as is known: what else a network computes has no scale.
pub(crate) fn is_real(graph: &Graph, v: ValueId) -> bool {
    let dtype = graph[v].dtype();
    dtype.is_none_or(DataType::is_float)
}

/// Inputs that are not constant.
fn flowing(graph: &Graph, node: &Node) -> Vec<ValueId> {
    let reads = node.inputs.iter().flatten().copied();
    reads.filter(|v| graph.constant(*v).is_none()).collect()
}

fn refusal(graph: &Graph, id: NodeId, what: &str) -> Diagnostic {
    let node = &graph[id];
    let name = node.outputs.iter().flatten().next().map_or("", |v| graph[*v].name.as_str());
    let text = format!("{} `{}` {what}: it cannot be quantized", shown(&node.op), shown(name));
    let problem = Diagnostic::new(Code::FeatureUnsupported, text);
    match node.layers.first() {
        Some(layer) => problem.at(layer.clone()),
        None => problem,
    }
}

/// Size of the axis of channels.
fn channels(graph: &Graph, v: ValueId, kind: CellKind) -> Option<usize> {
    let shape = graph[v].shape()?;
    let dim = if kind == CellKind::Fc { shape.last() } else { shape.get(1).or(shape.last()) };
    usize::try_from(dim.and_then(Dim::known)?).ok()
}

fn activation(graph: &Graph, id: NodeId) -> Option<Activation> {
    let node = &graph[id];
    if node.is("Relu") {
        return Some(Activation::Rectifier { clipping: None });
    }
    let clip = At::<Clip>::find(graph, id)?;
    let bound = |v: Option<ValueId>, none: f32| match v {
        None => Some(none),
        Some(v) => scalar(graph.constant(v)?),
    };
    let (low, high) = (bound(clip.min, f32::MIN)?, bound(clip.max, f32::MAX)?);
    if low == 0.0 && high > 0.0 {
        let clipping = (high < f32::MAX).then_some(high);
        return Some(Activation::Rectifier { clipping });
    }
    (low == -high && high > 0.0 && high < f32::MAX)
        .then_some(Activation::Saturation { threshold: high })
}

pub(crate) fn scalar(t: &Tensor) -> Option<f32> {
    let values = t.to_reals()?.values;
    (values.len() == 1).then(|| values[0] as f32)
}

impl CellNetwork {
    /// Puts the parameters and activations of the cells, which may have changed, into the model.
    pub(crate) fn write_back(&mut self) {
        let graph = &mut self.model.graph;
        for cell in &mut self.cells {
            if let Activation::Rectifier { clipping: None } = cell.activation
                && let Some(last) = cell.nodes.last_mut()
                && graph[*last].is("Clip")
                && let Some(x) = graph[*last].input(0)
            {
                *last = exchange(graph, *last, Relu::new(x));
            }
            let Some(parameters) = &mut cell.parameters else { continue };
            put_weights(graph, cell.node, parameters);
            if let Some(bias) = &parameters.bias {
                let node = cell.blocks.as_ref().map_or(cell.node, |blocks| blocks.node);
                put(graph, node, 2, vec![bias.len()], bias);
            }
        }
    }

    /// Whether the result is an output of the network.
    pub(crate) fn leaves(&self, cell: usize) -> bool {
        self.model.graph.is_output(self.cells[cell].output)
    }

    /// Whether accumulators are read by nothing but functions that N2D2 has no integers for:
    /// they need not be quantized before.
    pub(crate) fn is_read_as_real(&self, cell: usize) -> bool {
        let weighted = matches!(self.cells[cell].kind, CellKind::Conv | CellKind::Fc);
        let mut readers =
            self.cells.iter().filter(|c| c.inputs.contains(&CellInput::Cell(cell))).peekable();
        let real = |c: &Cell| c.kind == CellKind::Float && !self.model.graph[c.node].is("Softmax");
        weighted && !self.leaves(cell) && readers.peek().is_some() && readers.all(real)
    }

    /// Whether a cell of integers reads the result.
    pub(crate) fn feeds_integers(&self, cell: usize) -> bool {
        let reads =
            |c: &Cell| c.kind != CellKind::Float && c.inputs.contains(&CellInput::Cell(cell));
        self.cells.iter().any(reads)
    }
}

/// Gives a node a constant of its own for an input, of the type of the old one.
fn put_weights(graph: &mut Graph, node: NodeId, parameters: &mut Parameters) {
    let Parameters { dims, weights, .. } = parameters;
    let old = graph[node].input(1).filter(|_| !graph[node].is("MatMul"));
    let held = old.and_then(|v| graph.constant(v)).is_some_and(|t| t.dtype() == DataType::Float);
    match old.filter(|_| held) {
        Some(old) => exchange_constant(graph, (node, 1), old, weights.tensor(dims)),
        None => put(graph, node, 1, dims.clone(), weights),
    }
}

fn put(graph: &mut Graph, node: NodeId, slot: usize, dims: Vec<usize>, values: &[f32]) {
    let Some(old) = graph[node].input(slot) else { return };
    let Some(dtype) = graph.constant(old).map(Tensor::dtype) else { return };
    let turned = graph[node].is("MatMul");
    let data = if dtype == DataType::Float && !turned {
        Some(Tensor::from_vec(dims, values.to_vec()))
    } else {
        let data = Reals { dims, values: values.iter().map(|x| f64::from(*x)).collect() };
        if turned { transposed(&data) } else { data }.to_tensor(dtype)
    };
    if let Some(data) = data {
        exchange_constant(graph, (node, slot), old, data);
    }
}

fn exchange_constant(graph: &mut Graph, (node, slot): (NodeId, usize), old: ValueId, data: Tensor) {
    let name = graph[old].name.clone();
    let new = graph.add_initializer(&name, data);
    graph.set_input(node, slot, Some(new));
}
