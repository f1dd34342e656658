//! Computed shapes and sizes that are equal are computed once, and with as few nodes as their elements allow.

use onnxd_plugin_sdk::ir::ops::{Concat, Gather, Reshape, Shape, Unsqueeze};
use onnxd_plugin_sdk::ir::{
    DataType, Dim, Facts, Graph, Node, NodeId, Op, Origin, Tensor, ValueId, ValueType,
};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::collections::HashMap;

/// Elements of a vector that is computed anew.
const ELEMENTS_MAX: usize = 16;
/// Values that are remembered as having one size.
const SOURCES_MAX: usize = 16;
/// The first version in which `Shape` takes a part of the sizes.
const SHAPE_OF_PART: i64 = 15;
/// The first version in which `Unsqueeze` takes its axes as an input.
const AXES_INPUT: i64 = 13;

/// What a graph computes, in an order of computation.
pub(super) struct Available<'f> {
    facts: &'f Facts,
    /// Nodes up to the one that computes a value.
    place: HashMap<ValueId, usize>,
    /// Vectors and scalars by type and elements: the first that has them.
    equal: HashMap<(DataType, bool, &'f [Dim]), ValueId>,
    /// Values with a size, and on which axis; the first ones.
    sources: HashMap<&'f Dim, Vec<(ValueId, usize)>>,
}

impl<'f> Available<'f> {
    pub(super) fn from_graph(graph: &Graph, facts: &'f Facts, order: &[NodeId]) -> Available<'f> {
        let (place, equal, sources) = <_>::default();
        let mut all = Available { facts, place, equal, sources };
        let given = |v: &ValueId| matches!(graph[*v].origin(), Origin::Input | Origin::Captured(_));
        graph.value_ids().filter(given).for_each(|v| all.add(graph, v, 0));
        for (i, id) in order.iter().enumerate() {
            let Some(node) = graph.node(*id) else { continue };
            node.outputs.iter().flatten().for_each(|v| all.add(graph, *v, i + 1));
        }
        all
    }

    fn add(&mut self, graph: &Graph, v: ValueId, place: usize) {
        self.place.insert(v, place);
        if let Some((scalar, items)) = self.facts.elements(v)
            && let Some(dtype) = graph[v].ty.as_ref().and_then(ValueType::dtype)
            && !items.contains(&Dim::Unknown)
        {
            self.equal.entry((dtype, scalar, items)).or_insert(v);
        }
        let Some(shape) = self.facts.shape(v) else { return };
        for (axis, size) in shape.iter().enumerate().filter(|(_, size)| is_symbol(size)) {
            let known = self.sources.entry(size).or_default();
            let tail =
                |(v, axis): &(ValueId, usize)| &self.facts.shape(*v).unwrap_or_default()[*axis..];
            if known.len() < SOURCES_MAX && !known.iter().any(|other| tail(other) == &shape[axis..])
            {
                known.push((v, axis));
            }
        }
    }
}

/// What is there to compute a value of.
struct Before<'a, 'f> {
    all: &'a Available<'f>,
    graph: &'a Graph,
    /// Where the value is computed.
    at: usize,
}

impl<'a, 'f> Before<'a, 'f> {
    /// What was removed in between is not there any more.
    fn has(&self, v: ValueId) -> bool {
        self.all.place[&v] < self.at && self.graph[v].origin() != Origin::None
    }

    /// The value of whole numbers with these elements.
    fn equal(&self, scalar: bool, items: &[Dim]) -> Option<ValueId> {
        let found = self.all.equal.get(&(DataType::Int64, scalar, items)).copied();
        found.filter(|v| self.has(*v))
    }

    /// Values that have the size, and on which axis.
    fn sources(&self, size: &Dim) -> impl Iterator<Item = (ValueId, usize)> {
        self.all.sources.get(size).into_iter().flatten().copied().filter(|(v, _)| self.has(*v))
    }

