use super::*;
use crate::ops::{Add, Relu};

fn chain() -> (Graph, ValueId, ValueId, ValueId) {
    let mut g = Graph::new("g");
    let x = g.add_input("x", None);
    let a = g.add("a", Relu::new(x));
    let y = g.add("y", Add::new(a, a));
    g.mark_output(y);
    (g, x, a, y)
}

#[test]
fn uses_count_every_read_and_output() {
    let (g, x, a, y) = chain();
    assert_eq!([g.uses(x), g.uses(a), g.uses(y)], [1, 2, 1]);
}

#[test]
fn outputs_are_counted_wherever_they_change() {
    let (mut g, x, mid, y) = chain();
    g.mark_output(y);
    assert_eq!((g.uses(y), g.is_output(y), g.is_output(mid)), (2, true, false));
    g.replace_uses(y, mid);
    assert_eq!((g.uses(y), g.is_output(y), g.outputs()), (0, false, &[mid, mid][..]));
    g.set_outputs(vec![x]);
    assert!(g.is_output(x) && !g.is_output(mid));
}

#[test]
fn a_value_is_captured_once_also_after_it_was_replaced() {
    let (mut g, x, a, y) = chain();
    let mut inner = Graph::new("inner");
    let seen = [inner.capture(x, "x", None), inner.capture(a, "a", None)];
    assert_eq!(inner.capture(x, "again", None), seen[0]);
    let out = g.add_value("out", None);
    g.add_node(Node::new("If", [x], [out]).with("then_branch", Attr::Graph(Box::new(inner))));
    assert_eq!((g.uses(x), g.uses(a)), (3, 3));
    g.replace_uses(a, y);
    let reader = g.producer(out).unwrap();
    g.edit_subgraphs(reader, |inner| {
        assert_eq!(inner.captures().collect::<Vec<_>>(), [(seen[0], x), (seen[1], y)]);
        assert_eq!(inner.capture(y, "y", None), seen[1]);
        assert_ne!(inner.capture(a, "a", None), seen[1]);
    });
}

#[test]
fn removing_a_node_forgets_its_reads() {
    let (mut g, x, a, y) = chain();
    let add = g.producer(y).unwrap();
    g.remove_node(add);
    assert_eq!([g.uses(x), g.uses(a)], [1, 0]);
    assert_eq!(g[y].origin(), Origin::None);
}

#[test]
fn replace_uses_reaches_nodes_outputs_and_subgraphs() {
    let (mut g, x, a, y) = chain();
    let mut inner = Graph::new("body");
    let seen = inner.capture(a, "a", None);
    inner.mark_output(seen);
    let node = Node::new("If", [x], []).with("then_branch", Attr::Graph(Box::new(inner)));
    let branch = g.add_node(node);
    assert_eq!(g.uses(a), 3);

    g.replace_uses(a, x);
    assert_eq!([g.uses(a), g.uses(x)], [0, 5]);
    let captured: Vec<_> = g[branch].subgraphs().flat_map(Graph::captures).collect();
    assert_eq!(captured, [(seen, x)]);

    g.replace_uses(y, x);
    assert_eq!(g.outputs(), [x]);
}

#[test]
fn names_stay_unique() {
    let mut g = Graph::new("g");
    let first = g.add_value("w", None);
    let second = g.add_value("w", None);
    assert_eq!([&g[first].name, &g[second].name], ["w", "w_1"]);
    assert_eq!(g.value_named("w_1"), Some(second));
}

#[test]
fn an_overridable_initializer_is_no_constant() {
    let mut g = Graph::new("g");
    let w = g.add_initializer("w", Tensor::scalar(1.0f32));
    assert!(g.constant(w).is_some());
    g.mark_input(w);
    assert!(g.constant(w).is_none());
    g.unmark_input(w);
    assert!(g.constant(w).is_some());
}
