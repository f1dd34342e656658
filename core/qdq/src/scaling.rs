//! Factors of channels that go from an activation into the weights that read it. What computes the
//! activation takes their inverse, so that nothing is computed in addition.

use crate::emit::drop_unread;
use crate::weighted::FLOATS;
use onnxd_ir::ops::{Gemm, MatMul, Op};
use onnxd_ir::{Attr, Graph, Node, NodeId, Tensor, ValueId};

/// Nodes that are looked at on the way back from an activation.
const DEPTH_MAX: usize = 24;

/// A constant that a node reads, and the axis of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    node: NodeId,
    slot: usize,
    axis: usize,
}

/// An activation whose channels, its last axis, can be divided by positive factors: only products
/// with constant weights read it, and constants on the way to it have the same channels.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    over: Vec<Spot>,
    times: Vec<Spot>,
}

impl Site {
    /// `None` where dividing would take a node of its own, or would change what others read.
    pub(crate) fn find(graph: &Graph, value: ValueId, channels: usize) -> Option<Site> {
        let mut times = Vec::new();
        for reader in graph.readers(value) {
            // Who takes but the sizes is not concerned.
            if !graph[*reader].is("Shape") {
                times.push(rows(graph, *reader, value).filter(|s| s.size(graph) == channels)?);
            }
        }
        if times.is_empty() || graph.is_output(value) {
            return None;
        }
        let mut back = Back { graph, channels, over: Vec::new() };
        back.through(value, &[1], DEPTH_MAX)?;
        let site = Site { over: back.over, times };
        site.owned(graph).then_some(site)
    }

    /// Whether nobody else reads the matrices, of which there would be two otherwise.
    fn owned(&self, graph: &Graph) -> bool {
        self.over.iter().chain(&self.times).all(|spot| {
            let v = graph[spot.node].input(spot.slot);
            v.is_some_and(|v| {
                graph.uses(v) == 1 || graph.constant(v).is_some_and(|c| c.len() == self.size(graph))
            })
        })
    }

    fn size(&self, graph: &Graph) -> usize {
        self.times.first().map_or(0, |spot| spot.size(graph))
    }

    /// Divides the activation; `None`, and nothing is changed, if some constant leaves its type.
    pub(crate) fn apply(&self, graph: &mut Graph, factors: &[f64]) -> Option<()> {
        let inverse: Vec<f64> = factors.iter().map(|f| 1.0 / f).collect();
        let over = self.over.iter().map(|spot| (spot, &inverse[..]));
        let times = self.times.iter().map(|spot| (spot, factors));
        let made = over.chain(times).map(|(spot, gain)| {
            let data = spot.data(graph)?.scaled_along(spot.axis, gain)?;
            data.is_finite().then_some((*spot, data))
        });
        for (spot, data) in made.collect::<Option<Vec<_>>>()? {
            let old = graph[spot.node].input(spot.slot)?;
            if graph[old].initializer().is_some() && graph.uses(old) == 1 {
                graph.set_initializer(old, Some(data));
                continue;
            }
            let name = format!("{}_scaled", graph[old].name);
            let new = graph.add_initializer(&name, data);
            graph.set_input(spot.node, spot.slot, Some(new));
            drop_unread(graph, [old]);
        }
        Some(())
    }
}

impl Spot {
    fn data<'g>(&self, graph: &'g Graph) -> Option<&'g Tensor> {
        graph.constant(graph[self.node].input(self.slot)?)
    }

    fn size(&self, graph: &Graph) -> usize {
        self.data(graph).map_or(0, |data| data.dims()[self.axis])
    }
}

/// A constant of real numbers.
fn reals(graph: &Graph, v: Option<ValueId>) -> Option<&Tensor> {
    graph.constant(v?).filter(|c| FLOATS.contains(&c.dtype()))
}

/// The weights of a product by what they multiply, if that is `x`.
fn rows(graph: &Graph, node: NodeId, x: ValueId) -> Option<Spot> {
    let (a, b, transposed) = match (MatMul::view(&graph[node]), Gemm::view(&graph[node])) {
        (Some(op), _) => (op.a, op.b, false),
        (_, Some(op)) if op.transA == 0 => (op.a, op.b, op.transB != 0),
        _ => return None,
    };
    let once = graph[node].inputs.iter().filter(|v| **v == Some(x)).count() == 1;
    let rank = matrix(graph, b).filter(|_| once && a == x)?;
    Some(Spot { node, slot: 1, axis: rank - 2 + usize::from(transposed) })
}

