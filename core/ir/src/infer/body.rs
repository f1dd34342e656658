//! Graphs inside others: sub-graphs of nodes, and bodies of local functions where they are applied.

use super::merge::{restore, types as merged};
use super::site::{Data, KnownElements, data_of};
use super::{Facts, Inference, Types, control};
use crate::id_map::IdMap;
use crate::text::NESTING_MAX;
use crate::{Dim, Function, Graph, Node, NodeId, ValueId, ValueType};
use std::borrow::Cow;

/// How often all nodes may be looked at again, because functions are applied several times and what
/// holds in loops takes several tries.
const REPEATS_MAX: usize = 32;

/// Nested loops from here on are looked at once, with nothing known of what they carry.
const LOOPS_MAX: usize = 3;

/// Nodes of the model, sub-graphs included, times the repeats.
pub(super) fn nodes_max(graph: &Graph, functions: &[Function]) -> usize {
    let all = functions.iter().map(|f| count(&f.graph)).sum::<usize>() + count(graph);
    all.saturating_mul(REPEATS_MAX)
}

fn count(graph: &Graph) -> usize {
    let (mut pending, mut total) = (vec![graph], 0);
    while let Some(graph) = pending.pop() {
        total += graph.node_count();
        pending.extend(graph.nodes().flat_map(|(_, n)| n.subgraphs()));
    }
    total
}

/// As [`nodes_max`], for the graphs that one node holds or applies.
pub(super) fn nodes_max_of<'g>(inner: impl Iterator<Item = &'g Graph>) -> usize {
    inner.map(count).sum::<usize>().saturating_mul(REPEATS_MAX)
}

/// What is known about a graph besides the types of its values: the elements of small integer
/// tensors, and the names of sizes as they were declared.
#[derive(Default)]
pub struct GraphKnowledge {
    pub(super) known: KnownElements,
    /// Graphs around this one.
    pub(super) depth: usize,
    /// Types as declared, where they name sizes.
    declared: IdMap<ValueId, ValueType>,
    /// Types that graph outputs declare, where facts are wanted. Exporters are known to write the
    /// sizes of one run there, and runtimes go on: a fact must not rest on them.
    pub(super) claimed: IdMap<ValueId, ValueType>,
    /// The sub-graphs of nodes.
    pub(super) inner: IdMap<NodeId, Vec<Facts>>,
}

impl GraphKnowledge {
    pub(super) fn from_graph(g: &Graph, known: KnownElements, depth: usize) -> GraphKnowledge {
        let named = |ty: &ValueType| {
            ty.shape().is_some_and(|s| s.iter().any(|d| matches!(d, Dim::Symbol(_))))
        };
        let types = g.value_ids().filter_map(|v| Some((v, g[v].ty.as_ref().filter(|t| named(t))?)));
        let declared = types.map(|(v, ty)| (v, ty.clone())).collect();
        GraphKnowledge {
            known,
            depth,
            declared,
            claimed: IdMap::default(),
            inner: IdMap::default(),
        }
    }

    /// The elements of `v`, if it is a small tensor of rank 0 or 1 whose elements are all known:
    /// whether it is a scalar, and the elements. They were followed through the graph, no kernel ran.
    pub fn elements(&self, v: ValueId) -> Option<(bool, Vec<i64>)> {
        let data = self.known.get(&v)?;
        Some((data.scalar, data.items.iter().map(Dim::known).collect::<Option<_>>()?))
    }

    /// Gives computed sizes of all values of `g` names for readers.
    pub fn restore(&self, g: &mut Graph) {
        self.restore_values(g, g.value_ids());
    }

    /// As [`GraphKnowledge::restore`], for some values of `g`.
    pub fn restore_values(&self, g: &mut Graph, values: impl Iterator<Item = ValueId>) {
        for v in values {
            if let Some(ty) = &mut g[v].ty {
                if let Some(claimed) = self.claimed.get(&v) {
                    *ty = merged(Some(claimed), ty, true).unwrap_or_else(|| claimed.clone());
                }
                restore(ty, self.declared.get(&v));
            }
        }
    }
}

/// Restores the sub-graphs of a node.
pub(super) fn restore_all(g: &mut Graph, id: NodeId, scopes: &[GraphKnowledge]) {
    if scopes.is_empty() {
        return;
    }
    let inner = g.node_mut(id).attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut());
    inner.zip(scopes).for_each(|(inner, scope)| scope.restore(inner));
}

/// Declares what was found about a function.
pub(super) fn write_back(g: &mut Graph, types: Types) {
    for (v, ty) in g.value_ids().zip(types) {
        if let Some(mut ty) = ty {
            restore(&mut ty, g[v].ty.as_ref());
            g[v].ty = Some(ty);
        }
    }
}

