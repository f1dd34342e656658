//! Order of evaluation.

use crate::{Graph, NodeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Graph {
    /// The nodes so that each comes after those it reads; ties keep the order of insertion.
    ///
    /// # Errors
    /// The nodes that lie on a cycle or behind one.
    pub fn topological(&self) -> Result<Vec<NodeId>, Vec<NodeId>> {
        if self.is_sorted() {
            return Ok(self.node_ids());
        }
        let mut missing = vec![0usize; self.node_bound()];
        let mut ready = BinaryHeap::new();
        for (id, node) in self.nodes() {
            missing[id.index()] = node.reads().filter(|v| self.producer(*v).is_some()).count();
            if missing[id.index()] == 0 {
                ready.push(Reverse(id));
            }
        }
        let mut order = Vec::with_capacity(self.node_count());
        while let Some(Reverse(id)) = ready.pop() {
            order.push(id);
            for output in self[id].outputs.iter().flatten() {
                for reader in self.readers(*output) {
                    missing[reader.index()] -= 1;
                    if missing[reader.index()] == 0 {
                        ready.push(Reverse(*reader));
                    }
                }
            }
        }
        if order.len() == self.node_count() {
            return Ok(order);
        }
        Err(self.node_ids().into_iter().filter(|id| missing[id.index()] > 0).collect())
    }

    /// Whether the order of insertion is one of evaluation, as it mostly is: finding that out is
    /// much faster than sorting.
    fn is_sorted(&self) -> bool {
        let before = |v, id| self.producer(v).is_none_or(|producer| producer < id);
        self.nodes().all(|(id, node)| node.reads().all(|v| before(v, id)))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Op, Relu};
    use crate::{Graph, Node};

    #[test]
    fn order_follows_the_edges_then_insertion() {
        let mut g = Graph::new("g");
        let x = g.add_input("x", None);
        let middle = g.add_value("middle", None);
        let [y, z] = ["y", "z"].map(|n| g.add_value(n, None));
        let last = g.add_node(Relu::new(middle).into_node(y));
        let first = g.add_node(Node::new("Relu", [x], [middle]));
        let other = g.add_node(Relu::new(x).into_node(z));
        assert_eq!(g.topological(), Ok(vec![first, last, other]));
    }

    #[test]
    fn a_cycle_is_named() {
        let mut g = Graph::new("g");
        let a = g.add_value("a", None);
        let b = g.add_value("b", None);
        let first = g.add_node(Node::new("Relu", [a], [b]));
        let second = g.add_node(Node::new("Relu", [b], [a]));
        assert_eq!(g.topological(), Err(vec![first, second]));
    }
}