/// The rank of a constant that is one matrix.
fn matrix(graph: &Graph, v: ValueId) -> Option<usize> {
    let dims = reals(graph, Some(v))?.dims();
    let one = dims.len() >= 2 && dims[..dims.len() - 2].iter().all(|d| *d == 1);
    one.then_some(dims.len())
}

/// The way back from an activation.
struct Back<'g> {
    graph: &'g Graph,
    channels: usize,
    over: Vec<Spot>,
}

/// Operators after which all elements are divided if those before are, by the same positive number.
const HOMOGENEOUS: [&str; 4] = ["Identity", "LeakyRelu", "PRelu", "Relu"];

/// The same, where channels are the second axis.
const POOLS: [&str; 4] = ["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"];

/// Operators that keep the elements in order.
const RESHAPES: [&str; 4] = ["Flatten", "Reshape", "Squeeze", "Unsqueeze"];

impl Back<'_> {
    /// Divides the channels of a value, which run over `axes`: counted from the last, which is 1,
    /// the outer ones first.
    fn through(&mut self, v: ValueId, axes: &[usize], depth: usize) -> Option<()> {
        let graph = self.graph;
        let id = graph.producer(v).filter(|_| depth > 0)?;
        let node = &graph[id];
        let first = node.input(0)?;
        let last_alone = axes == [1];
        if !node.is_standard() || node.outputs.iter().flatten().count() != 1 {
            return None;
        }
        match node.op.as_str() {
            "LayerNormalization" if last_alone => self.normalization(id, v),
            "BatchNormalization" if self.second(v, axes) => self.constants(id, &[1, 2]),
            "MatMul" | "Gemm" if reals(graph, node.input(1)).is_some() => {
                self.product(id, last_alone)
            }
            "MatMul" if axes.last() == Some(&1) && !axes.contains(&2) => {
                self.inner(node.input(1)?, axes, depth)
            }
            "Conv" if self.second(v, axes) => self.constants(id, &[1, 2]),
            "Add" | "Sub" => self.sum(id, axes, depth),
            "Mul" => self.gain(id, axes, depth),
            "Div" => self.inner(first, axes, depth),
            "Transpose" => {
                let rank = graph[v].ty.as_ref()?.shape()?.len();
                let Some(Attr::Ints(perm)) = node.attr("perm") else { return None };
                let from = |axis: &usize| {
                    let at = *perm.get(rank.checked_sub(*axis)?)?;
                    rank.checked_sub(usize::try_from(at).ok()?)
                };
                let axes: Option<Vec<usize>> = axes.iter().map(from).collect();
                self.inner(first, &axes?, depth)
            }
            op if RESHAPES.contains(&op) => {
                let (before, after) = (self.trailing(first)?, self.trailing(v)?);
                self.inner(first, &before, depth).filter(|()| after == axes)
            }
            op if HOMOGENEOUS.contains(&op) => self.inner(first, axes, depth),
            op if POOLS.contains(&op) && self.second(v, axes) => self.inner(first, axes, depth),
            _ => None,
        }
    }

    /// The same for what a node on the way reads, and nobody else.
    fn inner(&mut self, v: ValueId, axes: &[usize], depth: usize) -> Option<()> {
        let alone = self.graph.uses(v) == 1 && self.size(v, axes) == Some(self.channels);
        alone.then_some(())?;
        self.through(v, axes, depth - 1)
    }

    fn size(&self, v: ValueId, axes: &[usize]) -> Option<usize> {
        let dims = self.graph[v].ty.as_ref()?.shape()?;
        let known =
            |axis: &usize| usize::try_from(dims.get(dims.len().checked_sub(*axis)?)?.known()?).ok();
        axes.iter().map(known).try_fold(1usize, |size, known| size.checked_mul(known?))
    }

    /// The last axes of a value, without those of one element, that have as many as there are
    /// channels.
    fn trailing(&self, v: ValueId) -> Option<Vec<usize>> {
        let dims = self.graph[v].ty.as_ref()?.shape()?;
        let (mut size, mut axes) = (1usize, Vec::new());
        for (dim, axis) in dims.iter().rev().zip(1..) {
            if size == self.channels {
                break;
            }
            let known = usize::try_from(dim.known()?).ok()?;
            size = size.checked_mul(known)?;
            if known > 1 {
                axes.insert(0, axis);
            }
        }
        (size == self.channels).then_some(axes)
    }

    /// Gain and offset of a normalization over the last axis.
    fn normalization(&mut self, id: NodeId, v: ValueId) -> Option<()> {
        let node = &self.graph[id];
        let rank = self.graph[v].ty.as_ref().and_then(|t| Some(t.shape()?.len()));
        let axis = match node.attr("axis") {
            Some(Attr::Int(axis)) => *axis,
            _ => -1,
        };
        let over_last = axis == -1 || rank.is_some_and(|rank| axis + 1 == rank as i64);
        over_last.then_some(()).and_then(|()| self.constants(id, &[1, 2]))
    }

    /// Whether channels are the second axis of a value.
    fn second(&self, v: ValueId, axes: &[usize]) -> bool {
        let rank = self.graph[v].ty.as_ref().and_then(|t| Some(t.shape()?.len()));
        rank.is_some_and(|rank| rank > 1 && axes == [rank - 1])
    }

    /// Constants of a node, those that there are, whose first axis are the channels.
    fn constants(&mut self, id: NodeId, slots: &[usize]) -> Option<()> {
        let filled = |slot: &&usize| self.graph[id].input(**slot).is_some();
        let slots: Vec<usize> = slots.iter().filter(filled).copied().collect();
        slots.iter().all(|slot| self.vector(id, *slot, 0)).then_some(())
    }

    /// Weights of a product by what they compute, and its bias.
    fn product(&mut self, id: NodeId, last_alone: bool) -> Option<()> {
        let node = &self.graph[id];
        let rank = matrix(self.graph, node.input(1)?).filter(|_| last_alone)?;
        let gemm = Gemm::view(node);
        let axis = rank - 1 - usize::from(gemm.as_ref().is_some_and(|op| op.transB != 0));
        let bias = gemm.and_then(|op| op.c);
        let fits = bias.is_none_or(|c| {
            let rank = self.graph.constant(c).map_or(0, Tensor::rank);
            rank > 0 && self.vector(id, 2, rank - 1)
        });
        (fits && self.vector(id, 1, axis)).then_some(())
    }

    /// Notes a constant that has the channels along an axis.
    fn vector(&mut self, node: NodeId, slot: usize, axis: usize) -> bool {
        let data = reals(self.graph, self.graph[node].input(slot));
        let fits = data.is_some_and(|c| c.dims().get(axis) == Some(&self.channels));
        self.over.extend(fits.then_some(Spot { node, slot, axis }));
        fits
    }

    /// The constant that a node reads beside another input, and that.
    fn beside(&self, node: &Node) -> Option<(usize, ValueId)> {
        let slot = (0..2).find(|slot| reals(self.graph, node.input(*slot)).is_some())?;
        Some((slot, node.input(1 - slot)?))
    }

    /// Notes the constant at `slot` if it has the channels along its axis from the last.
    fn along(&mut self, node: NodeId, slot: usize, axes: &[usize]) -> bool {
        let rank = reals(self.graph, self.graph[node].input(slot)).map_or(0, Tensor::rank);
        let [axis] = axes else { return false };
        rank.checked_sub(*axis).is_some_and(|axis| self.vector(node, slot, axis))
    }

    fn sum(&mut self, id: NodeId, axes: &[usize], depth: usize) -> Option<()> {
        let node = &self.graph[id];
        if let Some((slot, other)) = self.beside(node) {
            return self
                .along(id, slot, axes)
                .then_some(())
                .and_then(|()| self.inner(other, axes, depth));
        }
        self.inner(node.input(0)?, axes, depth)?;
        self.inner(node.input(1)?, axes, depth)
    }

    /// One of the factors is enough.
    fn gain(&mut self, id: NodeId, axes: &[usize], depth: usize) -> Option<()> {
        let node = &self.graph[id];
        if let Some((slot, other)) = self.beside(node) {
            let taken = self.along(id, slot, axes).then_some(());
            return taken.or_else(|| self.inner(other, axes, depth));
        }
        let noted = self.over.len();
        self.inner(node.input(0)?, axes, depth).or_else(|| {
            self.over.truncate(noted);
            self.inner(node.input(1)?, axes, depth)
        })
    }
}
