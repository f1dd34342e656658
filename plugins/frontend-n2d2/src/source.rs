//! What layers need besides the graph: weights, parameters that layers share, limits, and what ONNX
//! files bring along.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{
    DataType, Dim, Function, Graph, Model, Opsets, Reals, Tensor, ValueId, ValueType,
};

use crate::diag::{Code, Diagnostic, Layer, shown};
use crate::weights::ParameterFiles;

/// Version of the operators.
pub(crate) const OPSET: i64 = 17;
/// Name of the graph's input.
pub(crate) const INPUT: &str = "env";
/// Name of the number of samples.
pub(crate) const BATCH: &str = "batch";
/// Most pairs of channels and outputs in the connection maps of a network.
const CONNECTIONS_MAX: usize = 1 << 31;
/// Numbers that are brought to another type at a time.
const PART_NUMBERS: usize = 1 << 16;
/// Longest chain of layers that share a parameter; a longer one goes in a circle.
const SHARE_DEPTH_MAX: usize = 64;

/// A parameter that belongs to another layer.
struct Share {
    value: Var,
    owner: String,
    suffix: &'static str,
    dims: Vec<usize>,
    layer: Layer,
}

/// Functions and operator sets of ONNX files.
#[derive(Default)]
struct Adopted {
    functions: Vec<Function>,
    opsets: Opsets,
}

/// What the layers of a network have in common.
pub(crate) struct NetworkSource<'f> {
    pub(crate) dtype: DataType,
    pub(crate) weights: ParameterFiles<'f>,
    pub(crate) notes: RefCell<Vec<Diagnostic>>,
    /// Names of layers and of the input: outputs are named like their layers.
    reserved: HashSet<String>,
    /// The number of samples, if an ONNX file computes no other.
    batch: Cell<Option<i64>>,
    /// What ONNX files bring along besides nodes.
    adopted: RefCell<Adopted>,
    /// Flat values as images of one pixel.
    pub(crate) unsqueezed: RefCell<HashMap<Var, Var>>,
    /// By layer and suffix.
    parameters: RefCell<HashMap<(String, &'static str), Var>>,
    shares: RefCell<Vec<Share>>,
    numbers: Cell<usize>,
    connections: Cell<usize>,
}

