//! A `Loop` or `Scan`: what its iterations get and give, and how often they run.

use crate::parts::{axis_of, unlike};
use onnxd_plugin_sdk::ir::{Attr, DataType, Graph, Node, NodeId, Origin, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};
use std::collections::{HashMap, HashSet};

/// Nodes that hand on an index, one behind the other.
const HANDED_ON_MAX: usize = 8;
/// The first version of `Scan` as it is today.
const SCAN_OPSET_MIN: i64 = 9;
/// Trip count and condition come before what is carried.
const CARRIED: usize = 2;

/// A value that each iteration hands on to the next one.
pub(crate) struct Carried {
    /// In the body: what an iteration gets.
    pub(crate) before: ValueId,
    /// In the body: what it gives.
    pub(crate) next: ValueId,
    /// Around the loop: the first one.
    pub(crate) begin: ValueId,
    /// Around the loop: the last one, if it is wanted.
    pub(crate) end: Option<ValueId>,
}

/// How often iterations run.
enum Count {
    /// As often as the value says, unless a condition ends them before; with their number in the body.
    Trips { trips: Option<ValueId>, iteration: ValueId, is_certain: bool },
    /// Once for each slice along these axes.
    Slices(Vec<(ValueId, Sequence)>),
}

/// What iterations read slices of, around the loop, and along which axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) data: ValueId,
    pub(crate) axis: usize,
    /// The first slice.
    pub(crate) first: i64,
}

/// A loop.
pub(crate) struct Iterations {
    /// The body, whose captures are inputs.
    pub(crate) body: Graph,
    /// What these captures are around the loop.
    pub(crate) captures: HashMap<ValueId, ValueId>,
    pub(crate) carried: Vec<Carried>,
    /// What an iteration gives, and what all of them gave behind each other, if it is wanted.
    pub(crate) stacked: Vec<(ValueId, ValueId)>,
    count: Count,
}

impl Iterations {
    /// Those of the node `id`, if its body has no more nodes than `nodes_max`.
    pub(crate) fn of(
        graph: &Graph,
        id: NodeId,
        opset: i64,
        nodes_max: usize,
    ) -> Result<Iterations, Skip> {
        let node = &graph[id];
        let Some(Attr::Graph(body)) = node.attr("body") else { return Skip::unlike() };
        let inner = body.nodes().any(|(_, node)| node.subgraphs().next().is_some());
        if inner || body.node_count() > nodes_max {
            return Skip::unlike();
        }
        let slices = match node.op.as_str() {
            "Loop" => None,
            _ if opset < SCAN_OPSET_MIN => return Skip::unlike(),
            _ => Some(usize::try_from(node.int("num_scan_inputs", 0)).map_err(|_| unlike())?),
        };
        let given: Vec<ValueId> = match slices {
            None => node.inputs.iter().skip(CARRIED).copied().collect::<Option<_>>(),
            Some(_) => node.inputs.iter().copied().collect::<Option<_>>(),
        }
        .ok_or_else(unlike)?;
        let states = given.len().checked_sub(slices.unwrap_or(0)).ok_or_else(unlike)?;
        let offset = if slices.is_some() { 0 } else { CARRIED };
        let (own, results) = (body.inputs().to_vec(), &body.outputs()[usize::from(offset > 0)..]);
        if own.len() != offset + given.len() || results.len() != node.outputs.len() {
            return Skip::unlike();
        }
        let wanted = |v: &Option<ValueId>| v.filter(|v| graph.uses(*v) > 0);
        let ends: Vec<Option<ValueId>> = node.outputs.iter().map(wanted).collect();
        let carried = (0..states).map(|i| Carried {
            before: own[offset + i],
            next: plain(body, results[i]),
            begin: given[i],
            end: ends[i],
        });
        let stacked = results.iter().zip(&ends).skip(states);
        let stacked = stacked.filter_map(|(v, end)| Some((plain(body, *v), (*end)?))).collect();
        let count = match slices {
            None => Count::Trips {
                trips: node.input(0),
                iteration: own[0],
                is_certain: is_certain(graph, node, body),
            },
            Some(_) => Count::Slices(slices_of(node, &own[states..], &given[states..])?),
        };
        let carried = carried.collect();
        let mut body: Graph = Graph::clone(body);
        let closed = body.close();
        let captures =
            closed.into_iter().filter_map(|(name, v)| Some((body.value_named(&name)?, v)));
        let captures = captures.collect();
        Ok(Iterations { body, captures, carried, stacked, count })
    }

    /// The body where captures of constants of `graph` are constants.
    pub(crate) fn seen(&self, graph: &Graph) -> Graph {
        let mut body = self.body.clone();
        for (own, outer) in &self.captures {
            if let Some(constant) = graph.constant(*outer) {
                body.unmark_input(*own);
                body.set_initializer(*own, Some(constant.clone()));
            }
        }
        body
    }

    /// The values of the body that iterations do not share, if they share `shared`.
    pub(crate) fn varying(&self, body: &Graph, shared: &[ValueId]) -> HashSet<ValueId> {
        let own = body.inputs().iter().copied().filter(|v| !self.captures.contains_key(v));
        let mut varying: HashSet<ValueId> = own.collect();
        for id in body.topological().unwrap_or_default() {
            let node = &body[id];
            if !is_repeatable(node) || node.reads().any(|v| varying.contains(&v)) {
                let outputs = node.outputs.iter().flatten().copied();
                varying.extend(outputs.filter(|v| !shared.contains(v)));
            }
        }
        varying
    }

