//! Front-ends that hang again and again when they are asked about a network.
//!
//! Each such question costs half a minute and a process. After the second one the front-end is not
//! asked any more, whatever is dropped, and `health` says so; reading the plugins again gives it
//! another chance.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use onnxd_diagnostics::{Class, Code, Diagnostic};
use onnxd_proto::onnxd::{self as message, ProbeAnswer};
use onnxd_worker::recognition::leave_out;

use crate::conversion::Plugins;

/// Questions that a front-end may hang over.
const HANGS_MAX: usize = 2;

/// Plugin and front-end.
type Name = (String, String);

/// The front-ends that hung, and how often; shared by the threads that ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetAside(Arc<Mutex<BTreeMap<Name, usize>>>);

impl SetAside {
    pub(crate) fn note(&self, answer: &ProbeAnswer) {
        let hung = |why: &message::Diagnostic| why.code == Code::PluginHung.as_str();
        if answer.died && answer.failed.iter().any(hung) {
            let name = (answer.plugin.clone(), answer.frontend.clone());
            self.with(|all| *all.entry(name).or_default() += 1);
        }
    }

    /// All are asked again.
    pub(crate) fn clear(&self) {
        self.with(BTreeMap::clear);
    }

    /// The plugins without the front-ends that are not asked any more.
    pub(crate) fn without(&self, plugins: &Plugins) -> Plugins {
        let mut rest = plugins.clone();
        for (plugin, frontend) in self.names() {
            leave_out(&mut rest.used, &plugin, &frontend);
        }
        rest
    }

    /// The same, shared as long as no front-end is set aside.
    pub(crate) fn rest_of(&self, plugins: &Arc<Plugins>) -> Arc<Plugins> {
        match self.names().is_empty() {
            true => Arc::clone(plugins),
            false => self.without(plugins).into(),
        }
    }

    /// Why it is unknown whether a file of this name is a network: one that might take it is set
    /// aside. The machine's problem, so that the drop stays and is looked at again.
    pub(crate) fn concerns(&self, plugins: &Plugins, network: &str) -> Option<Diagnostic> {
        let (plugin, frontend) = self.names().into_iter().find(|(plugin, frontend)| {
            let mut only = plugins.clone();
            only.used.retain(|p| p.id == *plugin);
            only.used.iter_mut().for_each(|p| p.components.retain(|c| c.id == *frontend));
            only.may_be_network(network)
        })?;
        let text = format!("front-end `{frontend}` of {plugin} is not asked any more: it hung");
        let mut why = Diagnostic::new(Code::PluginHung, text)
            .help("Replace or disable the plugin; `onnxd ctl reload` has it asked again.");
        why.class = Class::Environment;
        Some(why)
    }

    /// For `health`.
    pub(crate) fn problems(&self) -> Vec<String> {
        let say = |(plugin, frontend): Name| {
            format!(
                "front-end `{frontend}` of {plugin} hung over {HANGS_MAX} drops and is not asked \
                 any more; `onnxd ctl reload` has it asked again"
            )
        };
        self.names().into_iter().map(say).collect()
    }

    fn names(&self) -> Vec<Name> {
        self.with(|all| {
            all.iter().filter(|(_, n)| **n >= HANGS_MAX).map(|(k, _)| k.clone()).collect()
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<Name, usize>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_proto::onnxd::{PluginComponent, PluginInfo};

    #[test]
    fn a_front_end_that_hangs_twice_is_not_asked_any_more() {
        let component = |id: &str, glob: &str| PluginComponent {
            kind: "frontend".into(),
            id: id.into(),
            globs: vec![glob.into()],
            ..Default::default()
        };
        let components = vec![component("slow", "*.onnx"), component("good", "*.ini")];
        let used = vec![PluginInfo { id: "p".into(), components, ..Default::default() }];
        let plugins = Plugins { used, ..Plugins::default() };
        let set_aside = SetAside::default();
        let hung = |code| {
            let failed = vec![message::Diagnostic::from(&Diagnostic::new(code, "it did not end"))];
            let (plugin, frontend) = ("p".into(), "slow".into());
            set_aside.note(&ProbeAnswer { plugin, frontend, failed, died: true, probe: None });
        };
        hung(Code::PluginHung);
        hung(Code::PluginCrashed);
        assert!(set_aside.problems().is_empty(), "a crash takes no time");
        hung(Code::PluginHung);
        let rest = set_aside.without(&plugins);
        assert!(!rest.may_be_network("a.onnx") && rest.may_be_network("a.ini"));
        let why = set_aside.concerns(&plugins, "a.onnx").unwrap();
        assert_eq!(why.class, Class::Environment);
        assert!(set_aside.concerns(&plugins, "a.ini").is_none());
        assert!(set_aside.problems()[0].contains("`slow` of p"));
        set_aside.clear();
        assert!(set_aside.problems().is_empty());
    }
}
