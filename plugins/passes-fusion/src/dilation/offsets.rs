//! Lists of integers as computed numbers and known offsets: what two of them differ by, though neither is known.
//!
//! TensorFlow computes pads and crops of dilated convolutions from the sizes of pictures. Their differences are those
//! of the convolution's own pads.

use super::blocks::ints;
use onnxd_plugin_sdk::ir::{DataType, Facts, Node, ValueId, axis_at};
use onnxd_plugin_sdk::rewrite::Rewriter;
use std::cell::Cell;

/// Elements of a list, nodes that it is followed through, and nodes one behind the other.
const ELEMENTS_MAX: usize = 64;
const NODES_MAX: usize = 256;
const DEPTH_MAX: usize = 32;

/// `known`, or `known` more than an element of a computed tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetNumber {
    computed: Option<(ValueId, usize)>,
    known: i64,
}

/// What is known of the graph around lists.
#[derive(Clone, Copy)]
struct Lists<'a, 'g> {
    cx: &'a Rewriter<'g>,
    facts: &'a Facts,
    /// How many nodes are still followed: one that many others read would be followed from each of them.
    nodes: &'a Cell<usize>,
}

/// What pads and, behind them, negative ones that crop add together for each of `rank` axes, if that is known. What is
/// not there adds nothing. Only the axes of `blocks`, which are behind the first, may be padded or cropped: the
/// convolution between does not keep the others as they are.
pub(crate) fn left(
    cx: &Rewriter,
    facts: &Facts,
    (pads, crops): (Option<ValueId>, Option<ValueId>),
    (rank, blocks): (usize, usize),
) -> Option<Vec<i64>> {
    let numbers = |v| Lists { cx, facts, nodes: &Cell::new(NODES_MAX) }.numbers(v, DEPTH_MAX);
    let cropped = |v: ValueId| {
        let negative = cx.graph.producer(v).map(|id| &cx.graph[id]).filter(|node| node.is("Neg"));
        if let Some(node) = negative {
            return numbers(node.input(0)?);
        }
        let minus = |n: &i64| Some(OffsetNumber { computed: None, known: n.checked_neg()? });
        cx.graph.constant(v)?.to_i64s()?.iter().map(minus).collect()
    };
    let zero = OffsetNumber { computed: None, known: 0 };
    let none = || Some(vec![zero; 2 * rank]);
    let pads = pads.map_or_else(none, numbers)?;
    let crops = crops.map_or_else(none, cropped)?;
    let is_kept = |all: &[OffsetNumber]| {
        let kept = |at: usize| !(1..=blocks).contains(&(at % rank));
        all.len() == 2 * rank && (0..all.len()).all(|at| !kept(at) || all[at] == zero)
    };
    let difference = |(x, y): (&OffsetNumber, &OffsetNumber)| {
        (x.computed == y.computed).then(|| x.known.checked_sub(y.known)).flatten()
    };
    match is_kept(&pads) && is_kept(&crops) {
        true => pads.iter().zip(&crops).map(difference).collect(),
        false => None,
    }
}

impl Lists<'_, '_> {
    fn ints(&self, v: Option<ValueId>) -> Option<Vec<i64>> {
        self.cx.graph.constant(v?)?.to_i64s()
    }

    /// The sizes of `v`.
    fn sizes(&self, v: ValueId) -> Option<Vec<usize>> {
        let sizes = self.facts.shape(v)?.iter();
        sizes.map(|size| usize::try_from(size.known()?).ok()).collect()
    }

    /// The elements of `v`, in the order of its memory.
    fn numbers(self, v: ValueId, depth: usize) -> Option<Vec<OffsetNumber>> {
        if let Some(known) = self.ints(Some(v)) {
            let numbers = known.iter().map(|known| OffsetNumber { computed: None, known: *known });
            return (known.len() <= ELEMENTS_MAX).then(|| numbers.collect());
        }
        let graph = &*self.cx.graph;
        let node = graph.producer(v).map(|id| &graph[id]);
        let node = node.filter(|node| node.is_standard() && depth > 0 && self.nodes.get() > 0);
        let sizes = self.sizes(v)?;
        let count = sizes.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
        let count = Some(count).filter(|count| *count <= ELEMENTS_MAX)?;
        if let Some(node) = node {
            self.nodes.set(self.nodes.get() - 1);
            // Operands that broadcast to more elements are not taken apart.
            let found = self.computed(node, &sizes, depth - 1).filter(|found| found.len() == count);
            if found.is_some() {
                return found;
            }
        }
        Some((0..count).map(|at| OffsetNumber { computed: Some((v, at)), known: 0 }).collect())
    }

