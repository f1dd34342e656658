//! Which nodes compute on integers, and which values therefore are quantized.
//!
//! Products with constant weights come first: their inputs are to be integers. What `Conv` computes
//! is quantized at once, because no runtime has a convolution from integers to floats; what
//! `Gemm` computes if its readers want integers, and what `MatMul` computes not, because its bias is
//! added in floating point. Other operators follow where what they read are integers already and
//! readers want what they compute as such. So no value is rounded for an operator that gains
//! nothing by it, such as the sums and the normalizations between the weighted operators of a transformer.

use crate::graph::subgraphs;
use crate::graph::weighted::{FLOATS, WeightedNode, WeightedOp, is_attention, is_weighted};
use crate::plan::opt_in;
use crate::plan::propagation::{Propagation, clamped};
use crate::plan::request::{QuantizeRequest, Settings};
use onnxd_ir::{DataType, Graph, NodeId, Tensor, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be quantized.
#[derive(Clone, Debug, Default)]
pub struct QuantizePlan {
    /// Products by node, with their settings.
    pub weighted: Vec<(WeightedNode, Settings)>,
    /// Operators that params name, whose inputs are quantized whatever computes them.
    pub opt_in: BTreeMap<NodeId, Settings>,
    /// Others that compute on integers, by node.
    pub propagated: Vec<(NodeId, Propagation)>,
    /// Activations that are quantized.
    pub values: BTreeMap<ValueId, Quantized>,
    /// `Relu` and `Clip` that saturation stands for.
    pub clamps: Vec<NodeId>,
    /// Products that stay in floating point, and why.
    pub left: Vec<(NodeId, &'static str)>,
    /// Products whose weights get another type than was asked for, see [`crate::report::Report::signed`].
    pub signed: usize,
}

/// An activation that is quantized.
#[derive(Clone, Copy, Debug)]
pub struct Quantized {
    /// The value that has the same scale: itself, or what was moved to become it.
    pub provider: ValueId,
    /// The value whose range counts: itself, or what a clamp makes of it.
    pub observed: ValueId,
    /// The range that it has by what computes it.
    pub known: Option<(f64, f64)>,
    /// Whether an operator on integers computes it. Else who wants no integers reads it as it was.
    pub computed: bool,
    /// How it is quantized.
    pub settings: Settings,
}

impl QuantizePlan {
    /// What can stay in floating point by itself: weighted operators, and what params name.
    pub(crate) fn choices(&self) -> Vec<NodeId> {
        let weighted = self.weighted.iter().map(|(operator, _)| operator.node);
        weighted.chain(self.opt_in.keys().copied()).collect()
    }

    /// The inputs of a node that are to be integers; `None` for a node that stays as it is.
    pub(crate) fn data(&self, graph: &Graph, id: NodeId) -> Option<Vec<usize>> {
        if self.weighted.binary_search_by_key(&id, |(p, _)| p.node).is_ok() {
            return Some(vec![0]);
        }
        let at = self.propagated.binary_search_by_key(&id, |(node, _)| *node).ok()?;
        let data = self.propagated[at].1.data(graph, &graph[id]);
        Some(data.into_iter().map(|(slot, _)| slot).collect())
    }
}

struct Planner<'g> {
    graph: &'g Graph,
    request: &'g QuantizeRequest,
    /// Products that stay as they are.
    floats: &'g BTreeSet<NodeId>,
    plan: QuantizePlan,
    /// Values that an operator on integers can compute, and its settings.
    integers: BTreeMap<ValueId, Settings>,
    /// Operators that could propagate quantization.
    candidates: BTreeMap<NodeId, Propagation>,
    /// The clamp that saturation of a value stands for.
    clamp_of: BTreeMap<ValueId, ValueId>,
    /// What the weighted operators of `MatMul` become with their biases, if that is to be integers.
    linear: BTreeSet<ValueId>,
}

/// Plans the main graph. The weighted operators in `floats` stay in floating point; every one of them that does
/// is named with the reason.
pub fn plan(graph: &Graph, request: &QuantizeRequest, floats: &BTreeSet<NodeId>) -> QuantizePlan {
    let order = graph.topological().unwrap_or_default();
    let mut planner = Planner {
        graph,
        request,
        floats,
        plan: QuantizePlan::default(),
        integers: BTreeMap::new(),
        candidates: BTreeMap::new(),
        clamp_of: BTreeMap::new(),
        linear: BTreeSet::new(),
    };
    for id in &order {
        planner.forward(*id);
    }
    let wanted = planner.backward(&order);
    planner.assign(&order, &wanted)
}

impl Planner<'_> {
    fn settings(&self, id: NodeId) -> Option<Settings> {
        self.request.settings_for(self.graph, &self.graph[id])
    }

    fn forward(&mut self, id: NodeId) {
        let graph = self.graph;
        let opted_in = opt_in::named(graph, &graph[id], self.request);
        let others = self.request.weighted_only && is_attention(&graph[id]);
        match WeightedNode::at(graph, id) {
            _ if others => return,
            Ok(operator) => return self.plan_weighted(operator),
            _ if opted_in => return self.opt_in(id),
            Err(Some(why)) => return self.plan.left.push((id, why)),
            Err(None) => {}
        }
        match Propagation::of_node(graph, id).filter(|_| !self.request.weighted_only) {
            Some(Propagation::Clamp) => self.clamp(id),
            Some(propagation) => {
                let data = propagation.data(graph, &graph[id]).into_iter().map(|(_, v)| v);
                let data: Vec<ValueId> = data.collect();
                let fits = |v: &ValueId| self.integers.contains_key(v) || self.is_constant(*v);
                let first = data.iter().find_map(|v| self.integers.get(v)).copied();
                let Some(settings) = first.filter(|_| data.iter().all(fits)) else { return };
                if self.settings(id).is_some() {
                    self.candidates.insert(id, propagation);
                    let out = propagation.results(&graph[id]);
                    self.integers.extend(out.map(|v| (v, settings)));
                }
            }
            None => {}
        }
    }

    /// An operator that params name.
    fn opt_in(&mut self, id: NodeId) {
        let node = &self.graph[id];
        let Some(settings) = self.settings(id) else {
            return self.plan.left.push((id, "the params leave it in floating point"));
        };
        if self.floats.contains(&id) {
            return self.plan.left.push((id, "the demanded accuracy is not reached with it"));
        }
        match opt_in::check(self.graph, node, settings.activation) {
            Ok(()) => {
                self.candidates.insert(id, Propagation::OptIn);
                self.integers.extend(Propagation::OptIn.results(node).map(|v| (v, settings)));
                self.plan.opt_in.insert(id, settings);
            }
            Err(why) => self.plan.left.extend(why.map(|why| (id, why))),
        }
    }

    fn plan_weighted(&mut self, operator: WeightedNode) {
        let id = operator.node;
        let Some(opted_in) = self.settings(id) else {
            return self.plan.left.push((id, "the params leave it in floating point"));
        };
        let settings = opted_in.runnable();
        let half = self.graph.constant(operator.w).is_some_and(|w| w.dtype() == DataType::Float16);
        if half && (settings.activation.bits() > 8 || settings.weight.bits() > 8) {
            return self.plan.left.push((id, "float16 has fewer digits than integers of 16 bits"));
        }
        if self.floats.contains(&id) {
            return self.plan.left.push((id, "the demanded accuracy is not reached with it"));
        }
        if self.is_constant(operator.x) {
            return self.plan.left.push((id, "it computes a constant"));
        }
        match operator.op {
            WeightedOp::MatMul if self.request.linear_outputs => {
                self.linear.insert(self.with_bias(operator.out));
            }
            _ if operator.computes_floats() => {}
            _ => {
                self.integers.insert(operator.out, settings);
            }
        }
        self.plan.signed += usize::from(settings.weight != opted_in.weight);
        self.plan.weighted.push((operator, settings));
    }

    /// What a bias that is added to a weighted operator makes of it; the weighted operator itself without one.
    fn with_bias(&self, out: ValueId) -> ValueId {
        let [reader] = self.graph.readers(out) else { return out };
        let node = &self.graph[*reader];
        let others = || node.inputs.iter().flatten().filter(|v| **v != out);
        let adds = node.is("Add") && self.graph.uses(out) == 1;
        let sum = node.output(0).filter(|_| adds && others().all(|v| self.is_constant(*v)));
        sum.unwrap_or(out)
    }

    fn is_constant(&self, v: ValueId) -> bool {
        self.graph.constant(v).is_some_and(|t| t.dtype() == DataType::Float)
    }

    /// Saturation stands for a clamp where nothing else reads the integers that it clamps, and where
    /// the smallest integer is zero.
    fn clamp(&mut self, id: NodeId) {
        let graph = self.graph;
        let Some((x, out)) = clamped(graph, id).zip(graph[id].output(0)) else { return };
        let Some(settings) = self.integers.get(&x).copied() else { return };
        let mut source = x;
        loop {
            if graph.uses(source) != 1 || settings.symmetric {
                return;
            }
            let Some(producer) = graph.producer(source) else { return };
            match self.candidates.get(&producer) {
                Some(Propagation::Layout) if graph[producer].outputs.len() == 1 => {
                    let Some(before) = graph[producer].input(0) else { return };
                    source = before;
                }
                _ => break,
            }
        }
        // A clamp has gone into it already.
        if self.clamp_of.contains_key(&source) {
            return;
        }
        self.clamp_of.insert(source, out);
        self.integers.insert(out, settings);
        self.plan.clamps.push(id);
    }

    /// The values that are wanted as integers.
    fn backward(&mut self, order: &[NodeId]) -> BTreeSet<ValueId> {
        let graph = self.graph;
        let mut wanted = self.linear.clone();
        let clamps: BTreeSet<NodeId> = self.plan.clamps.iter().copied().collect();
        let weighted: BTreeMap<NodeId, WeightedNode> =
            self.plan.weighted.iter().map(|(p, _)| (p.node, p.clone())).collect();
        for id in order.iter().rev() {
            if let Some(operator) = weighted.get(id) {
                wanted.insert(operator.x);
                // The others can give their sums in floating point.
                let at_once = match operator.op {
                    WeightedOp::Conv => true,
                    WeightedOp::ConvTranspose | WeightedOp::Gemm => self.request.weighted_only,
                    WeightedOp::Attention | WeightedOp::MatMul | WeightedOp::Normalization => false,
                };
                if at_once {
                    wanted.insert(operator.out);
                }
            } else if clamps.contains(id) {
                let node = &graph[*id];
                let out = node.output(0).is_some_and(|v| wanted.contains(&v));
                wanted.extend(node.input(0).filter(|_| out));
            } else if let Some(propagation) = self.candidates.get(id) {
                let node = &graph[*id];
                let opted_in = *propagation == Propagation::OptIn;
                // Products give their sums in floating point, too.
                if opted_in && !opt_in::computed_matmul(graph, node) {
                    wanted.extend(propagation.results(node));
                }
                if opted_in || propagation.results(node).any(|v| wanted.contains(&v)) {
                    wanted.extend(propagation.data(graph, node).into_iter().map(|(_, v)| v));
                } else {
                    self.candidates.remove(id);
                }
            }
        }
        wanted
    }

    /// Keeps what is wanted, and says of every value how it is quantized.
    fn assign(mut self, order: &[NodeId], wanted: &BTreeSet<ValueId>) -> QuantizePlan {
        let graph = self.graph;
        let computed = self.computed();
        self.clamp_of.retain(|source, _| computed.contains(source) && wanted.contains(source));
        let outs: BTreeSet<ValueId> = self.clamp_of.values().copied().collect();
        let out = |id: &NodeId| graph[*id].output(0).filter(|out| outs.contains(out));
        self.plan.clamps.retain(|id| out(id).is_some());
        let clamps = self.plan.clamps.iter();
        let clamped = clamps.filter_map(|id| Some((clamped(graph, *id)?, out(id)?))).collect();
        let opted_in = self.plan.opt_in.iter().rev().flat_map(|(id, settings)| {
            let data = opt_in::data(graph, &graph[*id]).into_iter();
            data.map(|(_, v)| (v, *settings))
        });
        let weighted = self.plan.weighted.iter().rev();
        let weighted = weighted.map(|(operator, settings)| (operator.x, *settings));
        let settings = opted_in.chain(weighted).collect();
        let readers = Readers { settings, computed, clamped };
        // In the order in which they come to be: what is moved before where it goes.
        let first = graph.value_ids().filter(|v| graph.producer(*v).is_none());
        let made = order.iter().flat_map(|id| graph[*id].outputs.iter().flatten().copied());
        for at in first.chain(made).filter(|v| wanted.contains(v)) {
            let v = readers.clamp(at);
            if !self.plan.values.contains_key(&v) {
                let quantized = self.quantized(v, at, &readers);
                self.plan.values.insert(v, quantized);
            }
        }
        self.plan.propagated = self.candidates.into_iter().collect();
        self.plan.weighted.sort_by_key(|(operator, _)| operator.node);
        self.plan
    }

    /// Values that operators on integers compute.
    fn computed(&self) -> BTreeSet<ValueId> {
        let weighted = self.plan.weighted.iter().map(|(p, _)| p);
        let weighted = weighted.filter(|p| !p.computes_floats()).map(|p| p.out);
        let propagated = self.candidates.iter();
        let propagated =
            propagated.flat_map(|(id, propagation)| propagation.results(&self.graph[*id]));
        let linear = self.linear.iter().copied();
        weighted.chain(propagated).chain(linear).collect()
    }

    fn quantized(&self, v: ValueId, at: ValueId, readers: &Readers) -> Quantized {
        let producer = self.graph.producer(at);
        if producer.and_then(|id| self.candidates.get(&id)) == Some(&Propagation::Layout) {
            let from = producer.and_then(|id| self.graph[id].input(0));
            let from = from.map(|v| readers.clamp(v));
            if let Some(base) = from.and_then(|v| self.plan.values.get(&v)) {
                return Quantized { computed: true, ..*base };
            }
        }
        let opted_in = producer.filter(|id| self.plan.opt_in.contains_key(id));
        let settings = self.integers.get(&at).or_else(|| readers.settings.get(&v));
        Quantized {
            provider: v,
            observed: self.clamp_of.get(&at).copied().unwrap_or(v),
            known: opted_in.and_then(|id| opt_in::range(&self.graph[id], self.plan.opt_in[&id])),
            computed: readers.computed.contains(&at),
            settings: settings.copied().unwrap_or(self.request.settings),
        }
    }
}

