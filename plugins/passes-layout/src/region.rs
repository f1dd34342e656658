//! Which nodes of a graph work in another layout where the fewest Transposes are left. Of as many, those of elements of
//! 8 bits are cheaper: quantized tensors are transposed as integers, and operators on reals stay next to them.

use crate::agnostic::{Relaid, relaid};
use crate::cut::{Cut, FlowNetwork, SINK, SOURCE, UNBOUNDED};
use crate::order::{AxisOrder, inverse, perm};
use crate::relay::Moved;
use onnxd_plugin_sdk::ir::{Graph, NodeId, ValueId, ValueType};
use onnxd_plugin_sdk::rewrite::{PassContext, Skip};
use std::collections::{BTreeMap, BTreeSet};

/// What a Transpose costs. Elements of more than 8 bits add so little that fewer Transposes are always cheaper, unless
/// there are a thousand of them.
const TRANSPOSE: u32 = 1 << 10;

/// What it costs to transpose `v`.
fn cost(graph: &Graph, v: ValueId) -> u32 {
    let dtype = graph[v].ty.as_ref().and_then(ValueType::dtype);
    TRANSPOSE + u32::from(dtype.is_none_or(|dtype| dtype.bits() > 8))
}

/// The nodes of a graph that may work in another layout, each with its point in the network.
pub(crate) struct Region {
    order: AxisOrder,
    back: AxisOrder,
    members: Members,
    forward: BTreeSet<NodeId>,
}

type Members = BTreeMap<NodeId, (usize, Relaid)>;

impl Region {
    pub(crate) fn find(graph: &Graph, opset: i64, order: AxisOrder, in_turn: bool) -> Region {
        let found = graph.node_ids().into_iter();
        let found = found.filter_map(|id| Some((id, relaid(graph, id, opset, &order)?)));
        let members = found.enumerate().map(|(i, (id, relaid))| (id, (i + 2, relaid))).collect();
        let forward = forward(graph, &order, &members, in_turn);
        Region { back: inverse(&order), order, members, forward }
    }

    /// The members that work in the other layout where Transposes cost least, if that is less than now. What takes too
    /// long to find out is left alone.
    pub(crate) fn cheaper(self, graph: &Graph, cx: &mut PassContext) -> Option<Moved> {
        let mut network = FlowNetwork::new(self.members.len());
        let mut now = 0;
        for v in self.values(graph) {
            let source = self.side_of(graph, v);
            let readers = self.sides_of_readers(graph, v);
            let asks_other =
                |side: &usize| if source == SINK { *side != SINK } else { *side == SINK };
            let cost = cost(graph, v);
            now += if readers.iter().any(asks_other) { cost } else { 0 };
            if source != SINK {
                let given_point = network.add_point();
                network.add_arc(source, given_point, cost);
                let arcs = readers.iter().filter(|side| **side != SOURCE);
                arcs.for_each(|side| network.add_arc(given_point, *side, UNBOUNDED));
            }
            if source != SOURCE {
                let taken = network.add_point();
                network.add_arc(taken, source, cost);
                let arcs = readers.iter().filter(|side| **side != SINK);
                arcs.for_each(|side| network.add_arc(*side, taken, UNBOUNDED));
            }
        }
        let Cut { cost: left, changes, held } = network.cut();
        for (id, _) in self.members.iter().filter(|(_, (point, _))| held.contains(point)) {
            let place = graph[*id].output(0).map(|v| graph[v].name.as_str()).unwrap_or_default();
            cx.skip(place, Skip("the layouts around it take too long to choose".into()));
        }
        let moved = self.members.into_iter().filter(|(_, (point, _))| changes[*point]);
        let nodes = moved.map(|(id, (_, relaid))| (id, relaid)).collect();
        (left < now).then_some(Moved {
            order: self.order,
            back: self.back,
            nodes,
            forward: self.forward,
        })
    }

    /// What members read or compute in a layout.
    fn values(&self, graph: &Graph) -> BTreeSet<ValueId> {
        let mut values = BTreeSet::new();
        for (id, (_, relaid)) in &self.members {
            let node = &graph[*id];
            values.extend(relaid.inputs.iter().filter_map(|i| node.input(*i)));
            values.extend(node.outputs.iter().flatten().filter(|_| relaid.outputs));
        }
        values
    }

    /// Where `v` is computed: by a member, or in one of the layouts. A Transpose is free in the layout of its input.
    fn side_of(&self, graph: &Graph, v: ValueId) -> usize {
        let Some(id) = graph.producer(v) else { return SOURCE };
        match self.members.get(&id) {
            Some((point, _)) => *point,
            None if self.forward.contains(&id) => SINK,
            None => SOURCE,
        }
    }

    /// In which layouts `v` is read. A Transpose that is not one between the two can read any of them.
    fn sides_of_readers(&self, graph: &Graph, v: ValueId) -> BTreeSet<usize> {
        let mut sides: BTreeSet<usize> = BTreeSet::new();
        sides.extend(graph.is_output(v).then_some(SOURCE));
        for id in graph.readers(v) {
            match (self.members.get(id), perm(graph, &graph[*id])) {
                (Some((point, _)), _) => sides.extend([*point]),
                (None, Some(_)) if self.forward.contains(id) => sides.extend([SOURCE]),
                (None, Some(perm)) => sides.extend((perm == self.back).then_some(SINK)),
                (None, None) => sides.extend([SOURCE]),
            }
        }
        sides
    }
}

/// The Transposes that take values from the other layout to the one that members have now. The others with `order` take
/// values back. Where one swaps the same axes as the next, it may be either: `in_turn` tries both kinds in turn, else
/// those that read what a member computes take it back.
fn forward(graph: &Graph, order: &AxisOrder, members: &Members, in_turn: bool) -> BTreeSet<NodeId> {
    let swaps = *order == inverse(order);
    let is_member = |id: &NodeId| members.contains_key(id);
    let mut forward = BTreeSet::new();
    // Values behind one such Transpose, not behind two.
    let mut behind: BTreeSet<ValueId> = BTreeSet::new();
    for id in graph.topological().unwrap_or_default() {
        let node = &graph[id];
        let turns = perm(graph, node).as_ref() == Some(order);
        let mut inputs = node.inputs.iter().flatten();
        let is_back = swaps
            && match in_turn {
                true => {
                    let read = |v: &ValueId| graph.readers(*v).iter().any(is_member);
                    let ends = turns && !node.outputs.iter().flatten().any(read);
                    ends || inputs.any(|v| behind.contains(v))
                }
                false => inputs.any(|v| graph.producer(*v).is_some_and(|id| is_member(&id))),
            };
        if turns && !is_back {
            forward.insert(id);
        }
        if swaps && (turns && !is_back || is_member(&id) && is_back) {
            behind.extend(node.outputs.iter().flatten());
        }
    }
    forward
}