    /// The elements that a node computes of those that it reads, if each is one of these and an offset.
    fn computed(self, node: &Node, sizes: &[usize], depth: usize) -> Option<Vec<OffsetNumber>> {
        let read = |at: usize| self.numbers(node.input(at)?, depth);
        let axis = |rank: usize| axis_at(node.int("axis", 0), rank);
        match node.op.as_str() {
            "Cast" => {
                let from = self.cx.dtype(node.input(0)?).ok()?;
                matches!(from, DataType::Int32 | DataType::Int64).then(|| read(0)).flatten()
            }
            "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => read(0),
            "Transpose" => {
                let (all, from) = (read(0)?, self.sizes(node.input(0)?)?);
                let [rows, columns] = from[..] else { return None };
                let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
                let swaps = ints(node, "perm").is_none_or(|perm| perm == [1, 0]);
                (swaps && sizes == [columns, rows]).then(|| turned.map(|at| all[at]).collect())
            }
            "Concat" => {
                let axis = axis(sizes.len())?;
                let mut parts = vec![];
                for (at, v) in node.inputs.iter().enumerate() {
                    let row: usize = self.sizes((*v)?)?[axis..].iter().product();
                    parts.push((read(at)?, row));
                }
                let groups: usize = sizes[..axis].iter().product();
                let rows = (0..groups).flat_map(|group| {
                    parts.iter().map(move |(all, row)| all.get(group * row..(group + 1) * row))
                });
                Some(rows.collect::<Option<Vec<_>>>()?.concat())
            }
            "Add" => sum(&read(0)?, &read(1)?, i64::checked_add),
            "Sub" => sum(&read(0)?, &read(1)?, i64::checked_sub),
            "Gather" => {
                let (places, dims) = (self.ints(node.input(1))?, self.sizes(node.input(0)?)?);
                let axis = axis(dims.len())?;
                let (all, count) = (read(0)?, dims[axis] as i64);
                let part: usize = dims[axis + 1..].iter().product();
                let whole = part.checked_mul(dims[axis]).filter(|n| *n > 0)?;
                let place = |at: i64| usize::try_from(if at < 0 { at + count } else { at }).ok();
                let pick = |(group, at): (&[OffsetNumber], i64)| {
                    group.chunks_exact(part).nth(place(at)?).map(<[OffsetNumber]>::to_vec)
                };
                let picks = all
                    .chunks_exact(whole)
                    .flat_map(|group| places.iter().map(move |at| (group, *at)));
                Some(picks.map(pick).collect::<Option<Vec<_>>>()?.concat())
            }
            "Slice" => {
                let of = |at: usize| self.ints(node.input(at));
                let one = |at: usize, wanted: i64| {
                    node.input(at).is_none() || of(at).is_some_and(|all| all == [wanted])
                };
                let dims = self.sizes(node.input(0)?)?;
                let (all, rows) = (read(0)?, *dims.first().filter(|rows| **rows > 0)?);
                let place = |at: Vec<i64>| {
                    let [at] = at[..] else { return None };
                    let at = if at < 0 { at.saturating_add(rows as i64) } else { at };
                    Some(at.clamp(0, rows as i64) as usize * (all.len() / rows))
                };
                let part = all.get(place(of(1)?)?..place(of(2)?)?);
                part.filter(|_| one(3, 0) && one(4, 1)).map(<[OffsetNumber]>::to_vec)
            }
            _ => None,
        }
    }
}

/// `x ± y`, where `y` is known or the operation does not care for the order. One of them may be a single number.
fn sum(
    x: &[OffsetNumber],
    y: &[OffsetNumber],
    operation: fn(i64, i64) -> Option<i64>,
) -> Option<Vec<OffsetNumber>> {
    let swaps = operation(0, 1) == Some(1);
    let count = x.len().max(y.len());
    if [x, y].iter().any(|list| list.len() != count && list.len() != 1) {
        return None;
    }
    let at = |list: &[OffsetNumber], at: usize| list[if list.len() == 1 { 0 } else { at }];
    let one = |(x, y): (OffsetNumber, OffsetNumber)| {
        let known = operation(x.known, y.known)?;
        match (x.computed, y.computed) {
            (computed, None) => Some(OffsetNumber { computed, known }),
            (None, computed) if swaps => Some(OffsetNumber { computed, known }),
            _ => None,
        }
    };
    (0..count).map(|i| one((at(x, i), at(y, i)))).collect()
}
