//! What the plugins of a conversion say about their components.

use onnxd_config::descriptor::{Component, Implied, is_below};
use onnxd_config::{Declared, Descriptor};
use onnxd_proto::onnxd::PluginInfo;
use serde_json::Value;

/// The components of all plugins, each with the id of its plugin.
#[derive(Debug, Default)]
pub(crate) struct Described(Vec<(String, Component)>);

impl Described {
    /// Descriptors were checked when the plugins were inspected; what cannot be read any more declares nothing.
    pub(crate) fn of(plugins: &[PluginInfo]) -> Described {
        let components = plugins.iter().flat_map(|plugin| {
            let read = Descriptor::parse(&plugin.descriptor).map(|d| d.components);
            read.unwrap_or_default().into_iter().map(|c| (plugin.id.clone(), c))
        });
        Described(components.collect())
    }

    pub(crate) fn component(&self, plugin: &str, kind: &str, id: &str) -> Option<&Component> {
        let is = |(of, c): &&(String, Component)| of == plugin && c.kind == kind && c.id == id;
        self.0.iter().find(is).map(|(_, component)| component)
    }

    /// All components of a kind, each with the id of its plugin.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &Component)> {
        let all = self.0.iter().filter(move |(_, component)| component.kind == kind);
        all.map(|(plugin, component)| (plugin.as_str(), component))
    }

    /// The table that params were resolved against.
    pub(crate) fn declared(&self) -> Declared {
        Declared::of(self.0.iter().map(|(plugin, component)| (plugin.as_str(), component)))
    }

    /// Keys that had their effect when params were resolved: those that rules look at, if they are the component's own
    /// or the rule holds.
    pub(crate) fn read_on_resolution(&self, params: &Value) -> Vec<String> {
        let of_component = |component: &Component| {
            let own = |key: &String| {
                component.params.iter().any(|p| p.key == *key || is_below(&p.key, key))
            };
            let of_rule = |rule: &Implied| {
                let holds = rule.condition.holds(&|key| value(params, key), &[]);
                rule.condition.keys().filter(|key| holds || own(key)).cloned().collect::<Vec<_>>()
            };
            let rules = component.implies.iter().chain(&component.computed).flat_map(of_rule);
            rules.chain(component.runs.keys().cloned()).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(|(_, component)| of_component(component)).collect()
    }
}

/// The value of a dotted key.
pub(crate) fn value(params: &Value, key: &str) -> Value {
    key.split('.').fold(params, |at, name| &at[name]).clone()
}
