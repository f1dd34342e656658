//! Components that the params name, and what the host thinks of their work.

use super::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, nearest, shown};
use onnxd_ir::{Level, Model, by_gravity, infer, verify};
use onnxd_proto::onnxd::PluginInfo;

/// A graph that is wrong after a plugin worked on it, and was not before, is the plugin's fault. Gives the model with
/// inferred types.
pub(super) fn verified(
    session: &Session,
    plugin: &PluginInfo,
    components: &str,
) -> Result<Model, Diagnostics> {
    let mut typed = Model::default();
    let found = match session.model() {
        Ok(model) => {
            let mut model = model.clone();
            // Outputs may lack types in the source. Wrong shapes are settled when the model is written.
            let inferred = infer(&mut model);
            let mut found = verify(&model, level(session));
            if level(session) == Level::Full {
                found.0.extend(by_gravity(inferred).0.0);
            }
            typed = model;
            found
        }
        Err(found) => found,
    };
    let by = format!("[{components} of plugin {} {}]", plugin.id, plugin.version);
    let blamed = found.0.into_iter().map(|d| {
        let text = format!("{} {by}", d.message);
        Diagnostic::new(Code::PluginContract, text).at_same(&d)
    });
    Diagnostics(blamed.collect()).or_ok(typed)
}

/// How much of the standard the model has to keep to. A quantizer may declare that its types do not fit together where
/// params ask for that.
pub(super) fn level(session: &Session) -> Level {
    let untyped = session.quantizer().and_then(|quantizer| quantizer.untyped.as_ref());
    match untyped.is_some_and(|when| when.holds(&|key| session.params.peek(key).clone(), &[])) {
        true => Level::Structure,
        false => Level::Full,
    }
}

/// The plugin and component that `id` names: `fuse-pad`, or `org.example.tidy/remove-foo`.
pub(super) fn find<'p>(
    plugins: &'p [PluginInfo],
    kind: &str,
    id: &str,
) -> Result<(&'p PluginInfo, String), Diagnostic> {
    let (plugin, component) = match id.rsplit_once('/') {
        Some((plugin, component)) => (Some(plugin), component),
        None => (None, id),
    };
    let has = |p: &&PluginInfo| {
        plugin.is_none_or(|wanted| p.id == wanted)
            && p.components.iter().any(|c| c.kind == kind && c.id == component)
    };
    let found: Vec<&PluginInfo> = plugins.iter().filter(has).collect();
    match found.as_slice() {
        [] => Err(not_installed(plugins, kind, id)),
        [one] => Ok((one, component.to_owned())),
        [a, b, ..] => {
            let component = shown(component);
            let text = format!("`{}` and `{}` both have a {kind} `{component}`", a.id, b.id);
            let help = format!("Name one of them: `{}/{component}`.", a.id);
            Err(Diagnostic::new(Code::ComponentUnknown, text).help(help))
        }
    }
}

fn not_installed(plugins: &[PluginInfo], kind: &str, id: &str) -> Diagnostic {
    let components = plugins.iter().flat_map(|p| &p.components).filter(|c| c.kind == kind);
    let names: Vec<&str> = components.map(|c| c.id.as_str()).collect();
    let hint = nearest(id, names).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    let text = format!("no installed plugin has a {kind} `{}`{hint}", shown(id));
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
        let of = |id: &str| find(&plugins, "pass", id).map(|(p, c)| format!("{} {c}", p.id));
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
