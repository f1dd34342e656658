//! The graph under construction: names, constants, shared parameters and limits.
//!
//! Outputs are named like their layers, so no other value may take a layer's name.

use std::collections::{HashMap, HashSet};

use onnxd_plugin_sdk::ir::{
    Attr, DataType, Dim, Function, Graph, Model, Node, Opsets, Reals, Tensor, ValueId, ValueType,
};

use crate::diag::{Code, Diagnostic, Layer, shown};
use crate::weights::Weights;

/// Name of the graph's input.
pub(crate) const INPUT: &str = "env";
/// Name of the number of samples.
pub(crate) const BATCH: &str = "batch";
/// Most numbers that a layer computes for one image.
const VALUES_MAX: usize = 1 << 31;
/// Most pairs of channels and outputs in the connection maps of a network.
const CONNECTIONS_MAX: usize = 1 << 31;
/// Numbers that are brought to another type at a time.
const PART_NUMBERS: usize = 1 << 16;
/// Longest chain of layers that share a parameter; a longer one goes in a circle.
const SHARE_DEPTH_MAX: usize = 64;

/// Size of what a layer computes for one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Size {
    pub(crate) fn new(channels: usize, [height, width]: [usize; 2]) -> Size {
        Size { channels, height, width }
    }

    /// The sizes of an image's axes.
    pub(crate) fn plane(self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Numbers; sizes that overflow are refused where they come from.
    pub(crate) fn count(self) -> usize {
        self.channels * self.height * self.width
    }

    /// Refuses sizes that nobody can compute.
    pub(crate) fn check(self, layer: &Layer) -> Result<Size, Diagnostic> {
        let plane = self.height.checked_mul(self.width);
        let count = plane.and_then(|plane| plane.checked_mul(self.channels));
        let Size { channels, height, width } = self;
        match count {
            Some(0) => {
                let message = format!("the result is empty: {width} x {height} x {channels}");
                Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()))
            }
            Some(count) if count <= VALUES_MAX => Ok(self),
            _ => {
                let message = format!(
                    "{width} x {height} x {channels} (width x height x channels) are more than \
                     {VALUES_MAX} numbers"
                );
                Err(Diagnostic::new(Code::SourceLimit, message).at(layer.clone()))
            }
        }
    }
}

/// What a layer computes: a value `[batch, channels, height, width]`, or `[batch, channels]` if
/// it is flat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    pub(crate) value: ValueId,
    pub(crate) size: Size,
    pub(crate) flat: bool,
}

/// A parameter that belongs to another layer.
struct Share {
    value: ValueId,
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

/// The graph under construction.
pub(crate) struct Build<'f> {
    pub(crate) graph: Graph,
    pub(crate) dtype: DataType,
    pub(crate) weights: Weights<'f>,
    pub(crate) notes: Vec<Diagnostic>,
    /// Names of layers and of the input.
    reserved: HashSet<String>,
    /// Names of results of ONNX files that layers or targets use.
    results: HashSet<String>,
    /// The number of samples, if an ONNX file computes no other.
    batch: Option<i64>,
    /// What ONNX files bring along besides nodes.
    adopted: Adopted,
    /// Flat values as images of one pixel.
    pub(crate) unsqueezed: HashMap<ValueId, ValueId>,
    /// By layer and suffix.
    parameters: HashMap<(String, &'static str), ValueId>,
    shares: Vec<Share>,
    numbers: usize,
    connections: usize,
}

impl<'f> Build<'f> {
    pub(crate) fn new(
        name: &str,
        dtype: DataType,
        weights: Weights<'f>,
        layers: impl Iterator<Item = String>,
        results: impl Iterator<Item = String>,
    ) -> Build<'f> {
        Build {
            graph: Graph::new(name),
            dtype,
            weights,
            notes: Vec::new(),
            reserved: layers.chain([INPUT.to_owned()]).collect(),
            results: results.collect(),
            batch: None,
            adopted: Adopted::default(),
            unsqueezed: HashMap::new(),
            parameters: HashMap::new(),
            shares: Vec::new(),
            numbers: 0,
            connections: 0,
        }
    }

    /// Adds the graph's input.
    pub(crate) fn input(&mut self, size: Size) -> Feature {
        let ty = self.value_type(size, false);
        let value = self.graph.add_input(INPUT, Some(ty));
        Feature { value, size, flat: false }
    }

    pub(crate) fn value_type(&self, size: Size, flat: bool) -> ValueType {
        let sizes = [size.channels, size.height, size.width];
        let sizes = if flat { &sizes[..1] } else { &sizes };
        self.shaped(sizes)
    }