    fn shape(&self, v: ValueId) -> &'f [Dim] {
        self.all.facts.shape(v).unwrap_or_default()
    }
}

fn is_symbol(size: &Dim) -> bool {
    matches!(size, Dim::Symbol(_))
}

/// Readers of a value read the first one that has the same elements.
pub(super) fn share(cx: &mut Rewriter, all: &Available, id: NodeId) -> Rewrite {
    let Some(v) = cx.graph[id].output(0) else { return Skip::unlike() };
    let Some((scalar, items)) = all.facts.elements(v) else { return Skip::unlike() };
    if cx.graph.is_output(v) || cx.graph.constant(v).is_some() || !items.iter().any(is_symbol) {
        return Skip::unlike();
    }
    match all.equal.get(&(cx.dtype(v)?, scalar, items)) {
        // A whole number in floating point may be a negative zero.
        Some(first) if *first != v && !cx.dtype(v)?.is_float() => match cx.graph[*first].origin() {
            Origin::None => Skip::unlike(),
            _ => cx.bypass(v, *first),
        },
        _ => Skip::unlike(),
    }
}

/// Computes `v` from other values, if that takes fewer nodes.
pub(super) fn rebuild(cx: &mut Rewriter, all: &Available, id: NodeId) -> Rewrite {
    let Some(v) = cx.graph[id].output(0) else { return Skip::unlike() };
    let Some((scalar, items)) = all.facts.elements(v) else { return Skip::unlike() };
    let fits = items.len() <= ELEMENTS_MAX && items.iter().any(is_symbol);
    if !fits || cx.dtype(v)? != DataType::Int64 {
        return Skip::unlike();
    }
    let before = Before { all, graph: cx.graph, at: all.place[&v] };
    let offers = match scalar {
        true => scalar_offers(&before, &items[0]),
        false => offers(cx, &before, v, items),
    };
    match cheapest(cx, id, items.len(), &offers) {
        Some(plan) => plan.build(cx, v, items, scalar),
        None => Skip::unlike(),
    }
}

/// The plan that saves most nodes: with what only `id` reads, or without.
fn cheapest(cx: &Rewriter, id: NodeId, count: usize, offers: &[Offer]) -> Option<VectorPlan> {
    let own = cx.nodes_only_for(id, &[]);
    let is_own = |v: ValueId| cx.graph.producer(v).is_some_and(|node| own.contains(&node));
    let apart = offers.iter().filter(|o| !o.part.reads().is_some_and(is_own));
    let plans = [VectorPlan::cheapest(count, offers.iter()), VectorPlan::cheapest(count, apart)];
    let saved = plans.into_iter().flatten().map(|plan| {
        let read: Vec<ValueId> = plan.parts.iter().filter_map(VectorPart::reads).collect();
        (cx.nodes_only_for(id, &read).len().saturating_sub(plan.nodes), plan)
    });
    saved.max_by_key(|(saved, _)| *saved).filter(|(saved, _)| *saved > 0).map(|(_, plan)| plan)
}

/// Where elements of a vector come from.
#[derive(Clone, Copy, Debug)]
enum VectorPart {
    /// They are known.
    Constant { start: usize, end: usize },
    /// A vector that is there.
    Vector(ValueId),
    /// A scalar that is there.
    Scalar(ValueId),
    /// Sizes of a value.
    Sizes { of: ValueId, start: usize, end: usize },
    /// Those of them that stand in a vector which is there.
    Within { sizes: ValueId, start: usize, end: usize },
}

impl VectorPart {
    fn reads(&self) -> Option<ValueId> {
        match self {
            VectorPart::Constant { .. } => None,
            VectorPart::Vector(v) | VectorPart::Scalar(v) => Some(*v),
            VectorPart::Sizes { of, .. } => Some(*of),
            VectorPart::Within { sizes, .. } => Some(*sizes),
        }
    }
}

