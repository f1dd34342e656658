//! A float graph with its plan and with what was seen of its values, for a graph and all its
//! sub-graphs.

use crate::accuracy::ReferenceOutputs;
use crate::emit::pairs::{Ranges, place};
use crate::graph::subgraphs::{self, Path};
use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::observe::{Feeds, Limits, StatisticParts, Stats};
use crate::plan::planner::import_all;
use crate::plan::request::QuantizeRequest;
use crate::plan::{QuantizePlan, Quantized, plan};
use crate::range::Levels;
use crate::range::method::{Method, statistics};
use crate::report::{Report, add_seen, name_of};
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Builtin, quoted};
use onnxd_ir::{Graph, Model, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// A float graph, what is to become of it, and what was seen of its values.
#[derive(Clone, Debug)]
pub struct Base {
    /// The graph.
    pub model: Model,
    /// Which nodes compute on integers.
    pub plan: QuantizePlan,
    /// The same for each of its sub-graphs.
    bodies: Vec<PlannedBody>,
    /// By name of value.
    pub seen: BTreeMap<String, Stats>,
    /// What weighted operators computed on the first samples, see `layers_db`.
    pub(crate) layers: Vec<ReferenceOutputs>,
}

/// A sub-graph and what is to become of it.
#[derive(Clone, Debug)]
struct PlannedBody {
    path: Path,
    plan: QuantizePlan,
}

impl Base {
    /// Plans without having seen anything. The weighted operators in `floats` stay as they are, and those in
    /// the sub-graphs of nodes in it.
    #[must_use]
    pub fn new(mut model: Model, request: &QuantizeRequest, floats: &BTreeSet<NodeId>) -> Base {
        import_all(&mut model.graph, request, &BTreeMap::new());
        let (plan, bodies) = plans(&model.graph, request, floats);
        Base { model, plan, bodies, seen: BTreeMap::new(), layers: Vec::new() }
    }

    /// The same graph and what was seen of it, with other weighted operators left in floating point.
    #[must_use]
    pub fn without(&self, request: &QuantizeRequest, floats: &BTreeSet<NodeId>) -> Base {
        let (plan, bodies) = plans(&self.model.graph, request, floats);
        Base { plan, bodies, ..self.clone() }
    }

    /// What can stay in floating point by itself: the weighted operators of the main graph, and its nodes
    /// with weighted operators in their sub-graphs.
    #[must_use]
    pub fn choices(&self) -> BTreeSet<NodeId> {
        let bodies = self.bodies.iter().map(|body| (body, body.plan.choices()));
        let owners = bodies.filter(|(_, choices)| !choices.is_empty());
        let owners = owners.map(|(body, _)| body.path[0].0);
        self.plan.choices().into_iter().chain(owners).collect()
    }

    /// Runs the graph on samples; what was seen before is kept.
    ///
    /// # Errors
    /// Why samples cannot be had, or the graph does not run on them.
    pub fn observe(
        &mut self,
        samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
        parts: &StatisticParts,
        limits: Limits,
    ) -> Result<(), Diagnostics> {
        let names = self.observed();
        let axes = self.mean_axes();
        let make = |name: &str| {
            Stats::new(&StatisticParts { means_axis: axes.get(name).copied(), ..*parts })
        };
        statistics((&Builtin, &self.model), names, samples, &make, &mut self.seen, limits)?;
        self.add_unseen(parts);
        Ok(())
    }

    /// The inputs of weighted operators, by name, and the axis of their channels: what rounding of weights does
    /// to the mean of what they compute follows from the means of these.
    pub(crate) fn mean_axes(&self) -> BTreeMap<String, i64> {
        let axis = |p: &WeightedNode| if p.op == WeightedOp::Conv { 1 } else { -1 };
        let weighted = self.plan.weighted.iter();
        weighted.map(|(p, _)| (quoted(&self.model.graph[p.x].name), axis(p))).collect()
    }

    /// Of a sub-graph that no sample leads to nothing is seen.
    pub(crate) fn add_unseen(&mut self, parts: &StatisticParts) {
        for name in self.observed() {
            self.seen.entry(name).or_insert_with(|| Stats::new(parts));
        }
    }

    /// Names of the values whose ranges are wanted.
    #[must_use]
    pub fn observed(&self) -> BTreeSet<String> {
        let bodies = self.bodies.iter().flat_map(|body| self.names(&body.path, &body.plan));
        self.names(&[], &self.plan).into_iter().chain(bodies).collect()
    }

    fn names(&self, path: &[(NodeId, usize)], plan: &QuantizePlan) -> BTreeSet<String> {
        // What weighted operators read, too: it is quantized when others stay in floating point.
        let inputs = plan.weighted.iter().map(|(operator, _)| operator.x);
        let observed = plan.values.values().map(|q| q.observed).chain(inputs);
        observed.filter_map(|v| subgraphs::shown(&self.model.graph, path, v)).collect()
    }

    /// The quantized graph with ranges by `method`.
    #[must_use]
    pub fn quantize(&self, method: Method) -> (Model, Report) {
        let mut model = self.model.clone();
        let ranges = self.ranges(&[], &self.plan, method);
        let mut done = place(&mut model.graph, &self.plan, &ranges, method.name());
        let seen: BTreeMap<&str, &Stats> = (self.plan.values.iter())
            .filter_map(|(v, q)| {
                let name = subgraphs::shown(&self.model.graph, &[], q.observed)?;
                Some((self.model.graph[*v].name.as_str(), self.seen.get(&name)?))
            })
            .collect();
        for row in &mut done.tensors {
            if let Some(stats) = seen.get(row.name.as_str()) {
                add_seen(row, stats);
            }
        }
        for PlannedBody { path, plan } in &self.bodies {
            let ranges = self.ranges(path, plan, method);
            let reached = self.names(path, plan).iter().all(|name| self.is_seen(name));
            subgraphs::edit(&mut model.graph, path, &mut |graph| {
                if reached {
                    done.append(place(graph, plan, &ranges, method.name()));
                    return;
                }
                let left = plan.left.iter().copied();
                let others = plan.choices().into_iter().map(|node| (node, "no sample reaches it"));
                for (node, why) in left.chain(others) {
                    done.leave(&name_of(graph, &graph[node]), why);
                }
            });
        }
        (model, done)
    }

    fn is_seen(&self, name: &str) -> bool {
        self.seen.get(name).is_some_and(|stats| stats.tensors > 0)
    }

    fn ranges(&self, path: &[(NodeId, usize)], plan: &QuantizePlan, method: Method) -> Ranges {
        let range = |q: &Quantized| {
            let levels = Levels::of(q.settings.activation)?;
            let name = subgraphs::shown(&self.model.graph, path, q.observed)?;
            let seen = self.seen.get(&name)?;
            Some((q.observed, method.range(seen, levels, q.settings.symmetric)?))
        };
        plan.values.values().filter_map(range).collect()
    }
}

/// Plans for a graph and its sub-graphs.
fn plans(
    graph: &Graph,
    request: &QuantizeRequest,
    floats: &BTreeSet<NodeId>,
) -> (QuantizePlan, Vec<PlannedBody>) {
    let body = |path: Path| {
        let inner = subgraphs::at(graph, &path);
        let all = floats.contains(&path[0].0);
        let floats = inner.node_ids().into_iter().filter(|_| all).collect();
        let plan = plan(inner, request, &floats);
        PlannedBody { path, plan }
    };
    let bodies = subgraphs::paths(graph).into_iter().map(body).collect();
    (plan(graph, request, floats), bodies)
}
