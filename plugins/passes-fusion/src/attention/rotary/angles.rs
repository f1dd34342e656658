//! Cosines and sines of a rotation: networks have them for each element, the operators for each pair.

use super::form::{Heads, Rotation, four, is_last};
use crate::parts::{dims, unlike};
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::ir::{Dim, Graph, NodeId, Reals, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// No network does more with its angles.
const CHAIN_MAX: usize = 6;

/// One number for each pair, with the axes batch, words, pairs.
pub(crate) enum Angles {
    Constant(Tensor),
    /// What `nodes` compute, the last one first, of `pairs`.
    Computed {
        nodes: Vec<NodeId>,
        from: ValueId,
        pairs: ValueId,
        batch: Dim,
    },
}

impl Angles {
    /// Those that `v` has for each element.
    pub(crate) fn find(cx: &Rewriter, v: ValueId, rotation: &Rotation) -> Result<Angles, Skip> {
        match cx.graph.constant(v) {
            Some(_) => constant(cx, v, rotation).map(Angles::Constant),
            None => computed(cx, v, rotation),
        }
    }

    /// How many batches they are for.
    pub(crate) fn batch(&self) -> Dim {
        match self {
            Angles::Constant(tensor) => Dim::Known(tensor.dims()[0] as i64),
            Angles::Computed { batch, .. } => batch.clone(),
        }
    }

    /// How many nodes [`Angles::build`] adds.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Angles::Constant(_) => 0,
            Angles::Computed { nodes, .. } => nodes.len(),
        }
    }

    /// Their elements in the graph, without the axis of batches if `flat`.
    pub(crate) fn build(&self, b: &GraphBuilder, flat: bool) -> Built<Var> {
        match self {
            Angles::Constant(tensor) if flat => {
                let rows = tensor.reshaped(&tensor.dims()[1..]);
                Ok(b.constant(rows.expect("there is one batch")))
            }
            Angles::Constant(tensor) => Ok(b.constant(tensor.clone())),
            Angles::Computed { nodes, from, pairs, .. } => {
                let (mut old, mut new) = (*from, b.var(*pairs));
                if flat {
                    new = b.squeeze(new).axes([0]).one()?;
                }
                for id in nodes.iter().rev() {
                    let node = b.graph()[*id].clone();
                    let inputs = node.inputs.iter().flatten();
                    let inputs: Vec<Var> =
                        inputs.map(|v| if *v == old { new } else { b.var(*v) }).collect();
                    new = b.op("", &node.op, inputs).attrs(node.attrs).one()?;
                    old = node.outputs.first().copied().flatten().unwrap_or(old);
                }
                Ok(new)
            }
        }
    }
}

fn constant(cx: &Rewriter, v: ValueId, r: &Rotation) -> Result<Tensor, Skip> {
    let all = cx.reals(v)?;
    let width = r.width as usize;
    if four(cx, v)?[3] != Dim::Known(r.width) || width == 0 || width % 2 == 1 {
        return Skip::because("the angles are not one for each pair");
    }
    let (half, mut values) = (width / 2, Vec::with_capacity(all.values.len() / 2));
    for row in all.values.chunks(width) {
        for pair in 0..half {
            let (i, j) = if r.interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
            if row[i].to_bits() != row[j].to_bits() {
                return Skip::because(format!("the elements of a pair differ in {}", cx.name(v)));
            }
            values.push(row[i]);
        }
    }
    let sizes: Option<Vec<usize>> =
        four(cx, v)?.iter().map(|d| usize::try_from(d.known()?).ok()).collect();
    let sizes = sizes.ok_or_else(unlike)?;
    let pairs = Reals { dims: vec![sizes[0], sizes[r.heads.words_axis], half], values };
    pairs.to_tensor(cx.dtype(v)?).ok_or_else(unlike)
}

fn computed(cx: &Rewriter, v: ValueId, r: &Rotation) -> Result<Angles, Skip> {
    let why = || Skip(format!("the two angles of each pair are not known equal in {}", cx.name(v)));
    let graph = &*cx.graph;
    let axis = graph.producer(v).filter(|id| graph[*id].is("Unsqueeze")).ok_or_else(why)?;
    let mut inner = graph[axis].input(0).ok_or_else(why)?;
    let (flat, full) = (dims(cx, inner)?, four(cx, v)?);
    let fits = |d: &[Dim]| d[0].same(&full[0]) && d[1].same(&r.heads.words);
    if flat.len() != 3 || !fits(&flat) || r.interleaved {
        return Err(why());
    }
    let mut nodes = Vec::new();
    while nodes.len() <= CHAIN_MAX {
        let id = graph.producer(inner).ok_or_else(why)?;
        let node = &graph[id];
        if node.is("Concat") {
            is_last(cx, inner, node.int("axis", 0))?;
            let [Some(a), Some(b)] = node.inputs[..] else { return Err(why()) };
            let pairs = dims(cx, a)?;
            let even = pairs.len() == 3 && pairs[2].known().is_some_and(|n| 2 * n == r.width);
            return match a == b && even {
                true => {
                    let batch = pairs[0].clone();
                    Ok(Angles::Computed { nodes, from: inner, pairs: a, batch })
                }
                false => Err(why()),
            };
        }
        nodes.push(id);
        inner = element_wise(graph, id).ok_or_else(why)?;
    }
    Err(why())
}

/// The value on each of whose elements alone node `id` works.
fn element_wise(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let node = &graph[id];
    let number = |v: ValueId| graph.constant(v).is_some_and(|t| t.len() == 1 && t.rank() == 0);
    match node.inputs[..] {
        [Some(x)] => ["Cos", "Sin", "Cast"].iter().any(|op| node.is(op)).then_some(x),
        [Some(a), Some(b)] if node.is("Mul") && number(a) => Some(b),
        [Some(a), Some(b)] if node.is("Mul") && number(b) => Some(a),
        _ => None,
    }
}

/// How angles of one batch serve all that are rotated.
pub(crate) enum Repeat {
    /// There are as many.
    Not,
    /// Each batch reads the rows of the words from the first on.
    Rows(i64),
    /// By Expand, to a size that input `.0` has on axis `.1`.
    Input(ValueId, usize),
    /// By Expand to a known size.
    Known(i64),
}

impl Repeat {
    pub(crate) fn find(cx: &Rewriter, angles: &Angles, heads: &Heads) -> Result<Repeat, Skip> {
        let batch = angles.batch();
        if batch.same(&heads.batch) {
            return Ok(Repeat::Not);
        }
        let many = heads.batch.known();
        match (batch.known(), many, angles) {
            (Some(1), Some(n), Angles::Constant(_)) => Ok(Repeat::Rows(n)),
            (Some(1), Some(n), _) => Ok(Repeat::Known(n)),
            (Some(1), None, _) => source(cx.graph, &heads.batch),
            _ => Skip::because("the angles are not of each batch or of one"),
        }
    }

    pub(crate) fn cost(&self) -> usize {
        match self {
            Repeat::Not | Repeat::Rows(_) => 0,
            Repeat::Known(_) => 2,
            Repeat::Input(..) => 4,
        }
    }
}

/// An input that has `size`.
fn source(graph: &Graph, size: &Dim) -> Result<Repeat, Skip> {
    let sizes = |v: ValueId| Some(graph[v].ty.as_ref()?.shape()?.to_vec());
    let mut inputs = graph.inputs().iter();
    let found = inputs.find_map(|v| {
        let axis = sizes(*v)?.iter().position(|d| d.same(size))?;
        Some(Repeat::Input(*v, axis))
    });
    found.ok_or_else(|| Skip("the number of batches is no size of an input".into()))
}
