//! More accurate integers: what changes the float graph first, what is measured, what is put right
//! afterwards.

mod bias;
mod classes;
mod first;
mod rounding;
mod score;
mod settle;
mod smooth;

pub use bias::correct_biases;
pub use classes::classes;
pub use first::First;
pub use rounding::{Learning, Rounding, learn_rounding};
pub use score::Score;
pub use settle::settle_biases;
pub use smooth::{Site, expected, magnitudes, sites, smoothed};

use crate::asked;
use crate::bodies::{self, Path};
use crate::calibrate::{Method, statistics};
use crate::place::{Ranges, place};
use crate::plan::{Plan, plan};
use crate::report::{Done, Seen, name_of};
use crate::request::Request;
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_eval::{Builtin, quoted};
use onnxd_ir::{DataType, Graph, Model, NodeId, ValueId, ValueType};
use onnxd_quant::{
    Agreement, Feeds, Kept, Levels, Limits, Pair, Parts, Stats, agreements, each_agreement,
    references,
};
use onnxd_rewrite::{EqualizeWeights, Fuel, Pass, PassContext};
use std::collections::{BTreeMap, BTreeSet};

/// Sweeps of an equalization; chains of layers need some.
const SWEEPS: usize = 8;

/// Samples, from the beginning each time.
pub type Samples<'s> = &'s dyn Fn() -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 's>;

/// A float graph, what is to become of it, and what was seen of its values.
#[derive(Clone, Debug)]
pub struct Base {
    /// The graph.
    pub model: Model,
    /// Which nodes compute on integers.
    pub plan: Plan,
    /// The same for each of its sub-graphs.
    bodies: Vec<Body>,
    /// By name of value.
    pub seen: BTreeMap<String, Stats>,
    /// What products computed on the first samples, see [`layers_db`].
    layers: Vec<Kept>,
}

/// A sub-graph and what is to become of it.
#[derive(Clone, Debug)]
struct Body {
    path: Path,
    plan: Plan,
}

impl Base {
    /// Plans without having seen anything. The products in `floats` stay as they are, and those in
    /// the sub-graphs of nodes in it.
    #[must_use]
    pub fn new(mut model: Model, request: &Request, floats: &BTreeSet<NodeId>) -> Base {
        bodies::import_all(&mut model.graph, request, &BTreeMap::new());
        let (plan, bodies) = plans(&model.graph, request, floats);
        Base { model, plan, bodies, seen: BTreeMap::new(), layers: Vec::new() }
    }

    /// The same graph and what was seen of it, with other products left in floating point.
    #[must_use]
    pub fn without(&self, request: &Request, floats: &BTreeSet<NodeId>) -> Base {
        let (plan, bodies) = plans(&self.model.graph, request, floats);
        Base { plan, bodies, ..self.clone() }
    }

