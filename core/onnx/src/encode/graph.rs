//! Graphs: value ids become names again. The names a sub-graph sees are those defined before it in
//! the graphs around it; its own must differ from them.

use super::types::type_to_proto;
use super::{Encoder, broken, text};
use crate::metadata::to_entries;
use crate::packed::Fields;
use onnxd_diagnostics::{Code, Diagnostic, shown};
use onnxd_ir::{Graph, NodeId, Origin, Value, ValueId};
use onnxd_proto::onnx::{
    GraphProto, NodeProto, SparseTensorProto, TensorAnnotation, TensorProto, ValueInfoProto,
};
use std::collections::{HashMap, HashSet};

/// Graphs inside each other, the outermost counted. Readers of protobuf stop at 100 messages, and
/// every sub-graph takes three of them.
const NESTING_MAX: usize = 31;

/// A graph that is being written.
pub(super) struct GraphLevel<'a> {
    pub(super) graph: &'a Graph,
    /// Names of values that are not written under their own: captured or renamed ones.
    renamed: HashMap<ValueId, String>,
    /// New names among them.
    taken: HashSet<String>,
    /// Which values are defined so far, by index.
    defined: Vec<bool>,
}

impl GraphLevel<'_> {
    fn name(&self, id: ValueId) -> &str {
        self.renamed.get(&id).map_or(&self.graph[id].name, String::as_str)
    }

    /// Whether a value of this graph is written under `name`, now or later: ONNX Runtime takes no
    /// value of a sub-graph that is called like one which the graph around it defines after it.
    fn shows(&self, name: &str) -> bool {
        let made =
            |id: ValueId| self.graph[id].origin() != Origin::None || has_data(self.graph, id);
        let own = |id: ValueId| made(id) && !self.renamed.contains_key(&id);
        self.taken.contains(name) || self.graph.value_named(name).is_some_and(own)
    }
}

/// Where the nodes and value infos of a graph go.
pub(super) trait GraphSink {
    fn node(&mut self, node: NodeProto);
    fn value_info(&mut self, info: ValueInfoProto);
}

impl GraphSink for (Vec<NodeProto>, Vec<ValueInfoProto>) {
    fn node(&mut self, node: NodeProto) {
        self.0.push(node);
    }

    fn value_info(&mut self, info: ValueInfoProto) {
        self.1.push(info);
    }
}

impl GraphSink for Fields {
    fn node(&mut self, node: NodeProto) {
        self.push_node(node);
    }

    fn value_info(&mut self, info: ValueInfoProto) {
        self.push_value_info(&info);
    }
}

