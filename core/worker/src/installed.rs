//! Components of installed plugins, by the names that params give them.

use onnxd_diagnostics::{Code, Diagnostic, nearest, shown};
use onnxd_proto::onnxd::PluginInfo;

/// The plugin and component that `id` names: `fuse-pad`, or `org.example.tidy/remove-foo`.
pub(crate) fn find<'p>(
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