    /// What can stay in floating point by itself: the products of the main graph, and its nodes
    /// with products in their sub-graphs.
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
        parts: &Parts,
        limits: Limits,
    ) -> Result<(), Diagnostics> {
        let names = self.observed();
        let axes = settle::axes(self);
        let make =
            |name: &str| Stats::new(&Parts { means_axis: axes.get(name).copied(), ..*parts });
        statistics((&Builtin, &self.model), names, samples, &make, &mut self.seen, limits)?;
        self.add_unseen(parts);
        Ok(())
    }

    /// Of a sub-graph that no sample leads to nothing is seen.
    fn add_unseen(&mut self, parts: &Parts) {
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

    fn names(&self, path: &[(NodeId, usize)], plan: &Plan) -> BTreeSet<String> {
        // What products read, too: it becomes integers when others stay in floating point.
        let inputs = plan.products.iter().map(|(product, _)| product.x);
        let observed = plan.values.values().map(|q| q.observed).chain(inputs);
        observed.filter_map(|v| bodies::shown(&self.model.graph, path, v)).collect()
    }

    /// The quantized graph with ranges by `method`.
    #[must_use]
    pub fn quantize(&self, method: Method) -> (Model, Done) {
        let mut model = self.model.clone();
        let ranges = self.ranges(&[], &self.plan, method);
        let mut done = place(&mut model.graph, &self.plan, &ranges, method.name());
        for Body { path, plan } in &self.bodies {
            let ranges = self.ranges(path, plan, method);
            let reached = self.names(path, plan).iter().all(|name| self.is_seen(name));
            bodies::edit(&mut model.graph, path, &mut |graph| {
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
        let values = self.plan.values.iter().filter_map(|(v, q)| {
            let name = bodies::shown(&self.model.graph, &[], q.observed)?;
            Some((self.model.graph[*v].name.clone(), Seen::of(self.seen.get(&name)?)))
        });
        done.seen = values.collect();
        (model, done)
    }

    fn is_seen(&self, name: &str) -> bool {
        self.seen.get(name).is_some_and(|stats| stats.tensors > 0)
    }

    fn ranges(&self, path: &[(NodeId, usize)], plan: &Plan, method: Method) -> Ranges {
        let range = |q: &crate::Quantized| {
            let levels = Levels::of(q.settings.activation)?;
            let name = bodies::shown(&self.model.graph, path, q.observed)?;
            let seen = self.seen.get(&name)?;
            Some((q.observed, method.range(seen, levels, q.settings.symmetric)?))
        };
        plan.values.values().filter_map(range).collect()
    }
}

/// Plans for a graph and its sub-graphs.
fn plans(graph: &Graph, request: &Request, floats: &BTreeSet<NodeId>) -> (Plan, Vec<Body>) {
    let body = |path: Path| {
        let inner = bodies::at(graph, &path);
        let all = floats.contains(&path[0].0);
        let floats = inner.node_ids().into_iter().filter(|_| all).collect();
        let plan = plan(inner, request, &floats);
        Body { path, plan }
    };
    let bodies = bodies::paths(graph).into_iter().map(body).collect();
    (plan(graph, request, floats), bodies)
}

/// The same function with weights whose channels have even ranges; `None` where little is to gain.
/// With a scale for each channel, weights of uneven ranges lose nothing, only what they compute
/// does.
///
/// # Errors
/// That the graph could not be rewritten.
pub fn equalized(model: &Model, per_channel: bool) -> Result<Option<Model>, Diagnostic> {
    let mut equalized = model.clone();
    let mut rewrites = 0;
    let pass = EqualizeWeights { ratio_min: if per_channel { 4.0 } else { 1.5 } };
    for _ in 0..SWEEPS {
        let mut cx = PassContext::new(pass.name(), Fuel::UNLIMITED);
        pass.run(&mut equalized, &mut cx)?;
        if cx.report.rewrites == 0 {
            break;
        }
        rewrites += cx.report.rewrites;
    }
    Ok((rewrites > 0).then_some(equalized))
}

/// Outputs of a float model that are kept, in bytes.
const KEPT_MAX: usize = 256 << 20;

/// The outputs that are floats, and those of a quantized model that stand for them.
fn outputs(float: &Model) -> Vec<Pair> {
    let graph = &float.graph;
    let pair = |v: ValueId| plain(quoted(&graph[v].name), quoted(&graph[v].name));
    output_values(graph).map(pair).collect()
}

/// Names of the outputs that [`score`] compares.
#[must_use]
pub fn output_names(float: &Model) -> Vec<String> {
    let graph = &float.graph;
    output_values(graph).map(|v| graph[v].name.clone()).collect()
}

/// The outputs that are floats.
fn output_values(graph: &Graph) -> impl Iterator<Item = ValueId> + '_ {
    let is_float = |v: &ValueId| {
        graph[*v].ty.as_ref().and_then(ValueType::dtype).is_none_or(DataType::is_float)
    };
    graph.outputs().iter().copied().filter(is_float)
}

/// What a float model gives on samples, or on the first of them if it is much: several models are
/// compared with that by [`outputs_db`].
///
/// # Errors
/// Why samples cannot be had, or the model does not run on them.
pub fn float_outputs(
    float: &Model,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    limits: Limits,
) -> Result<Vec<Kept>, Diagnostics> {
    references(&Builtin, float, &outputs(float), samples, (KEPT_MAX, limits))
}

/// How near the outputs of a quantized model are to those of the float model. What the float model
/// gives on the first samples may be `known`.
///
/// # Errors
/// Why samples cannot be had, or a model does not run on them.
pub fn score(
    (float, quantized): (&Model, &Model),
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    known: &[Kept],
    limits: Limits,
) -> Result<Score, Diagnostics> {
    let models = (float, quantized);
    let mut both = samples.map(|feeds| feeds.map(|f| (f.clone(), f)));
    let mut score = Score::default();
    let mut see = |run: &[Agreement]| score.runs.push(run.to_vec());
    let pairs = outputs(float);
    each_agreement(&Builtin, models, &pairs, &mut both, (known, limits), &mut see)?;
    Ok(score)
}

/// As [`score`], in dB.
///
/// # Errors
/// As [`score`].
pub fn outputs_db(
    models: (&Model, &Model),
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    known: &[Kept],
    limits: Limits,
) -> Result<f64, Diagnostics> {
    Ok(score(models, samples, known, limits)?.db())
}

/// Elements of what a product computes on a sample that are compared with those of the float graph.
const COMPARED_MAX: usize = 1 << 15;

/// What each product, and each operator that params name, computes, by the name that the report
/// gives it. Where a clamp went into a product, that of the clamp.
fn layers(base: &Base) -> (Vec<String>, Vec<Pair>) {
    let graph = &base.model.graph;
    let clamps: BTreeSet<NodeId> = base.plan.clamps.iter().copied().collect();
    let result = |out: ValueId| match graph.readers(out) {
        [reader] if clamps.contains(reader) => graph[*reader].output(0).unwrap_or(out),
        _ => out,
    };
    let choices = base.plan.choices().into_iter();
    let named = choices.filter_map(|id| {
        let out = graph[id].output(0).filter(|_| !asked::is_place(&graph[id]))?;
        let value = quoted(&graph[result(out)].name);
        Some((name_of(graph, &graph[id]), plain(value.clone(), value)))
    });
    named.unzip()
}

/// How near what each of [`layers`] computes is to what it computes in the float graph, as name and
/// dB, on up to 32,768 elements of each sample. The samples are the first ones; of those that
/// [`Base::observe_first`] saw the float graph need not run again.
///
/// # Errors
/// Why samples cannot be had, or a model does not run on them.
pub fn layers_db(
    base: &Base,
    quantized: &Model,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    limits: Limits,
) -> Result<BTreeMap<String, Option<f64>>, Diagnostics> {
    let (names, pairs) = layers(base);
    let mut both = samples.map(|feeds| feeds.map(|f| (f.clone(), f)));
    let models = (&base.model, quantized);
    let limits = Limits { compared_max: COMPARED_MAX, ..limits };
    let found = agreements(&Builtin, models, &pairs, &mut both, (&base.layers, limits))?;
    Ok(names.into_iter().zip(found.iter().map(Agreement::sqnr_db)).collect())
}

/// Two values that are both real.
pub(crate) fn plain(reference: String, found: String) -> Pair {
    Pair { reference, found, scale: 1.0, zero_point: 0.0, range: None }
}
