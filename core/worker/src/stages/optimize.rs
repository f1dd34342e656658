//! Runs the passes that the params ask for, in their order.

use super::compared::{self, Ran};
use super::session::Session;
use super::{components, lowered};
use crate::{installed, summary};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_params::host::Passes;
use onnxd_proto::onnxd::{Pass, PluginInfo};
use serde_json::Value;

/// Passes open up places for each other, so the whole list runs again until nothing changes from one run of a group to
/// the next.
pub(crate) fn optimize(session: &mut Session) -> Result<(), Diagnostics> {
    let groups = groups(session)?;
    let rounds = session.section::<Passes>().rounds();
    // Groups that ran since the last change, and changed nothing.
    let (mut rewrites, mut idle) = (0, 0);
    for round in 0..rounds {
        session.plugin_log.again(round > 0);
        for group in &groups {
            if idle == groups.len() {
                break;
            }
            let made = run_group(session, group, rewrites)?;
            rewrites += made;
            idle = if made == 0 { idle + 1 } else { 0 };
        }
    }
    session.plugin_log.again(false);
    session.op_counts[1] = match rewrites {
        0 => session.op_counts[0].clone(),
        _ => summary::count_ops(session.model()?),
    };
    Ok(())
}

/// Gives the number of rewrites; `so_far` were made before.
fn run_group(session: &mut Session, group: &PassGroup, so_far: u64) -> Result<u64, Diagnostics> {
    let rewrites_max = session.request.rewrites_max;
    if rewrites_max > 0 && so_far >= rewrites_max {
        return Ok(0);
    }
    let names = group.passes.join(", ");
    let before = session.typed()?;
    let left = rewrites_max.saturating_sub(so_far);
    let passed = lowered::run(session, "optimize", &group.plugin, &group.passes, left)?;
    let rewrites = passed.log.passes.iter().map(|p| p.rewrites).sum();
    let Some(model) = passed.model else {
        merge(&mut session.report.passes, passed.log.passes);
        session.typed = Some(before);
        return Ok(rewrites);
    };
    let graph = session.replace_graph(model);
    // What was read to be replaced is not read any more.
    session.tensors.release_pages();
    let after = components::verified(session, &group.plugin, &names)?;
    if rewrites == 0 {
        session.note(&untold(&group.plugin, &names), Severity::Error);
    }
    let before = &before;
    let ran = Ran { plugin: &group.plugin, passes: &group.passes, graph, before };
    compared::passes(session, &ran, &after)?;
    merge(&mut session.report.passes, passed.log.passes);
    session.typed = Some(after);
    Ok(rewrites)
}

/// A pass has one entry for all its rounds. What it left alone in the last one counts.
fn merge(report: &mut Vec<Pass>, round: Vec<Pass>) {
    for pass in round {
        let Some(known) = report.iter_mut().find(|p| p.name == pass.name) else {
            report.push(pass);
            continue;
        };
        known.rewrites += pass.rewrites;
        known.seconds += pass.seconds;
        known.skipped = pass.skipped;
        known.notes.extend(pass.notes);
        known.notes.dedup();
    }
}

/// A graph that changed while nothing in the report says what did.
fn untold(plugin: &PluginInfo, names: &str) -> Diagnostic {
    let text = format!(
        "{names} of plugin {} {} handed over a graph and did not say what changed",
        plugin.id, plugin.version
    );
    Diagnostic::new(Code::PluginContract, text)
}

/// Passes of one plugin that follow each other: one call runs them all.
struct PassGroup {
    plugin: PluginInfo,
    passes: Vec<String>,
}

fn groups(session: &Session) -> Result<Vec<PassGroup>, Diagnostics> {
    let order = session.params.get("passes.order").as_array().cloned().unwrap_or_default();
    let mut groups: Vec<PassGroup> = Vec::new();
    let mut unknown = Diagnostics::default();
    for id in order.iter().filter_map(Value::as_str) {
        let (plugin, component) = match installed::find(&session.request.plugins, "pass", id) {
            Ok(found) => found,
            Err(why) => {
                unknown.push(why);
                continue;
            }
        };
        match groups.last_mut() {
            Some(group) if group.plugin.id == plugin.id => group.passes.push(component),
            _ => groups.push(PassGroup { plugin: plugin.clone(), passes: vec![component] }),
        }
    }
    unknown.or_ok(groups)
}
