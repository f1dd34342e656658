//! Gates before their activation: sums of products with constant matrices, and of constants, however they are written.

use crate::parts::{PatternNodes, axis_of, dims, unlike};
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::ir::{
    Attr, DataType, Dim, Facts, Graph, Node, NodeId, Reals, Tensor, ValueId,
};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::collections::HashSet;

/// No cell has more nodes.
pub(crate) const NODES_MAX: usize = 80;

/// Activations that the operators of ONNX have under these names.
const ACTIVATIONS: [&str; 3] = ["Sigmoid", "Tanh", "Relu"];

/// Places from `start` on along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Element `index` of `data` along one of its first two axes, of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceStep {
    pub(crate) data: ValueId,
    pub(crate) axis: usize,
    pub(crate) index: usize,
}

/// What a matrix is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermSource {
    Value(ValueId),
    /// A step of what is multiplied as a whole sequence.
    Step(SequenceStep),
}

/// A part of a constant matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Weight {
    pub(crate) value: ValueId,
    /// Whether the constant has outputs first.
    outputs_first: bool,
    inputs: Range,
    outputs: Range,
}

impl Weight {
    /// The part, outputs first.
    pub(crate) fn tensor(&self, graph: &Graph) -> Option<Tensor> {
        let take = |range: Range| (range.start, range.len, 1);
        let constant = graph.constant(self.value)?;
        match self.outputs_first {
            true => constant.sliced(&[take(self.outputs), take(self.inputs)]).ok(),
            false => {
                let part = constant.sliced(&[take(self.inputs), take(self.outputs)]).ok()?;
                part.permuted(&[1, 0]).ok()
            }
        }
    }

    /// The same of a weight that is computed.
    pub(crate) fn built(&self, b: &GraphBuilder) -> Built<Var> {
        let axes: [i64; 2] = if self.outputs_first { [0, 1] } else { [1, 0] };
        let parts = [self.outputs, self.inputs];
        let starts = parts.map(|part| part.start as i64);
        let ends = parts.map(|part| (part.start + part.len) as i64);
        let part = b.slice(b.var(self.value), starts, ends).axes(axes).one()?;
        if self.outputs_first { Ok(part) } else { b.transpose(part).perm([1, 0]).one() }
    }

    pub(crate) fn is_square(&self) -> bool {
        self.inputs.len == self.outputs.len
    }
}

/// A part of a constant vector, or a number for all outputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bias {
    pub(crate) value: ValueId,
    outputs: Range,
}

impl Bias {
    pub(crate) fn reals(&self, graph: &Graph) -> Option<Reals> {
        let all = graph.constant(self.value)?.to_reals()?.values;
        let Range { start, len } = self.outputs;
        match all[..] {
            [one] => Some(Reals::full(&[len], one)),
            _ => Some(Reals { dims: vec![len], values: all.get(start..start + len)?.to_vec() }),
        }
    }

    /// The same of a bias that is computed, with one element or one for each output.
    pub(crate) fn built(&self, b: &GraphBuilder) -> Built<Var> {
        let Range { start, len } = self.outputs;
        let all = b.reshape(b.var(self.value), [-1]).one()?;
        match b.dims_of(b.var(self.value)).map(|dims| dims.iter().product::<i64>()) {
            Some(1) => Ok(all),
            _ => b.slice(all, [start as i64], [(start + len) as i64]).axes([0]).one(),
        }
    }
}

/// `sources[0] * weights[0] + sources[1] * weights[1] ... + biases[0] ...`
#[derive(Debug, Default)]
pub(crate) struct AffineSum {
    pub(crate) terms: Vec<(TermSource, Weight)>,
    pub(crate) biases: Vec<Bias>,
}

/// An activation, and the sum that it is applied to.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) activation: &'static str,
    pub(crate) sum: AffineSum,
}

/// Follows the sums of one pattern.
pub(crate) struct Sums<'a, 'g> {
    pub(crate) cx: &'a Rewriter<'g>,
    pub(crate) facts: &'a Facts,
    pub(crate) parts: &'a PatternNodes<'a, 'g>,
    /// In the body of a loop: the values that are not the same in each iteration. All others may be weights, too.
    pub(crate) varying: Option<&'a HashSet<ValueId>>,
}

