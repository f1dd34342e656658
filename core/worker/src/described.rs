//! What the plugins of a conversion say about their components.

use onnxd_config::descriptor::{Component, Implied, is_below};
use onnxd_config::{Declared, Descriptor};
use onnxd_params::Resolved;
use onnxd_proto::onnxd::PluginInfo;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// The descriptors of all plugins, each read once and when it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Described(Vec<Plugin>);

#[derive(Debug)]
struct Plugin {
    id: String,
    /// Kinds of its components.
    kinds: BTreeSet<String>,
    descriptor: String,
    read: OnceCell<Vec<Component>>,
}

impl Plugin {
    fn from_info(info: &PluginInfo) -> Plugin {
        Plugin {
            id: info.id.clone(),
            kinds: info.components.iter().map(|c| c.kind.clone()).collect(),
            descriptor: info.descriptor.clone(),
            read: OnceCell::new(),
        }
    }

    /// Descriptors were checked when the plugins were inspected; what cannot be read any more declares nothing.
    fn components(&self) -> &[Component] {
        let read = || Descriptor::parse(&self.descriptor).map(|d| d.components);
        self.read.get_or_init(|| read().unwrap_or_default())
    }
}

impl Described {
    pub(crate) fn from_plugins(plugins: &[PluginInfo]) -> Described {
        Described(plugins.iter().map(Plugin::from_info).collect())
    }

    pub(crate) fn component(&self, plugin: &str, kind: &str, id: &str) -> Option<&Component> {
        let mut plugins = self.0.iter().filter(|of| of.id == plugin);
        plugins.find_map(|of| of.components().iter().find(|c| c.kind == kind && c.id == id))
    }

    /// All components of a kind, each with the id of its plugin.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &Component)> {
        let plugins = self.0.iter().filter(move |plugin| plugin.kinds.contains(kind));
        components(plugins).filter(move |(_, component)| component.kind == kind)
    }

    /// The table that params were resolved against.
    pub(crate) fn declared(&self) -> Declared {
        Declared::from_components(components(&self.0))
    }

    /// Keys that had their effect when params were resolved: those that rules look at, if they are the component's own
    /// or the rule holds.
    pub(crate) fn read_on_resolution(&self, params: &Resolved) -> Vec<String> {
        let of_component = |component: &Component| {
            let own = |key: &String| {
                component.params.iter().any(|p| p.key == *key || is_below(&p.key, key))
            };
            let of_rule = |rule: &Implied| {
                let holds = rule.condition.holds_with(params, &[]);
                rule.condition.keys().filter(|key| holds || own(key)).cloned().collect::<Vec<_>>()
            };
            let rules = component.implies.iter().chain(&component.computed).flat_map(of_rule);
            rules.chain(component.runs.keys().cloned()).collect::<Vec<_>>()
        };
        components(&self.0).flat_map(|(_, component)| of_component(component)).collect()
    }
}

fn components<'p>(
    plugins: impl IntoIterator<Item = &'p Plugin>,
) -> impl Iterator<Item = (&'p str, &'p Component)> {
    plugins.into_iter().flat_map(|p| p.components().iter().map(|c| (p.id.as_str(), c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::PluginComponent;

    /// A plugin with one component.
    fn plugin(id: &str, kind: &str) -> PluginInfo {
        let descriptor =
            format!("summary = 's'\n[[components]]\nkind = '{kind}'\nid = 'a'\nglobs = ['*']");
        let component =
            PluginComponent { kind: kind.into(), id: "a".into(), ..PluginComponent::default() };
        PluginInfo {
            id: id.into(),
            descriptor,
            components: vec![component],
            ..PluginInfo::default()
        }
    }

    #[test]
    fn only_descriptors_that_are_asked_for_are_read() {
        let plugins = [plugin("f", "frontend"), plugin("p", "pass"), plugin("q", "quantizer")];
        let described = Described::from_plugins(&plugins);
        let read = || -> Vec<&str> {
            let read = described.0.iter().filter(|p| p.read.get().is_some());
            read.map(|p| p.id.as_str()).collect()
        };
        assert!(read().is_empty());
        assert_eq!(described.of_kind("pass").map(|(plugin, _)| plugin).collect::<Vec<_>>(), ["p"]);
        assert_eq!(read(), ["p"]);
        assert!(described.component("q", "quantizer", "a").is_some());
        assert!(described.component("q", "pass", "a").is_none());
        assert_eq!(read(), ["p", "q"]);
    }
}