/// A part for elements `start..end`, and how many nodes it takes.
struct Offer {
    start: usize,
    end: usize,
    nodes: usize,
    part: VectorPart,
}

fn offers(cx: &Rewriter, before: &Before, v: ValueId, items: &[Dim]) -> Vec<Offer> {
    let count = items.len();
    let mut offers = Vec::new();
    let mut offer = |start, end, nodes, part| offers.push(Offer { start, end, nodes, part });
    for start in 0..count {
        let known_count = items[start..].iter().take_while(|d| d.known().is_some()).count();
        if known_count > 0 {
            offer(
                start,
                start + known_count,
                0,
                VectorPart::Constant { start, end: start + known_count },
            );
        }
        for end in start + 1..=count {
            let symbols = items[start..end].iter().any(is_symbol);
            if let Some(v) = before.equal(false, &items[start..end]).filter(|_| symbols) {
                offer(start, end, 0, VectorPart::Vector(v));
            }
        }
        if let Some(v) = before.equal(true, &items[start..=start]) {
            offer(start, start + 1, 1, VectorPart::Scalar(v));
        }
        for (of, axis) in before.sources(&items[start]) {
            let (own, shape) = (start, before.shape(of));
            let same = |(a, b): &(&Dim, &Dim)| a.same(b);
            let after = items[own..].iter().zip(&shape[axis..]).take_while(same).count();
            let ahead = items[..own].iter().rev().zip(shape[..axis].iter().rev());
            for back in 0..=ahead.take_while(same).count() {
                let (first, last) = (axis - back, axis + after);
                let (nodes, part) = sizes(cx.opset, before, of, first, last);
                offer(own - back, own + after, nodes, part);
            }
        }
    }
    offers.extend(joined(cx, before, v));
    offers
}

/// The parts that a `Concat` has.
fn joined(cx: &Rewriter, before: &Before, v: ValueId) -> Vec<Offer> {
    let Ok(concat) = cx.producer::<Concat>(v) else { return vec![] };
    let mut start = 0;
    let mut offers = Vec::new();
    for input in concat.op.inputs {
        let length = match before.shape(input) {
            [Dim::Known(n)] => usize::try_from(*n).unwrap_or_default(),
            _ => return vec![],
        };
        let end = start + length;
        offers.push(Offer { start, end, nodes: 0, part: VectorPart::Vector(input) });
        start = end;
    }
    offers
}

/// Sizes `start..end` of a value: how many nodes that takes, and how.
fn sizes(
    opset: i64,
    before: &Before,
    of: ValueId,
    start: usize,
    end: usize,
) -> (usize, VectorPart) {
    let shape = before.shape(of);
    if opset >= SHAPE_OF_PART || (start, end) == (0, shape.len()) {
        return (1, VectorPart::Sizes { of, start, end });
    }
    match before.equal(false, shape) {
        Some(sizes) => (1, VectorPart::Within { sizes, start, end }),
        None => (2, VectorPart::Sizes { of, start, end }),
    }
}

/// One size of a value, as a scalar.
fn scalar_offers(before: &Before, size: &Dim) -> Vec<Offer> {
    let (start, end) = (0, 1);
    let sizes = |(of, axis): (ValueId, usize)| {
        let (start, end) = (axis, axis + 1);
        match before.equal(false, before.shape(of)) {
            Some(sizes) => (1, VectorPart::Within { sizes, start, end }),
            None => (2, VectorPart::Sizes { of, start, end }),
        }
    };
    let ways = before.sources(size).map(sizes);
    ways.map(|(nodes, part)| Offer { start, end, nodes, part }).collect()
}

/// A way to compute a vector.
struct VectorPlan {
    nodes: usize,
    parts: Vec<VectorPart>,
}