impl<'a> Sums<'a, '_> {
    /// `v` with `width` columns as a gate. The activation may come before what shares out the gates.
    pub(crate) fn gate(&self, v: ValueId, width: usize) -> Result<Gate, Skip> {
        self.spans(v, width)?;
        let (mut v, mut outputs) = (v, Range { start: 0, len: width });
        loop {
            if let Ok((activation, x)) = self.activation(v) {
                let mut sum = AffineSum::default();
                self.follow(x, outputs, None, &mut sum)?;
                return Ok(Gate { activation, sum });
            }
            (v, outputs) = self.whole(self.visited(v)?, v, outputs)?;
        }
    }

    /// The activation that gives `v`, and what it is applied to.
    pub(crate) fn activation(&self, v: ValueId) -> Result<(&'static str, ValueId), Skip> {
        let found = ACTIVATIONS.iter().find_map(|op| Some((*op, self.parts.unary(op, v).ok()?)));
        found.ok_or_else(unlike)
    }

    /// The matrix `v` with `width` columns as a sum.
    pub(crate) fn affine(&self, v: ValueId, width: usize) -> Result<AffineSum, Skip> {
        self.spans(v, width)?;
        let mut found = AffineSum::default();
        self.follow(v, Range { start: 0, len: width }, None, &mut found)?;
        Ok(found)
    }

    /// Demands `width` columns of `v`: fewer would be repeated.
    fn spans(&self, v: ValueId, width: usize) -> Rewrite {
        match self.facts.shape(v).and_then(<[Dim]>::last) {
            Some(Dim::Known(columns)) if *columns == width as i64 => Ok(()),
            _ => Skip::unlike(),
        }
    }

    /// Adds to `into` what is added to something as `sum`, with `width` columns.
    pub(crate) fn add(
        &self,
        v: ValueId,
        sum: ValueId,
        width: usize,
        into: &mut AffineSum,
    ) -> Rewrite {
        self.addend(v, sum, Range { start: 0, len: width }, None, into)
    }

    /// The node that computes `v`.
    fn visited(&self, v: ValueId) -> Result<NodeId, Skip> {
        let graph = &*self.cx.graph;
        if self.parts.count() > NODES_MAX {
            return Skip::unlike();
        }
        let id = graph.producer(v).filter(|id| graph[*id].is_standard()).ok_or_else(unlike)?;
        self.parts.visit(id);
        Ok(id)
    }

    /// What the Split or Slice `id` takes the columns `outputs` of `v` from, and which they are there.
    fn whole(&self, id: NodeId, v: ValueId, outputs: Range) -> Result<(ValueId, Range), Skip> {
        let node = &self.cx.graph[id];
        let data = node.input(0).filter(|_| node.is("Split") || node.is("Slice"));
        let data = data.ok_or_else(unlike)?;
        let (axis, start) = part(self.cx, id, v)?;
        if axis + 1 != self.cx.rank(v)? {
            return Skip::unlike();
        }
        Ok((data, Range { start: start + outputs.start, ..outputs }))
    }

    /// Whether `v` may be a weight.
    fn is_fixed(&self, v: ValueId) -> bool {
        self.cx.graph.constant(v).is_some() || self.varying.is_some_and(|all| !all.contains(&v))
    }

    /// The sizes of a weight.
    fn sizes(&self, v: ValueId) -> Result<Vec<usize>, Skip> {
        if let Some(constant) = self.cx.graph.constant(v) {
            return Ok(constant.dims().to_vec());
        }
        let sizes = self.facts.shape(v).ok_or_else(unlike)?.iter();
        let sizes = sizes.map(|size| usize::try_from(size.known()?).ok());
        sizes.collect::<Option<_>>().ok_or_else(unlike)
    }

    fn follow(
        &self,
        v: ValueId,
        outputs: Range,
        step: Option<SequenceStep>,
        into: &mut AffineSum,
    ) -> Rewrite {
        let graph = &*self.cx.graph;
        let id = self.visited(v)?;
        let node = &graph[id];
        match (node.op.as_str(), &node.inputs[..]) {
            ("Add", [Some(a), Some(b)]) if node.attrs.is_empty() => {
                self.addend(*a, v, outputs, step, into)?;
                self.addend(*b, v, outputs, step, into)
            }
            ("Gemm", [Some(a), Some(w), c @ ..]) if step.is_none() && is_plain_gemm(node) => {
                if let Some(c) = c.iter().flatten().next() {
                    into.biases.push(self.bias(*c, v, outputs)?);
                }
                self.product(*a, (*w, node.int("transB", 0) != 0), outputs, step, into)
            }
            ("MatMul", [Some(a), Some(w)]) => self.product(*a, (*w, false), outputs, step, into),
            ("Split" | "Slice", _) => {
                let (data, outputs) = self.whole(id, v, outputs)?;
                self.follow(data, outputs, step, into)
            }
            ("Gather" | "Squeeze", _) if step.is_none() => {
                let step = step_of(self.cx, v).ok_or_else(unlike)?;
                if node.is("Squeeze") {
                    let inner = node.input(0).and_then(|v| graph.producer(v));
                    self.parts.visit(inner.ok_or_else(unlike)?);
                }
                self.follow(step.data, outputs, Some(step), into)
            }
            _ => Skip::unlike(),
        }
    }

    /// `v`, which is added to something as `sum`.
    fn addend(
        &self,
        v: ValueId,
        sum: ValueId,
        outputs: Range,
        step: Option<SequenceStep>,
        into: &mut AffineSum,
    ) -> Rewrite {
        if self.is_fixed(v) {
            into.biases.push(self.bias(v, sum, outputs)?);
            return Ok(());
        }
        // That rows are not repeated follows from those of what is multiplied.
        let [own, all] = [v, sum].map(|v| self.facts.shape(v));
        let (own, all) = own.zip(all).ok_or_else(unlike)?;
        let mut widths = own.last().into_iter().zip(all.last());
        let same = own.len() == all.len() && widths.all(|(a, b)| a.same(b));
        if same { self.follow(v, outputs, step, into) } else { Skip::unlike() }
    }

    /// The weight `v` as a bias of `sum`.
    fn bias(&self, v: ValueId, sum: ValueId, outputs: Range) -> Result<Bias, Skip> {
        let sizes = self.sizes(v)?;
        let width = dims(self.cx, sum)?.last().and_then(Dim::known).unwrap_or(-1);
        let len = sizes.iter().product::<usize>();
        let vector = sizes.last() == Some(&len) && len as i64 == width;
        let fits = self.cx.dtype(v)? == DataType::Float && sizes.len() <= self.cx.rank(sum)?;
        if fits && self.is_fixed(v) && (vector || len == 1) {
            return Ok(Bias { value: v, outputs });
        }
        Skip::because(format!("{} is no vector of biases", self.cx.name(v)))
    }

    /// `a` multiplied by the weight `w`, which may have outputs first.
    fn product(
        &self,
        a: ValueId,
        (w, outputs_first): (ValueId, bool),
        outputs: Range,
        step: Option<SequenceStep>,
        into: &mut AffineSum,
    ) -> Rewrite {
        let (value, swapped) = self.matrix(w)?;
        let outputs_first = outputs_first != swapped;
        let [rows, columns] = self.sizes(value)?[..] else { return Skip::unlike() };
        let (len, all) = if outputs_first { (columns, rows) } else { (rows, columns) };
        if outputs.start + outputs.len > all || self.cx.dtype(value)? != DataType::Float {
            return Skip::unlike();
        }
        let weight = |inputs| Weight { value, outputs_first, inputs, outputs };
        if let Some(step) = step {
            let source = TermSource::Step(SequenceStep { data: a, ..step });
            into.terms.push((source, weight(Range { start: 0, len })));
            return Ok(());
        }
        let mut start = 0;
        for (v, len) in self.side_by_side(a, len) {
            into.terms.push((TermSource::Value(v), weight(Range { start, len })));
            start += len;
        }
        Ok(())
    }

    /// The weight that is `w`, and whether it is `w` with its axes swapped.
    fn matrix(&self, w: ValueId) -> Result<(ValueId, bool), Skip> {
        let graph = &*self.cx.graph;
        let (mut v, mut swapped) = (w, false);
        while !self.is_fixed(v) {
            let id = graph.producer(v).ok_or_else(unlike)?;
            let node = &graph[id];
            let swaps = node.is("Transpose")
                && matches!(node.attr("perm"), None | Some(Attr::Ints(_)))
                && !matches!(node.attr("perm"), Some(Attr::Ints(perm)) if perm != &[1, 0]);
            if self.parts.count() > NODES_MAX || !(swaps || node.is("Identity")) {
                return Skip::unlike();
            }
            self.parts.visit(id);
            swapped ^= swaps;
            v = node.input(0).ok_or_else(unlike)?;
        }
        Ok((v, swapped))
    }

    /// Two values that are `v`, with `width` columns in all, side by side; else `v`.
    fn side_by_side(&self, v: ValueId, width: usize) -> Vec<(ValueId, usize)> {
        let graph = &*self.cx.graph;
        let columns = |v: ValueId| {
            let dims = dims(self.cx, v).ok().filter(|dims| dims.len() == 2)?;
            usize::try_from(dims[1].known()?).ok()
        };
        let found = graph.producer(v).filter(|id| graph[*id].is("Concat")).and_then(|id| {
            let &[Some(a), Some(b)] = &graph[id].inputs[..] else { return None };
            let last = axis_of(graph[id].int("axis", 0), 2) == Some(1);
            let parts = [(a, columns(a)?), (b, columns(b)?)];
            (last && parts[0].1 + parts[1].1 == width).then(|| {
                self.parts.visit(id);
                parts.to_vec()
            })
        });
        found.unwrap_or_else(|| vec![(v, width)])
    }
}