    /// The type of a value whose axes after the batch have `sizes`.
    pub(crate) fn shaped(&self, sizes: &[usize]) -> ValueType {
        let sizes = sizes.iter().map(|n| Dim::Known(*n as i64));
        ValueType::tensor(self.dtype, [Dim::from(BATCH)].into_iter().chain(sizes))
    }

    /// A name made from `base` that neither a value nor a layer has.
    pub(crate) fn fresh(&self, base: &str) -> String {
        let taken = |name: &str| {
            self.reserved.contains(name)
                || self.results.contains(name)
                || self.graph.value_named(name).is_some()
        };
        if !taken(base) {
            return base.to_owned();
        }
        let mut numbered = (1..).map(|n: usize| format!("{base}_{n}"));
        numbered.find(|name| !taken(name)).expect("numbers do not end")
    }

    /// The name of a result of an ONNX file: its own, unless a layer has it.
    pub(crate) fn result_name(&self, name: &str) -> String {
        let free = !self.reserved.contains(name) && self.graph.value_named(name).is_none();
        if free { name.to_owned() } else { self.fresh(name) }
    }

    /// A result of an ONNX file as layers read it, for `layer`.
    pub(crate) fn feature(&mut self, value: ValueId, layer: &Layer) -> Result<Feature, Diagnostic> {
        let ty = self.graph[value].ty.clone();
        let shape = ty.as_ref().and_then(ValueType::shape);
        let sizes = |shape: &[Dim]| -> Option<Vec<usize>> {
            let size = |d: &Dim| usize::try_from(d.known()?).ok();
            shape[1..].iter().map(size).collect()
        };
        let found = match shape {
            Some(shape) if matches!(shape.len(), 2 | 4) => sizes(shape),
            _ => None,
        };
        let (size, flat) = match found.as_deref() {
            Some([channels]) => (Size::new(*channels, [1, 1]), true),
            Some([channels, height, width]) => (Size::new(*channels, [*height, *width]), false),
            _ => {
                let name = shown(&self.graph[value].name);
                let message = format!(
                    "`{name}` cannot be its input: layers read [batch, channels, height, width] \
                     or [batch, channels], of known sizes"
                );
                return Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()));
            }
        };
        let size = size.check(layer)?;
        if ty.as_ref().and_then(ValueType::dtype) == Some(self.dtype) {
            return Ok(Feature { value, size, flat });
        }
        let ty = Some(self.value_type(size, flat));
        let out =
            self.graph.add_value(&self.fresh(&format!("{}_cast", self.graph[value].name)), ty);
        let node = Node::new("Cast", [value], [out]);
        let node = node.with("to", Attr::Int(self.dtype.number().into()));
        self.graph.add_node(Node { layers: vec![layer.clone()], ..node });
        Ok(Feature { value: out, size, flat })
    }

    /// From now on the network computes `batch` samples at a time.
    pub(crate) fn fix_batch(&mut self, batch: i64, layer: &Layer) -> Result<(), Diagnostic> {
        if let Some(other) = self.batch.filter(|other| *other != batch) {
            let message = format!("computes {batch} samples at a time, another file {other}");
            return Err(Diagnostic::new(Code::ShapeMismatch, message).at(layer.clone()));
        }
        if self.batch.is_none() {
            let message =
                format!("the network computes {batch} samples at a time, as the file does");
            let note = Diagnostic::new(Code::LayerParameterIgnored, message).at(layer.clone());
            self.notes.push(note.help("Export the file with a variable number of samples."));
        }
        self.batch = Some(batch);
        Ok(())
    }

    /// Takes over functions and operator sets of an ONNX file.
    pub(crate) fn adopt(&mut self, model: &Model, layer: &Layer) -> Result<(), Diagnostic> {
        let clash = |what: String| {
            let message = format!("{what} than another file of the network");
            Err(Diagnostic::new(Code::FeatureUnsupported, message).at(layer.clone()))
        };
        for (domain, version) in &model.opsets {
            let old = self.adopted.opsets.insert(domain.clone(), *version);
            if old.is_some_and(|old| old != *version) {
                return clash(format!("takes operators `{}` of another version", shown(domain)));
            }
        }
        for function in &model.functions {
            let name = |f: &Function| (f.domain.clone(), f.name.clone(), f.overload.clone());
            if self.adopted.functions.iter().any(|f| name(f) == name(function)) {
                let name = shown(&function.name);
                return clash(format!("defines a function `{name}`, perhaps otherwise,"));
            }
        }
        self.adopted.functions.extend(model.functions.iter().cloned());
        Ok(())
    }

    /// The model, once all layers are built.
    pub(crate) fn model(mut self, ir_version: i64, opset: i64) -> Model {
        if let Some(batch) = self.batch {
            for v in self.graph.value_ids() {
                if let Some(ValueType::Tensor { shape: Some(shape), .. }) = &mut self.graph[v].ty {
                    let symbolic = shape.iter_mut().filter(|dim| **dim == Dim::from(BATCH));
                    symbolic.for_each(|dim| *dim = Dim::Known(batch));
                }
            }
        }
        let mut model = Model::new(self.graph, ir_version, opset);
        let standard = |domain: &str| matches!(domain, "" | "ai.onnx");
        model.opsets.extend(self.adopted.opsets.into_iter().filter(|(d, _)| !standard(d)));
        model.functions = self.adopted.functions;
        model
    }

    /// Adds an initializer.
    pub(crate) fn constant(&mut self, base: &str, data: Tensor) -> ValueId {
        let name = self.fresh(base);
        self.graph.add_initializer(&name, data)
    }

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
            to.copy_from_slice(part.bytes());
            rest = behind;
        }
        room.seal()
    }

    /// A parameter of a layer, which other layers may share.
    pub(crate) fn parameter(
        &mut self,
        layer: &Layer,
        suffix: &'static str,
        data: Tensor,
    ) -> ValueId {
        let value = self.constant(&format!("{}_{suffix}", layer.name), data);
        self.parameters.insert((layer.name.clone(), suffix), value);
        value
    }

    /// Stands for the parameter `suffix` of layer `owner`, which may be built later.
    pub(crate) fn share(
        &mut self,
        layer: &Layer,
        suffix: &'static str,
        owner: String,
        dims: Vec<usize>,
    ) -> ValueId {
        let name = self.fresh(&format!("{}_{suffix}", layer.name));
        let ty = ValueType::tensor(self.dtype, dims.iter().map(|n| *n as i64));
        let value = self.graph.add_value(&name, Some(ty));
        self.parameters.insert((layer.name.clone(), suffix), value);
        self.shares.push(Share { value, owner, suffix, dims, layer: layer.clone() });
        value
    }

    /// Puts the shared parameters in place, once all layers are built.
    pub(crate) fn resolve_shares(&mut self) -> Vec<Diagnostic> {
        let shares = std::mem::take(&mut self.shares);
        let by_value: HashMap<ValueId, &Share> = shares.iter().map(|s| (s.value, s)).collect();
        let mut problems = Vec::new();
        for share in &shares {
            let mut owner = self.parameters.get(&(share.owner.clone(), share.suffix)).copied();
            for _ in 0..SHARE_DEPTH_MAX {
                let Some(next) = owner.and_then(|owner| by_value.get(&owner)) else { break };
                owner = self.parameters.get(&(next.owner.clone(), next.suffix)).copied();
            }
            let data = owner.and_then(|owner| self.graph[owner].initializer());
            match (owner, data) {
                (Some(owner), Some(data)) if data.dims() == share.dims => {
                    self.graph.replace_uses(share.value, owner);
                }
                (_, Some(data)) => {
                    let (dims, own) = (data.dims(), &share.dims);
                    let message =
                        format!("shares parameters of `{}`: {dims:?}, not {own:?}", share.owner);
                    let problem = Diagnostic::new(Code::ShapeMismatch, message);
                    problems.push(problem.at(share.layer.clone()));
                }
                (_, None) => {
                    let message =
                        format!("shares parameters that layer `{}` does not have", share.owner);
                    let problem = Diagnostic::new(Code::LayerParameter, message);
                    problems.push(problem.at(share.layer.clone()));
                }
            }
        }
        problems
    }

    /// Counts parameters before they are read or made.
    pub(crate) fn claim(
        &mut self,
        numbers: Option<usize>,
        layer: &Layer,
    ) -> Result<(), Diagnostic> {
        let total = numbers.and_then(|numbers| self.numbers.checked_add(numbers));
        let what = "the network has more than";
        self.numbers = within(total, self.weights.numbers_max(), what, "parameters", layer)?;
        Ok(())
    }

    /// Counts pairs of a connection map before it is made.
    pub(crate) fn claim_connections(
        &mut self,
        outputs: usize,
        channels: usize,
        layer: &Layer,
    ) -> Result<(), Diagnostic> {
        let total =
            outputs.checked_mul(channels).and_then(|pairs| self.connections.checked_add(pairs));
        let what = "the connection maps of the network have more than";
        self.connections = within(total, CONNECTIONS_MAX, what, "entries", layer)?;
        Ok(())
    }
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