impl VectorPlan {
    /// The cheapest one for `count` elements.
    fn cheapest<'o>(
        count: usize,
        offers: impl Iterator<Item = &'o Offer> + Clone,
    ) -> Option<VectorPlan> {
        // What it takes from an element on: nodes, and the offers in reverse.
        let mut best: Vec<Option<(usize, Vec<VectorPart>)>> = vec![None; count + 1];
        best[count] = Some((0, vec![]));
        for start in (0..count).rev() {
            let here =
                offers.clone().filter(|o| o.start == start && o.end > start && o.end <= count);
            let ways = here.filter_map(|o| {
                let (nodes, parts) = best[o.end].as_ref()?;
                Some((nodes + o.nodes, parts.len() + 1, o))
            });
            let cheapest = ways.min_by_key(|(nodes, parts, _)| (*nodes, *parts));
            best[start] = cheapest.and_then(|(nodes, _, o)| {
                let mut parts = best[o.end].as_ref()?.1.clone();
                parts.push(o.part);
                Some((nodes, parts))
            });
        }
        let (nodes, mut parts) = best.swap_remove(0)?;
        parts.reverse();
        Some(VectorPlan { nodes: nodes + usize::from(parts.len() > 1), parts })
    }

    fn build(self, cx: &mut Rewriter, v: ValueId, items: &[Dim], scalar: bool) -> Rewrite {
        if let [part] = self.parts[..] {
            let node = part.node(cx, scalar, v).ok_or_else(|| Skip(String::new()))?;
            return cx.replace_by(v, node);
        }
        let name = format!("{}_part", cx.graph[v].name);
        let inputs = self.parts.into_iter().map(|part| match part {
            VectorPart::Vector(there) => there,
            VectorPart::Constant { start, end } => {
                let known: Vec<i64> = items[start..end].iter().filter_map(Dim::known).collect();
                cx.derive(v, "known", Tensor::vector(known))
            }
            part => {
                let out = cx.graph.add_value(&name, None);
                let node = part.node(cx, false, out).expect("it is computed");
                cx.graph.add_node(node);
                out
            }
        });
        let inputs = inputs.collect();
        cx.replace(v, Concat { inputs, axis: 0 })
    }
}

impl VectorPart {
    /// The node that computes it as `out`; `None` for what is there.
    fn node(self, cx: &mut Rewriter, scalar: bool, out: ValueId) -> Option<Node> {
        let is_whole = |cx: &Rewriter, of, end| cx.rank(of).is_ok_and(|rank| rank == end);
        Some(match self {
            VectorPart::Constant { .. } | VectorPart::Vector(_) => return None,
            VectorPart::Scalar(v) if cx.opset >= AXES_INPUT => {
                Unsqueeze::new(v, cx.derive(v, "axes", Tensor::vector(vec![0i64]))).into_node(out)
            }
            VectorPart::Scalar(v) => {
                Reshape::new(v, cx.derive(v, "shape", Tensor::vector(vec![1i64]))).into_node(out)
            }
            VectorPart::Sizes { of, start: 0, end } if !scalar && is_whole(cx, of, end) => {
                Shape::new(of).into_node(out)
            }
            VectorPart::Sizes { of, start, end } if !scalar && cx.opset >= SHAPE_OF_PART => {
                let (start, stop) = (start as i64, end as i64);
                let end = (!is_whole(cx, of, end)).then_some(stop);
                Shape { data: of, start, end }.into_node(out)
            }
            VectorPart::Sizes { of, start, end } => {
                let name = format!("{}_shape", cx.graph[of].name);
                let sizes = cx.graph.add(&name, Shape::new(of));
                return VectorPart::Within { sizes, start, end }.node(cx, scalar, out);
            }
            VectorPart::Within { sizes, start, end } => {
                let places: Vec<i64> = (start as i64..end as i64).collect();
                let dims = if scalar { vec![] } else { vec![places.len()] };
                let places = cx.derive(sizes, "places", Tensor::from_vec(dims, places));
                Gather::new(sizes, places).into_node(out)
            }
        })
    }
}
