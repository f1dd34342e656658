//! The readers of values, in groups of nodes that do the same. They are looked through once for each value, however
//! many there are: while weights are settled, a value loses readers and gets no new ones.

use super::does_same;
use crate::{Graph, NodeId, ValueId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Default)]
pub(super) struct Readers {
    known: HashMap<ValueId, ReaderGroups>,
    /// How often a reader was looked at, for tests.
    pub(super) looks: usize,
}

/// Nodes that do the same are in one group. Groups that take no part of the value come first.
struct ReaderGroups {
    all: Vec<Vec<NodeId>>,
    of: HashMap<NodeId, usize>,
    /// How many at the start take no part of the value.
    whole: usize,
}

impl ReaderGroups {
    fn new(graph: &Graph, value: ValueId, looks: &mut usize) -> ReaderGroups {
        let mut by_word: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut all: Vec<Vec<NodeId>> = vec![];
        for id in graph.readers(value).iter().copied() {
            let places = by_word.entry(word(graph, id)).or_default();
            *looks += 1 + places.len();
            match places.iter().copied().find(|at| does_same(graph, all[*at][0], id)) {
                Some(at) => all[at].push(id),
                None => {
                    places.push(all.len());
                    all.push(vec![id]);
                }
            }
        }
        all.sort_by_key(|group| takes_part(graph, group[0]));
        let whole = all.partition_point(|group| !takes_part(graph, group[0]));
        let nodes =
            all.iter().enumerate().flat_map(|(at, group)| group.iter().map(move |id| (*id, at)));
        ReaderGroups { of: nodes.collect(), all, whole }
    }
}

/// Whether a node reads a part of its first operand alone.
fn takes_part(graph: &Graph, id: NodeId) -> bool {
    matches!(graph[id].op.as_str(), "Slice" | "Split" | "Gather")
}

/// A number that nodes have in common which do the same.
fn word(graph: &Graph, id: NodeId) -> u64 {
    let node = &graph[id];
    let mut hasher = DefaultHasher::new();
    (&node.op, &node.domain, &node.inputs, node.outputs.len(), node.attrs.len()).hash(&mut hasher);
    let attrs = node.attrs.iter().map(|(name, attr)| match attr {
        crate::Attr::Int(x) => word_of((&**name, *x)),
        crate::Attr::Ints(all) => word_of((&**name, all)),
        _ => word_of(&**name),
    });
    // Attributes may be in any order.
    attrs.fold(0u64, u64::wrapping_add).hash(&mut hasher);
    hasher.finish()
}

fn word_of(x: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    x.hash(&mut hasher);
    hasher.finish()
}

impl Readers {
    fn groups_of(&mut self, graph: &Graph, value: ValueId) -> &mut ReaderGroups {
        let looks = &mut self.looks;
        self.known.entry(value).or_insert_with(|| ReaderGroups::new(graph, value, looks))
    }

    /// Whether all that read a value take parts of it as a node does, or do the same as the node.
    pub(super) fn are_alike(&mut self, graph: &Graph, value: ValueId, id: NodeId) -> bool {
        let groups = self.groups_of(graph, value);
        let own = groups.of.get(&id).copied();
        let from = if takes_part(graph, id) { groups.whole } else { groups.all.len() };
        let mut looks = 0;
        let others = groups.all.iter_mut().enumerate().take(from);
        let alike = others.filter(|(at, _)| Some(*at) != own).all(|(_, group)| {
            // Readers that are gone are looked at once.
            while group.last().is_some_and(|id| !reads(graph, *id, value)) {
                group.pop();
                looks += 1;
            }
            looks += 1;
            group.is_empty()
        });
        self.looks += looks;
        alike
    }

    /// The readers of a value that do the same as one of them.
    pub(super) fn same(&mut self, graph: &Graph, value: ValueId, id: NodeId) -> Vec<NodeId> {
        let groups = self.groups_of(graph, value);
        let own = groups.of.get(&id).copied();
        let group = own.map(|at| std::mem::take(&mut groups.all[at])).unwrap_or_default();
        self.looks += group.len();
        group.into_iter().filter(|id| reads(graph, *id, value)).collect()
    }
}

fn reads(graph: &Graph, id: NodeId, value: ValueId) -> bool {
    graph.node(id).is_some_and(|node| node.inputs.contains(&Some(value)))
}
