//! Runs the passes that the params ask for, in their order.

use super::session::{Session, findings};
use super::summary;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, shown};
use onnxd_ir::{infer, verify};
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
            verified(session, &group)?;
        }
    }
    session.op_counts[1] = match rewrites {
        0 => session.op_counts[0].clone(),
        _ => summary::count_ops(&session.model()?),
    };
    Ok(())
}

/// A graph that is wrong after passes, and was not before, is the fault of their plugin.
fn verified(session: &Session, group: &Group) -> Result<(), Diagnostics> {
    let found = match session.model() {
        Ok(mut model) => {
            // Outputs may lack types in the source; contradictions are the verification's to report.
            let _ = infer::infer(&mut model);
            verify::verify(&model, verify::Level::Full)
        }
        Err(found) => found,
    };
    let names: Vec<&str> = group.passes.iter().map(|p| p.id.as_str()).collect();
    let by =
        format!("[{} of plugin {} {}]", names.join(", "), group.plugin.id, group.plugin.version);
    let blamed = found.0.into_iter().map(|d| {
        let text = format!("{} {by}", d.message);
        Diagnostic { layer: d.layer, ..Diagnostic::new(Code::PluginContract, text) }
    });
    Diagnostics(blamed.collect()).or_ok(())
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
        let (plugin, component) = match find(&session.request.plugins, id) {
            Ok(found) => found,
            Err(why) => {
                unknown.push(why);
                continue;
            }
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
fn find<'p>(plugins: &'p [PluginInfo], id: &str) -> Result<(&'p PluginInfo, String), Diagnostic> {
    let (plugin, component) = match id.rsplit_once('/') {
        Some((plugin, component)) => (Some(plugin), component),
        None => (None, id),
    };
    let has = |p: &&PluginInfo| {
        plugin.is_none_or(|wanted| p.id == wanted)
            && p.components.iter().any(|c| c.kind == "pass" && c.id == component)
    };
    let found: Vec<&PluginInfo> = plugins.iter().filter(has).collect();
    match found.as_slice() {
        [] => Err(not_installed(plugins, id)),
        [one] => Ok((one, component.to_owned())),
        [a, b, ..] => {
            let text = format!("`{}` and `{}` both have a pass `{}`", a.id, b.id, shown(component));
            let help = format!("Name one of them: `{}/{}`.", a.id, shown(component));
            Err(Diagnostic::new(Code::ComponentUnknown, text).help(help))
        }
    }
}

fn not_installed(plugins: &[PluginInfo], id: &str) -> Diagnostic {
    let components = plugins.iter().flat_map(|p| &p.components).filter(|c| c.kind == "pass");
    let names: Vec<&str> = components.map(|c| c.id.as_str()).collect();
    let hint = nearest(id, names).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    let text = format!("no installed plugin has a pass `{}`{hint}", shown(id));
    Diagnostic::new(Code::ComponentUnknown, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::PluginComponent;

    fn plugin(id: &str, passes: &[&str]) -> PluginInfo {
        let pass = |id: &&str| PluginComponent {
            kind: "pass".into(),
            id: (*id).to_owned(),
            ..PluginComponent::default()
        };
        PluginInfo {
            id: id.into(),
            components: passes.iter().map(pass).collect(),
            ..PluginInfo::default()
        }
    }

    #[test]
    fn passes_are_found_by_name_and_by_plugin() {
        let plugins = [plugin("org.a", &["fuse-pad", "tidy"]), plugin("org.b", &["tidy"])];
        let of = |id: &str| find(&plugins, id).map(|(p, c)| format!("{} {c}", p.id));
        assert_eq!(of("fuse-pad").unwrap(), "org.a fuse-pad");
        assert_eq!(of("org.b/tidy").unwrap(), "org.b tidy");
        let tie = of("tidy").unwrap_err();
        assert_eq!(tie.message, "`org.a` and `org.b` both have a pass `tidy`");
        let unknown = of("fuse-pads").unwrap_err();
        assert_eq!(unknown.code, "N0109");
        assert!(unknown.message.ends_with("did you mean `fuse-pad`?"), "{}", unknown.message);
        assert!(of("org.b/fuse-pad").is_err());
    }
}