    /// What `v` of the body is a slice of, one behind the other. The sequence is a value of the body, if the loop has
    /// trips.
    pub(crate) fn sequence(&self, cx: &Rewriter, graph: &Graph, v: ValueId) -> Option<Sequence> {
        match &self.count {
            Count::Slices(all) => all.iter().find(|(own, _)| *own == v).map(|(_, all)| *all),
            Count::Trips { iteration, .. } => {
                let node = &cx.graph[cx.graph.producer(v)?];
                let (data, index) = (node.input(0)?, node.input(1)?);
                let axis = axis_of(node.int("axis", 0), cx.rank(data).ok()?)?;
                let is_slice = node.is("Gather") && cx.rank(index).ok()? == 0;
                let index = number(cx, index);
                let counter = || {
                    let carried = self.carried.iter().find(|carried| carried.before == index)?;
                    (step(cx, carried)? == 1).then(|| single(graph, carried.begin)).flatten()
                };
                let first = if index == *iteration { Some(0) } else { counter() };
                let first = first.filter(|first| is_slice && *first >= 0)?;
                Some(Sequence { data, axis, first })
            }
        }
    }

    /// Whether sequences are values of the body.
    pub(crate) fn has_trips(&self) -> bool {
        matches!(self.count, Count::Trips { .. })
    }

    /// The number of iterations, if that is said by a value; there must be no other end.
    pub(crate) fn trips(&self, graph: &Graph) -> Result<Option<ValueId>, Skip> {
        match self.count {
            Count::Slices(_) => Ok(None),
            Count::Trips { trips: Some(trips), is_certain: true, .. } => {
                match single(graph, trips).is_none_or(|trips| trips > 0) {
                    true => Ok(Some(trips)),
                    false => Skip::because("it has no iteration"),
                }
            }
            Count::Trips { .. } => Skip::because("it may end before its trip count"),
        }
    }
}

/// Whether a node gives the same in each iteration that gives it the same.
fn is_repeatable(node: &Node) -> bool {
    let may_train = node.is("Dropout") && node.input(2).is_some();
    let is_random = node.op.starts_with("Random") || node.is("Bernoulli") || node.is("Multinomial");
    node.is_standard() && !is_random && !may_train
}

/// What Scan gives slices of to `own`, in forward direction.
fn slices_of(
    node: &Node,
    own: &[ValueId],
    given: &[ValueId],
) -> Result<Vec<(ValueId, Sequence)>, Skip> {
    let ints = |name: &str| match node.attr(name) {
        Some(Attr::Ints(all)) => all.clone(),
        _ => vec![],
    };
    let turned = ["scan_input_directions", "scan_output_directions", "scan_output_axes"];
    if turned.iter().any(|name| ints(name).iter().any(|n| *n != 0)) {
        return Skip::unlike();
    }
    let axes = ints("scan_input_axes");
    let slices = own.iter().zip(given).enumerate().map(|(i, (own, data))| {
        let axis = axis_of(axes.get(i).copied().unwrap_or(0), 3).ok_or_else(unlike)?;
        Ok((*own, Sequence { data: *data, axis, first: 0 }))
    });
    slices.collect()
}

/// Whether the loop ends by its trip count only.
fn is_certain(graph: &Graph, node: &Node, body: &Graph) -> bool {
    let is_true = |tensor: Option<&Tensor>| tensor.and_then(Tensor::to_i64s) == Some(vec![1]);
    let goes_on = plain(body, body.outputs()[0]);
    let known = match body[goes_on].origin() {
        Origin::Captured(outer) => graph.constant(outer),
        _ => body.constant(goes_on),
    };
    let begins = node.input(1).is_none_or(|v| is_true(graph.constant(v)));
    begins && (body.inputs().get(1) == Some(&goes_on) || is_true(known))
}

/// By how much a carried number grows in each iteration.
pub(crate) fn step(cx: &Rewriter, carried: &Carried) -> Option<i64> {
    let next = number(cx, carried.next);
    let node = &cx.graph[cx.graph.producer(next)?];
    let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
    let is_before = |v: ValueId| number(cx, v) == carried.before;
    match node.op.as_str() {
        "Add" if is_before(a) => single(cx.graph, b),
        "Add" if is_before(b) => single(cx.graph, a),
        "Sub" if is_before(a) => single(cx.graph, b)?.checked_neg(),
        _ => None,
    }
}

/// `v` without nodes that hand on a whole number.
fn number(cx: &Rewriter, mut v: ValueId) -> ValueId {
    for _ in 0..HANDED_ON_MAX {
        let Some(node) = cx.graph.producer(v).map(|id| &cx.graph[id]) else { break };
        let Some(from) = node.input(0) else { break };
        let ops = ["Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"];
        let whole = |v| matches!(cx.dtype(v), Ok(DataType::Int32 | DataType::Int64));
        if !ops.iter().any(|op| node.is(op)) || !whole(v) || !whole(from) {
            break;
        }
        v = from;
    }
    v
}

/// `v` without the Identity nodes before it.
fn plain(graph: &Graph, mut v: ValueId) -> ValueId {
    for _ in 0..HANDED_ON_MAX {
        let node = graph.producer(v).map(|id| &graph[id]).filter(|node| node.is("Identity"));
        let Some(from) = node.and_then(|node| node.input(0)) else { break };
        v = from;
    }
    v
}

/// A constant whole number.
pub(crate) fn single(graph: &Graph, v: ValueId) -> Option<i64> {
    match graph.constant(v)?.to_i64s()?[..] {
        [one] => Some(one),
        _ => None,
    }
}
