//! A model: graph, functions, operator set versions, provenance.

use crate::text::NESTING_MAX;
use crate::{Attr, Graph, Node};
use std::collections::BTreeMap;

/// Version of each operator domain a model or function uses; the standard's own domain is `""`.
pub type Opsets = BTreeMap<String, i64>;

/// A whole ONNX model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Version of the file format.
    pub ir_version: i64,
    /// Versions of the operator domains.
    pub opsets: Opsets,
    /// Tool that made it.
    pub producer_name: String,
    /// That tool's version.
    pub producer_version: String,
    /// Reverse domain name of the model's owner.
    pub domain: String,
    /// The owner's version number.
    pub model_version: i64,
    /// Free text.
    pub doc: String,
    /// `metadata_props`.
    pub metadata: Vec<(String, String)>,
    /// The main graph.
    pub graph: Graph,
    /// Local functions.
    pub functions: Vec<Function>,
}

impl Model {
    /// A model around `graph` for one version of the standard's operators.
    pub fn new(graph: Graph, ir_version: i64, opset: i64) -> Model {
        let opsets = Opsets::from([(String::new(), opset)]);
        Model { ir_version, opsets, graph, ..Model::default() }
    }

    /// Version of the standard's own operators; 0 if the model imports none.
    pub fn opset(&self) -> i64 {
        self.opsets.get("").or_else(|| self.opsets.get("ai.onnx")).copied().unwrap_or(0)
    }

    /// Sets or replaces one metadata entry.
    pub fn set_metadata(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.metadata.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.metadata.push((key.to_owned(), value)),
        }
    }

    /// Calls `f` for the main graph, every function body, and all their sub-graphs, inner before outer, each with the
    /// version of the standard's operators that holds in it.
    pub fn for_each_graph_mut(&mut self, f: &mut dyn FnMut(&mut Graph, i64)) {
        let opset = self.opset();
        self.graph.with_subgraphs_mut(opset, f);
        for function in &mut self.functions {
            let opset = function.opsets.get("").copied().unwrap_or(opset);
            function.graph.with_subgraphs_mut(opset, f);
        }
    }

    /// Calls `f` for every graph: the main one, function bodies, all their sub-graphs; outer before inner.
    pub fn for_each_graph<'a>(&'a self, mut f: impl FnMut(&'a Graph)) {
        let mut pending: Vec<&Graph> = self.functions.iter().rev().map(|x| &x.graph).collect();
        pending.push(&self.graph);
        while let Some(graph) = pending.pop() {
            f(graph);
            pending.extend(graph.nodes().flat_map(|(_, n)| n.subgraphs()));
        }
    }
}

/// A local function: a named body that nodes apply like an operator.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its domain.
    pub domain: String,
    /// Its name, the `op` of the nodes that apply it.
    pub name: String,
    /// Its overload; mostly empty.
    pub overload: String,
    /// Attributes without default.
    pub attributes: Vec<String>,
    /// Attributes with default.
    pub defaults: Vec<(String, Attr)>,
    /// Versions of the operator domains its body uses.
    pub opsets: Opsets,
    /// The body; its inputs and outputs are the function's.
    pub graph: Graph,
    /// Free text.
    pub doc: String,
    /// `metadata_props`.
    pub metadata: Vec<(String, String)>,
}

impl Function {
    /// Whether `node` applies it. The standard's domain has two spellings.
    pub fn is_of(&self, node: &Node) -> bool {
        let own = matches!(self.domain.as_str(), "" | "ai.onnx");
        let same_domain = self.domain == node.domain || own && node.is_standard();
        same_domain && (&self.name, &self.overload) == (&node.op, &node.overload)
    }

    /// The body as `node` applies it: references to attributes of the function are what the node
    /// gives, else their defaults. Those to attributes that nothing gives are left out, and those to
    /// sub-graphs, because a graph would see the values around the node.
    pub fn body_for(&self, node: &Node) -> Graph {
        let given = |name: &str| {
            let default = || self.defaults.iter().find(|(n, _)| n == name).map(|(_, a)| a);
            node.attr(name).or_else(default).filter(|a| a.graphs().is_empty()).cloned()
        };
        let mut body = self.graph.clone();
        replace_references(&mut body, &given, 0);
        body
    }
}

fn replace_references(graph: &mut Graph, given: &dyn Fn(&str) -> Option<Attr>, depth: usize) {
    for id in graph.node_ids() {
        let attrs = &mut graph.node_mut(id).attrs;
        attrs.retain_mut(|(_, attr)| {
            let Attr::Ref { name, .. } = attr else { return true };
            let found = given(name);
            found.map(|found| *attr = found).is_some()
        });
        if depth < NESTING_MAX {
            let inner = attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut());
            inner.for_each(|inner| replace_references(inner, given, depth + 1));
        }
    }
}
