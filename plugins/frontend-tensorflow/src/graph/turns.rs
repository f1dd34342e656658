//! What the body of a loop says about how often it runs: counters, and limits that a condition compares them with.

use super::list::single;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Graph, Node, Origin, Tensor, ValueId, ValueType};

/// Nodes between a value and what it is compared with or computed from.
const STEPS_MAX: usize = 16;

/// Comparisons that a condition is made of.
const PARTS_MAX: usize = 64;

/// A carried integer that grows by the same step in each turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    pub(crate) state: Var,
    pub(crate) next: Var,
    pub(crate) begin: Var,
    pub(crate) step: i64,
}

/// What computes `v` in the graph that is open, passing over nodes that keep the number.
fn source(b: &GraphBuilder, v: Var) -> Option<(ValueId, Option<Node>)> {
    let mut id = b.id(v).ok()?;
    let graph = b.graph();
    for _ in 0..STEPS_MAX {
        let Origin::Node(node, _) = graph[id].origin() else { return Some((id, None)) };
        match keeps(&graph, &graph[node]) {
            true => id = graph[node].input(0)?,
            false => return Some((id, Some(graph[node].clone()))),
        }
    }
    None
}

/// Whether a node gives the number that it gets, if it gets a whole one.
fn keeps(graph: &Graph, node: &Node) -> bool {
    let small = |v: ValueId| {
        let shape = graph[v].ty.as_ref().and_then(ValueType::shape);
        shape.is_some_and(|shape| shape.iter().all(|n| n.known() == Some(1)))
    };
    match node.op.as_str() {
        "Identity" => true,
        "Cast" => {
            let integer = |v: ValueId| {
                let dtype = graph[v].ty.as_ref().and_then(ValueType::dtype);
                dtype.is_some_and(|d| d.is_integer() && d.bits() >= 32)
            };
            node.input(0).is_some_and(integer)
                && node.outputs.first().copied().flatten().is_some_and(integer)
        }
        "Reshape" | "Squeeze" | "Unsqueeze" => node.input(0).is_some_and(small),
        _ => false,
    }
}

/// The node of the graph that is open, or of one around it, that computes `v`; and what it reads.
pub(crate) fn node_of(b: &GraphBuilder, v: Var) -> Option<(String, Vec<Var>)> {
    let (_, node) = source(b, v)?;
    let node = node?;
    let inputs = node.inputs.iter().map(|input| input.map(|id| b.var(id)));
    Some((node.op.clone(), inputs.collect::<Option<_>>()?))
}

/// Whether two values are the same number.
pub(crate) fn same(b: &GraphBuilder, x: Var, y: Var) -> bool {
    equal(b, x, y, STEPS_MAX)
}

fn equal(b: &GraphBuilder, x: Var, y: Var, depth: usize) -> bool {
    if x == y {
        return true;
    }
    if let (Some(x), Some(y)) = (single(b, x), single(b, y)) {
        return x == y;
    }
    let (Some((x, left)), Some((y, right))) = (source(b, x), source(b, y)) else { return false };
    if x == y {
        return true;
    }
    let constant = |v: ValueId| b.constant_of(b.var(v));
    if let (Some(x), Some(y)) = (constant(x), constant(y)) {
        return x.dtype() == y.dtype() && x.dims() == y.dims() && x.bytes() == y.bytes();
    }
    let (Some(left), Some(right)) = (left, right) else { return false };
    let pure = left.is_standard()
        && left.subgraphs().next().is_none()
        && !left.op.starts_with("Random")
        && left.outputs.len() == 1;
    if depth == 0 || !pure || left.op != right.op || left.inputs.len() != right.inputs.len() {
        return false;
    }
    let inputs = left.inputs.iter().zip(&right.inputs);
    format!("{:?}", left.attrs) == format!("{:?}", right.attrs)
        && inputs.into_iter().all(|(x, y)| match (x, y) {
            (Some(x), Some(y)) => equal(b, b.var(*x), b.var(*y), depth / 2),
            (None, None) => true,
            _ => false,
        })
}

/// The value of a comparison of known integers.
pub(crate) fn known_bool(b: &GraphBuilder, v: Var) -> Option<bool> {
    bool_of(b, v, STEPS_MAX)
}

fn bool_of(b: &GraphBuilder, v: Var, depth: usize) -> Option<bool> {
    if let Some(tensor) = b.constant_of(v).filter(|t| t.len() == 1) {
        return tensor.bytes().first().map(|byte| *byte != 0);
    }
    let (op, inputs) = node_of(b, v).filter(|_| depth > 0)?;
    let part = |at: usize| bool_of(b, *inputs.get(at)?, depth - 1);
    match op.as_str() {
        "And" => match (part(0), part(1)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (x, y) => Some(x? && y?),
        },
        "Or" => match (part(0), part(1)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (x, y) => Some(x? || y?),
        },
        "Not" => Some(!part(0)?),
        op => {
            let (x, y) = (single(b, *inputs.first()?)?, single(b, *inputs.get(1)?)?);
            match op {
                "Less" => Some(x < y),
                "LessOrEqual" => Some(x <= y),
                "Greater" => Some(x > y),
                "GreaterOrEqual" => Some(x >= y),
                "Equal" => Some(x == y),
                _ => None,
            }
        }
    }
}