impl<'a> Encoder<'a, '_> {
    pub(super) fn graph(&mut self, graph: &'a Graph) -> Result<GraphProto, Diagnostic> {
        let mut parts = (Vec::new(), Vec::new());
        let proto = self.graph_into(graph, &mut parts)?;
        let (node, value_info) = parts;
        Ok(GraphProto { node, value_info, ..proto })
    }

    /// The graph without its nodes and value infos, which go to `parts`.
    pub(super) fn graph_into(
        &mut self,
        graph: &'a Graph,
        parts: &mut dyn GraphSink,
    ) -> Result<GraphProto, Diagnostic> {
        self.open(graph)?;
        let inputs = self.define_inputs();
        let input = inputs.iter().map(|id| self.value_info(*id, self.name(*id))).collect();
        let (initializer, sparse_initializer) = self.initializers()?;
        self.nodes(&mut |node| parts.node(node))?;
        let outputs = self.outputs(&mut |node| parts.node(node))?;
        let output = outputs.iter().map(|(id, name)| self.value_info(*id, name)).collect();
        let quantization_annotation = self.annotations();
        self.close(&mut |info| parts.value_info(info));
        Ok(GraphProto {
            name: Some(if graph.name.is_empty() { "graph" } else { &graph.name }.to_owned()),
            initializer,
            sparse_initializer,
            doc_string: text(&graph.doc),
            input,
            output,
            quantization_annotation,
            metadata_props: to_entries(&graph.metadata),
            ..GraphProto::default()
        })
    }

    pub(super) fn open(&mut self, graph: &'a Graph) -> Result<(), Diagnostic> {
        if self.levels.len() == NESTING_MAX {
            let text = format!("more than {NESTING_MAX} graphs are nested; readers would refuse");
            return Err(Diagnostic::new(Code::SourceLimit, text));
        }
        let mut renamed = HashMap::new();
        for (own, outer) in graph.captures() {
            let Some(level) = self.levels.last() else {
                let text = format!("`{}` is captured, but no graph is around", graph[own].name);
                return Err(broken(text));
            };
            if outer.index() >= level.defined.len() {
                return Err(broken(format!("`{}` captures an unknown value", graph[own].name)));
            }
            renamed.insert(own, self.read(outer)?.to_owned());
        }
        let mut defined = vec![false; graph.value_ids().count()];
        renamed.keys().for_each(|own| defined[own.index()] = true);
        self.levels.push(GraphLevel { graph, renamed, taken: HashSet::new(), defined });
        Ok(())
    }

    /// Ends the graph; gives the `value_info` of its inner values.
    pub(super) fn close(&mut self, put: &mut dyn FnMut(ValueInfoProto)) {
        let level = self.level();
        let outputs: HashSet<ValueId> = level.graph.outputs().iter().copied().collect();
        let worth_saying =
            |v: &Value| v.ty.is_some() || !v.doc.is_empty() || !v.metadata.is_empty();
        let inner = |id: &ValueId| {
            matches!(level.graph[*id].origin(), Origin::Node(..))
                && worth_saying(&level.graph[*id])
                && !outputs.contains(id)
        };
        let ids = level.graph.value_ids().filter(inner);
        ids.for_each(|id| put(self.value_info(id, level.name(id))));
        self.levels.pop();
    }

    pub(super) fn level(&self) -> &GraphLevel<'a> {
        self.levels.last().expect("a graph is being written")
    }

    /// The name the value is written under.
    pub(super) fn name(&self, id: ValueId) -> &str {
        self.level().name(id)
    }

    /// As [`Encoder::name`], for a value that must be defined already.
    pub(super) fn read(&self, id: ValueId) -> Result<&str, Diagnostic> {
        let level = self.level();
        if level.defined[id.index()] {
            return Ok(level.name(id));
        }
        let (value, graph) = (shown(&level.graph[id].name), shown(&level.graph.name));
        Err(broken(format!("graph `{graph}` reads `{value}`, which nothing produces")))
    }

    /// Defines a value, under a new name if its own is taken around this graph.
    pub(super) fn define(&mut self, id: ValueId) {
        let (level, outer) = self.levels.split_last_mut().expect("a graph is being written");
        level.defined[id.index()] = true;
        let name = &level.graph[id].name;
        if !outer.iter().any(|around| around.shows(name)) {
            return;
        }
        let fresh = self.unused_name(&name.clone());
        let level = self.levels.last_mut().expect("a graph is being written");
        level.taken.insert(fresh.clone());
        level.renamed.insert(id, fresh);
    }

    /// The first of `base_1`, `base_2`, ... that is used neither here nor around.
    fn unused_name(&self, base: &str) -> String {
        let own = self.level().graph;
        let free = |name: &String| {
            own.value_named(name).is_none() && !self.levels.iter().any(|level| level.shows(name))
        };
        // Leaps that grow with the names given keep many equal ones from costing a quadratic search.
        let leap = self.level().taken.len();
        let step = |i: &usize| Some(if *i < 64 { i + 1 } else { i + 1 + leap });
        let mut names = std::iter::successors(Some(1usize), step).map(|i| format!("{base}_{i}"));
        names.find(free).expect("there are more numbers than names")
    }

    pub(super) fn define_inputs(&mut self) -> &'a [ValueId] {
        let inputs = self.level().graph.inputs();
        inputs.iter().for_each(|id| self.define(*id));
        inputs
    }

    /// Initializers that something uses.
    pub(super) fn initializers(
        &mut self,
    ) -> Result<(Vec<TensorProto>, Vec<SparseTensorProto>), Diagnostic> {
        let graph: &'a Graph = self.level().graph;
        let annotated = annotated(graph);
        let outputs: HashSet<ValueId> = graph.outputs().iter().copied().collect();
        let (mut dense, mut sparse) = (Vec::new(), Vec::new());
        for id in graph.value_ids().filter(|id| has_data(graph, *id)) {
            let value = &graph[id];
            let is_input = value.origin() == Origin::Input;
            let is_output = outputs.contains(&id);
            let used = !graph.readers(id).is_empty() || annotated.contains(value.name.as_str());
            if !(used || is_input || is_output) {
                continue;
            }
            if !is_input {
                self.define(id);
            }
            let name = Some(self.name(id).to_owned());
            if let Some(tensor) = value.initializer() {
                let mut proto = self.tensor(tensor, name)?;
                // An input or output has a ValueInfo to say these.
                if !is_input && !is_output {
                    proto.doc_string = text(&value.doc);
                    proto.metadata_props = to_entries(&value.metadata);
                }
                dense.push(proto);
            } else if let Some(tensor) = graph.sparse.get(&id) {
                sparse.push(self.sparse(tensor, name)?);
            }
        }
        Ok((dense, sparse))
    }

    pub(super) fn nodes(&mut self, put: &mut dyn FnMut(NodeProto)) -> Result<(), Diagnostic> {
        let graph: &'a Graph = self.level().graph;
        let order = graph.topological().map_err(|stuck| cycle(graph, &stuck))?;
        order.into_iter().try_for_each(|id| {
            put(self.node(id)?);
            Ok(())
        })
    }

    /// The outputs with the names they are written under; may add `Identity` nodes.
    pub(super) fn outputs(
        &mut self,
        put: &mut dyn FnMut(NodeProto),
    ) -> Result<Vec<(ValueId, String)>, Diagnostic> {
        let graph: &'a Graph = self.level().graph;
        let mut outputs = Vec::with_capacity(graph.outputs().len());
        for id in graph.outputs() {
            let mut name = self.read(*id)?.to_owned();
            if matches!(graph[*id].origin(), Origin::Captured(_)) {
                let copy = self.unused_name(&name);
                let level = self.levels.last_mut().expect("a graph is being written");
                level.taken.insert(copy.clone());
                put(NodeProto {
                    input: vec![name],
                    output: vec![copy.clone()],
                    op_type: Some("Identity".to_owned()),
                    ..NodeProto::default()
                });
                name = copy;
            }
            outputs.push((*id, name));
        }
        Ok(outputs)
    }

    fn annotations(&self) -> Vec<TensorAnnotation> {
        let level = self.level();
        let written = |name: &String| {
            let id = level.graph.value_named(name);
            id.map_or_else(|| name.clone(), |id| level.name(id).to_owned())
        };
        let live = level.graph.annotations.iter().filter(|(id, _)| level.defined[id.index()]);
        live.map(|(id, pairs)| {
            let pairs: Vec<(String, String)> =
                pairs.iter().map(|(key, name)| (key.clone(), written(name))).collect();
            TensorAnnotation {
                tensor_name: Some(level.name(*id).to_owned()),
                quant_parameter_tensor_names: to_entries(&pairs),
            }
        })
        .collect()
    }

    fn value_info(&self, id: ValueId, name: &str) -> ValueInfoProto {
        let value = &self.level().graph[id];
        ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: value.ty.as_ref().map(type_to_proto),
            doc_string: text(&value.doc),
            metadata_props: to_entries(&value.metadata),
        }
    }
}

/// Whether the value is an initializer, dense or sparse.
pub(super) fn has_data(graph: &Graph, id: ValueId) -> bool {
    let produced = !matches!(graph[id].origin(), Origin::None | Origin::Input);
    let data = graph[id].initializer().is_some() || graph.sparse.contains_key(&id);
    data && !produced
}

/// Names that annotations mention as parameters.
fn annotated(graph: &Graph) -> HashSet<&str> {
    let pairs = graph.annotations.iter().flat_map(|(_, pairs)| pairs);
    pairs.map(|(_, name)| name.as_str()).collect()
}

fn cycle(graph: &Graph, stuck: &[NodeId]) -> Diagnostic {
    const NAMED_MAX: usize = 5;
    let name = |id: &NodeId| format!("{} `{}`", graph[*id].op, shown(&graph[*id].name));
    let names: Vec<String> = stuck.iter().take(NAMED_MAX).map(name).collect();
    let count = stuck.len();
    let graph = shown(&graph.name);
    broken(format!("{count} nodes of graph `{graph}` depend on themselves: {}", names.join(", ")))
}
