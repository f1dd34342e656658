//! Outputs and layers of a quantized model, compared with those of the float model.

use crate::accuracy::{
    Agreement, Base, Pair, ReferenceOutputs, Score, agreements, each_agreement, references,
};
use crate::observe::{Feeds, Limits};
use crate::plan::opt_in;
use crate::report::name_of;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Builtin, quoted};
use onnxd_ir::{DataType, Graph, Model, NodeId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Outputs of a float model that are kept, in bytes.
pub(crate) const KEPT_MAX: usize = 256 << 20;

/// The outputs that are floats, and those of a quantized model that stand for them.
pub(crate) fn outputs(float: &Model) -> Vec<Pair> {
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
    let is_float = |v: &ValueId| graph[*v].dtype().is_none_or(DataType::is_float);
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
) -> Result<Vec<ReferenceOutputs>, Diagnostics> {
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
    known: &[ReferenceOutputs],
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
    known: &[ReferenceOutputs],
    limits: Limits,
) -> Result<f64, Diagnostics> {
    Ok(score(models, samples, known, limits)?.db())
}

/// Elements of what a weighted operator computes on a sample that are compared with those of the float graph.
pub(crate) const COMPARED_MAX: usize = 1 << 15;

/// What each weighted operator, and each operator that params name, computes, by the name that the report
/// gives it. Where a clamp went into a weighted operator, that of the clamp.
pub(crate) fn layers(base: &Base) -> (Vec<String>, Vec<Pair>) {
    let graph = &base.model.graph;
    let clamps: BTreeSet<NodeId> = base.plan.clamps.iter().copied().collect();
    let result = |out: ValueId| match graph.readers(out) {
        [reader] if clamps.contains(reader) => graph[*reader].output(0).unwrap_or(out),
        _ => out,
    };
    let choices = base.plan.choices().into_iter();
    let named = choices.filter_map(|id| {
        let out = graph[id].output(0).filter(|_| !opt_in::is_place(&graph[id]))?;
        let value = quoted(&graph[result(out)].name);
        Some((name_of(graph, &graph[id]), plain(value.clone(), value)))
    });
    named.unzip()
}

/// How near what each of `layers` computes is to what it computes in the float graph, as name and
/// dB, on up to 32,768 elements of each sample. The samples are the first ones; of those that
/// [`Base::observe`] saw the float graph need not run again.
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
