//! Whether passes kept what the model computes. They compare nothing themselves; the host does, with its own executor.

use super::session::{Session, findings};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity, shown};
use onnxd_eval::alone;
use onnxd_ir::{Model, infer};
use onnxd_params::host::Passes;
use onnxd_params::words::Compare;
use onnxd_plugin_host::call;
use onnxd_proto::onnxd::{self as message, PluginInfo};
use onnxd_rewrite::{Difference, Effort, Equivalence, compare_outputs, equivalence};
use std::time::{Duration, Instant};

/// What `passes.compare` allows: enough for the small parts of every network, which is where passes go wrong.
const SOME: Effort = Effort { work: 20_000_000, bytes_max: 32 << 20, stop: None };
const SOME_TIME: Duration = Duration::from_millis(500);
/// How much more work a whole network may take.
const QUANTIZED: u64 = 100;
const ALL: Effort = Effort { work: u64::MAX, bytes_max: 4 << 30, stop: None };

/// Compares as much as the params allow; nothing if they say so.
fn with_effort<T>(session: &Session, compare: impl FnOnce(Effort) -> T) -> Option<T> {
    match session.section::<Passes>().compare() {
        Compare::None => None,
        Compare::All => Some(compare(ALL)),
        Compare::Some => {
            // All rounds of all passes share the time.
            let begin = Instant::now();
            let until = begin + SOME_TIME.saturating_sub(session.compared_for.get());
            let late = || Instant::now() > until;
            // What is shared out takes more processor time in all.
            let compared = alone(|| compare(Effort { stop: Some(&late), ..SOME }));
            session.compared_for.set(session.compared_for.get() + begin.elapsed());
            Some(compared)
        }
    }
}

/// How far outputs that a quantizer did not compare itself are from what they were, in dB, on random numbers.
pub(super) fn quantized(session: &Session, before: &Model, after: &Model) -> Option<(String, f64)> {
    let apart = with_effort(session, |effort| {
        let work = effort.work.saturating_mul(QUANTIZED);
        compare_outputs(before, after, Effort { work, ..effort })
    });
    let apart = apart?.ok()?;
    let all = apart.into_iter().map(|(name, how)| (name, how.sqnr_db));
    all.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// What ran, and on what.
pub(super) struct Ran<'a> {
    pub(super) plugin: &'a PluginInfo,
    pub(super) passes: &'a [String],
    /// The graph before, as it was handed over and with inferred types.
    pub(super) graph: bytes::Bytes,
    pub(super) before: &'a Model,
}

/// Puts into the report how the model after some passes compares with the one before.
pub(super) fn passes(session: &mut Session, ran: &Ran, after: &Model) -> Result<(), Diagnostics> {
    interface(session, ran, after);
    let compared = with_effort(session, |effort| equivalence(ran.before, after, effort));
    let Some(found) = compared else { return Ok(()) };
    session.tensors.release_pages();
    let mut names = ran.passes.join(", ");
    if !found.different.is_empty()
        && let Some(first) = first_at_fault(session, ran)?
    {
        names = first.to_owned();
    }
    for difference in &found.different {
        session.note(&at_fault(difference, &names, ran.plugin), Severity::Error);
    }
    session.report.comparisons.push(row(ran, &found));
    Ok(())
}

fn at_fault(difference: &Difference, names: &str, plugin: &PluginInfo) -> Diagnostic {
    let text = format!(
        "`{}` is not what it was before {names} of plugin {} {}: {}",
        shown(&difference.value),
        plugin.id,
        plugin.version,
        difference.what
    );
    let found = Diagnostic::new(Code::ResultChanged, text);
    match &difference.layer {
        Some(layer) => found.at(layer.clone()),
        None => found,
    }
}

/// Passes keep the inputs and outputs of a network.
fn interface(session: &mut Session, ran: &Ran, after: &Model) {
    let names = |model: &Model| {
        let graph = &model.graph;
        let of = |list: &[onnxd_ir::ValueId]| {
            list.iter().map(|v| shown(&graph[*v].name)).collect::<Vec<_>>().join(", ")
        };
        [("inputs", of(graph.inputs())), ("outputs", of(graph.outputs()))]
    };
    for ((what, old), (_, new)) in names(ran.before).into_iter().zip(names(after)) {
        if old != new {
            let text = format!(
                "the {what} were {old} before {} of plugin {} {}, and are {new}",
                ran.passes.join(", "),
                ran.plugin.id,
                ran.plugin.version
            );
            session.note(&Diagnostic::new(Code::ResultChanged, text), Severity::Error);
        }
    }
}

/// The first of several passes after which the model computes something else: they run again, one more each time.
fn first_at_fault<'a>(
    session: &mut Session,
    ran: &Ran<'a>,
) -> Result<Option<&'a str>, Diagnostics> {
    for last in 1..ran.passes.len() {
        let mut context = session.context(session.submission());
        context.set_graph(ran.graph.clone());
        let library = session.loaded(&ran.plugin.id);
        let passed =
            call::run_passes(library, &ran.passes[..last], 0, &mut context).map_err(findings)?;
        let Some(graph) = passed.model else { continue };
        let mut after = session.decoded(graph)?;
        let _ = infer(&mut after);
        let found = with_effort(session, |effort| equivalence(ran.before, &after, effort));
        if found.is_some_and(|found| !found.different.is_empty()) {
            return Ok(Some(&ran.passes[last - 1]));
        }
    }
    Ok(ran.passes.last().map(String::as_str))
}

fn row(ran: &Ran, found: &Equivalence) -> message::PassComparison {
    let (worst, how) = match &found.worst {
        Some((name, how)) => (name.clone(), Some(how)),
        None => (String::new(), None),
    };
    message::PassComparison {
        passes: ran.passes.to_vec(),
        plugin: ran.plugin.id.clone(),
        unchanged: found.unchanged as u64,
        equal: found.equal as u64,
        different: found.different.len() as u64,
        not_compared: found.not_compared as u64,
        worst,
        worst_sqnr_db: how.map(|h| h.sqnr_db),
        worst_max_abs: how.map(|h| h.max_abs),
        reasons: found
            .reasons
            .iter()
            .map(|(at, reason)| message::Skip { at: at.clone(), reason: reason.clone() })
            .collect(),
    }
}
