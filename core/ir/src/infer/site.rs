//! What a rule sees of a node: types, constants and attributes, and helpers that speak of shapes.

use crate::schema::OpSchema;
use crate::{Attr, DataType, Dim, Graph, Node, Shape, Tensor, ValueId, ValueType};
use std::collections::HashMap;

/// Elements of an integer tensor that are followed through the graph.
pub(super) const ELEMENTS_MAX: usize = 64;

/// Axes of a tensor that is looked at; rules may be quadratic in it.
pub(super) const RANK_MAX: usize = 64;

/// Elements of a small integer tensor of rank 0 or 1; sizes of shapes may be symbols.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Data {
    pub scalar: bool,
    pub items: Vec<Dim>,
}

/// Elements known of values of one graph.
pub(super) type Known = HashMap<ValueId, Data>;

/// Shapes of the outputs, as far as known; or what is wrong.
pub(super) type Shapes = Result<Vec<Option<Shape>>, String>;

/// The shape of the only output.
pub(super) fn one(shape: Shape) -> Shapes {
    Ok(vec![Some(shape)])
}

/// Nothing is known.
pub(super) fn unknown() -> Shapes {
    Ok(vec![])
}

/// A node and what is known about what it reads.
pub(super) struct Site<'a> {
    pub graph: &'a Graph,
    pub node: &'a Node,
    pub schema: &'static OpSchema,
    pub known: &'a Known,
    /// Version of the node's domain.
    pub opset: i64,
}

impl<'a> Site<'a> {
    pub(super) fn ty(&self, i: usize) -> Option<&'a ValueType> {
        self.graph[self.node.input(i)?].ty.as_ref()
    }

    pub(super) fn dtype(&self, i: usize) -> Option<DataType> {
        self.ty(i)?.dtype()
    }

    pub(super) fn shape(&self, i: usize) -> Option<&'a [Dim]> {
        self.ty(i)?.shape().filter(|s| s.len() <= RANK_MAX)
    }

    pub(super) fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    pub(super) fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph.constant(self.node.input(i)?)
    }

    /// Elements of an integer input of rank 0 or 1.
    pub(super) fn data(&self, i: usize) -> Option<Data> {
        let v = self.node.input(i)?;
        self.known.get(&v).cloned().or_else(|| data_of(self.graph.constant(v)?))
    }

    /// As `data`, if all elements are numbers.
    pub(super) fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.data(i)?.items.iter().map(Dim::known).collect()
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        match self.node.attr(name) {
            Some(Attr::Int(x)) => *x,
            _ => default,
        }
    }

    pub(super) fn list(&self, name: &str) -> Option<&'a [i64]> {
        match self.node.attr(name) {
            Some(Attr::Ints(xs)) => Some(xs),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> &'a str {
        match self.node.attr(name) {
            Some(Attr::Str(bytes)) => std::str::from_utf8(bytes).unwrap_or_default(),
            _ => "",
        }
    }

    /// An attribute that became input `i` in a later version.
    pub(super) fn list_or_input(&self, name: &str, i: usize) -> Option<Vec<i64>> {
        self.list(name).map(<[i64]>::to_vec).or_else(|| self.ints(i))
    }
}

/// The elements of a constant, if it is a small integer tensor of rank 0 or 1.
pub(super) fn data_of(tensor: &Tensor) -> Option<Data> {
    if tensor.rank() > 1 || tensor.len() > ELEMENTS_MAX {
        return None;
    }
    let items = tensor.to_i64s()?.into_iter().map(Dim::Known).collect();
    Some(Data { scalar: tensor.rank() == 0, items })
}

/// `axis` counted from the front.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let signed = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let index = signed.and_then(|a| usize::try_from(a).ok()).filter(|a| *a < rank);
    index.ok_or_else(|| format!("axis {axis} does not exist at rank {rank}"))
}

/// All `axes` counted from the front.
pub(super) fn axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    if axes.len() > rank {
        return Err(format!("there are {} axes at rank {rank}", axes.len()));
    }
    axes.iter().map(|a| axis(*a, rank)).collect()
}

/// A size that was computed; overflow and negative sizes are not known.
pub(super) fn sized(n: Option<i64>) -> Dim {
    n.filter(|n| *n >= 0).map_or(Dim::Unknown, Dim::Known)
}

/// Product of two sizes.
pub(super) fn times(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(0), _) | (_, Dim::Known(0)) => Dim::Known(0),
        (Dim::Known(1), x) | (x, Dim::Known(1)) => x.clone(),
        (Dim::Known(a), Dim::Known(b)) => sized(a.checked_mul(*b)),
        _ => Dim::Unknown,
    }
}

/// Sum of two sizes.
pub(super) fn plus(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(0), x) | (x, Dim::Known(0)) => x.clone(),
        (Dim::Known(a), Dim::Known(b)) => sized(a.checked_add(*b)),
        _ => Dim::Unknown,
    }
}

/// Product of all sizes.
pub(super) fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Known(1), |n, d| times(&n, d))
}

/// What is known of a size that is both `a` and `b`; `None` if they differ.
pub(super) fn both(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => (x == y).then_some(Dim::Known(*x)),
        (Dim::Known(x), _) | (_, Dim::Known(x)) => Some(Dim::Known(*x)),
        (Dim::Unknown, other) => Some(other.clone()),
        (symbol, _) => Some(symbol.clone()),
    }
}

/// A shape for messages.
pub(super) fn show(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|d| match d {
            Dim::Known(n) => n.to_string(),
            Dim::Symbol(name) => name.clone(),
            Dim::Unknown => "?".to_owned(),
        })
        .collect();
    format!("[{}]", dims.join(","))
}

/// The common shape of two shapes under the standard's multidirectional broadcasting.
pub(super) fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Shape, String> {
    let rank = a.len().max(b.len());
    let size = |dims: &[Dim], i: usize| match (i + dims.len()).checked_sub(rank) {
        Some(k) => dims[k].clone(),
        None => Dim::Known(1),
    };
    let common = (0..rank).map(|i| match (size(a, i), size(b, i)) {
        (Dim::Known(1), other) | (other, Dim::Known(1)) => Some(other),
        (Dim::Known(x), Dim::Known(y)) => (x == y).then_some(Dim::Known(x)),
        (Dim::Known(x), _) | (_, Dim::Known(x)) => Some(Dim::Known(x)),
        (x, y) => Some(if x.same(&y) { x } else { Dim::Unknown }),
    });
    let common: Option<Shape> = common.collect();
    common.ok_or_else(|| format!("the shapes {} and {} do not broadcast", show(a), show(b)))
}
