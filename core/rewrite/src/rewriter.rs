//! What a rule sees: the graph around its root, and the few ways to change it.

use crate::{Rewrite, Skip};
use onnxd_build::{GraphBuilder, Var};
use onnxd_ir::{
    At, Attr, DataType, Graph, Layers, Node, NodeId, Op, Opsets, Origin, Reals, Tensor, ValueId,
};
use std::collections::{HashMap, HashSet};

/// The graph as a rule may look at and change it. Every accessor's error is the reason for the report.
pub struct Rewriter<'g> {
    /// The graph, for what the accessors do not cover.
    pub graph: &'g mut Graph,
    /// Version of the standard's operators.
    pub opset: i64,
    first_new: usize,
    absorbed: Layers,
    /// Values that are read less than before.
    lost: Vec<ValueId>,
}

/// Bytes of a constant from which on it is derived from the one that it stands in for, and not held.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// Larger tensors are not widened to `f64`: a pass holds a few copies of what it computes with.
pub const REALS_MAX: usize = 1 << 27;

impl<'g> Rewriter<'g> {
    /// For one rewrite, which [`Rewriter::finish`] ends.
    pub fn new(graph: &'g mut Graph, opset: i64) -> Rewriter<'g> {
        let first_new = graph.node_bound();
        Rewriter { graph, opset, first_new, absorbed: Layers::default(), lost: Vec::new() }
    }

    /// Name of a value, quoted for a reason.
    pub fn name(&self, v: ValueId) -> String {
        format!("`{}`", self.graph[v].name)
    }

    // ---- looking ------------------------------------------------------------------------------------------------

    /// The operator `O` that produces `v`.
    pub fn producer<O: Op>(&self, v: ValueId) -> Result<At<O>, Skip> {
        let found = self.graph.producer(v).and_then(|node| At::<O>::find(self.graph, node));
        found
            .filter(|at| at.out == v)
            .ok_or_else(|| Skip(format!("{} is not produced by {}", self.name(v), O::NAME)))
    }

    /// The operator `O` that produces `v`, provided nothing else reads `v`.
    pub fn sole_producer<O: Op>(&self, v: ValueId) -> Result<At<O>, Skip> {
        let at = self.producer(v)?;
        self.read_once(v)?;
        Ok(at)
    }

    /// Demands that `v` is read exactly once.
    pub fn read_once(&self, v: ValueId) -> Rewrite {
        match self.graph.uses(v) {
            1 => Ok(()),
            n => Skip::because(format!("{} is read {n} times", self.name(v))),
        }
    }

    /// The operator `O` that is the only reader of `v`.
    pub fn sole_reader<O: Op>(&self, v: ValueId) -> Result<At<O>, Skip> {
        self.read_once(v)?;
        let found = self.graph.readers(v).first().and_then(|n| At::<O>::find(self.graph, *n));
        found.ok_or_else(|| Skip(format!("{} is not read by {}", self.name(v), O::NAME)))
    }

    /// The constant `v`.
    pub fn constant(&self, v: ValueId) -> Result<Tensor, Skip> {
        let found = self.graph.constant(v).cloned();
        found.ok_or_else(|| Skip(format!("{} is not a constant", self.name(v))))
    }

    /// The constants `vs`.
    pub fn constants<const N: usize>(&self, vs: [ValueId; N]) -> Result<[Tensor; N], Skip> {
        let found: Vec<Tensor> = vs.iter().map(|v| self.constant(*v)).collect::<Result<_, _>>()?;
        Ok(found.try_into().expect("one tensor per value"))
    }

    /// The elements of the constant `v`, which must be of a floating-point type and not of exceptional size.
    pub fn reals(&self, v: ValueId) -> Result<Reals, Skip> {
        let reals = self.floats(v)?.to_reals();
        reals.ok_or_else(|| Skip(format!("{} is not of a float type", self.name(v))))
    }

    /// The constant `v`, which must be of a floating-point type and not of exceptional size.
    fn floats(&self, v: ValueId) -> Result<Tensor, Skip> {
        let tensor = self.constant(v)?;
        if tensor.len() > REALS_MAX {
            let name = self.name(v);
            return Skip::because(format!("{name} has more than {REALS_MAX} elements"));
        }
        match tensor.dtype().is_float() {
            true => Ok(tensor),
            false => Skip::because(format!("{} is not of a float type", self.name(v))),
        }
    }

    /// The constant `v` if it has at least `rank_min` axes, as weights have.
    pub fn ranked(&self, v: ValueId, rank_min: usize) -> Result<Tensor, Skip> {
        let found = self.constant(v)?;
        match found.rank() {
            rank if rank < rank_min => Skip::because(format!("{} has rank {rank}", self.name(v))),
            _ => Ok(found),
        }
    }

    /// [`Rewriter::reals`] of a tensor with at least `rank_min` axes.
    pub fn weights(&self, v: ValueId, rank_min: usize) -> Result<Reals, Skip> {
        self.ranked(v, rank_min)?;
        self.reals(v)
    }

    /// The elements of the constant `v`, which must be of an integer type.
    pub fn integers(&self, v: ValueId) -> Result<Vec<i64>, Skip> {
        let found = self.constant(v)?.to_i64s();
        found.ok_or_else(|| Skip(format!("{} is not of an integer type", self.name(v))))
    }

    /// The integers that node `id` has as attribute `name` or as constant input `input`, whichever its version takes.
    pub fn integers_of(
        &self,
        id: NodeId,
        name: &str,
        input: usize,
    ) -> Result<Option<Vec<i64>>, Skip> {
        let node = &self.graph[id];
        match node.attr(name) {
            Some(Attr::Ints(list)) => Ok(Some(list.clone())),
            Some(_) => Skip::unlike(),
            None => node.input(input).map(|v| self.integers(v)).transpose(),
        }
    }

    /// Element type of `v`.
    pub fn dtype(&self, v: ValueId) -> Result<DataType, Skip> {
        let found = self.graph[v].dtype();
        found.ok_or_else(|| Skip(format!("the type of {} is not known", self.name(v))))
    }

    /// Number of axes of `v`.
    pub fn rank(&self, v: ValueId) -> Result<usize, Skip> {
        let found = self.graph[v].shape().map(<[_]>::len);
        found.ok_or_else(|| Skip(format!("the rank of {} is not known", self.name(v))))
    }

    // ---- changing -----------------------------------------------------------------------------------------------

    /// A new initializer, named after the value it stands in for. The old one is never edited: others may read it.
    pub fn derive(&mut self, from: ValueId, role: &str, data: Tensor) -> ValueId {
        let name = self.graph.derived_name(from, role);
        self.graph.add_initializer(&name, data)
    }

    /// As [`Rewriter::derive`], rounding to the element type of `like`, in which every element must be finite.
    pub fn derive_reals(
        &mut self,
        from: ValueId,
        role: &str,
        data: &Reals,
        like: ValueId,
    ) -> Result<ValueId, Skip> {
        let data = data.to_tensor(self.constant(like)?.dtype());
        let data =
            data.ok_or_else(|| Skip(format!("{} is not of a float type", self.name(like))))?;
        self.derive_finite(from, role, data)
    }

    /// The constant `v`, slice `i` along `axis` multiplied by `gain[i]`, of which there must be as many; every element
    /// must be finite.
    ///
    /// # Errors
    /// That it is no constant of a float type, is of exceptional size, or an element is not finite.
    pub fn derive_scaled(
        &mut self,
        v: ValueId,
        role: &str,
        axis: usize,
        gain: &[f64],
    ) -> Result<ValueId, Skip> {
        let scaled = self.scaled(v, axis, gain)?;
        self.derive_finite(v, role, scaled)
    }

    /// What [`Rewriter::derive_scaled`] derives, without a place in the graph; elements may be infinite.
    ///
    /// # Errors
    /// That it is no constant of a float type, or is of exceptional size.
    pub fn scaled(&self, v: ValueId, axis: usize, gain: &[f64]) -> Result<Tensor, Skip> {
        let scaled = self.floats(v)?.scaled(axis, gain);
        let scaled = scaled.map_err(|_| Skip(format!("{} is not real", self.name(v))))?;
        let small = scaled.byte_len() < DERIVED_BYTES_MIN;
        Ok(if small { scaled.held() } else { scaled })
    }

    fn derive_finite(&mut self, from: ValueId, role: &str, data: Tensor) -> Result<ValueId, Skip> {
        if !data.is_finite() {
            let (name, dtype) = (self.name(from), data.dtype());
            return Skip::because(format!("what replaces {name} is beyond the type {dtype}"));
        }
        Ok(self.derive(from, role, data))
    }

    /// The node that computes `old` and nothing else that is read.
    fn only_for(&self, old: ValueId) -> Result<NodeId, Skip> {
        let Some(node) = self.graph.producer(old) else {
            return Skip::because(format!("{} is not computed by a node", self.name(old)));
        };
        let mut others = self.graph[node].outputs.iter().flatten().filter(|v| **v != old);
        match others.find(|v| self.graph.uses(**v) > 0) {
            Some(other) => Skip::because(format!("{} is read too", self.name(*other))),
            None => Ok(node),
        }
    }

    /// Computes `old` with `op` from now on. Name and type of `old` are kept, what has no reader any more is removed.
    pub fn replace<O: Op>(&mut self, old: ValueId, op: O) -> Rewrite {
        self.replace_by(old, op.into_node(old))
    }

    /// As [`Rewriter::replace`], with a node whose only output is `old`.
    pub fn replace_by(&mut self, old: ValueId, mut node: Node) -> Rewrite {
        let stale = self.only_for(old)?;
        // The new node is there before the sweep: it may read what the stale one read.
        let stale = self.graph.remove_node(stale);
        node.name.clone_from(&stale.name);
        self.graph.add_node(node);
        let reads = stale.reads().collect();
        self.absorbed.add(&stale.layers);
        self.sweep(reads);
        Ok(())
    }

    /// Computes `old` with what `f` builds from now on: several nodes, written like a formula. `b.var(v)` is a value of
    /// the graph. Name and type of `old` are kept, what nothing reads any more is removed.
    ///
    /// # Errors
    /// What contradicts the standard or the shapes that are known; the graph then computes what it did.
    pub fn rebuild(
        &mut self,
        old: ValueId,
        f: impl FnOnce(&GraphBuilder) -> onnxd_build::Result<Var>,
    ) -> Rewrite {
        let id = self.only_for(old)?;
        // A pass whose rules build operators of ONNX Runtime imports them.
        let versions = [("", self.opset), ("com.microsoft", 1)];
        let opsets = Opsets::from(versions.map(|(domain, version)| (domain.to_owned(), version)));
        let stale = GraphBuilder::edit(self.graph, &opsets, |b| {
            b.stand_in(id, |b, node| {
                let v = f(b)?;
                let outputs = node.outputs.iter().map(|out| (*out == Some(old)).then_some(v));
                Ok(outputs.collect::<Vec<_>>())
            })
        });
        let stale = stale.map_err(|found| Skip(found.message.trim_end_matches('.').to_owned()))?;
        let reads = stale.reads().collect();
        self.absorbed.add(&stale.layers);
        self.sweep(reads);
        Ok(())
    }

    /// Puts `node` in the place of the nodes `stale`, of whose outputs it computes those that are read otherwise. What
    /// nothing reads any more is removed.
    pub fn exchange(&mut self, stale: &[NodeId], mut node: Node) {
        let gone: Vec<Node> = stale.iter().map(|id| self.graph.remove_node(*id)).collect();
        node.name = gone.first().map(|node| node.name.clone()).unwrap_or_default();
        self.graph.add_node(node);
        let reads = gone.iter().flat_map(Node::reads).collect();
        gone.iter().for_each(|node| self.absorbed.add(&node.layers));
        self.sweep(reads);
    }

    /// Everything that read `old` reads `by` instead, and the node that computed `old` goes. A graph output keeps its
    /// name: then the node that computes `by` computes it.
    pub fn bypass(&mut self, old: ValueId, by: ValueId) -> Rewrite {
        let stale = self.only_for(old)?;
        if !self.graph.is_output(old) {
            self.graph.replace_uses(old, by);
            self.remove(stale);
            return Ok(());
        }
        match self.graph[by].origin() {
            Origin::Node(node, slot) if !self.graph.is_output(by) => {
                self.absorbed.add(&self.graph.remove_node(stale).layers);
                self.lost.push(old);
                self.graph.set_output(node, slot, old);
                self.graph.replace_uses(by, old);
                Ok(())
            }
            _ => Skip::because(format!(
                "the graph output {} would be {} itself",
                self.name(old),
                self.name(by)
            )),
        }
    }

    /// Removes a node, and then every node whose outputs have no reader any more.
    pub fn remove(&mut self, id: NodeId) {
        let node = self.graph.remove_node(id);
        let reads = node.reads().collect();
        self.absorbed.add(&node.layers);
        self.sweep(reads);
    }

    /// Removes the producers of `pending` that are dead, and theirs.
    pub fn sweep(&mut self, mut pending: Vec<ValueId>) {
        while let Some(v) = pending.pop() {
            self.lost.push(v);
            if let Some(producer) = self.graph.producer(v)
                && self.is_dead(producer)
            {
                let node = self.graph.remove_node(producer);
                pending.extend(node.reads());
                self.absorbed.add(&node.layers);
            }
        }
    }

    /// The nodes that go if `id` goes, itself included, while `kept` are read elsewhere.
    pub fn nodes_only_for(&self, id: NodeId, kept: &[ValueId]) -> HashSet<NodeId> {
        let (mut found, mut pending) = (HashSet::new(), vec![id]);
        let mut lost: HashMap<ValueId, usize> = HashMap::new();
        while let Some(id) = pending.pop() {
            found.insert(id);
            for v in self.graph[id].reads() {
                *lost.entry(v).or_default() += 1;
                let Some(producer) = self.graph.producer(v) else { continue };
                let unread = |v: &ValueId| {
                    !kept.contains(v)
                        && self.graph.uses(*v) == lost.get(v).copied().unwrap_or_default()
                };
                if self.graph[producer].outputs.iter().flatten().all(unread) {
                    pending.push(producer);
                }
            }
        }
        found
    }

    fn is_dead(&self, id: NodeId) -> bool {
        self.graph[id].outputs.iter().flatten().all(|v| self.graph.uses(*v) == 0)
    }

    /// Says that the nodes which were added have their layers: as copies of those that went they need no others.
    pub fn layers_are_set(&mut self) {
        self.absorbed = Layers::default();
    }

    /// Gives the nodes that were added the layers of those that went. Returns values that are read less than before.
    pub fn finish(self) -> Vec<ValueId> {
        for id in self.graph.nodes_from(self.first_new) {
            self.graph.node_mut(id).layers.add(&self.absorbed);
        }
        self.lost
    }
}
