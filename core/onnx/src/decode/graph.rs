//! Graphs: names become value ids; a name that a sub-graph does not define is captured from the
//! graphs around it.

use super::Decoder;
use crate::findings::{ModelPath, PathLink};
use crate::metadata::from_entries;
use crate::opset::IR_VERSION_MIN;
use crate::packed::{KeptMessage, Repeated};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::{Graph, NodeId, Origin, Tensor, ValueId, ValueType};
use onnxd_proto::onnx::{
    GraphProto, NodeProto, SparseTensorProto, TensorAnnotation, TensorProto, ValueInfoProto,
};
use std::collections::{HashMap, HashSet};

/// A graph that is being read.
pub(super) struct GraphDecoder {
    graph: Graph,
    /// What value_info, inputs and outputs say about names that were not defined yet.
    declared: HashMap<String, KeptMessage<ValueInfoProto>>,
    /// The nodes that were not read yet.
    later: Repeated<NodeProto>,
    /// What the one that is being read defines.
    current: Vec<String>,
    /// Names that those define; collected when a name is read that nothing defines so far.
    outputs: Option<HashSet<String>>,
    /// Values that were read, but whose node has not come yet.
    awaited: HashSet<ValueId>,
    /// Whether there ever were any.
    unsorted: bool,
}

impl GraphDecoder {
    /// Whether this node or a later one defines `name`; what came before is known as a value.
    fn defines_later(&mut self, name: &str) -> bool {
        let names = self.outputs.get_or_insert_with(|| {
            let mut names = HashSet::new();
            self.later.for_each(|node| names.extend(node.output.iter().cloned()));
            names
        });
        names.contains(name) || self.current.iter().any(|output| output == name)
    }
}

