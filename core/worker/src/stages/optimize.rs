//! Runs the passes that the params ask for, in their order.

use super::compared::{self, Ran};
use super::session::Session;
use super::{components, lowered, summary};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use onnxd_proto::onnxd::PluginInfo;
use serde_json::Value;

pub(crate) fn optimize(session: &mut Session) -> Result<(), Diagnostics> {
    let rewrites_max = session.request.rewrites_max;
    let mut rewrites = 0;
    for group in groups(session)? {
        if rewrites_max > 0 && rewrites >= rewrites_max {
            break;
        }
        let names = group.passes.join(", ");
        let before = session.typed()?;
        let left = rewrites_max.saturating_sub(rewrites);
        let passed = lowered::run(session, "optimize", &group.plugin, &group.passes, left)?;
        rewrites += passed.log.passes.iter().map(|p| p.rewrites).sum::<u64>();
        let Some(model) = passed.model else {
            session.report.passes.extend(passed.log.passes);
            session.typed = Some(before);
            continue;
        };
        let graph = session.replace_graph(model);
        // What was read to be replaced is not read any more.
        session.tensors.release_pages();
        let after = components::verified(session, &group.plugin, &names)?;
        if passed.log.passes.iter().all(|p| p.rewrites == 0) {
            session.note(&untold(&group.plugin, &names), Severity::Error);
        }
        let before = &before;
        let ran = Ran { plugin: &group.plugin, passes: &group.passes, graph, before };
        compared::passes(session, &ran, &after)?;
        session.report.passes.extend(passed.log.passes);
        session.typed = Some(after);
    }
    session.op_counts[1] = match rewrites {
        0 => session.op_counts[0].clone(),
        _ => summary::count_ops(session.model()?),
    };
    Ok(())
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
struct Group {
    plugin: PluginInfo,
    passes: Vec<String>,
}

fn groups(session: &Session) -> Result<Vec<Group>, Diagnostics> {
    let order = session.params.get("passes.order").as_array().cloned().unwrap_or_default();
    let mut groups: Vec<Group> = Vec::new();
    let mut unknown = Diagnostics::default();
    for id in order.iter().filter_map(Value::as_str) {
        let (plugin, component) = match components::find(&session.request.plugins, "pass", id) {
            Ok(found) => found,
            Err(why) => {
                unknown.push(why);
                continue;
            }
        };
        match groups.last_mut() {
            Some(group) if group.plugin.id == plugin.id => group.passes.push(component),
            _ => groups.push(Group { plugin: plugin.clone(), passes: vec![component] }),
        }
    }
    unknown.or_ok(groups)
}
