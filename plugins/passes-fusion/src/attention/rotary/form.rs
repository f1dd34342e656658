//! Rotary position embedding as networks say it: `x * cos + turned(x) * sin`.

use crate::attention::form::are_heads;
use crate::parts::{PatternNodes, dims, unlike};
use onnxd_plugin_sdk::ir::ops::{Add, Reshape, Transpose};
use onnxd_plugin_sdk::ir::{At, Dim, Graph, Node, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// A rotation of the first elements of each head.
pub(crate) struct Rotation {
    /// What it computes.
    pub(crate) out: ValueId,
    pub(crate) heads: Heads,
    pub(crate) cos: ValueId,
    pub(crate) sin: ValueId,
    /// Whether the elements of a pair lie beside each other; else one lies in each half.
    pub(crate) interleaved: bool,
    /// How many elements of a head it rotates.
    pub(crate) width: i64,
    /// Whether a head has others, which stay.
    pub(crate) partial: bool,
}

/// What is rotated.
pub(crate) struct Heads {
    pub(crate) x: ValueId,
    /// Which axis of `x` the words have: 2, or 1 if the heads come behind them.
    pub(crate) words_axis: usize,
    /// Sizes of batch and words, and the number of heads.
    pub(crate) batch: Dim,
    pub(crate) words: Dim,
    pub(crate) count: Option<i64>,
    /// Batch, words and elements of all heads, from which only the rotation takes the heads apart.
    pub(crate) together: Option<ValueId>,
}

impl Heads {
    /// The Reshape that takes the heads apart, and the Transpose that moves them to the front.
    pub(crate) fn apart(&self, graph: &Graph) -> (Node, Option<Node>) {
        let of = |v: ValueId| graph[graph.producer(v).expect("it was matched")].clone();
        match self.words_axis {
            1 => (of(self.x), None),
            _ => {
                let transpose = of(self.x);
                (of(transpose.input(0).expect("it was matched")), Some(transpose))
            }
        }
    }
}

/// The rotation that `add` computes.
pub(crate) fn rotation(cx: &Rewriter, add: &At<Add>) -> Result<Rotation, Skip> {
    let parts = PatternNodes::from_root(cx, add.out);
    let (x, cos, sin, interleaved) =
        parts.either(parts.pair("Add", add.out)?, |straight, turned| {
            let (straight, turned) = (parts.pair("Mul", straight)?, parts.pair("Mul", turned)?);
            parts.either(straight, |x, cos| {
                parts.either(turned, |v, sin| Ok((x, cos, sin, is_interleaved(cx, &parts, v, x)?)))
            })
        })?;
    parts.closed()?;
    let own_reads = if interleaved { 3 } else { 2 };
    let (width, all) = (last(cx, x)?, whole(cx, x, add.out, own_reads));
    let partial = all.is_some();
    let (x, out, own_reads) = all.unwrap_or((x, add.out, own_reads));
    let heads = heads(cx, x, [cos, sin], own_reads)?;
    Ok(Rotation { out, heads, cos, sin, interleaved, width, partial })
}

/// Whether the pairs of elements that `v` has turned by a right angle, `(a, b)` to `(-b, a)`, lie beside each other.
fn is_interleaved(
    cx: &Rewriter,
    parts: &PatternNodes,
    v: ValueId,
    x: ValueId,
) -> Result<bool, Skip> {
    let halves = parts.attempt(|| turned_halves(cx, parts, v, x)).map(|()| false);
    halves.or_else(|_| parts.attempt(|| turned_neighbours(cx, parts, v, x)).map(|()| true))
}

fn turned_halves(cx: &Rewriter, parts: &PatternNodes, v: ValueId, x: ValueId) -> Rewrite {
    let [b, a] = joined(cx, parts, v)?;
    let b = parts.unary("Neg", b)?;
    match shared_out(cx, [a, b])? == x && last(cx, a)? == last(cx, b)? {
        true => Ok(()),
        false => Skip::unlike(),
    }
}

fn turned_neighbours(cx: &Rewriter, parts: &PatternNodes, v: ValueId, x: ValueId) -> Rewrite {
    let stacked = parts.node("Reshape", v)?.input(0).ok_or_else(unlike)?;
    let single = |c: ValueId| -> Result<ValueId, Skip> {
        let inner = parts.node("Unsqueeze", c)?.input(0).ok_or_else(unlike)?;
        // Behind the last axis.
        if last(cx, c)? == 1 { Ok(inner) } else { Skip::unlike() }
    };
    let [b, a] = joined(cx, parts, stacked)?;
    let (a, b) = (single(a)?, parts.unary("Neg", single(b)?)?);
    let every_second = |v: ValueId, first: i64| -> Rewrite {
        let slice = parts.node("Slice", v)?;
        let number = |slot: usize| match slice.input(slot).map(|v| cx.integers(v)) {
            Some(Ok(list)) if list.len() == 1 => Ok(list[0]),
            _ => Skip::unlike(),
        };
        is_last(cx, x, number(3)?)?;
        let fits = number(1)? == first && number(2)? >= last(cx, x)? && number(4)? == 2;
        if fits && slice.input(0) == Some(x) { Ok(()) } else { Skip::unlike() }
    };
    every_second(a, 0)?;
    every_second(b, 1)?;
    let same = dims(cx, v)?.iter().zip(&dims(cx, x)?).all(|(a, b)| a.same(b));
    if same && last(cx, x)? % 2 == 0 { Ok(()) } else { Skip::unlike() }
}

/// The two values that `v` joins along the last axis.
fn joined(cx: &Rewriter, parts: &PatternNodes, v: ValueId) -> Result<[ValueId; 2], Skip> {
    let concat = parts.node("Concat", v)?;
    is_last(cx, v, concat.int("axis", 0))?;
    match concat.inputs[..] {
        [Some(a), Some(b)] => Ok([a, b]),
        _ => Skip::unlike(),
    }
}

/// What a Split shares out along the last axis to `parts`, which are read once each.
fn shared_out(cx: &Rewriter, parts: [ValueId; 2]) -> Result<ValueId, Skip> {
    let split: Option<&Node> = cx.graph.producer(parts[0]).map(|id| &cx.graph[id]);
    let split =
        split.filter(|s| s.is("Split") && s.outputs == parts.map(Some)).ok_or_else(unlike)?;
    let x = split.input(0).ok_or_else(unlike)?;
    is_last(cx, x, split.int("axis", 0))?;
    parts.iter().try_for_each(|v| cx.read_once(*v)).map(|()| x)
}

/// What has `x` at the beginning of its last axis, where `out` stands in the result with the rest as it was.
fn whole(
    cx: &Rewriter,
    x: ValueId,
    out: ValueId,
    own_reads: usize,
) -> Option<(ValueId, ValueId, usize)> {
    let [reader] = cx.graph.readers(out) else { return None };
    let concat = &cx.graph[*reader];
    let [Some(first), Some(rest)] = concat.inputs[..] else { return None };
    let fits = concat.is("Concat") && first == out && cx.graph.uses(out) == 1;
    let split = cx.graph.producer(x).filter(|_| fits && cx.graph.uses(x) == own_reads)?;
    let split = &cx.graph[split];
    let all = split.input(0)?;
    let is_split = split.is("Split") && split.outputs == [Some(x), Some(rest)];
    let last_axis = |node: &Node| is_last(cx, all, node.int("axis", 0)).is_ok();
    let fits = is_split && cx.graph.uses(rest) == 1 && last_axis(split) && last_axis(concat);
    let out = concat.output(0).filter(|_| fits)?;
    last(cx, all).ok().map(|_| (all, out, 1))
}

fn heads(cx: &Rewriter, x: ValueId, angles: [ValueId; 2], own_reads: usize) -> Result<Heads, Skip> {
    let sizes = dims(cx, x)?;
    let [batch, a, b, _] = &sizes[..] else { return Skip::because("it does not have four axes") };
    let (cos, sin) = (four(cx, angles[0])?, four(cx, angles[1])?);
    let one = |d: &Dim| d.known() == Some(1);
    if !cos.iter().zip(&sin).all(|(c, s)| c.same(s) || one(c) && one(s)) {
        return Skip::because("sines and cosines differ in shape");
    }
    let (words_axis, words, count) = match &cos[..] {
        [_, heads, words, _] if one(heads) && words.same(b) => (2, b, a),
        [_, words, heads, _] if one(heads) && words.same(a) => (1, a, b),
        _ => return Skip::because("the angles are not one for each word"),
    };
    let together = together(cx, x, words_axis, own_reads);
    if words_axis == 1 && together.is_none() {
        return Skip::because("the heads come behind the words");
    }
    let (batch, words) = (batch.clone(), words.clone());
    Ok(Heads { x, words_axis, batch, words, count: count.known(), together })
}

/// What `x`, read `reads` times, is with its heads together.
fn together(cx: &Rewriter, x: ValueId, words_axis: usize, reads: usize) -> Option<ValueId> {
    let mut apart = x;
    if words_axis == 2 {
        let transpose = cx.producer::<Transpose>(x).ok()?;
        apart = transpose.data;
        (transpose.perm == [0, 2, 1, 3]).then(|| cx.read_once(apart).ok())??;
    }
    let reshape = cx.producer::<Reshape>(apart).ok().filter(|_| cx.graph.uses(x) == reads)?;
    let (flat, split) = (dims(cx, reshape.data).ok()?, dims(cx, apart).ok()?);
    are_heads(&flat, &split).then_some(reshape.data)
}

/// The sizes of `v` with four axes.
pub(crate) fn four(cx: &Rewriter, v: ValueId) -> Result<Vec<Dim>, Skip> {
    let sizes = dims(cx, v)?;
    match sizes.len() {
        rank @ 0..=4 => Ok([vec![Dim::Known(1); 4 - rank], sizes].concat()),
        _ => Skip::unlike(),
    }
}

/// The size of the last axis of `v`.
pub(crate) fn last(cx: &Rewriter, v: ValueId) -> Result<i64, Skip> {
    let size = dims(cx, v)?.last().and_then(Dim::known);
    size.ok_or_else(|| Skip(format!("the last size of {} is not known", cx.name(v))))
}

/// Demands that `axis` is the last one of `v`.
pub(crate) fn is_last(cx: &Rewriter, v: ValueId, axis: i64) -> Rewrite {
    let rank = cx.rank(v)? as i64;
    if axis == -1 || axis == rank - 1 { Ok(()) } else { Skip::unlike() }
}
