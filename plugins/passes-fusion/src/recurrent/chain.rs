//! Steps that follow each other, with the same weights.

use super::affine::TermSource;
use super::cell::CellStep;
use super::operator::ChainWeights;
use crate::parts::{axis_of, unlike};
use onnxd_plugin_sdk::ir::{Dim, Facts, Graph, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::collections::{HashMap, HashSet};

/// ONNX Runtime takes as long for an operator with fewer steps as for their nodes.
const STEPS_MIN: usize = 2;
/// Zeros that were not there before have at most so many bytes: as many as folding may add.
const ZEROS_BYTES_MAX: usize = 64 << 10;

/// Steps that hand on their states.
pub(crate) struct Chain {
    pub(crate) weights: ChainWeights,
    pub(crate) xs: Vec<TermSource>,
    pub(crate) hidden_before: ValueId,
    pub(crate) memory_before: Option<ValueId>,
    /// The hidden state after each step.
    pub(crate) hidden: Vec<ValueId>,
    pub(crate) memory: Option<ValueId>,
    pub(crate) nodes: HashSet<NodeId>,
    pub(crate) stack: Option<Stack>,
}

/// All hidden states along a new axis.
pub(crate) struct Stack {
    pub(crate) out: ValueId,
    pub(crate) axis: usize,
    pub(crate) nodes: Vec<NodeId>,
}

/// The places of the cells of each chain, in order, and which of the terms is the hidden state.
pub(crate) fn linked(graph: &Graph, cells: &[CellStep]) -> Vec<Vec<(usize, usize)>> {
    let made: HashMap<ValueId, usize> =
        cells.iter().enumerate().map(|(i, cell)| (cell.hidden, i)).collect();
    let mut roles: Vec<Option<usize>> = cells
        .iter()
        .map(|cell| {
            let before = TermSource::Value(cell.hidden_before?);
            cell.terms.iter().position(|term| term.source == before)
        })
        .collect();
    let mut before: Vec<Option<usize>> = vec![None; cells.len()];
    let mut has_next = vec![false; cells.len()];
    for (i, cell) in cells.iter().enumerate() {
        let found = cell.terms.iter().enumerate().find_map(|(role, term)| {
            let TermSource::Value(v) = term.source else { return None };
            let earlier = *made.get(&v).filter(|earlier| !has_next[**earlier])?;
            let its_role = follows(graph, &cells[earlier], cell, role)?;
            let fits = |known_role: Option<usize>, role| {
                known_role.is_none_or(|known_role| known_role == role)
            };
            (fits(roles[i], role) && fits(roles[earlier], its_role))
                .then_some((role, earlier, its_role))
        });
        if let Some((role, earlier, its_role)) = found {
            (roles[i], roles[earlier]) = (Some(role), Some(its_role));
            (before[i], has_next[earlier]) = (Some(earlier), true);
        }
    }
    let mut chains: Vec<Vec<(usize, usize)>> = vec![];
    for last in (0..cells.len()).filter(|i| !has_next[*i]) {
        let steps = std::iter::successors(Some(last), |i| before[*i]);
        let mut chain: Vec<_> = steps.map(|i| (i, roles[i].unwrap_or(0))).collect();
        chain.reverse();
        chains.push(chain);
    }
    chains
}

/// Which term of `earlier` is its hidden state, if `later` goes on with it: its own is `role`.
fn follows(graph: &Graph, earlier: &CellStep, later: &CellStep, role: usize) -> Option<usize> {
    let its_role = (0..2).find(|its| {
        let weights = |cell: &CellStep, term: usize| cell.terms[term].weights.clone();
        weights(earlier, *its) == weights(later, role)
            && weights(earlier, 1 - its) == weights(later, 1 - role)
    })?;
    let alike = earlier.kind == later.kind
        && earlier.activations == later.activations
        && earlier.biases == later.biases;
    let handed_on = match (earlier.memory, later.memory) {
        (Some([_, after]), Some([before, _])) => {
            let inner = |id: &NodeId| earlier.nodes.contains(id) || later.nodes.contains(id);
            after == before && !graph.is_output(after) && graph.readers(after).iter().all(inner)
        }
        (before, after) => before.is_none() && after.is_none(),
    };
    (alike && handed_on).then_some(its_role)
}

impl Chain {
    /// The chain of these steps.
    pub(crate) fn from_cells(
        cx: &Rewriter,
        facts: &Facts,
        cells: &[CellStep],
        steps: &[(usize, usize)],
    ) -> Result<Chain, Skip> {
        if steps.len() < STEPS_MIN {
            return Skip::because("a single step is not faster as one operator");
        }
        let (first, role) = (&cells[steps[0].0], steps[0].1);
        let last = &cells[steps[steps.len() - 1].0];
        let TermSource::Value(hidden_before) = first.terms[role].source else {
            return Skip::unlike();
        };
        let hidden_states: Vec<ValueId> = steps.iter().map(|(i, _)| cells[*i].hidden).collect();
        let chain = Chain {
            weights: ChainWeights::of(first, role),
            xs: steps.iter().map(|(i, role)| cells[*i].terms[1 - role].source).collect(),
            hidden_before,
            memory_before: first.memory.map(|[before, _]| before),
            stack: stack(cx, &hidden_states),
            hidden: hidden_states,
            memory: last.memory.map(|[_, after]| after),
            nodes: steps.iter().flat_map(|(i, _)| cells[*i].nodes.iter().copied()).collect(),
        };
        chain.sizes_agree(facts)?;
        chain.is_closed(cx)?;
        if first.terms[role].weights.iter().any(|weight| !weight.is_square()) {
            return Skip::unlike();
        }
        if chain.weights.bias_len() * 4 > ZEROS_BYTES_MAX {
            return Skip::because("the biases that it would need are too large");
        }
        Ok(chain)
    }

    /// Demands matrices with as many rows for all that is read, none of which is repeated.
    fn sizes_agree(&self, facts: &Facts) -> Rewrite {
        let dims_of = |v: ValueId| facts.shape(v).map(<[Dim]>::to_vec).ok_or_else(unlike);
        let rows = dims_of(self.hidden[0])?[0].clone();
        let width = Dim::from(self.weights.width as i64);
        let states = [Some(self.hidden_before), self.memory_before];
        let mut fits = true;
        for v in states.into_iter().flatten() {
            let shape = dims_of(v)?;
            fits &= shape.len() == 2 && shape[0].same(&rows) && shape[1].same(&width);
        }
        for x in &self.xs {
            let shape = match x {
                TermSource::Value(v) => dims_of(*v)?,
                TermSource::Step(step) => {
                    let mut shape = dims_of(step.data)?;
                    shape.remove(step.axis);
                    shape
                }
            };
            fits &= shape.len() == 2 && shape[0].same(&rows);
        }
        match fits {
            true => Ok(()),
            false => Skip::because("inputs and states are not known to be of the same batch"),
        }
    }

    /// Demands that only the steps read what is between them.
    fn is_closed(&self, cx: &Rewriter) -> Rewrite {
        let given: HashSet<ValueId> = self.hidden.iter().copied().chain(self.memory).collect();
        for id in &self.nodes {
            for v in cx.graph[*id].outputs.iter().flatten().filter(|v| !given.contains(v)) {
                let read = |id: &NodeId| !self.nodes.contains(id);
                if cx.graph.is_output(*v) || cx.graph.readers(*v).iter().any(read) {
                    return Skip::because(format!("{} is read elsewhere, too", cx.name(*v)));
                }
            }
        }
        Ok(())
    }

    /// Whether what is read at any step comes from another one. `place` is that of each node in a topological order.
    pub(crate) fn depends_on_itself(&self, graph: &Graph, place: &HashMap<NodeId, usize>) -> bool {
        let first = self.nodes.iter().filter_map(|id| place.get(id)).min().copied();
        let xs = self.xs.iter().map(|x| match x {
            TermSource::Value(v) => *v,
            TermSource::Step(step) => step.data,
        });
        let mut pending: Vec<ValueId> =
            xs.chain([self.hidden_before]).chain(self.memory_before).collect();
        let mut seen = HashSet::new();
        while let Some(v) = pending.pop() {
            let Some(id) = graph.producer(v) else { continue };
            if self.nodes.contains(&id) {
                return true;
            }
            if place.get(&id).copied() > first && seen.insert(id) {
                pending.extend(graph[id].reads());
            }
        }
        false
    }

    /// Whether a node outside of `nodes` reads the matrices.
    pub(crate) fn shares_weights(&self, graph: &Graph, nodes: &HashSet<NodeId>) -> bool {
        let read = |v| graph.is_output(v) || graph.readers(v).iter().any(|id| !nodes.contains(id));
        self.weights.matrices().any(|weight| read(weight.value))
    }

    /// Whether anything but the steps and the stack reads `v`.
    pub(crate) fn is_wanted(&self, graph: &Graph, v: ValueId) -> bool {
        let stacked = |id: &NodeId| self.stack.as_ref().is_some_and(|s| s.nodes.contains(id));
        let inner = |id: &NodeId| self.nodes.contains(id) || stacked(id);
        graph.is_output(v) || !graph.readers(v).iter().all(inner)
    }
}

/// The Concat of all hidden states along a new axis, which is one of the first two.
fn stack(cx: &Rewriter, hidden: &[ValueId]) -> Option<Stack> {
    let graph = &*cx.graph;
    let raised = |id: NodeId| {
        let node = &graph[id];
        let axes = cx.integers_of(id, "axes", 1).ok()??;
        let &[axis] = &axes[..] else { return None };
        axis_of(axis, 3).filter(|axis| node.is("Unsqueeze") && *axis < 2)
    };
    graph.readers(*hidden.first()?).iter().find_map(|reader| {
        let axis = raised(*reader)?;
        let &[concat] = graph.readers(graph[*reader].output(0)?) else { return None };
        let node = &graph[concat];
        let along = axis_of(node.int("axis", 0), 3) == Some(axis);
        if !node.is("Concat") || !along || node.inputs.len() != hidden.len() {
            return None;
        }
        let mut nodes = vec![];
        for (v, state) in node.inputs.iter().zip(hidden) {
            let id = graph.producer((*v)?)?;
            let alone = graph.uses((*v)?) == 1 && graph[id].input(0) == Some(*state);
            if !alone || raised(id) != Some(axis) {
                return None;
            }
            nodes.push(id);
        }
        nodes.push(concat);
        Some(Stack { out: node.output(0)?, axis, nodes })
    })
}
