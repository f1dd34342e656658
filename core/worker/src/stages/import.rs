//! From the dropped files to a graph, by the front-end with the strongest claim.

use super::lowered::LoweringPasses;
use super::outputs::complete_outputs;
use super::session::{Session, findings};
use super::{lowered, models, sources, states};
use crate::confine::parent::PROBE;
use crate::recognition::{ChosenFrontend, Question};
use crate::summary;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_ir::{Model, VerifyLevel, by_gravity, examine};
use onnxd_params::host::{Check, Export};
use onnxd_plugin_host::{Submission, call, from_message};
use onnxd_proto::onnxd::{self as message, PluginComponent, PluginInfo, Probe, Recognition};

pub(crate) fn import(session: &mut Session) -> Result<(), Diagnostics> {
    sources::begin(session)?;
    let choice = recognised(session)?;
    session.report.recognition = Some(choice.recognition.clone());
    Diagnostics(choice.missing()).or_ok(())?;
    let Recognition { plugin, frontend, .. } = choice.recognition;
    if let Some(info) = session.request.plugins.iter().find(|p| p.id == plugin).cloned() {
        session.library(&info)?;
    }
    session.entered("import", &plugin, &frontend);
    let rows = lowered::rows(session);
    let lowered: Vec<String> = rows.keys().cloned().collect();
    let mut context = session.context(Submission { lowered: &lowered, ..session.submission() });
    let imported =
        call::import(session.loaded(&plugin), &frontend, &mut context).map_err(findings)?;
    session.keep(&mut context, imported.log.params_read.as_ref());
    for note in &imported.log.notes {
        session.note(&from_message(note), weight(note));
    }
    let metadata = imported.log.metadata.iter().map(|(k, v)| format!("{k} = {v}"));
    session.report.metadata.extend(metadata);
    models::check(&session.outputs, &imported.log)?;
    if !imported.log.further.is_empty() {
        models::refuse(&imported.log, &params_of_one(session), &session.request.taken)?;
    }
    for further in imported.log.further {
        session.models.about(&further.name);
        session.replace_graph(further.graph);
        settle(session, &rows)?;
        session.let_wait();
    }
    session.models.about(&imported.log.name);
    session.replace_graph(imported.model);
    states::take(session, &imported.log.states)?;
    settle(session, &rows)
}

/// What a front-end notes is a warning, unless it says that the verdict is to count it. Older ones say nothing.
fn weight(note: &message::Diagnostic) -> Severity {
    match Severity::parse(&note.severity) {
        Some(Severity::Error) => Severity::Error,
        _ => Severity::Warning,
    }
}

/// Params that are set and are about the one model of a network.
fn params_of_one(session: &Session) -> Vec<&'static str> {
    let (export, check): (Export, Check) = (session.section(), session.section());
    let axes = export.dynamic_axes();
    let all = [
        ("export.input_names", !export.input_names().is_empty()),
        ("export.output_names", !export.output_names().is_empty()),
        ("export.dynamic_axes", axes.as_object().is_some_and(|axes| !axes.is_empty())),
        ("check.inputs", check.inputs().is_some()),
        ("check.outputs", check.outputs().is_some()),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}

/// What is done with a graph before anything else looks at it.
fn settle(session: &mut Session, rows: &LoweringPasses) -> Result<(), Diagnostics> {
    session.op_counts[0] = summary::count_ops(session.model()?);
    lowered::lower(session, rows)?;
    let mut model = session.model()?.clone();
    if complete_outputs(&mut model) {
        let text = "types or shapes of outputs are not declared; they are inferred where possible";
        session
            .note(&Diagnostic::new(Code::LayerParameterIgnored, text).help(""), Severity::Warning);
    }
    verified(&mut model, session.frontend().is_some_and(|frontend| frontend.is_source))?;
    session.typed = Some(model);
    Ok(())
}

/// What keeps the graph from being run anywhere. A front-end is at fault itself if its graph is invalid, unless that is
/// the source's own.
fn verified(model: &mut Model, is_source: bool) -> Result<(), Diagnostics> {
    let mut found = examine(model, VerifyLevel::Full);
    if is_source {
        // It took the computed shapes, and said so.
        found = by_gravity(found).0;
    } else {
        for diagnostic in &mut found.0 {
            diagnostic.code = Code::PluginContract.as_str().into();
            diagnostic.class = Code::PluginContract.class();
            diagnostic.help = Code::PluginContract.help().into();
        }
    }
    found.or_ok(())
}

/// What the front-ends said when the drop was found; else all that may claim the network's name are asked.
fn recognised(session: &mut Session) -> Result<ChosenFrontend, Diagnostics> {
    // Whoever asked took it into account.
    session.params.mark("job.frontend");
    let request = session.request.clone();
    if let Some(recognition) = request.recognition {
        return Ok(ChosenFrontend { recognition, needs: Vec::new() });
    }
    let params = session.params.clone();
    let (files, network) = (&request.files, &request.network);
    let about = Submission { files, network, params: &params, lowered: &[] };
    let question = Question { plugins: &request.plugins, about };
    let described = session.described.clone();
    let ask = |plugin: &_, component: &_| probe(session, plugin, component);
    question.choose(&question.ask(&described, ask))
}

fn probe(
    session: &mut Session,
    plugin: &PluginInfo,
    component: &PluginComponent,
) -> Result<Probe, Diagnostics> {
    session.entered(PROBE, &plugin.id, &component.id);
    session.library(plugin)?;
    let mut context = session.context(session.submission());
    call::probe(session.loaded(&plugin.id), &component.id, &mut context).map_err(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_front_ends_are_what_they_call_so() {
        let note = |severity: &str| message::Diagnostic {
            severity: severity.to_owned(),
            ..message::Diagnostic::default()
        };
        assert_eq!(weight(&note("error")), Severity::Error);
        for other in ["warning", "note", "", "grave"] {
            assert_eq!(weight(&note(other)), Severity::Warning, "{other}");
        }
    }
}
