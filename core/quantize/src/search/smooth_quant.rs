//! Smoothing (SmoothQuant, arXiv 2211.10438): where a few channels of an activation are far larger
//! than the others, part of that goes into the weights that read it. What normalizes the activation
//! takes the factors, so that nothing is computed in addition.

use crate::accuracy::Base;
use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::observe::{Feeds, Limits, StatisticParts, Stats, WantedValues, observe};
use crate::plan::QuantizePlan;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Builtin, quoted};
use onnxd_ir::ops::{Gemm, LayerNormalization};
use onnxd_ir::{At, DataType, Graph, Model, NodeId, Reals, Tensor, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Factors stay within this of one.
const FACTOR_MAX: f64 = 1e4;

/// An activation that can be smoothed: its channels are the last axis, a gain for each of them has
/// just been applied, and only weighted operators read it.
#[derive(Clone, Debug)]
pub struct SmoothableActivation {
    value: ValueId,
    /// Constants that are divided by the factors, as inputs of nodes: the gain, and what is added.
    over: Vec<(NodeId, usize)>,
    /// Weights whose rows are multiplied, and the axis of the rows.
    times: Vec<(NodeId, usize)>,
}

/// The activations of a float graph that can be smoothed.
#[must_use]
pub fn sites(base: &Base) -> Vec<SmoothableActivation> {
    let (graph, plan) = (&base.model.graph, &base.plan);
    let values: BTreeSet<ValueId> = plan.weighted.iter().map(|(p, _)| p.x).collect();
    values.into_iter().filter_map(|v| site(graph, plan, v)).collect()
}

fn site(graph: &Graph, plan: &QuantizePlan, value: ValueId) -> Option<SmoothableActivation> {
    let mut times = Vec::new();
    // A reader of the sizes alone is not concerned.
    let (shapes, readers): (Vec<NodeId>, Vec<NodeId>) =
        graph.readers(value).iter().partition(|id| graph[**id].is("Shape"));
    for reader in &readers {
        let at = plan.weighted.binary_search_by_key(reader, |(p, _)| p.node).ok()?;
        let operator = &plan.weighted[at].0;
        times.push((operator.node, rows(graph, operator)?));
    }
    let over = gain(graph, value)?;
    (graph.uses(value) == times.len() + shapes.len()).then_some(SmoothableActivation {
        value,
        over,
        times,
    })
}

/// The axis of the weights along which a weighted operator sums.
fn rows(graph: &Graph, operator: &WeightedNode) -> Option<usize> {
    match operator.op {
        WeightedOp::Attention | WeightedOp::MatMul => operator.axis.map(|_| 0),
        WeightedOp::Gemm => {
            let gemm = At::<Gemm>::find(graph, operator.node)?;
            (gemm.transA == 0).then_some(usize::from(gemm.transB != 0))
        }
        _ => None,
    }
}

/// The constants, one number for each channel, that a value was multiplied with, and that were
/// added after that.
fn gain(graph: &Graph, value: ValueId) -> Option<Vec<(NodeId, usize)>> {
    let producer = graph.producer(value)?;
    if let Some(norm) = At::<LayerNormalization>::find(graph, producer) {
        let last = graph[norm.out].shape().map(<[_]>::len);
        let over_last = norm.axis == -1 || last.is_some_and(|rank| norm.axis + 1 == rank as i64);
        let slots = if norm.b.is_some() { 1..3 } else { 1..2 };
        let over: Vec<_> = slots.map(|slot| (producer, slot)).collect();
        let fits = over_last && over.iter().all(|at| vector(graph, *at).is_some());
        return fits.then_some(over);
    }
    let constant = |id: NodeId| (0..2).find(|slot| vector(graph, (id, *slot)).is_some());
    let slot = constant(producer)?;
    let node = &graph[producer];
    if node.is("Mul") {
        return Some(vec![(producer, slot)]);
    }
    let product = node.input(1 - slot).filter(|v| node.is("Add") && graph.uses(*v) == 1)?;
    let before = graph.producer(product).filter(|id| graph[*id].is("Mul"))?;
    Some(vec![(before, constant(before)?), (producer, slot)])
}

/// A constant of one axis that a node reads.
fn vector(graph: &Graph, (node, slot): (NodeId, usize)) -> Option<&Tensor> {
    let data = graph.constant(graph[node].input(slot)?)?;
    (data.rank() == 1 && data.dtype() == DataType::Float).then_some(data)
}

impl SmoothableActivation {
    /// What the executor calls the activation.
    #[must_use]
    pub fn name(&self, graph: &Graph) -> String {
        quoted(&graph[self.value].name)
    }
}

/// The largest magnitude of each channel of the sites' activations, by [`SmoothableActivation::name`].
///
/// # Errors
/// Why samples cannot be had, or the model does not run on them.
pub fn magnitudes(
    model: &Model,
    sites: &[SmoothableActivation],
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    limits: Limits,
) -> Result<BTreeMap<String, Vec<f64>>, Diagnostics> {
    let parts =
        StatisticParts { channel_axis: Some(-1), moments: false, ..StatisticParts::default() };
    let wanted = WantedValues::Names(sites.iter().map(|site| site.name(&model.graph)).collect());
    let seen = observe(&Builtin, model, samples, &wanted, &|_| Stats::new(&parts), limits)?;
    Ok(seen
        .into_iter()
        .map(|(name, stats)| (name, stats.channel_abs_max().unwrap_or_default()))
        .collect())
}

/// The largest magnitude of each channel that is to be expected without samples: what a
/// normalization computes has a variance of one before its gain. By [`SmoothableActivation::name`]; sites after
/// something else are missing.
#[must_use]
pub fn expected(model: &Model, sites: &[SmoothableActivation]) -> BTreeMap<String, Vec<f64>> {
    /// Values beyond so many deviations are rare.
    const DEVIATIONS: f64 = 4.0;
    let graph = &model.graph;
    let channels = |site: &SmoothableActivation| {
        let (gain, _) = *site.over.first()?;
        let normal = graph[gain].is("LayerNormalization") || normalized(graph, gain);
        let mut each = site.over.iter().map(|at| Some(vector(graph, *at)?.to_reals()?.values));
        let (gain, offset) = (each.next().filter(|_| normal)??, each.next().flatten());
        let offset = offset.unwrap_or_else(|| vec![0.0; gain.len()]);
        let reach = |(g, b): (&f64, &f64)| DEVIATIONS * g.abs() + b.abs();
        Some((site.name(graph), gain.iter().zip(&offset).map(reach).collect()))
    };
    sites.iter().filter_map(channels).collect()
}

/// Whether a node multiplies what was divided by a root.
fn normalized(graph: &Graph, node: NodeId) -> bool {
    let by = |v: Option<ValueId>| v.and_then(|v| graph.producer(v));
    let divided = graph[node].inputs.iter().filter_map(|v| by(*v)).find(|id| graph[*id].is("Div"));
    let divisor = divided.and_then(|id| by(graph[id].input(1)));
    divisor.is_some_and(|id| graph[id].is("Sqrt"))
}

/// The same function with even activations: `factor = |x|^share / |w|^(1 - share)` for each
/// channel, by which the activation is divided and the weights are multiplied. `None` if nothing
/// changes.
#[must_use]
pub fn smoothed(
    model: &Model,
    sites: &[SmoothableActivation],
    magnitudes: &BTreeMap<String, Vec<f64>>,
    share: f64,
) -> Option<Model> {
    let mut smooth = model.clone();
    let mut changed = false;
    for site in sites {
        let Some(x) = magnitudes.get(&site.name(&model.graph)) else { continue };
        changed |= smooth_site(&mut smooth.graph, site, x, share).is_some();
    }
    changed.then_some(smooth)
}

fn smooth_site(
    graph: &mut Graph,
    site: &SmoothableActivation,
    x: &[f64],
    share: f64,
) -> Option<()> {
    let mut weights = Vec::new();
    let mut w = vec![0f64; x.len()];
    for (node, axis) in &site.times {
        let reals = graph.constant(graph[*node].input(WeightedNode::W)?)?.to_reals()?;
        let rows = reals.abs_max_along(*axis).values;
        if rows.len() != x.len() {
            return None;
        }
        w.iter_mut().zip(rows).for_each(|(most, row)| *most = most.max(row));
        weights.push(reals);
    }
    let factor = |(x, w): (&f64, &f64)| match *x > 0.0 && *w > 0.0 {
        true => (x.powf(share) / w.powf(1.0 - share)).clamp(1.0 / FACTOR_MAX, FACTOR_MAX),
        false => 1.0,
    };
    let values: Vec<f64> = x.iter().zip(&w).map(factor).collect();
    let factors = Reals { dims: vec![x.len()], values };
    let mut scaled = Vec::new();
    for at in &site.over {
        let old = vector(graph, *at)?.to_reals()?;
        scaled.push((*at, (&old / &factors).to_tensor(DataType::Float)?));
    }
    for ((node, axis), old) in site.times.iter().zip(weights) {
        let new = old.scale_axis(*axis, &factors).to_tensor(DataType::Float)?;
        scaled.push(((*node, WeightedNode::W), new));
    }
    for ((node, slot), data) in scaled {
        let name = format!("{}_smoothed", graph[graph[node].input(slot)?].name);
        let to = graph.add_initializer(&name, data);
        graph.set_input(node, slot, Some(to));
    }
    Some(())
}

/// The largest of some magnitudes, in medians.
pub(crate) fn uneven(channels: &[f64]) -> f64 {
    let mut sorted = channels.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    sorted.last().copied().unwrap_or(1.0) / median.max(f64::MIN_POSITIVE)
}