impl<'f> NetworkSource<'f> {
    pub(crate) fn new(
        dtype: DataType,
        weights: ParameterFiles<'f>,
        layers: impl Iterator<Item = String>,
    ) -> NetworkSource<'f> {
        NetworkSource {
            dtype,
            weights,
            notes: RefCell::default(),
            reserved: layers.chain([INPUT.to_owned()]).collect(),
            batch: Cell::default(),
            adopted: RefCell::default(),
            unsqueezed: RefCell::default(),
            parameters: RefCell::default(),
            shares: RefCell::default(),
            numbers: Cell::default(),
            connections: Cell::default(),
        }
    }

    /// A builder that leaves the names of layers and of `results` of ONNX files alone.
    pub(crate) fn builder(
        &self,
        name: &str,
        opset: i64,
        results: impl Iterator<Item = String>,
    ) -> GraphBuilder {
        let opsets = Opsets::from([(String::new(), opset)]);
        let builder = GraphBuilder::new(Graph::new(name), opsets);
        builder.reserve(self.reserved.iter().cloned().chain(results));
        builder
    }

    pub(crate) fn note(&self, note: Diagnostic) {
        self.notes.borrow_mut().push(note);
    }

    /// The type of a value whose axes after the batch have `sizes`.
    pub(crate) fn shaped(&self, sizes: &[usize]) -> ValueType {
        let sizes = sizes.iter().map(|n| Dim::Known(*n as i64));
        ValueType::tensor(self.dtype, [Dim::from(BATCH)].into_iter().chain(sizes))
    }

    /// The name of a result of an ONNX file: its own, unless a layer has it.
    pub(crate) fn result_name(&self, b: &GraphBuilder, name: &str) -> String {
        let free = !self.reserved.contains(name) && b.graph().value_named(name).is_none();
        if free { name.to_owned() } else { b.free_name(name) }
    }

    /// From now on the network computes `batch` samples at a time.
    pub(crate) fn fix_batch(&self, batch: i64, layer: &Layer) -> Result<(), Diagnostic> {
        match self.batch.replace(Some(batch)) {
            Some(other) if other != batch => {
                let message = format!("computes {batch} samples at a time, another file {other}");
                Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()))
            }
            Some(_) => Ok(()),
            None => {
                let message =
                    format!("the network computes {batch} samples at a time, as the file does");
                let note = Diagnostic::new(Code::LayerParameterIgnored, message).at(layer.clone());
                self.note(note.help("Export the file with a variable number of samples."));
                Ok(())
            }
        }
    }

    /// Takes over functions and operator sets of an ONNX file.
    pub(crate) fn adopt(&self, model: &Model, layer: &Layer) -> Result<(), Diagnostic> {
        let clash = |what: String| {
            let message = format!("{what} than another file of the network");
            Err(Diagnostic::new(Code::FeatureUnsupported, message).at(layer.clone()))
        };
        let adopted = &mut *self.adopted.borrow_mut();
        for (domain, version) in &model.opsets {
            let old = adopted.opsets.insert(domain.clone(), *version);
            if old.is_some_and(|old| old != *version) {
                return clash(format!("takes operators `{}` of another version", shown(domain)));
            }
        }
        for function in &model.functions {
            let name = |f: &Function| (f.domain.clone(), f.name.clone(), f.overload.clone());
            if adopted.functions.iter().any(|f| name(f) == name(function)) {
                let name = shown(&function.name);
                return clash(format!("defines a function `{name}`, perhaps otherwise,"));
            }
        }
        adopted.functions.extend(model.functions.iter().cloned());
        Ok(())
    }

    /// The model of a graph whose layers are all built.
    pub(crate) fn model(self, mut graph: Graph, ir_version: i64, opset: i64) -> Model {
        if let Some(batch) = self.batch.get() {
            for v in graph.value_ids() {
                if let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut graph[v].ty {
                    let symbolic = shape.iter_mut().filter(|dim| **dim == Dim::from(BATCH));
                    symbolic.for_each(|dim| *dim = Dim::Known(batch));
                }
            }
        }
        let adopted = self.adopted.into_inner();
        let mut model = Model::new(graph, ir_version, opset);
        let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
        model.opsets.extend(adopted.opsets.into_iter().filter(|(d, _)| !standard(d)));
        model.functions = adopted.functions;
        model
    }

    // ---- parameters -----------------------------------------------------------------------

    /// Numbers in the element type of the network.
    pub(crate) fn reals(&self, dims: Vec<usize>, values: Vec<f32>) -> Tensor {
        if self.dtype == DataType::Float {
            return Tensor::from_vec(dims, values);
        }
        let values = values.into_iter().map(f64::from).collect();
        let reals = Reals { dims, values };
        reals.to_tensor(self.dtype).expect("the network's element type is a float type")
    }

    /// Many numbers in the element type of the network.
    pub(crate) fn in_type(&self, floats: Tensor) -> Result<Tensor, Diagnostic> {
        if self.dtype == DataType::Float {
            return Ok(floats);
        }
        let values = floats.as_slice::<f32>().expect("weights are read as float");
        let mut room = self.weights.files().room(self.dtype, floats.dims())?;
        let mut rest = room.bytes_mut();
        for part in values.chunks(PART_NUMBERS) {
            let part = self.reals(vec![part.len()], part.to_vec());
            let (to, behind) = rest.split_at_mut(part.byte_len());
            part.copy_into(to);
            rest = behind;
        }
        room.seal()
    }

    /// Lets other layers share the parameter `suffix` of a layer.
    pub(crate) fn offer(&self, layer: &Layer, suffix: &'static str, value: Var) {
        self.parameters.borrow_mut().insert((layer.name.clone(), suffix), value);
    }

    /// Stands for the parameter `suffix` of layer `owner`, which may be built later.
    pub(crate) fn share(
        &self,
        b: &GraphBuilder,
        layer: &Layer,
        suffix: &'static str,
        owner: String,
        dims: Vec<usize>,
    ) -> Var {
        let ty = ValueType::tensor(self.dtype, dims.iter().map(|n| *n as i64));
        let value = b.placeholder(Some(ty));
        self.offer(layer, suffix, value);
        self.shares.borrow_mut().push(Share { value, owner, suffix, dims, layer: layer.clone() });
        value
    }

    /// Puts the shared parameters in place, once all layers are built.
    pub(crate) fn resolve_shares(&self, b: &GraphBuilder) -> Vec<Diagnostic> {
        let (shares, parameters) = (self.shares.take(), self.parameters.borrow());
        let by_value: HashMap<Var, &Share> = shares.iter().map(|s| (s.value, s)).collect();
        let mut problems = Vec::new();
        for share in &shares {
            let mut owner = parameters.get(&(share.owner.clone(), share.suffix)).copied();
            for _ in 0..SHARE_DEPTH_MAX {
                let Some(next) = owner.and_then(|owner| by_value.get(&owner)) else { break };
                owner = parameters.get(&(next.owner.clone(), next.suffix)).copied();
            }
            let name = &share.owner;
            let (code, message) = match owner.and_then(|v| Some((v, b.constant_of(v)?))) {
                Some((owner, data)) if data.dims() == share.dims => {
                    match replace(b, share.value, owner) {
                        Ok(()) => continue,
                        Err(found) => {
                            problems.push(found);
                            continue;
                        }
                    }
                }
                Some((_, data)) => {
                    let (dims, own) = (data.dims(), &share.dims);
                    let message = format!("shares parameters of `{name}`: {dims:?}, not {own:?}");
                    (Code::ShapeMismatch, message)
                }
                None => {
                    let message = format!("shares parameters that layer `{name}` does not have");
                    (Code::LayerParameter, message)
                }
            };
            problems.push(Diagnostic::new(code, message).at(share.layer.clone()));
        }
        problems
    }

    // ---- limits ---------------------------------------------------------------------------

    /// Counts parameters before they are read or made.
    pub(crate) fn claim(&self, numbers: Option<usize>, layer: &Layer) -> Result<(), Diagnostic> {
        let total = numbers.and_then(|numbers| self.numbers.get().checked_add(numbers));
        let what = "the network has more than";
        self.numbers.set(within(total, self.weights.numbers_max(), what, "parameters", layer)?);
        Ok(())
    }

    /// Counts pairs of a connection map before it is made.
    pub(crate) fn claim_connections(
        &self,
        outputs: usize,
        channels: usize,
        layer: &Layer,
    ) -> Result<(), Diagnostic> {
        let pairs = outputs.checked_mul(channels);
        let total = pairs.and_then(|pairs| self.connections.get().checked_add(pairs));
        let what = "the connection maps of the network have more than";
        self.connections.set(within(total, CONNECTIONS_MAX, what, "entries", layer)?);
        Ok(())
    }
}

fn replace(b: &GraphBuilder, from: Var, to: Var) -> Result<(), Diagnostic> {
    let (from, to): (ValueId, ValueId) = (b.id(from)?, b.id(to)?);
    b.graph_mut().replace_uses(from, to);
    Ok(())
}

fn within(
    total: Option<usize>,
    max: usize,
    what: &str,
    unit: &str,
    layer: &Layer,
) -> Result<usize, Diagnostic> {
    total.filter(|total| *total <= max).ok_or_else(|| {
        let message = format!("{what} {max} {unit}");
        Diagnostic::new(Code::SourceLimit, message).at(layer.clone())
    })
}