fn is_plain_gemm(node: &Node) -> bool {
    let one = |name: &str| match node.attr(name) {
        None => true,
        Some(Attr::Float(x)) => *x == 1.0,
        _ => false,
    };
    one("alpha") && one("beta") && node.int("transA", 0) == 0 && node.attr("broadcast").is_none()
}

/// Along which axis of its data, and from where on, Split or Slice takes the part `v`.
fn part(cx: &Rewriter, id: NodeId, v: ValueId) -> Result<(usize, usize), Skip> {
    let node = &cx.graph[id];
    let data = dims(cx, node.input(0).ok_or_else(unlike)?)?;
    if node.is("Split") {
        let axis = axis_of(node.int("axis", 0), data.len()).ok_or_else(unlike)?;
        let before = node.outputs.iter().take_while(|out| **out != Some(v));
        let sizes = before.map(|out| usize::try_from(dims(cx, (*out)?).ok()?[axis].known()?).ok());
        let start = sizes.sum::<Option<usize>>().ok_or_else(unlike)?;
        return Ok((axis, start));
    }
    let (axes, steps) = (cx.integers_of(id, "axes", 3)?, cx.integers_of(id, "steps", 4)?);
    let starts = cx.integers_of(id, "starts", 1)?.unwrap_or_default();
    let (axes, steps) = (axes.unwrap_or(vec![0]), steps.unwrap_or(vec![1]));
    let ([axis], [start], [1]) = (&axes[..], &starts[..], &steps[..]) else {
        return Skip::unlike();
    };
    let axis = axis_of(*axis, data.len()).ok_or_else(unlike)?;
    let size = data[axis].known().ok_or_else(unlike)?;
    let start = if *start < 0 { start.saturating_add(size) } else { *start };
    let start = usize::try_from(start.clamp(0, size)).map_err(|_| unlike())?;
    Ok((axis, start))
}

