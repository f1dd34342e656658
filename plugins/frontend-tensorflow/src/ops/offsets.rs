//! Lists of integers as computed numbers and known offsets: what two of them differ by, though neither is known.
//!
//! TensorFlow computes pads and crops of dilated convolutions from the sizes of pictures. Their differences are those
//! of the convolution's own pads.

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{DataType, Node, ValueId, axis_at};
use std::cell::Cell;

/// Elements of a list, nodes that it is followed through, and nodes one behind the other.
const ELEMENTS_MAX: usize = 64;
const NODES_MAX: usize = 256;
const DEPTH_MAX: usize = 32;

/// `known`, or `known` more than an element of a computed tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    computed: Option<(ValueId, usize)>,
    known: i64,
}

/// `x - y` for each element, if all of these are known.
pub(super) fn differences(b: &GraphBuilder, x: Var, y: Var) -> Option<Vec<i64>> {
    // A node that many others read would be followed from each of them.
    let [x, y] = [x, y].map(|v| numbers(b, v, (DEPTH_MAX, &Cell::new(NODES_MAX))));
    let (x, y) = (x?, y?);
    let difference = |(x, y): (&Number, &Number)| {
        (x.computed == y.computed).then(|| x.known.checked_sub(y.known)).flatten()
    };
    if x.len() == y.len() { x.iter().zip(&y).map(difference).collect() } else { None }
}

/// How deep nodes are still followed, and how many.
type Left<'a> = (usize, &'a Cell<usize>);

/// The elements of `v`, in the order of its memory.
fn numbers(b: &GraphBuilder, v: Var, (depth, nodes): Left<'_>) -> Option<Vec<Number>> {
    let constant = || b.constant_of(v)?.to_i64s();
    if let Some(known) = b.ints_of(v).or_else(constant) {
        let numbers = known.iter().map(|known| Number { computed: None, known: *known });
        return (known.len() <= ELEMENTS_MAX).then(|| numbers.collect());
    }
    let id = b.id(v).ok().filter(|_| b.is_own(v))?;
    let node = b.graph().producer(id).map(|id| b.graph()[id].clone());
    let node = node.filter(|node| node.is_standard() && depth > 0 && nodes.get() > 0);
    let count = b.dims_of(v)?.iter().try_fold(1i64, |n, size| n.checked_mul(*size))?;
    let count = usize::try_from(count).ok().filter(|count| *count <= ELEMENTS_MAX)?;
    if let Some(node) = node {
        nodes.set(nodes.get() - 1);
        // Operands that broadcast to more elements are not taken apart.
        if let Some(found) = computed(b, &node, (depth - 1, nodes)).filter(|f| f.len() == count) {
            return Some(found);
        }
    }
    Some((0..count).map(|at| Number { computed: Some((id, at)), known: 0 }).collect())
}

/// The elements that a node computes of those that it reads, if each is one of these and an offset.
fn computed(b: &GraphBuilder, node: &Node, left: Left<'_>) -> Option<Vec<Number>> {
    let read = |at: usize| numbers(b, b.var(node.input(at)?), left);
    match node.op.as_str() {
        "Cast" => {
            let from = b.dtype_of(b.var(node.input(0)?))?;
            matches!(from, DataType::Int32 | DataType::Int64).then(|| read(0)).flatten()
        }
        "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => read(0),
        "Concat" if node.int("axis", 0) == 0 => {
            let all = (0..node.inputs.len()).map(read).collect::<Option<Vec<_>>>()?;
            Some(all.concat())
        }
        "Add" => sum(&read(0)?, &read(1)?, i64::checked_add),
        "Sub" => sum(&read(0)?, &read(1)?, i64::checked_sub),
        "Gather" => {
            let places = b.ints_of(b.var(node.input(1)?))?;
            let dims = b.dims_of(b.var(node.input(0)?))?;
            let axis = axis_at(node.int("axis", 0), dims.len())?;
            let (all, count) = (read(0)?, dims[axis]);
            let inner = dims[axis + 1..].iter().try_fold(1i64, |n, size| n.checked_mul(*size));
            let part = usize::try_from(inner?).ok()?;
            let whole = part.checked_mul(usize::try_from(count).ok()?).filter(|n| *n > 0)?;
            let place = |at: i64| usize::try_from(if at < 0 { at + count } else { at }).ok();
            let pick = |(group, at): (&[Number], i64)| {
                group.chunks_exact(part).nth(place(at)?).map(<[Number]>::to_vec)
            };
            let picks =
                all.chunks_exact(whole).flat_map(|group| places.iter().map(move |at| (group, *at)));
            Some(picks.map(pick).collect::<Option<Vec<_>>>()?.concat())
        }
        "Slice" => {
            let of = |at: usize| b.ints_of(b.var(node.input(at)?));
            let one = |at: usize, wanted: i64| {
                node.input(at).is_none() || of(at).is_some_and(|all| all == [wanted])
            };
            let (all, rows) = (read(0)?, rows(b, node)?);
            let place = |at: Vec<i64>| {
                let [at] = at[..] else { return None };
                let at = if at < 0 { at.saturating_add(rows as i64) } else { at };
                Some(at.clamp(0, rows as i64) as usize * (all.len() / rows))
            };
            let part = all.get(place(of(1)?)?..place(of(2)?)?);
            part.filter(|_| one(3, 0) && one(4, 1)).map(<[Number]>::to_vec)
        }
        _ => None,
    }
}

/// The size of the first axis of what a node reads, if it is not empty.
fn rows(b: &GraphBuilder, node: &Node) -> Option<usize> {
    let dims = b.dims_of(b.var(node.input(0)?))?;
    usize::try_from(*dims.first()?).ok().filter(|rows| *rows > 0)
}

/// `x ± y`, where `y` is known or the operation does not care for the order. One of them may be a single number.
fn sum(x: &[Number], y: &[Number], operation: fn(i64, i64) -> Option<i64>) -> Option<Vec<Number>> {
    let swaps = operation(0, 1) == Some(1);
    let count = x.len().max(y.len());
    if [x, y].iter().any(|list| list.len() != count && list.len() != 1) {
        return None;
    }
    let at = |list: &[Number], at: usize| list[if list.len() == 1 { 0 } else { at }];
    let one = |(x, y): (Number, Number)| {
        let known = operation(x.known, y.known)?;
        match (x.computed, y.computed) {
            (computed, None) => Some(Number { computed, known }),
            (None, computed) if swaps => Some(Number { computed, known }),
            _ => None,
        }
    };
    (0..count).map(|i| one((at(x, i), at(y, i)))).collect()
}
