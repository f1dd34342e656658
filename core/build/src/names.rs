//! Names of what is added: values, and nodes where they have any.

use crate::builder::BuilderState;
use crate::node_names::NodeNames;
use crate::{GraphBuilder, Var};
use onnxd_ir::{Origin, ValueId};

impl BuilderState {
    fn prefixed(&self, role: &str) -> String {
        match self.prefix.as_str() {
            "" => role.to_owned(),
            prefix => format!("{prefix}_{role}"),
        }
    }

    /// What a node is called whose first output is `output`.
    pub(crate) fn node_name(&self, output: &str) -> String {
        self.node_names.of_node(&self.prefix, output)
    }

    /// Lets a node that has the name that its first output, once `old`, gave it follow that output.
    pub(crate) fn rename_node(&mut self, output: ValueId, old: &str) {
        let old = self.node_name(old);
        let frame = self.frames.last().expect("a graph is open");
        let Origin::Node(id, _) = frame.graph[output].origin() else { return };
        if old.is_empty() || frame.graph[id].name != old {
            return;
        }
        let name = self.node_name(&frame.graph[output].name);
        let frame = self.frames.last_mut().expect("a graph is open");
        frame.graph.node_mut(id).name = name;
    }
}

impl GraphBuilder {
    /// Gives nodes that are added the names of their first outputs.
    #[must_use]
    pub fn with_node_names(self) -> GraphBuilder {
        self.state.borrow_mut().node_names = NodeNames::Outputs;
        self
    }

    /// Names that no value which is added may get, as others will have them.
    pub fn reserve(&self, names: impl IntoIterator<Item = String>) {
        self.state.borrow_mut().reserved.extend(names);
    }

    /// `v` under the name `<prefix>_<role>`, if a node that was added computes it.
    pub fn named(&self, role: &str, v: Var) -> Var {
        let base = self.state.borrow().prefixed(role);
        let name = self.name_of(v);
        let number = |rest: &str| rest.strip_prefix('_').is_some_and(|n| n.parse::<u64>().is_ok());
        if !name.strip_prefix(&base).is_some_and(|rest| rest.is_empty() || number(rest)) {
            self.rename(v, &self.fresh(role));
        }
        v
    }

    /// `v` under the name `name`, or one derived from it, if a node that was added computes it.
    pub fn rename(&self, v: Var, name: &str) {
        let mut state = self.state.borrow_mut();
        let Some(frame) = state.frames.iter_mut().find(|f| f.serial == v.frame) else { return };
        let new = v.id.index() >= frame.first_new;
        if new && frame.graph.producer(v.id).is_some() && frame.graph[v.id].name != name {
            let name = frame.graph.fresh_name(name);
            let old = frame.graph[v.id].name.clone();
            frame.graph.rename(v.id, &name);
            state.rename_node(v.id, &old);
        }
    }

    /// What names of new values start with.
    pub fn prefix(&self) -> String {
        self.state.borrow().prefix.clone()
    }

    /// Names of what `f` adds start with `prefix`.
    pub fn under<R>(&self, prefix: &str, f: impl FnOnce(&GraphBuilder) -> R) -> R {
        let before = std::mem::replace(&mut self.state.borrow_mut().prefix, prefix.to_owned());
        let result = f(self);
        self.state.borrow_mut().prefix = before;
        result
    }

    /// A free name `<prefix>_<role>`.
    pub(crate) fn fresh(&self, role: &str) -> String {
        let base = self.state.borrow().prefixed(role);
        self.free_name(&base)
    }

    /// A name made from `base` that neither a value has nor [`GraphBuilder::reserve`] keeps.
    pub fn free_name(&self, base: &str) -> String {
        let state = self.state.borrow();
        let graph = &state.frames.last().expect("a graph is open").graph;
        let mut name = graph.fresh_name(base);
        let mut n = 1;
        while state.reserved.contains(&name) {
            name = graph.fresh_name(&format!("{base}_{n}"));
            n += 1;
        }
        name
    }
}
