//! Factors of channels that go from an activation into the weights that read it. What computes the
//! activation takes their inverse, so that nothing is computed in addition.

mod back;

use crate::graph::weighted::FLOATS;
use back::Back;
use onnxd_ir::ops::{Gemm, MatMul, Op};
use onnxd_ir::{Graph, NodeId, Tensor, ValueId};
use std::collections::BTreeSet;

/// A constant that a node reads, and which of the elements of an axis are the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spot {
    node: NodeId,
    slot: usize,
    axis: usize,
    at: Vec<usize>,
}

/// An activation whose channels, its last axis, can be divided by positive factors: only weighted operators
/// with constant weights read it, and constants on the way to it have the same channels.
#[derive(Clone, Debug)]
pub(crate) struct ScalableActivation {
    over: Vec<Spot>,
    times: Vec<Spot>,
}

impl ScalableActivation {
    /// `None` where dividing would take a node of its own, or would change what others read.
    pub(crate) fn find(
        graph: &Graph,
        value: ValueId,
        channels: usize,
    ) -> Option<ScalableActivation> {
        let mut times = Vec::new();
        for reader in graph.readers(value) {
            // A reader of the sizes alone is not concerned.
            if !graph[*reader].is("Shape") {
                times.push(rows(graph, *reader, value).filter(|s| s.at.len() == channels)?);
            }
        }
        if times.is_empty() || graph.is_output(value) {
            return None;
        }
        let site = ScalableActivation { over: Back::trace(graph, value, channels)?, times };
        site.owned(graph).then_some(site)
    }

    /// Whether nothing else reads the matrices, of which there would be two otherwise, and nothing
    /// is read in two ways.
    fn owned(&self, graph: &Graph) -> bool {
        let mut seen = BTreeSet::new();
        self.over.iter().chain(&self.times).all(|spot| {
            let v = graph[spot.node].input(spot.slot);
            let vector = |c: &Tensor| c.len() == c.dims()[spot.axis];
            seen.insert((spot.node, spot.slot))
                && v.is_some_and(|v| graph.uses(v) == 1 || graph.constant(v).is_some_and(vector))
        })
    }

    /// Divides the activation; `None`, and nothing is changed, if some constant leaves its type.
    pub(crate) fn apply(&self, graph: &mut Graph, factors: &[f64]) -> Option<()> {
        let inverse: Vec<f64> = factors.iter().map(|f| 1.0 / f).collect();
        let over = self.over.iter().map(|spot| (spot, &inverse[..]));
        let times = self.times.iter().map(|spot| (spot, factors));
        let made = over.chain(times).map(|(spot, gain)| {
            let data = spot.data(graph)?;
            let mut gains = vec![1.0; data.dims()[spot.axis]];
            spot.at.iter().zip(gain).for_each(|(at, gain)| gains[*at] = *gain);
            let data = data.scaled_along(spot.axis, &gains)?;
            data.is_finite().then_some((spot, data))
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
            graph.drop_unread([old]);
        }
        Some(())
    }
}

impl Spot {
    fn data<'g>(&self, graph: &'g Graph) -> Option<&'g Tensor> {
        graph.constant(graph[self.node].input(self.slot)?)
    }
}

/// A constant of real numbers.
fn reals(graph: &Graph, v: Option<ValueId>) -> Option<&Tensor> {
    graph.constant(v?).filter(|c| FLOATS.contains(&c.dtype()))
}

/// The weights of a weighted operator by what they multiply, if that is `x`.
fn rows(graph: &Graph, node: NodeId, x: ValueId) -> Option<Spot> {
    let (a, b, transposed) = match (MatMul::view(&graph[node]), Gemm::view(&graph[node])) {
        (Some(op), _) => (op.a, op.b, false),
        (_, Some(op)) if op.transA == 0 => (op.a, op.b, op.transB != 0),
        _ => return None,
    };
    let once = graph[node].inputs.iter().filter(|v| **v == Some(x)).count() == 1;
    let rank = matrix(graph, b).filter(|_| once && a == x)?;
    let axis = rank - 2 + usize::from(transposed);
    let channels = graph.constant(b)?.dims()[axis];
    Some(Spot { node, slot: 1, axis, at: (0..channels).collect() })
}

/// The rank of a constant that is one matrix.
fn matrix(graph: &Graph, v: ValueId) -> Option<usize> {
    let dims = reals(graph, Some(v))?.dims();
    let one = dims.len() >= 2 && dims[..dims.len() - 2].iter().all(|d| *d == 1);
    one.then_some(dims.len())
}
