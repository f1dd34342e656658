//! Changing a graph that exists: its nodes, what computes its values, its sub-graphs.

use crate::builder::{BuilderState, GraphFrame};
use crate::call::AnyOp;
use crate::draft::{OperandSlot, is_variadic, snake};
use crate::node_names::NodeNames;
use crate::{Call, GraphBuilder, Operand, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::schema::OpSchema;
use onnxd_ir::{Graph, Node, NodeId, Opsets, Origin, ValueId};
use std::cell::RefMut;

impl GraphBuilder {
    /// Lets `f` add to `graph`, which is then as `f` left it. Nothing is folded: the sizes that a
    /// graph declares need not be those of every run.
    pub fn edit<R>(graph: &mut Graph, opsets: &Opsets, f: impl FnOnce(&GraphBuilder) -> R) -> R {
        let builder = GraphBuilder::new(std::mem::take(graph), opsets.clone()).without_folding();
        let result = f(&builder);
        *graph = builder.finish();
        result
    }

    /// The graph that nodes are added to, to be changed by other means. It must be let go before the
    /// next node is added.
    pub fn graph_mut(&self) -> RefMut<'_, Graph> {
        RefMut::map(self.state.borrow_mut(), |s| {
            &mut s.frames.last_mut().expect("a graph is open").graph
        })
    }

    /// Lets `f` edit each sub-graph of node `id`, as the graph that nodes are added to.
    pub fn in_subgraphs(&self, id: NodeId, mut f: impl FnMut(&GraphBuilder)) {
        let mut inner = vec![];
        self.graph_mut().edit_subgraphs(id, |graph| inner.push(std::mem::take(graph)));
        for graph in &mut inner {
            self.push(std::mem::take(graph));
            f(self);
            *graph = self.pop().0;
        }
        let mut edited = inner.into_iter();
        self.graph_mut().edit_subgraphs(id, |graph| *graph = edited.next().expect("as many"));
    }

    /// Says of a value which graph it belongs to: the one that nodes are added to.
    pub(crate) fn locate(&self, operand: &mut Operand) {
        if let Operand::Value(id) = operand {
            *operand = Operand::Var(self.var(*id));
        }
    }

    /// Lets the node that computes `v` compute the existing value `out`, which nothing computes yet;
    /// an `Identity` does where `v` is read already.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::id`]; `N0502` if `out` is of another element type.
    pub fn settle(&self, v: Var, out: ValueId) -> Result<()> {
        self.fits(v, out)?;
        let id = self.id(v)?;
        let mut state = self.state.borrow_mut();
        let typed = state.typed;
        let GraphFrame { graph, first_new, touched, .. } =
            state.frames.last_mut().expect("a graph is open");
        match graph[id].origin() {
            Origin::Node(node, slot) if graph.uses(id) == 0 && id.index() >= *first_new => {
                graph.set_output(node, slot, out);
                if typed && graph[out].ty.is_none() {
                    graph[out].ty = graph[id].ty.take();
                    touched.push(out);
                }
                let old = graph[id].name.clone();
                state.rename_node(out, &old);
                Ok(())
            }
            _ => {
                drop(state);
                self.add_node(Node::new("Identity", [id], [out])).map(|_| ())
            }
        }
    }

    /// Whether `v` can be what `out` was declared to be.
    fn fits(&self, v: Var, out: ValueId) -> Result<()> {
        let (given, declared) = (self.dtype_of(v), self.dtype_of(self.var(out)));
        match (given, declared) {
            (Some(given), Some(declared)) if given != declared && self.state.borrow().strict => {
                let name = shown(&self.graph()[out].name);
                let message = format!("`{name}` is declared as {declared}, not {given}.");
                Err(self.diagnostic(Code::OnnxInvalid, message))
            }
            _ => Ok(()),
        }
    }

    /// Lets the node that computes `out` compute a new value, which this gives. Nothing computes
    /// `out` until it is settled.
    ///
    /// # Errors
    /// `N0901` if no node computes it.
    pub fn detach(&self, out: ValueId) -> Result<Var> {
        let found = {
            let graph = self.graph();
            match graph[out].origin() {
                Origin::Node(node, slot) => Ok((node, slot, snake(&graph[node].op))),
                _ => Err(format!("No node computes `{}`.", shown(&graph[out].name))),
            }
        };
        let (node, slot, role) =
            found.map_err(|text| self.diagnostic(Code::InvariantBroken, text))?;
        let new = self.value(&self.fresh(&role));
        self.graph_mut().set_output(node, slot, new);
        self.infer(node);
        Ok(self.var(new))
    }

    /// Infers anew what node `id` computes, as what it reads may have a type by now.
    pub fn infer(&self, id: NodeId) {
        let mut state = self.state.borrow_mut();
        let BuilderState { frames, inference, .. } = &mut *state;
        let frame = frames.last_mut().expect("a graph is open");
        // What contradicts in a node that was there before is not found here first.
        let _ = inference.step(&mut frame.graph, id, &mut frame.scope);
        frame.touch(id);
    }

    /// Node `id` goes, and `by` are what it computed: its outputs in order. One that is not given must
    /// not be read by anything. Its name and other texts go to the node that computes the first. Gives
    /// the node that went.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::settle`].
    pub fn replace(&self, id: NodeId, by: &[Option<Var>]) -> Result<Node> {
        let outputs = self.graph()[id].outputs.clone();
        let pairs = || outputs.iter().zip(by).filter_map(|(out, v)| Some(((*out)?, (*v)?)));
        pairs().try_for_each(|(out, v)| self.fits(v, out))?;
        let stale = self.graph_mut().remove_node(id);
        pairs().try_for_each(|(out, v)| self.settle(v, out))?;
        let mut graph = self.graph_mut();
        let first = stale.outputs.iter().flatten().next().and_then(|v| graph.producer(*v));
        if let Some(first) = first {
            let node = graph.node_mut(first);
            node.name.clone_from(&stale.name);
            node.doc.clone_from(&stale.doc);
            node.metadata.clone_from(&stale.metadata);
        }
        drop(graph);
        self.sweep(&stale.inputs);
        Ok(stale)
    }

    /// Lets `f` add what computes the outputs of node `id` from now on, in their order; the node goes,
    /// as in [`GraphBuilder::replace`]. What is added has the layers of the node. Names of values
    /// start with that of its first output, and names of nodes with its own, if it has one.
    ///
    /// # Errors
    /// Those of `f`; then what it added is gone, and the node is not.
    pub fn stand_in<V>(
        &self,
        id: NodeId,
        f: impl FnOnce(&GraphBuilder, &Node) -> Result<V>,
    ) -> Result<Node>
    where
        V: IntoIterator<Item: Into<Option<Var>>>,
    {
        let (node, first, values, nodes) = {
            let graph = self.graph();
            let node = graph[id].clone();
            let first = node.outputs.iter().flatten().next().map(|v| graph[*v].name.clone());
            (node, first.unwrap_or_default(), graph.value_ids().len(), graph.node_bound())
        };
        let names = match node.name.as_str() {
            "" => NodeNames::Absent,
            name => NodeNames::After(name.to_owned()),
        };
        let before = std::mem::replace(&mut self.state.borrow_mut().node_names, names);
        let made = self.in_layers(node.layers.clone(), &first, |b| f(b, &node));
        self.state.borrow_mut().node_names = before;
        let replaced = made.and_then(|by| {
            let by: Vec<Option<Var>> = by.into_iter().map(Into::into).collect();
            self.replace(id, &by)
        });
        replaced.inspect_err(|_| self.take_back(values, nodes))
    }

    /// Removes nodes and constants that were added since the graph had so many values and nodes.
    fn take_back(&self, values: usize, nodes: usize) {
        let mut state = self.state.borrow_mut();
        let frame = state.frames.last_mut().expect("a graph is open");
        frame.forget_shared(values);
        let graph = &mut frame.graph;
        graph.nodes_from(nodes).into_iter().rev().for_each(|id| drop(graph.remove_node(id)));
        let new = graph.values_from(values);
        graph.drop_unread(new);
    }

    /// Sets the inputs of node `id`; absent ones at the end are left out, and so are nodes `Constant`
    /// that nothing reads any more.
    pub fn set_inputs(&self, id: NodeId, mut inputs: Vec<Option<ValueId>>) {
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let before = self.graph()[id].inputs.clone();
        self.graph_mut().set_inputs(id, inputs);
        self.sweep(&before);
    }

    fn sweep(&self, inputs: &[Option<ValueId>]) {
        let mut graph = self.graph_mut();
        for v in inputs.iter().flatten() {
            let producer = graph.producer(*v).filter(|n| graph[*n].is("Constant"));
            if let Some(node) = producer.filter(|_| graph.uses(*v) == 0) {
                graph.remove_node(node);
            }
        }
    }

    /// Moves what node `id` reads and is told, as `old` describes it, to where this version of the
    /// operator takes it: an attribute may have become an input, or the other way round. What this
    /// version does not take at all stays.
    ///
    /// # Errors
    /// `N0502` where an input must be an attribute and is not a constant.
    pub fn restate(&self, id: NodeId, old: &OpSchema) -> Result<()> {
        let node = self.graph()[id].clone();
        let Some(new) = self.schema("", &node.op)? else { return Ok(()) };
        let call = Call::<AnyOp>::new(self, ("", &node.op), vec![], vec![]);
        let (mut operands, mut attrs): (Vec<Operand>, _) = (vec![], vec![]);
        let mut put = |i: usize, operand| {
            operands.resize(operands.len().max(i + 1), Operand::Absent);
            operands[i] = operand;
        };
        for (name, attr) in node.attrs.iter().cloned() {
            match call.draft.place_of(new, &name) {
                Some(OperandSlot::Input(at)) => put(at, Operand::Attr(attr)),
                Some(OperandSlot::Attribute(now)) => attrs.push((now.name.to_owned(), attr)),
                None => attrs.push((name, attr)),
            }
        }
        for (i, v) in node.inputs.iter().enumerate() {
            let Some(v) = v.map(|v| Operand::Var(self.var(v))) else { continue };
            let param = old.input(i).filter(|p| !is_variadic(p));
            match param.and_then(|p| call.draft.place_of(new, p.name)) {
                Some(OperandSlot::Input(at)) => put(at, v),
                Some(OperandSlot::Attribute(attribute)) => {
                    attrs.extend(call.draft.attribute(attribute, &v)?);
                }
                None => put(i, v),
            }
        }
        let inputs = call.draft.inputs(new, &operands)?;
        self.graph_mut().node_mut(id).attrs = attrs;
        self.set_inputs(id, inputs);
        Ok(())
    }
}
