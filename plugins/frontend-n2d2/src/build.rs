//! The graph under construction: names, constants, shared parameters and limits.
//!
//! Outputs are named like their layers, so no other value may take a layer's name.

use std::collections::{HashMap, HashSet};

use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Reals, Tensor, ValueId, ValueType};

use crate::diag::{Code, Diagnostic, Layer};
use crate::weights::Weights;

/// Name of the graph's input.
pub(crate) const INPUT: &str = "env";
/// Most numbers that a layer computes for one image.
const VALUES_MAX: usize = 1 << 31;
/// Most pairs of channels and outputs in the connection maps of a network.
const CONNECTIONS_MAX: usize = 1 << 31;
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

/// The graph under construction.
pub(crate) struct Build<'f> {
    pub(crate) graph: Graph,
    pub(crate) dtype: DataType,
    pub(crate) weights: Weights<'f>,
    pub(crate) notes: Vec<Diagnostic>,
    /// Names of layers and of the input.
    reserved: HashSet<String>,
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
    ) -> Build<'f> {
        Build {
            graph: Graph::new(name),
            dtype,
            weights,
            notes: Vec::new(),
            reserved: layers.chain([INPUT.to_owned()]).collect(),
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
        ValueType::tensor(self.dtype, [Dim::from("batch")].into_iter().chain(sizes))
    }

    /// A name made from `base` that neither a value nor a layer has.
    pub(crate) fn fresh(&self, base: &str) -> String {
        let taken =
            |name: &str| self.reserved.contains(name) || self.graph.value_named(name).is_some();
        if !taken(base) {
            return base.to_owned();
        }
        let mut numbered = (1..).map(|n: usize| format!("{base}_{n}"));
        numbered.find(|name| !taken(name)).expect("numbers do not end")
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