/// The step by which `next` is above `state` in each turn.
pub(crate) fn step(b: &GraphBuilder, state: Var, next: Var) -> Option<i64> {
    let (op, inputs) = node_of(b, next)?;
    let at = b.id(state).ok()?;
    let is_state = |v: Var| source(b, v).is_some_and(|(id, _)| id == at);
    let [x, y] = inputs[..] else { return None };
    match op.as_str() {
        "Add" if is_state(x) => single(b, y),
        "Add" if is_state(y) => single(b, x),
        "Sub" if is_state(x) => single(b, y)?.checked_neg(),
        _ => None,
    }
}

/// The counter whose state `v` is.
pub(crate) fn counter_of(b: &GraphBuilder, v: Var, counters: &[Counter]) -> Option<Counter> {
    let (id, _) = source(b, v)?;
    counters.iter().find(|c| b.id(c.state).is_ok_and(|state| state == id)).copied()
}

/// What a counter is compared with.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Known(i64),
    /// A value of the graph around the loop.
    Outside(ValueId),
}

/// A counter, what it is compared with, and whether it may be equal to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    counter: Counter,
    bound: Bound,
    equal: bool,
}

/// Limits that the condition of the next turn compares counters with; `None` if it says anything else.
pub(crate) fn limits(b: &GraphBuilder, condition: Var, counters: &[Counter]) -> Option<Vec<Limit>> {
    let (mut open, mut found) = (vec![condition], vec![]);
    let mut budget = PARTS_MAX;
    while let Some(part) = open.pop() {
        budget = budget.checked_sub(1)?;
        if bool_of(b, part, 1) == Some(true) {
            continue;
        }
        let (op, inputs) = node_of(b, part)?;
        let [x, y] = inputs[..] else { return None };
        match op.as_str() {
            "And" => open.extend([x, y]),
            _ => found.push(limit(b, &op, [x, y], counters)?),
        }
    }
    Some(found)
}

fn limit(b: &GraphBuilder, op: &str, [x, y]: [Var; 2], counters: &[Counter]) -> Option<Limit> {
    let next = |v: Var| {
        let (id, _) = source(b, v)?;
        let is = |c: &&Counter| source(b, c.next).is_some_and(|(next, _)| next == id);
        counters.iter().find(is).copied()
    };
    let (up, equal) = match op {
        "Less" => (true, false),
        "LessOrEqual" => (true, true),
        "Greater" => (false, false),
        "GreaterOrEqual" => (false, true),
        _ => return None,
    };
    let (counter, bound, up) = match next(x) {
        Some(counter) => (counter, y, up),
        None => (next(y)?, x, !up),
    };
    // What the counter is compared with must be the same in each turn.
    let bound = match single(b, bound) {
        Some(known) => Bound::Known(known),
        None => {
            let (id, _) = source(b, bound)?;
            let Origin::Captured(outer) = b.graph()[id].origin() else { return None };
            Bound::Outside(outer)
        }
    };
    let reaches = counter.step != 0 && (counter.step > 0) == up;
    reaches.then_some(Limit { counter, bound, equal })
}

/// How often a loop runs with these limits: an int64 scalar. It is built around the loop, when its body is closed.
///
/// # Errors
/// Those of the builder.
pub(crate) fn trips(b: &GraphBuilder, limits: &[Limit]) -> Result<Var> {
    let mut least: Option<Var> = None;
    for limit in limits {
        let bound = match limit.bound {
            Bound::Known(n) => b.constant(Tensor::scalar(n)),
            Bound::Outside(id) => b.var(id),
        };
        let n = trips_to(b, &limit.counter, bound, limit.equal)?;
        least = Some(match least {
            None => n,
            Some(other) if same(b, other, n) => other,
            Some(other) => match (single(b, other), single(b, n)) {
                (Some(x), Some(y)) => b.constant(Tensor::scalar(x.min(y))),
                _ => b.min([other, n])?,
            },
        });
    }
    Ok(least.unwrap_or_else(|| b.constant(Tensor::scalar(i64::MAX))))
}

fn trips_to(b: &GraphBuilder, counter: &Counter, bound: Var, equal: bool) -> Result<Var> {
    let (size, sign) = (counter.step.abs(), counter.step.signum());
    let known = single(b, counter.begin).zip(single(b, bound));
    if let Some((begin, bound)) = known {
        let way = i128::from(bound) - i128::from(begin);
        let way = way * i128::from(sign) + i128::from(equal) + i128::from(size) - 1;
        let n = way.div_euclid(size.into()).clamp(0, i64::MAX.into());
        return Ok(b.constant(Tensor::scalar(n as i64)));
    }
    let begin = b.cast(counter.begin, DataType::Int64)?;
    let bound = b.cast(bound, DataType::Int64)?;
    let way = match sign {
        1 if single(b, begin) == Some(0) => bound,
        1 => b.sub(bound, begin)?,
        _ => b.sub(begin, bound)?,
    };
    let more = i64::from(equal) + size - 1;
    let way = if more == 0 { way } else { b.add(way, more)? };
    // Division cuts towards zero, and no loop runs less than not at all.
    let n = if size == 1 { way } else { b.div(way, size)? };
    Ok(n)
}
