//! The way back from an activation to the constants that give it its channels.

use super::{Spot, matrix, reals};
use crate::graph::quantized::MICROSOFT;
use crate::graph::weighted::is_attention;
use onnxd_ir::ops::{Gemm, Op};
use onnxd_ir::{Attr, Graph, Node, NodeId, Tensor, ValueId, axis_at};
use std::ops::Range;

/// Nodes that are looked at.
const DEPTH_MAX: usize = 32;

/// Operators after which all elements are divided if those before are, by the same positive number.
const HOMOGENEOUS: [&str; 4] = ["Identity", "LeakyRelu", "PRelu", "Relu"];

/// The same, where channels are the second axis.
const POOLS: [&str; 4] = ["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"];

/// Operators that take elements out of their first input.
const PARTS: [&str; 3] = ["Gather", "Slice", "Split"];

/// Inputs of ONNX Runtime's `Attention`; the last are keys and values of before.
const WEIGHTS: usize = 1;
const BIAS: usize = 2;
const PAST: usize = 4;

/// Where the channels of a value are.
#[derive(Clone, Debug)]
struct ChannelAxes {
    /// Their axes, counted from the last, which is 1; an index runs over the last of them first.
    axes: Vec<usize>,
    /// How many elements the axes have together.
    size: usize,
    /// The index of each channel.
    at: Vec<usize>,
}

/// Elements of an axis that a node takes out of a value.
struct AxisSlice {
    axis: usize,
    range: Range<usize>,
    /// Elements of the axis before.
    size: usize,
    /// Whether the axis is gone.
    gone: bool,
}

pub(crate) struct Back<'g> {
    graph: &'g Graph,
    over: Vec<Spot>,
}

