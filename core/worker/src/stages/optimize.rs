//! Runs the passes that the params ask for, in their order.

use super::session::{Session, findings};
use super::summary;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, shown};
use onnxd_plugin_host::call::{self, PassCall};
use onnxd_proto::onnxd::PluginInfo;
use serde_json::{Value, json};

pub(crate) fn optimize(session: &mut Session) -> Result<(), Diagnostics> {
    let rewrites_max = session.request.rewrites_max;
    let mut rewrites = 0;
    for group in groups(session)? {
        if rewrites_max > 0 && rewrites >= rewrites_max {
            break;
        }
        let names: Vec<&str> = group.passes.iter().map(|p| p.id.as_str()).collect();
        session.entered("optimize", &group.plugin.id, &names.join(","));
        session.library(&group.plugin)?;
        let mut context = session.context(&session.submission(&session.request.network));
        context.set_graph(session.graph.clone());
        let library = session.loaded(&group.plugin.id);
        let left = rewrites_max.saturating_sub(rewrites);
        let passed =
            call::run_passes(library, &group.passes, left, &mut context).map_err(findings)?;
        rewrites += passed.log.passes.iter().map(|p| p.rewrites).sum::<u64>();
        session.report.passes.extend(passed.log.passes);
        if let Some(model) = passed.model {
            session.graph = model;
        }
    }
    session.op_counts[1] = summary::count_ops(&session.model()?);
    Ok(())
}

/// Passes of one plugin that follow each other: one call runs them all.
struct Group {
    plugin: PluginInfo,
    passes: Vec<PassCall>,
}

fn groups(session: &Session) -> Result<Vec<Group>, Diagnostics> {
    let folding = session.param("export", "constant_folding") != &Value::Bool(false);
    let order = session.param("passes", "order").as_array().cloned().unwrap_or_default();
    let mut groups: Vec<Group> = Vec::new();
    let mut unknown = Diagnostics::default();
    for id in order.iter().filter_map(Value::as_str) {
        if id == "fold-constants" && !folding {
            continue;
        }
        let Some((plugin, component)) = find(&session.request.plugins, id) else {
            unknown.push(not_installed(&session.request.plugins, id));
            continue;
        };
        let pass = PassCall { id: component, options: json!({}) };
        match groups.last_mut() {
            Some(group) if group.plugin.id == plugin.id => group.passes.push(pass),
            _ => groups.push(Group { plugin: plugin.clone(), passes: vec![pass] }),
        }
    }
    unknown.or_ok(groups)
}

/// The plugin and component that `id` names: `fuse-pad`, or `org.example.tidy/remove-foo`.
fn find<'p>(plugins: &'p [PluginInfo], id: &str) -> Option<(&'p PluginInfo, String)> {
    let (plugin, component) = match id.rsplit_once('/') {
        Some((plugin, component)) => (Some(plugin), component),
        None => (None, id),
    };
    let has = |p: &&PluginInfo| {
        plugin.is_none_or(|wanted| p.id == wanted)
            && p.components.iter().any(|c| c.kind == "pass" && c.id == component)
    };
    plugins.iter().find(has).map(|p| (p, component.to_owned()))
}

fn not_installed(plugins: &[PluginInfo], id: &str) -> Diagnostic {
    let components = plugins.iter().flat_map(|p| &p.components).filter(|c| c.kind == "pass");
    let names: Vec<&str> = components.map(|c| c.id.as_str()).collect();
    let hint = nearest(id, names).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    let text = format!("no installed plugin has a pass `{}`{hint}", shown(id));
    Diagnostic::new(Code::ComponentUnknown, text)
}