impl Inference<'_> {
    /// Types what the sub-graphs of a node see, then what they compute.
    pub(super) fn subgraphs(
        &mut self,
        g: &mut Graph,
        id: NodeId,
        known_elements: &KnownElements,
        depth: usize,
    ) -> Vec<GraphKnowledge> {
        if depth >= NESTING_MAX || g[id].subgraphs().next().is_none() {
            return vec![];
        }
        let opset = self.opset("").unwrap_or(0);
        let inputs = control::body_inputs(g, &g[id], opset);
        let condition = g[id].input(0).and_then(|v| known_elements.get(&v));
        let dead = control::dead_branch(condition).filter(|_| g[id].is("If"));
        let is_loop = g[id].is("Loop");
        // Only types inside change, so the edges that the graph records stay right.
        let mut attrs = std::mem::take(&mut g.node_mut(id).attrs);
        let mut scopes = vec![];
        for (name, attr) in &mut attrs {
            let before = self.findings.count();
            for inner in attr.graphs_mut() {
                scopes.push(match is_loop {
                    true => self.repeated(g, inner, inputs.clone(), known_elements, depth),
                    false => self.inside(g, inner, &inputs, known_elements, depth),
                });
            }
            if dead == Some(name.as_str()) {
                self.findings.truncate(before);
            }
        }
        g.node_mut(id).attrs = attrs;
        scopes
    }

    fn inside(
        &mut self,
        outer: &Graph,
        inner: &mut Graph,
        inputs: &[Option<ValueType>],
        known: &KnownElements,
        depth: usize,
    ) -> GraphKnowledge {
        let mut inner_known = KnownElements::default();
        for (own, captured) in inner.captures().collect::<Vec<_>>() {
            inner[own].ty = outer[captured].ty.clone();
            let data = known.get(&captured).cloned();
            let data = data.or_else(|| data_of(outer.constant(captured)?));
            inner_known.extend(data.map(|d| (own, d)));
        }
        for (v, ty) in inner.inputs().to_vec().into_iter().zip(inputs) {
            if let Some(ty) = ty {
                let declared = inner[v].ty.take();
                // A contradiction shows where the value is used.
                inner[v].ty = merged(declared.as_ref(), ty, false).or(declared);
            }
        }
        self.graph(inner, inner_known, depth + 1)
    }

    /// The body of a Loop: what holds for what goes in must hold for what comes out.
    fn repeated(
        &mut self,
        outer: &Graph,
        inner: &mut Graph,
        mut inputs: Types,
        known_elements: &KnownElements,
        depth: usize,
    ) -> GraphKnowledge {
        let since = self.fresh;
        let (original, size, before) = (inner.clone(), count(inner), self.findings.count());
        for _ in 0..2 {
            if depth >= LOOPS_MAX || size > self.nodes_left {
                break;
            }
            self.nodes_left -= size;
            let scope = self.inside(outer, inner, &inputs, known_elements, depth);
            let weaker = control::carried(inner, &inputs, since);
            if weaker == inputs {
                return scope;
            }
            inputs = weaker;
            inner.clone_from(&original);
            self.findings.truncate(before);
        }
        let carried = inputs.iter_mut().skip(control::CARRIED).flatten();
        carried.for_each(|ty| *ty = control::unshaped(ty));
        self.inside(outer, inner, &inputs, known_elements, depth)
    }

    /// Types and elements of the outputs of a node that applies function `f`.
    pub(super) fn application(
        &mut self,
        g: &Graph,
        node: &Node,
        f: usize,
        known: &KnownElements,
        depth: usize,
    ) -> (Types, Vec<Option<Data>>) {
        let function = &self.functions[f];
        let size = count(&function.graph);
        if depth >= NESTING_MAX || size > self.nodes_left {
            return (vec![], vec![]);
        }
        self.nodes_left -= size;
        let mut body = function.body_for(node);
        let mut body_known = KnownElements::default();
        let mut constants = Vec::new();
        for (i, own) in function.graph.inputs().iter().enumerate() {
            let Some(input) = node.input(i) else { continue };
            body[*own].ty = g[input].ty.clone();
            body_known.extend(known.get(&input).map(|data| (*own, data.clone())));
            if let Some(tensor) = g.constant(input) {
                constants.push(*own);
                body.set_initializer(*own, Some(tensor.clone()));
            }
        }
        body.unmark_inputs(&constants);
        let opsets = std::mem::replace(&mut self.opsets, Cow::Borrowed(&function.opsets));
        let scope = self.graph(&mut body, body_known, depth + 1);
        self.opsets = opsets;
        self.remember(f, &body);
        let outputs = body.outputs();
        let types = outputs.iter().map(|v| body[*v].ty.clone()).collect();
        (types, outputs.iter().map(|v| scope.known.get(v).cloned()).collect())
    }

    /// Keeps what all applications have in common.
    fn remember(&mut self, f: usize, body: &Graph) {
        let types = body.value_ids().map(|v| body[v].ty.clone());
        let common = match self.bodies[f].take() {
            Some(so_far) => so_far.into_iter().zip(types).map(|(a, b)| a?.either(&b?)).collect(),
            None => types.collect(),
        };
        self.bodies[f] = Some(common);
    }
}