impl Back<'_> {
    /// The constants to divide for a value whose last axis are the channels.
    pub(crate) fn trace(graph: &Graph, value: ValueId, channels: usize) -> Option<Vec<Spot>> {
        let mut back = Back { graph, over: Vec::new() };
        let place = ChannelAxes { axes: vec![1], size: channels, at: (0..channels).collect() };
        back.through(value, &place, DEPTH_MAX)?;
        Some(back.over)
    }

    /// Divides the channels of a value.
    fn through(&mut self, v: ValueId, place: &ChannelAxes, depth: usize) -> Option<()> {
        let graph = self.graph;
        let id = graph.producer(v).filter(|_| depth > 0)?;
        let node = &graph[id];
        let first = node.input(0)?;
        let op = node.op.as_str();
        if node.is_standard() && PARTS.contains(&op) {
            return self.part(id, v, place, depth);
        }
        if node.outputs.iter().flatten().count() != 1 {
            return None;
        }
        if !node.is_standard() {
            return self.projected(id, v, place, depth);
        }
        match op {
            "LayerNormalization" if place.axes == [1] => self.normalization(id, v, place),
            "BatchNormalization" if self.second(v, place) => self.constants(id, place),
            "MatMul" | "Gemm" if reals(graph, node.input(1)).is_some() => self.product(id, place),
            "MatMul" if place.ends_in_columns() => self.inner(node.input(1)?, place, depth),
            "Attention" if place.ends_in_columns() && node.input(5).is_none() => {
                self.inner(node.input(2)?, place, depth)
            }
            "Conv" if self.second(v, place) => self.constants(id, place),
            "Add" | "Sub" => self.sum(id, place, depth),
            "Mul" => self.gain(id, place, depth),
            "Div" => self.inner(first, place, depth),
            "Transpose" => self.inner(first, &self.exchanged(node, v, place)?, depth),
            "Squeeze" | "Unsqueeze" | "Flatten" | "Reshape" => {
                let before =
                    self.unfolded(node, v, place).or_else(|| self.reshaped(v, first, place));
                self.inner(first, &before?, depth)
            }
            op if HOMOGENEOUS.contains(&op) => self.inner(first, place, depth),
            op if POOLS.contains(&op) && self.second(v, place) => self.inner(first, place, depth),
            _ => None,
        }
    }

    /// The same for what a node on the way reads, and nothing else.
    fn inner(&mut self, v: ValueId, place: &ChannelAxes, depth: usize) -> Option<()> {
        let alone = self.graph.uses(v) == 1 && self.size(v, &place.axes) == Some(place.size);
        alone.then_some(())?;
        self.through(v, place, depth - 1)
    }

    /// Attention with its projections: what it gives are means of the last columns, the values.
    fn projected(
        &mut self,
        id: NodeId,
        v: ValueId,
        place: &ChannelAxes,
        depth: usize,
    ) -> Option<()> {
        let node = &self.graph[id];
        if node.domain != MICROSOFT || place.axes != [1] {
            return None;
        }
        if node.op == "MultiHeadAttention" {
            let plain = [3, 6, 7].iter().all(|slot| node.input(*slot).is_none());
            let values = node.input(2).filter(|_| plain && self.rank(v) == Some(3))?;
            return self.inner(values, place, depth).filter(|()| self.rank(values) == Some(3));
        }
        let known = is_attention(node) && node.input(PAST).is_none();
        known.then_some(())?;
        let columns = *reals(self.graph, node.input(WEIGHTS))?.dims().last()?;
        let bias = node.input(BIAS).is_some();
        let place = place.moved(columns.checked_sub(place.size)?, columns);
        let fits = self.vector(id, WEIGHTS, 1, &place);
        (fits && (!bias || self.vector(id, BIAS, 0, &place))).then_some(())
    }

    /// Through a node that takes elements out of a value of which no other node takes the same.
    fn part(&mut self, id: NodeId, v: ValueId, place: &ChannelAxes, depth: usize) -> Option<()> {
        let x = self.graph[id].input(0)?;
        let taken = self.taken(id, v)?;
        let apart = |reader: &NodeId| {
            let node = &self.graph[*reader];
            let first = node.output(0).filter(|_| !node.is("Split"));
            let other = first.and_then(|v| self.taken(*reader, v));
            *reader == id || other.is_some_and(|other| other.is_apart(&taken))
        };
        let readers = self.graph.readers(x);
        let alone = readers.iter().all(apart) && self.graph.uses(x) == readers.len();
        let rank = self.rank(x).filter(|_| alone && self.graph[id].input(0) == Some(x))?;
        let at = rank - taken.axis;
        let before = match place.axes.iter().position(|axis| !taken.gone && *axis == at) {
            Some(i) => {
                let sizes = self.sizes(v, &place.axes)?;
                place.within(i, &sizes, &taken)?
            }
            None if taken.range.len() != 1 => return None,
            None => {
                let shifted = |axis: &usize| axis + usize::from(taken.gone && *axis >= at);
                let axes = [at].into_iter().chain(place.axes.iter().map(shifted)).collect();
                let size = taken.size.checked_mul(place.size)?;
                let outer = taken.range.start * place.size;
                ChannelAxes { axes, size, at: place.at.iter().map(|i| outer + i).collect() }
            }
        };
        (self.size(x, &before.axes) == Some(before.size)).then_some(())?;
        self.through(x, &before, depth - 1)
    }

    /// What a node takes out of its first input as `v`.
    fn taken(&self, id: NodeId, v: ValueId) -> Option<AxisSlice> {
        let (graph, node) = (self.graph, &self.graph[id]);
        if !node.is_standard() || node.inputs.iter().skip(1).any(|x| *x == node.input(0)) {
            return None;
        }
        let dims = shape(graph, node.input(0)?)?;
        let axis = |axis: i64| axis_at(axis, dims.len());
        let one = |slot: usize| {
            let all = graph.constant(node.input(slot)?)?.to_i64s()?;
            (all.len() == 1).then(|| all[0])
        };
        let size_of = |axis: usize| dims[axis];
        let index = |i: i64, size: usize| {
            let size = i64::try_from(size).ok()?;
            usize::try_from(if i < 0 { i.saturating_add(size) } else { i }.clamp(0, size)).ok()
        };
        match node.op.as_str() {
            "Gather" => {
                let (axis, picked) = (axis(node.int("axis", 0))?, one(1)?);
                let scalar = graph.constant(node.input(1)?)?.rank();
                let (size, gone) = (size_of(axis)?, scalar == 0);
                let i = index(picked, size).filter(|i| scalar < 2 && *i < size)?;
                Some(AxisSlice { axis, range: i..i + 1, size, gone })
            }
            "Slice" => {
                let axis = axis(one(3)?)?;
                let size = size_of(axis)?;
                (node.input(4).is_none() || one(4) == Some(1)).then_some(())?;
                let (start, end) = (index(one(1)?, size)?, index(one(2)?, size)?);
                Some(AxisSlice { axis, range: start..end.max(start), size, gone: false })
            }
            "Split" => {
                let axis = axis(node.int("axis", 0))?;
                let mut range = 0..0;
                for out in &node.outputs {
                    range = range.end..range.end + shape(graph, (*out)?)?.get(axis).copied()??;
                    if *out == Some(v) {
                        return Some(AxisSlice { axis, range, size: size_of(axis)?, gone: false });
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn rank(&self, v: ValueId) -> Option<usize> {
        Some(self.graph[v].shape()?.len())
    }

    fn sizes(&self, v: ValueId, axes: &[usize]) -> Option<Vec<usize>> {
        let dims = shape(self.graph, v)?;
        axes.iter().map(|axis| dims[dims.len().checked_sub(*axis)?]).collect()
    }

    fn size(&self, v: ValueId, axes: &[usize]) -> Option<usize> {
        let sizes = self.sizes(v, axes)?;
        sizes.into_iter().try_fold(1usize, usize::checked_mul)
    }

    /// Before axes were exchanged.
    fn exchanged(&self, node: &Node, v: ValueId, place: &ChannelAxes) -> Option<ChannelAxes> {
        let rank = self.rank(v)?;
        let Some(Attr::Ints(perm)) = node.attr("perm") else { return None };
        let from = |axis: &usize| {
            let at = *perm.get(rank.checked_sub(*axis)?)?;
            rank.checked_sub(usize::try_from(at).ok()?)
        };
        let axes = place.axes.iter().map(from).collect::<Option<_>>()?;
        Some(ChannelAxes { axes, ..place.clone() })
    }

    /// Before axes of one element came or went, where it is told which.
    fn unfolded(&self, node: &Node, v: ValueId, place: &ChannelAxes) -> Option<ChannelAxes> {
        let (x, comes) = (node.input(0)?, node.is("Unsqueeze"));
        (comes || node.is("Squeeze")).then_some(())?;
        let (before, after) = (self.rank(x)?, self.rank(v)?);
        let rank = before.max(after);
        let report = match (node.attr("axes"), node.input(1)) {
            (Some(Attr::Ints(axes)), _) => axes.clone(),
            (_, Some(axes)) => self.graph.constant(axes)?.to_i64s()?,
            _ => return None,
        };
        let flat = |axis: usize| {
            let axis = axis as i64;
            report.iter().any(|a| *a == axis || *a + rank as i64 == axis)
        };
        // Axes from the last, of the value that has more of them.
        let kept: Vec<usize> = (1..=rank).filter(|axis| !flat(rank - axis)).collect();
        let from = |axis: &usize| match comes {
            true => kept.iter().position(|a| a == axis).map(|i| i + 1),
            false => kept.get(axis - 1).copied(),
        };
        let axes = place.axes.iter().map(from).collect::<Option<_>>()?;
        Some(ChannelAxes { axes, ..place.clone() })
    }

    /// Before elements that stayed in order got other axes.
    fn reshaped(&self, v: ValueId, x: ValueId, place: &ChannelAxes) -> Option<ChannelAxes> {
        let ordered = place.ordered(&self.sizes(v, &place.axes)?);
        let (before, after) = (self.trailing(x, place.size)?, self.trailing(v, place.size)?);
        (after == ordered.axes).then_some(ChannelAxes { axes: before, ..ordered })
    }

    /// The last axes of a value, without those of one element, that have as many.
    fn trailing(&self, v: ValueId, wanted: usize) -> Option<Vec<usize>> {
        let (mut size, mut axes) = (1usize, Vec::new());
        for (dim, axis) in shape(self.graph, v)?.into_iter().rev().zip(1..) {
            if size == wanted {
                break;
            }
            size = size.checked_mul(dim?)?;
            if dim? > 1 {
                axes.insert(0, axis);
            }
        }
        (size == wanted).then_some(axes)
    }

    /// Gain and offset of a normalization over the last axis.
    fn normalization(&mut self, id: NodeId, v: ValueId, place: &ChannelAxes) -> Option<()> {
        let axis = self.graph[id].int("axis", -1);
        let over_last = axis == -1 || self.rank(v).is_some_and(|rank| axis + 1 == rank as i64);
        over_last.then_some(()).and_then(|()| self.constants(id, place))
    }

    /// Whether channels are the second axis of a value.
    fn second(&self, v: ValueId, place: &ChannelAxes) -> bool {
        self.rank(v).is_some_and(|rank| rank > 1 && place.axes == [rank - 1])
    }

    /// Factors and summands of a node, those that there are, whose first axis are the channels.
    fn constants(&mut self, id: NodeId, place: &ChannelAxes) -> Option<()> {
        let graph = self.graph;
        let mut filled = [1, 2].into_iter().filter(|slot| graph[id].input(*slot).is_some());
        filled.all(|slot| self.vector(id, slot, 0, place)).then_some(())
    }

    /// Weights of a weighted operator by what they compute, and its bias.
    fn product(&mut self, id: NodeId, place: &ChannelAxes) -> Option<()> {
        let node = &self.graph[id];
        let rank = matrix(self.graph, node.input(1)?).filter(|_| place.axes == [1])?;
        let gemm = Gemm::view(node);
        let axis = rank - 1 - usize::from(gemm.as_ref().is_some_and(|op| op.transB != 0));
        let bias = gemm.and_then(|op| op.c);
        let fits = bias.is_none_or(|c| {
            let rank = self.graph.constant(c).map_or(0, Tensor::rank);
            rank > 0 && self.vector(id, 2, rank - 1, place)
        });
        (fits && self.vector(id, 1, axis, place)).then_some(())
    }

    /// Notes a constant that has the channels along an axis.
    fn vector(&mut self, node: NodeId, slot: usize, axis: usize, place: &ChannelAxes) -> bool {
        let data = reals(self.graph, self.graph[node].input(slot));
        let fits = data.is_some_and(|c| c.dims().get(axis) == Some(&place.size));
        self.over.extend(fits.then(|| Spot { node, slot, axis, at: place.at.clone() }));
        fits
    }

    /// The constant that a node reads beside another input, and that.
    fn beside(&self, node: &Node) -> Option<(usize, ValueId)> {
        let slot = (0..2).find(|slot| reals(self.graph, node.input(*slot)).is_some())?;
        Some((slot, node.input(1 - slot)?))
    }

    /// Notes the constant at `slot` if it has the channels along its axis from the last.
    fn along(&mut self, node: NodeId, slot: usize, place: &ChannelAxes) -> bool {
        let rank = reals(self.graph, self.graph[node].input(slot)).map_or(0, Tensor::rank);
        let [axis] = place.axes[..] else { return false };
        rank.checked_sub(axis).is_some_and(|axis| self.vector(node, slot, axis, place))
    }

    fn sum(&mut self, id: NodeId, place: &ChannelAxes, depth: usize) -> Option<()> {
        let node = &self.graph[id];
        if let Some((slot, other)) = self.beside(node) {
            let taken = self.along(id, slot, place).then_some(());
            return taken.and_then(|()| self.inner(other, place, depth));
        }
        self.inner(node.input(0)?, place, depth)?;
        self.inner(node.input(1)?, place, depth)
    }

    /// One of the factors is enough.
    fn gain(&mut self, id: NodeId, place: &ChannelAxes, depth: usize) -> Option<()> {
        let node = &self.graph[id];
        if let Some((slot, other)) = self.beside(node) {
            let taken = self.along(id, slot, place).then_some(());
            return taken.or_else(|| self.inner(other, place, depth));
        }
        let noted = self.over.len();
        self.inner(node.input(0)?, place, depth).or_else(|| {
            self.over.truncate(noted);
            self.inner(node.input(1)?, place, depth)
        })
    }
}

impl AxisSlice {
    /// Whether no element is taken by both.
    fn is_apart(&self, other: &AxisSlice) -> bool {
        let (a, b) = (&self.range, &other.range);
        self.axis == other.axis && (a.end <= b.start || b.end <= a.start)
    }
}

impl ChannelAxes {
    /// Whether the last axis is among the axes and that before it, over which means are taken, is
    /// not.
    fn ends_in_columns(&self) -> bool {
        self.axes.last() == Some(&1) && !self.axes.contains(&2)
    }

    /// Of an axis with elements before and behind.
    fn moved(&self, by: usize, size: usize) -> ChannelAxes {
        let at = self.at.iter().map(|i| i + by).collect();
        ChannelAxes { axes: self.axes.clone(), size, at }
    }

    /// Before elements were taken out of the axis number `i`.
    fn within(&self, i: usize, sizes: &[usize], part: &AxisSlice) -> Option<ChannelAxes> {
        let size = (self.size / sizes[i].max(1)).checked_mul(part.size)?;
        let inner: usize = sizes[i + 1..].iter().product();
        let (few, all) = (sizes[i] * inner, part.size * inner);
        let of = |c: &usize| c / few * all + part.range.start * inner + c % few;
        Some(ChannelAxes { axes: self.axes.clone(), size, at: self.at.iter().map(of).collect() })
    }

    /// With axes from the outermost to the last, without those of one element.
    fn ordered(&self, sizes: &[usize]) -> ChannelAxes {
        let mut order: Vec<usize> = (0..sizes.len()).filter(|i| sizes[*i] > 1).collect();
        order.sort_by_key(|i| std::cmp::Reverse(self.axes[*i]));
        let inner = |i: usize| sizes[i + 1..].iter().product::<usize>();
        let of = |c: &usize| {
            let along = |i: usize| c / inner(i) % sizes[i];
            order.iter().fold(0, |at, i| at * sizes[*i] + along(*i))
        };
        let axes = order.iter().map(|i| self.axes[*i]).collect();
        ChannelAxes { axes, size: self.size, at: self.at.iter().map(of).collect() }
    }
}

/// The sizes of axes, as far as they are known.
fn shape(graph: &Graph, v: ValueId) -> Option<Vec<Option<usize>>> {
    let dims = graph[v].shape()?;
    Some(dims.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect())
}
