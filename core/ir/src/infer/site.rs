//! What a rule sees of a node: types, constants and attributes, and helpers that speak of shapes.

use super::symbolic;
use crate::id_map::IdMap;
use crate::schema::OpSchema;
use crate::{Attr, DataType, Dim, Graph, Node, Shape, Tensor, ValueId, ValueType, axis_at};
use onnxd_diagnostics::refuse;

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
pub(super) type KnownElements = IdMap<ValueId, Data>;

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
pub(super) struct InferContext<'a> {
    pub graph: &'a Graph,
    pub node: &'a Node,
    pub schema: &'static OpSchema,
    pub known: &'a KnownElements,
    /// Version of the node's domain.
    pub opset: i64,
    /// Sizes without name that were numbered before the sub-graphs of the node were looked at.
    pub fresh: usize,
}

impl<'a> InferContext<'a> {
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

    /// As `data`, where the elements are sizes.
    pub(super) fn sizes(&self, i: usize) -> Option<Shape> {
        Some(self.data(i)?.items.into_iter().map(size_of).collect())
    }

    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.node.int(name, default)
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

/// Whole numbers up to here are exact in 32-bit floating point.
const EXACT_MAX: i64 = 1 << 24;
/// How often a constant may have to be doubled to be whole.
const HALVINGS_MAX: u32 = 16;

/// The elements of a constant, if it is a small tensor of rank 0 or 1; of floating point only whole
/// numbers.
pub(super) fn data_of(tensor: &Tensor) -> Option<Data> {
    if tensor.rank() > 1 || tensor.len() > ELEMENTS_MAX {
        return None;
    }
    let items = match tensor.dtype() {
        DataType::Float | DataType::Double => {
            let whole = |x: &f64| match x.fract() == 0.0 && x.abs() < EXACT_MAX as f64 {
                true => Dim::Known(*x as i64),
                false => parts_of_one(*x),
            };
            tensor.to_reals()?.values.iter().map(whole).collect()
        }
        _ => tensor.to_i64s()?.into_iter().map(Dim::Known).collect(),
    };
    Some(Data { scalar: tensor.rank() == 0, items })
}

/// A number that is a whole number of halves, quarters and so on.
fn parts_of_one(x: f64) -> Dim {
    let halvings = (1..=HALVINGS_MAX).map(|n| 1i64 << n);
    let found = halvings.map(|by| (x * by as f64, by)).find(|(of, _)| of.fract() == 0.0);
    match found {
        Some((of, by)) if of.abs() < EXACT_MAX as f64 => {
            symbolic::fraction(&Dim::Known(of as i64), by)
        }
        _ => Dim::Unknown,
    }
}

impl Data {
    /// Without the numbers that elements of type `dtype` cannot be.
    pub(super) fn fitting(mut self, dtype: Option<DataType>) -> Data {
        let range = match dtype {
            Some(DataType::Float | DataType::Double) => -EXACT_MAX..=EXACT_MAX,
            Some(DataType::Int32) => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Some(DataType::Int64 | DataType::Bool) => i64::MIN..=i64::MAX,
            _ => 0..=127,
        };
        for item in &mut self.items {
            if item.known().is_some_and(|n| !range.contains(&n)) {
                *item = Dim::Unknown;
            }
        }
        self
    }
}

/// `axis` counted from the front.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    axis_at(axis, rank).ok_or_else(|| format!("axis {axis} does not exist at rank {rank}"))
}

/// All `axes` counted from the front.
pub(super) fn axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    refuse!(axes.len() > rank => "there are {} axes at rank {rank}", axes.len());
    axes.iter().map(|a| axis(*a, rank)).collect()
}

/// The first element of input `i`.
pub(super) fn first_of(site: &InferContext<'_>, i: usize) -> Option<Dim> {
    site.data(i)?.items.into_iter().next()
}

/// A size that was computed; overflow and negative sizes are not known.
pub(super) fn sized(n: Option<i64>) -> Dim {
    n.filter(|n| *n >= 0).map_or(Dim::Unknown, Dim::Known)
}

/// Product of two sizes.
pub(super) fn times(a: &Dim, b: &Dim) -> Dim {
    size_of(symbolic::product(a, b))
}

/// Sum of two sizes.
pub(super) fn plus(a: &Dim, b: &Dim) -> Dim {
    size_of(symbolic::sum(a, b))
}

/// What is left of a size; it may turn out negative.
pub(super) fn minus(a: &Dim, b: &Dim) -> Dim {
    symbolic::difference(a, b)
}

/// A size that divides; an error if it does not.
pub(super) fn ratio(size: &Dim, by: &Dim) -> Result<Dim, String> {
    match (size, by) {
        (Dim::Known(n), Dim::Known(m @ 1..)) if n % m != 0 => {
            Err(format!("{n} does not divide by {m}"))
        }
        _ => Ok(symbolic::exact(size, by).unwrap_or_else(|| symbolic::floor(size, by))),
    }
}

fn size_of(dim: Dim) -> Dim {
    if matches!(dim, Dim::Known(..0)) { Dim::Unknown } else { dim }
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
            size => match symbolic::readable(size) {
                Some(Dim::Symbol(name)) => name.to_string(),
                _ => "?".to_owned(),
            },
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
