//! Whether nodes of two graphs do the same.

use crate::text::NESTING_MAX;
use crate::{Attr, Graph, NodeId, Origin, SparseTensor, Tensor, ValueId};

/// Whether node `a` of one graph and node `b` of another one apply the same operator with the same attributes to the
/// same values. `same` tells whether a value of the first graph is one of the second.
#[must_use]
pub fn same_node(
    a: (&Graph, NodeId),
    b: (&Graph, NodeId),
    same: &dyn Fn(ValueId, ValueId) -> bool,
) -> bool {
    same_nodes(a, b, same, 0)
}

fn same_nodes(
    (old, a): (&Graph, NodeId),
    (new, b): (&Graph, NodeId),
    same: &dyn Fn(ValueId, ValueId) -> bool,
    depth: usize,
) -> bool {
    let (a, b) = (&old[a], &new[b]);
    let read = |mine: &Option<ValueId>, other: &Option<ValueId>| match (mine, other) {
        (Some(mine), Some(other)) => same(*mine, *other),
        (None, None) => true,
        _ => false,
    };
    let inputs = || {
        a.inputs.len() == b.inputs.len() && a.inputs.iter().zip(&b.inputs).all(|(a, b)| read(a, b))
    };
    let named = |name: &str| b.attrs.iter().find(|(n, _)| n == name).map(|(_, attr)| attr);
    let attrs = || {
        a.attrs.len() == b.attrs.len()
            && a.attrs.iter().all(|(name, attr)| {
                named(name).is_some_and(|other| same_attr(attr, other, same, depth))
            })
    };
    (&a.domain, &a.op, &a.overload) == (&b.domain, &b.op, &b.overload) && inputs() && attrs()
}

fn same_attr(a: &Attr, b: &Attr, same: &dyn Fn(ValueId, ValueId) -> bool, depth: usize) -> bool {
    match (a, b) {
        (Attr::Int(a), Attr::Int(b)) => a == b,
        (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
        (Attr::Str(a), Attr::Str(b)) => a == b,
        (Attr::Tensor(a), Attr::Tensor(b)) => a == b,
        (Attr::Sparse(a), Attr::Sparse(b)) => a == b,
        (Attr::Type(a), Attr::Type(b)) => a == b,
        (Attr::Ints(a), Attr::Ints(b)) => a == b,
        (Attr::Floats(a), Attr::Floats(b)) => {
            a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
        }
        (Attr::Strs(a), Attr::Strs(b)) => a == b,
        (Attr::Tensors(a), Attr::Tensors(b)) => all(a, b, |a: &Tensor, b| a == b),
        (Attr::Sparses(a), Attr::Sparses(b)) => all(a, b, |a: &SparseTensor, b| a == b),
        (Attr::Types(a), Attr::Types(b)) => a == b,
        (Attr::Ref { name: a, kind: i }, Attr::Ref { name: b, kind: j }) => (a, i) == (b, j),
        (Attr::Graph(_) | Attr::Graphs(_), Attr::Graph(_) | Attr::Graphs(_)) => {
            all(a.graphs(), b.graphs(), |a, b| same_graphs(a, b, same, depth + 1))
        }
        _ => false,
    }
}

fn all<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Whether two graphs have the same nodes in the same order, names of values included. Types do not count.
#[must_use]
pub fn same_graph(a: &Graph, b: &Graph) -> bool {
    same_graphs(a, b, &|_, _| false, 0)
}

/// As [`same_graph`], of sub-graphs that read values around them.
fn same_graphs(
    a: &Graph,
    b: &Graph,
    same: &dyn Fn(ValueId, ValueId) -> bool,
    depth: usize,
) -> bool {
    let names =
        |g: &Graph, list: &[ValueId]| list.iter().map(|v| g[*v].name.clone()).collect::<Vec<_>>();
    let inner = |mine: ValueId, v: ValueId| match (a[mine].origin(), b[v].origin()) {
        (Origin::Captured(outer), Origin::Captured(other)) => same(outer, other),
        (Origin::None, Origin::None) => match (a[mine].initializer(), b[v].initializer()) {
            (Some(x), Some(y)) => x == y,
            _ => false,
        },
        (Origin::Input, Origin::Input) | (Origin::Node(..), Origin::Node(..)) => {
            a[mine].name == b[v].name
        }
        _ => false,
    };
    let outputs = |g: &Graph, id: NodeId| {
        g[id].outputs.iter().map(|v| v.map(|v| g[v].name.clone())).collect::<Vec<_>>()
    };
    depth < NESTING_MAX
        && names(a, a.inputs()) == names(b, b.inputs())
        && names(a, a.outputs()) == names(b, b.outputs())
        && a.node_count() == b.node_count()
        && a.nodes().zip(b.nodes()).all(|((x, _), (y, _))| {
            outputs(a, x) == outputs(b, y) && same_nodes((a, x), (b, y), &inner, depth)
        })
}