impl Decoder<'_> {
    /// The graph that is being read.
    pub(super) fn graph(&mut self) -> &mut Graph {
        &mut self.scope().graph
    }

    fn scope(&mut self) -> &mut GraphDecoder {
        self.scopes.last_mut().expect("a graph is being read")
    }

    pub(super) fn open(
        &mut self,
        name: &str,
        mut infos: Repeated<ValueInfoProto>,
        outputs: Vec<ValueInfoProto>,
        place: &ModelPath<'_>,
    ) {
        let mut declared = HashMap::new();
        while let Some(info) = infos.next_kept() {
            match info {
                Ok((info, kept)) => {
                    declared.insert(info.name.unwrap_or_default(), kept);
                }
                Err(fault) => self.found.add_at(fault, place),
            }
        }
        let named = |info: ValueInfoProto| {
            let name = info.name.clone().unwrap_or_default();
            (name, KeptMessage::Plain(Box::new(info)))
        };
        declared.extend(outputs.into_iter().map(named));
        self.scopes.push(GraphDecoder {
            graph: Graph::new(name),
            declared,
            later: Vec::new().into(),
            current: Vec::new(),
            outputs: None,
            awaited: HashSet::new(),
            unsorted: false,
        });
    }

    pub(super) fn close(&mut self) -> Graph {
        let scope = self.scopes.pop().expect("a graph is being read");
        for name in scope.declared.into_keys() {
            if scope.graph.value_named(&name).is_none() {
                self.found.note("a value_info entry that names no value of its graph is dropped");
            }
        }
        scope.graph
    }

    /// Reads a graph and everything in it.
    pub(super) fn whole_graph(&mut self, mut proto: GraphProto, parent: &ModelPath<'_>) -> Graph {
        let nodes = std::mem::take(&mut proto.node).into();
        let infos = std::mem::take(&mut proto.value_info).into();
        self.graph_of(proto, nodes, infos, parent)
    }

    /// As [`Decoder::whole_graph`], with the nodes and value infos beside the graph.
    pub(super) fn graph_of(
        &mut self,
        proto: GraphProto,
        nodes: Repeated<NodeProto>,
        infos: Repeated<ValueInfoProto>,
        parent: &ModelPath<'_>,
    ) -> Graph {
        let name = proto.name.unwrap_or_default();
        let place = parent.at(PathLink::Graph(&name));
        let outputs: Vec<String> =
            proto.output.iter().map(|info| info.name.clone().unwrap_or_default()).collect();
        self.open(&name, infos, proto.output, &place);
        self.graph().doc = proto.doc_string.unwrap_or_default();
        self.graph().metadata = from_entries(proto.metadata_props);

        let initialized: HashSet<&str> =
            proto.initializer.iter().filter_map(|t| t.name.as_deref()).collect();
        self.inputs(proto.input, &initialized, &place);
        self.initializers(proto.initializer, &place);
        self.sparse_initializers(proto.sparse_initializer, &place);
        self.nodes(nodes, &place);
        self.outputs(&outputs, &place);
        self.annotations(proto.quantization_annotation);
        self.close()
    }

    fn inputs(
        &mut self,
        infos: Vec<ValueInfoProto>,
        initialized: &HashSet<&str>,
        place: &ModelPath<'_>,
    ) {
        for info in infos {
            let name = info.name.clone().unwrap_or_default();
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, place, "a graph input has no name");
                continue;
            }
            self.scope().declared.insert(name.clone(), KeptMessage::Plain(Box::new(info)));
            // Before IR version 4 every initializer had to be listed as an input as well, without
            // being meant as one.
            let listed_only =
                self.ir_version < IR_VERSION_MIN && initialized.contains(name.as_str());
            let id = self.define(&name, place);
            if listed_only {
                self.found.note("an initializer listed as input (IR version < 4) is a constant");
            } else if self.graph()[id].origin() == Origin::None {
                self.graph().mark_input(id);
            }
        }
    }

    fn initializers(&mut self, protos: Vec<TensorProto>, parent: &ModelPath<'_>) {
        for (index, mut proto) in protos.into_iter().enumerate() {
            let name = proto.name.take().unwrap_or_default();
            let place = parent.at(PathLink::Initializer { index, name: &name });
            let doc = proto.doc_string.take().unwrap_or_default();
            let metadata = from_entries(std::mem::take(&mut proto.metadata_props));
            let tensor = self.tensor(proto, &place);
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, &place, "the initializer has no name");
                continue;
            }
            let id = self.initialized(&name, &place);
            let value = &mut self.graph()[id];
            if value.doc.is_empty() {
                value.doc = doc;
            }
            if value.metadata.is_empty() {
                value.metadata = metadata;
            }
            if let Some(tensor) = tensor {
                self.set_constant(id, tensor, &place);
            }
        }
    }

    /// The value that an initializer gives data: an input of that name or a new value.
    fn initialized(&mut self, name: &str, place: &ModelPath<'_>) -> ValueId {
        match self.graph().value_named(name) {
            Some(id) if !self.has_data(id) => id,
            _ => self.define(name, place),
        }
    }

    fn has_data(&mut self, id: ValueId) -> bool {
        let graph = self.graph();
        graph[id].initializer().is_some() || graph.sparse.contains_key(&id)
    }

    fn set_constant(&mut self, id: ValueId, tensor: Tensor, place: &ModelPath<'_>) {
        let value = &mut self.graph()[id];
        let declared = value.dtype();
        let fault = declared.filter(|d| *d != tensor.dtype());
        let is_input = value.origin() == Origin::Input;
        if !is_input || value.ty.is_none() {
            value.ty = Some(constant_type(&tensor, tensor.dims()));
        }
        if let Some(declared) = fault {
            let text = format!("is declared as {declared}, but holds {}", tensor.dtype());
            self.found.push(Code::OnnxInvalid, place, text);
        }
        self.graph().set_initializer(id, Some(tensor));
    }

    fn sparse_initializers(&mut self, protos: Vec<SparseTensorProto>, parent: &ModelPath<'_>) {
        for (index, mut proto) in protos.into_iter().enumerate() {
            let name = proto.values.as_mut().and_then(|v| v.name.take()).unwrap_or_default();
            let place = parent.at(PathLink::Initializer { index, name: &name });
            let sparse = self.sparse_tensor(proto, &place);
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, &place, "the sparse initializer has no name");
                continue;
            }
            let id = self.initialized(&name, &place);
            if let Some(sparse) = sparse {
                let graph = self.graph();
                graph[id].ty = Some(constant_type(&sparse.values, &sparse.dims));
                graph.sparse.insert(id, sparse);
            }
        }
    }

    pub(super) fn nodes(&mut self, protos: Repeated<NodeProto>, place: &ModelPath<'_>) {
        self.scope().later = protos;
        let mut index = 0;
        while let Some(proto) = self.scope().later.next() {
            match proto {
                Ok(proto) => {
                    self.scope().current.clone_from(&proto.output);
                    self.node(index, proto, place);
                }
                Err(fault) => self.found.add_at(fault, place),
            }
            index += 1;
        }
        if !self.scope().unsorted {
            return;
        }
        // The standard wants nodes sorted, but quantization tools write models that are not, and
        // runtimes accept them.
        match self.graph().topological() {
            Ok(_) => self.found.note("the nodes of a graph are not in topological order"),
            Err(stuck) => {
                let text = cycle(self.graph(), &stuck);
                self.found.push(Code::OnnxInvalid, place, text);
            }
        }
    }

    pub(super) fn outputs(&mut self, names: &[String], place: &ModelPath<'_>) {
        for name in names {
            if name.is_empty() {
                self.found.push(Code::OnnxInvalid, place, "a graph output has no name");
                continue;
            }
            let id = self.resolve_or_report(name, &place.at(PathLink::Value(name)));
            if matches!(self.graph()[id].origin(), Origin::Captured(_)) {
                self.found.note("a sub-graph lists a value of the graph around it as its output");
            }
            self.graph().mark_output(id);
        }
    }

    fn annotations(&mut self, protos: Vec<TensorAnnotation>) {
        for proto in protos {
            let name = proto.tensor_name.unwrap_or_default();
            match self.graph().value_named(&name) {
                Some(id) => {
                    let pairs = from_entries(proto.quant_parameter_tensor_names);
                    self.graph().annotations.push((id, pairs));
                }
                None => self.found.note("a quantization annotation of an unknown value is dropped"),
            }
        }
    }

    /// The value that an input, initializer or node of the innermost graph defines.
    pub(super) fn define(&mut self, name: &str, place: &ModelPath<'_>) -> ValueId {
        let Some(id) = self.graph().value_named(name) else {
            let (_, outer) = self.scopes.split_last().expect("a graph is being read");
            if outer.iter().any(|scope| scope.graph.value_named(name).is_some()) {
                self.found.note("a name in a sub-graph that hides one around it gets a new name");
            }
            return self.new_value(self.scopes.len() - 1, name, place);
        };
        if self.scope().awaited.remove(&id) {
            return id;
        }
        let name = shown(name);
        let text = match self.graph()[id].origin() {
            Origin::Captured(_) => {
                format!("defines `{name}`, which was read from the enclosing graph before")
            }
            _ => format!("defines `{name}` a second time"),
        };
        self.found.push(Code::OnnxInvalid, place, text);
        self.graph().add_value(&name, None)
    }

    /// Adds a value to the graph at `level`, with what was declared about it.
    fn new_value(&mut self, level: usize, name: &str, place: &ModelPath<'_>) -> ValueId {
        let info =
            self.scopes[level].declared.remove(name).map(KeptMessage::open).unwrap_or_default();
        let ty = info.r#type.and_then(|ty| self.value_type(ty, &place.at(PathLink::Value(name))));
        let graph = &mut self.scopes[level].graph;
        let id = graph.add_value(name, ty);
        graph[id].doc = info.doc_string.unwrap_or_default();
        graph[id].metadata = from_entries(info.metadata_props);
        id
    }

    /// The value called `name`; a stand-in after a finding if there is none.
    pub(super) fn resolve_or_report(&mut self, name: &str, place: &ModelPath<'_>) -> ValueId {
        let innermost = self.scopes.len() - 1;
        if let Some(id) = self.resolve(innermost, name) {
            return id;
        }
        let awaiting = self.scopes.iter_mut().rposition(|scope| scope.defines_later(name));
        if let Some(level) = awaiting {
            let id = self.new_value(level, name, place);
            self.scopes[level].awaited.insert(id);
            self.scopes[level].unsorted = true;
            return self.resolve(innermost, name).unwrap_or(id);
        }
        let text =
            format!("`{}` is read, but no input, initializer or node defines it", shown(name));
        self.found.push(Code::OnnxInvalid, place, text);
        self.graph().add_value(name, None)
    }

    fn resolve(&mut self, level: usize, name: &str) -> Option<ValueId> {
        if let Some(id) = self.scopes[level].graph.value_named(name) {
            return Some(id);
        }
        let outer = self.resolve(level.checked_sub(1)?, name)?;
        let ty = self.scopes[level - 1].graph[outer].ty.clone();
        let graph = &mut self.scopes[level].graph;
        Some(graph.capture(outer, name, ty))
    }
}

/// Says which nodes depend on themselves.
fn cycle(graph: &Graph, stuck: &[NodeId]) -> String {
    const NAMED_MAX: usize = 5;
    let name = |id: &NodeId| format!("`{}` ({})", shown(&graph[*id].name), shown(&graph[*id].op));
    let names: Vec<String> = stuck.iter().take(NAMED_MAX).map(name).collect();
    let count = stuck.len();
    format!("{count} nodes lie on or behind a cycle: {}", names.join(", "))
}

fn constant_type(elements: &Tensor, dims: &[usize]) -> ValueType {
    ValueType::tensor(elements.dtype(), dims.iter().map(|d| *d as i64))
}
