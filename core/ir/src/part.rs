//! A graph cut out of another one.

use crate::{Graph, Node, ValueId};
use std::collections::{BTreeMap, BTreeSet};

impl Graph {
    /// The nodes that `outputs` depend on, as a graph of its own. Values that are a `leaf` become its inputs, and
    /// nothing that only they depend on is in it; so do inputs of this graph that are reached. Values keep their names
    /// and types, and constants their data. The outputs stand in the order of `outputs`.
    ///
    /// A leaf may be listed in `outputs` as well; it is then computed, and nodes that read it read the input, which has
    /// a name of its own. See [`GraphPart::inputs`].
    #[must_use]
    pub fn part(&self, leaf: &dyn Fn(ValueId) -> bool, outputs: &[ValueId]) -> GraphPart {
        self.part_within(leaf, outputs, &mut { usize::MAX }).expect("there is no bound")
    }

    /// As [`Graph::part`], unless it has more nodes and edges than `left`, from which those that were looked at are
    /// taken: many parts together may be far larger than the graph.
    #[must_use]
    pub fn part_within(
        &self,
        leaf: &dyn Fn(ValueId) -> bool,
        outputs: &[ValueId],
        left: &mut usize,
    ) -> Option<GraphPart> {
        let nodes = self.needed(leaf, outputs, left)?;
        let mut part = GraphPart { graph: Graph::new(self.name.clone()), inputs: BTreeMap::new() };
        let mut made: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for id in &nodes {
            for v in self[*id].outputs.iter().flatten() {
                let own = part.graph.add_value(&self[*v].name, self[*v].ty.clone());
                made.insert(*v, own);
            }
        }
        let mut read = BTreeMap::new();
        for id in &nodes {
            for v in self[*id].reads() {
                let own = match made.get(&v) {
                    Some(own) if !leaf(v) => *own,
                    _ => self.source(v, &mut part),
                };
                read.insert(v, own);
            }
        }
        for id in nodes {
            let mut node: Node = self[id].clone();
            let inputs = node.inputs.iter_mut().flatten();
            inputs.for_each(|v| *v = read[v]);
            node.outputs.iter_mut().flatten().for_each(|v| *v = made[v]);
            let inner = node.attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut());
            inner.for_each(|graph| graph.recapture(|outer| read[&outer]));
            part.graph.add_node(node);
        }
        for v in outputs {
            let own = made.get(v).copied().unwrap_or_else(|| self.source(*v, &mut part));
            part.graph.mark_output(own);
        }
        Some(part)
    }

    /// What a part reads and does not compute: one input, or one constant.
    fn source(&self, v: ValueId, part: &mut GraphPart) -> ValueId {
        if let Some(own) = part.inputs.get(&v) {
            return *own;
        }
        let own = match (self.constant(v), self.sparse.get(&v)) {
            (Some(data), _) => part.graph.add_initializer(&self[v].name, data.clone()),
            (None, Some(sparse)) => {
                let own = part.graph.add_value(&self[v].name, self[v].ty.clone());
                part.graph.sparse.insert(own, sparse.clone());
                own
            }
            _ => part.graph.add_input(&self[v].name, self[v].ty.clone()),
        };
        part.inputs.insert(v, own);
        own
    }

    /// The nodes that `outputs` depend on, those that only leaves depend on aside, in the order of insertion.
    fn needed(
        &self,
        leaf: &dyn Fn(ValueId) -> bool,
        outputs: &[ValueId],
        left: &mut usize,
    ) -> Option<BTreeSet<crate::NodeId>> {
        let mut nodes = BTreeSet::new();
        let mut pending: Vec<_> = outputs.iter().filter_map(|v| self.producer(*v)).collect();
        while let Some(id) = pending.pop() {
            if nodes.insert(id) {
                let node = &self[id];
                let inside = node.subgraphs().map(|graph| graph.value_ids().len()).sum::<usize>();
                let edges = 1 + node.inputs.len() + node.outputs.len() + inside;
                let rest = left.checked_sub(edges);
                *left = rest.unwrap_or(0);
                rest?;
                let inner = node.reads().filter(|v| !leaf(*v));
                pending.extend(inner.filter_map(|v| self.producer(v)));
            }
        }
        Some(nodes)
    }
}

/// What [`Graph::part`] gives.
#[derive(Clone, Debug)]
pub struct GraphPart {
    /// The nodes, as a graph.
    pub graph: Graph,
    /// What it reads and does not compute: the value in the whole graph, and in this one, where it is an input or a
    /// constant.
    pub inputs: BTreeMap<ValueId, ValueId>,
}

#[cfg(test)]
mod tests {
    use crate::text::{parse_graph, print_graph};

    const WHOLE: &str = "g (float[2] x, bool c) => (float[2] y, float[2] z)
        <float[2] w = {1.0, 2.0}> {
            a = Relu(x)
            b = Add(a, w)
            y = If(c) <then_branch = t () => (float[2] p) { p = Neg(b) },
                else_branch = e () => (float[2] q) { q = Abs(w) }>
            z = Exp(y)
        }";

    fn part(leaves: &[&str], outputs: &[&str]) -> String {
        let g = parse_graph(WHOLE).unwrap();
        let outputs: Vec<_> = outputs.iter().map(|n| g.value_named(n).unwrap()).collect();
        print_graph(&g.part(&|v| leaves.contains(&g[v].name.as_str()), &outputs).graph)
    }

    #[test]
    fn a_part_has_what_its_outputs_need() {
        let text = part(&["a"], &["b"]);
        assert!(text.contains("g (a) => (b)") && !text.contains("Relu"), "{text}");
        assert!(text.contains("b = Add(a, w)") && !text.contains("If"), "{text}");
    }

    #[test]
    fn sub_graphs_read_the_leaves() {
        let text = part(&["b"], &["y", "b"]);
        // `b` is computed and, under another name, an input.
        assert!(text.contains("b = Add(a, w)") && text.contains("Neg(b_1)"), "{text}");
        assert!(text.contains("Abs(w)") && !text.contains("Exp"), "{text}");
    }

    #[test]
    fn a_part_that_is_too_large_is_not_made() {
        let g = parse_graph(WHOLE).unwrap();
        let b = g.value_named("b").unwrap();
        // Two nodes, three inputs, two outputs.
        for (left, made, rest) in [(7, true, 0), (9, true, 2), (6, false, 0), (0, false, 0)] {
            let mut left = left;
            assert_eq!(g.part_within(&|_| false, &[b], &mut left).is_some(), made);
            assert_eq!(left, rest);
        }
    }

    #[test]
    fn inputs_and_constants_may_be_outputs() {
        let text = part(&[], &["w", "c"]);
        assert!(text.contains("g (bool c) => ") && !text.contains("Relu"), "{text}");
    }
}