/// `v` as one step of a sequence.
pub(crate) fn step_of(cx: &Rewriter, v: ValueId) -> Option<SequenceStep> {
    let graph = &*cx.graph;
    let id = graph.producer(v)?;
    let node = &graph[id];
    let data = node.input(0)?;
    let (data, axis, index) = if node.is("Gather") {
        let index = graph.constant(node.input(1)?).filter(|t| t.rank() == 0)?.to_i64s()?;
        let rank = cx.rank(data).ok()?;
        (data, axis_of(node.int("axis", 0), rank)?, *index.first()?)
    } else if node.is("Squeeze") {
        let [axis] = cx.integers_of(id, "axes", 1).ok()??[..] else { return None };
        let axis = axis_of(axis, cx.rank(data).ok()?)?;
        let taken = graph.producer(data)?;
        if !graph[taken].is("Split") && !graph[taken].is("Slice") {
            return None;
        }
        let (along, start) = part(cx, taken, data).ok()?;
        let one = dims(cx, data).ok()?[axis] == Dim::Known(1);
        (graph[taken].input(0).filter(|_| one && along == axis)?, axis, start as i64)
    } else {
        return None;
    };
    let size = dims(cx, data).ok().filter(|dims| dims.len() == 3 && axis < 2)?[axis].known()?;
    let index = if index < 0 { index + size } else { index };
    let index = usize::try_from(index).ok().filter(|i| (*i as i64) < size)?;
    Some(SequenceStep { data, axis, index })
}
