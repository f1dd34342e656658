//! What inference knows of values besides their types, for passes that simplify shape arithmetic.

use super::body::GraphKnowledge;
use super::site::KnownElements;
use crate::id_map::IdMap;
use crate::{Dim, Graph, NodeId, Shape, ValueId};

/// What is known of the values of one graph. It stays true while passes change other values.
///
/// A size is a [`Dim::Symbol`] if it depends on the sizes of inputs or on data. Two sizes that are
/// [`Dim::same`] are equal in every run. The symbols have a form that only inference understands.
#[derive(Debug, Default)]
pub struct Facts {
    elements: KnownElements,
    /// By the index of the value.
    shapes: Vec<Option<Shape>>,
    inner: IdMap<NodeId, Vec<Facts>>,
}

impl Facts {
    /// The elements of `v`, if it is a small tensor of whole numbers of rank 0 or 1: whether it is a
    /// scalar, and the elements as far as known. They were followed through the graph, no kernel ran.
    pub fn elements(&self, v: ValueId) -> Option<(bool, &[Dim])> {
        self.elements.get(&v).map(|data| (data.scalar, &data.items[..]))
    }

    /// The sizes of `v`, if its rank is known.
    pub fn shape(&self, v: ValueId) -> Option<&[Dim]> {
        self.shapes.get(v.index())?.as_deref()
    }

    /// What is known of the sub-graphs of a node, in the order of [`crate::Node::subgraphs`].
    pub fn inside(&self, node: NodeId) -> &[Facts] {
        self.inner.get(&node).map_or(&[], Vec::as_slice)
    }
}

impl GraphKnowledge {
    /// Before sizes get names for readers.
    pub(super) fn facts(&mut self, g: &Graph) -> Facts {
        let shape = |v: ValueId| Some(g[v].shape()?.to_vec());
        Facts {
            elements: self.known.clone(),
            shapes: g.value_ids().map(shape).collect(),
            inner: std::mem::take(&mut self.inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dim, Model, infer_facts, text};

    #[test]
    fn elements_and_shapes_in_all_graphs() {
        let graph = text::parse_graph(
            "g (float[N,4] x, bool b) => (float[?,?] y)
             <int64[1] zero = {0}, int64[1] four = {4}>
             {
               s = Shape(x)
               n = Gather(s, zero)
               to = Concat<axis = 0>(four, n)
               y = If (b) <
                 then_branch = t () => (float[?,?] p) { p = Reshape(x, to) },
                 else_branch = e () => (float[?,?] q) { i = Shape(x) q = Reshape(x, i) }
               >
             }",
        );
        let mut model = Model::new(graph.unwrap(), 8, 17);
        let (facts, findings) = infer_facts(&mut model);
        assert!(findings.0.is_empty(), "{findings}");
        let g = &model.graph;
        let value = |name: &str| g.value_named(name).unwrap();
        let shape = facts.shape(value("x")).unwrap();
        let (scalar, to) = facts.elements(value("to")).unwrap();
        assert!(!scalar && to[0] == Dim::Known(4) && to[1].same(&shape[0]));
        let node = g.producer(value("y")).unwrap();
        let inner: Vec<_> = g[node].subgraphs().zip(facts.inside(node)).collect();
        let (e, of_e) = inner[1];
        let (_, i) = of_e.elements(e.value_named("i").unwrap()).unwrap();
        assert!(i[0].same(&shape[0]) && i[1] == Dim::Known(4));
        assert!(of_e.shape(e.value_named("q").unwrap()).unwrap()[0].same(&shape[0]));
        // Readers see the names that the model declares.
        assert_eq!(g[value("x")].ty.as_ref().unwrap().to_string(), "float[N,4]");
    }

    /// The exporter saw a batch of 1; runtimes warn, and compute on.
    #[test]
    fn what_an_output_declares_is_no_fact() {
        let graph = text::parse_graph(
            "g (float[N,4] x) => (float[1,4] y, float[1,4] z) { y = Neg(x) z = Neg(y) }",
        );
        let mut model = Model::new(graph.unwrap(), 8, 17);
        let (facts, _) = infer_facts(&mut model);
        let g = &model.graph;
        let size = |name: &str| facts.shape(g.value_named(name).unwrap()).unwrap()[0].clone();
        assert!(size("z").same(&size("x")) && size("z").known().is_none());
        let declared =
            |name: &str| g[g.value_named(name).unwrap()].ty.as_ref().unwrap().to_string();
        assert_eq!(["y", "z"].map(declared), ["float[1,4]"; 2]);
    }
}