/// What surrounds the values.
struct Readers {
    /// The settings of the first weighted operator that reads a value.
    settings: BTreeMap<ValueId, Settings>,
    /// What operators on integers compute.
    computed: BTreeSet<ValueId>,
    /// What a clamp makes of a value, for which saturation stands.
    clamped: BTreeMap<ValueId, ValueId>,
}

impl Readers {
    fn clamp(&self, v: ValueId) -> ValueId {
        self.clamped.get(&v).copied().unwrap_or(v)
    }
}

/// Gives all weighted operators in sub-graphs that a request chooses weights and biases of their own where
/// they are constants of an enclosing graph.
pub(crate) fn import_all(
    g: &mut Graph,
    request: &QuantizeRequest,
    outer: &BTreeMap<ValueId, Tensor>,
) {
    for id in g.node_ids() {
        if g[id].subgraphs().next().is_some() {
            let constants = subgraphs::captured_constants(g, id, outer);
            g.edit_subgraphs(id, |inner| import_all(inner, request, &constants));
        }
        let node = &g[id];
        let weighted = is_weighted(node);
        let named = opt_in::named(g, node, request);
        if (weighted || named) && !outer.is_empty() && request.settings_for(g, node).is_some() {
            (0..g[id].inputs.len())
                .for_each(|slot| subgraphs::import(g, id, slot, (outer, &FLOATS)));
        }
    }
}
