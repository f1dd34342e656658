//! Slices and strides.

use super::shape::{axis_of, int64s, squeezed, unsqueezed};
use super::{Lower, RowContext, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Bool, Int64};
use onnxd_plugin_sdk::ir::{Tensor, ValueId, ValueType};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Where a slice ends that has no end, forwards and backwards.
const END: i64 = i64::MAX;
const BEGIN: i64 = i64::MIN + 1;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Slice" => slice;
        "StridedSlice" => strided_slice;
        "TensorStridedSliceUpdate" => updated;
        "ReverseV2" => |b, tensor: Var, axis: Vec<i64>| reversed(b, tensor, &axis);
        "Reverse" => |b, tensor: Var, dims: Vec<bool>| {
            let axes: Vec<i64> = (0..).zip(&dims).filter(|(_, on)| **on).map(|(i, _)| i).collect();
            reversed(b, tensor, &axes)
        };
        "ReverseSequence" => reverse_sequence;
        "Roll" => roll;
    }
}

arguments! {
    /// `Slice`
    struct Slice { input: Var, begin: Operand, size: Operand }
    /// `StridedSlice`
    pub(crate) struct Strided {
        input: Var, begin: Operand, end: Operand, strides: Vec<i64>, begin_mask: i64, end_mask: i64,
        ellipsis_mask: i64, new_axis_mask: i64, shrink_axis_mask: i64,
    }
    /// `TensorStridedSliceUpdate`
    struct Update {
        input: Var, begin: Operand, end: Operand, strides: Vec<i64>, value: Var, begin_mask: i64, end_mask: i64,
        ellipsis_mask: i64, new_axis_mask: i64, shrink_axis_mask: i64,
    }
    /// `ReverseSequence`
    struct ReverseSequence { input: Var, seq_lengths: Var, seq_dim: i64, batch_dim: i64 }
    /// `Roll`
    struct Roll { input: Var, shift: Operand, axis: Vec<i64> }
}

/// A size of -1 reaches to the end.
fn slice(b: &Lower, a: Slice) -> Lowered<Var> {
    let (begin, size) = (int64s(b, &a.begin)?, int64s(b, &a.size)?);
    if let (Operand::Ints(begin), Operand::Ints(size)) = (&begin, &size) {
        let end =
            |(begin, size): (&i64, &i64)| if *size < 0 { END } else { begin.saturating_add(*size) };
        let ends: Vec<i64> = begin.iter().zip(size).map(end).collect();
        let whole = |i: &usize| begin[*i] == 0 && size[*i] < 0;
        let axes: Vec<usize> = (0..begin.len()).filter(|i| !whole(i)).collect();
        let at = |list: &[i64]| axes.iter().map(|i| list[*i]).collect::<Vec<i64>>();
        let named: Vec<i64> = axes.iter().map(|i| *i as i64).collect();
        return match axes.is_empty() {
            true => Ok(a.input),
            false => b.slice(a.input, at(begin), at(&ends)).axes(named).one(),
        };
    }
    let rank = rank(b, a.input)? as i64;
    if rank == 0 {
        return Ok(a.input);
    }
    let axes: Vec<i64> = (0..rank).collect();
    let reach = b.add(vector(b, &begin), vector(b, &size))?;
    let ends = match &size {
        Operand::Ints(size) if size.iter().all(|n| *n >= 0) => reach,
        _ => b.where_(b.less(vector(b, &size), 0)?, END, reach)?,
    };
    b.slice(a.input, vector(b, &begin), ends).axes(axes).one()
}

/// A list as a value of the graph.
fn vector(b: &GraphBuilder, list: &Operand) -> Var {
    match list {
        Operand::Var(v) => *v,
        other => b.constant(
            other.to_tensor(Some(Int64)).unwrap_or_else(|| Tensor::vector(Vec::<i64>::new())),
        ),
    }
}

/// What a strided slice does along the axes of its input and of its result.
#[derive(Debug, Default)]
pub(crate) struct SlicePlan {
    /// Axes of the input that are sliced, and which of the specifications says how.
    sliced: Vec<(i64, usize)>,
    /// Axes of the input of which one place is taken.
    pub(crate) shrunk: Vec<i64>,
    /// Axes of the result that are new.
    pub(crate) new: Vec<i64>,
}

impl SlicePlan {
    /// Reads the masks. `count` is the number of specifications.
    fn new(b: &GraphBuilder, a: &Strided, count: usize) -> Lowered<SlicePlan> {
        let is_new = |i: usize| bit(a.new_axis_mask, i) && !bit(a.ellipsis_mask, i);
        let mut plan = SlicePlan::default();
        let (mut from, mut to) = (0, 0);
        for i in 0..count {
            if bit(a.ellipsis_mask, i) {
                let later = (i + 1..count).filter(|j| !is_new(*j)).count() as i64;
                let all = rank(b, a.input)? as i64 - from - later;
                (from, to) = (from + all.max(0), to + all.max(0));
            } else if is_new(i) {
                plan.new.push(to);
                to += 1;
            } else {
                plan.sliced.push((from, i));
                if bit(a.shrink_axis_mask, i) {
                    plan.shrunk.push(from);
                } else {
                    to += 1;
                }
                from += 1;
            }
        }
        Ok(plan)
    }
}

/// How one axis is sliced, where that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) axis: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

/// The cuts of a slice of which all is known, and its plan.
pub(crate) fn cuts(b: &GraphBuilder, a: &Strided) -> Lowered<Option<(Vec<Cut>, SlicePlan)>> {
    let (begin, end) = (int64s(b, &a.begin)?, int64s(b, &a.end)?);
    let (Operand::Ints(begin), Operand::Ints(end)) = (begin, end) else { return Ok(None) };
    let plan = SlicePlan::new(b, a, begin.len())?;
    let cut = |(axis, i): &(i64, usize)| {
        let step = a.strides.get(*i).copied().unwrap_or(1);
        if plan.shrunk.contains(axis) {
            let start = begin[*i];
            let end = if start == -1 { END } else { start.saturating_add(1) };
            return Cut { axis: *axis, start, end, step: 1 };
        }
        let masked = |mask: i64| bit(mask, *i);
        let first = if step < 0 { END } else { 0 };
        let last = if step < 0 { BEGIN } else { END };
        let start = if masked(a.begin_mask) { first } else { begin[*i] };
        let end = if masked(a.end_mask) { last } else { end.get(*i).copied().unwrap_or(last) };
        // From before the first element backwards there is nothing; in ONNX, such a slice begins with the first one.
        let size = super::size_of(b, a.input, *axis as usize);
        let is_empty = step < 0 && size.is_some_and(|size| start < -size);
        let (start, end) = if is_empty { (0, 1) } else { (start, end) };
        Cut { axis: *axis, start, end, step }
    };
    let all =
        plan.sliced.iter().map(cut).filter(|cut| (cut.start, cut.end, cut.step) != (0, END, 1));
    let all = all.collect();
    Ok(Some((all, plan)))
}

pub(crate) fn strided_slice(b: &Lower, a: Strided) -> Lowered<Var> {
    let Some((cuts, plan)) = cuts(b, &a)? else { return dynamic(b, &a) };
    let x = match (&cuts[..], &plan.shrunk[..]) {
        ([], []) => a.input,
        // One place of one axis.
        ([cut], [axis]) if cut.axis == *axis => {
            let x = b.gather(a.input, cut.start).axis(cut.axis).one()?;
            return unsqueezed(b, x, &plan.new);
        }
        _ => {
            let each = |f: fn(&Cut) -> i64| cuts.iter().map(f).collect::<Vec<i64>>();
            let steps = cuts.iter().any(|cut| cut.step != 1).then(|| each(|cut| cut.step));
            let call = b.slice(a.input, each(|c| c.start), each(|c| c.end));
            let x = call.axes(each(|c| c.axis)).steps(steps).one()?;
            if plan.shrunk.is_empty() { x } else { squeezed(b, x, &plan.shrunk)? }
        }
    };
    unsqueezed(b, x, &plan.new)
}

/// `input` with other elements where a slice takes its own: that slice of the numbers of all elements says where.
fn updated(b: &Lower, a: Update) -> Lowered<Var> {
    if b.dims_of(a.input).is_some_and(|dims| dims.contains(&0)) {
        return Ok(a.input);
    }
    let shape = b.shape(a.input).one()?;
    let numbers = b.reshape(b.range(0, b.size(a.input)?, 1).one()?, shape).one()?;
    let Update { begin, end, strides, begin_mask, end_mask, ellipsis_mask, .. } = a;
    let at = strided_slice(
        b,
        Strided {
            input: numbers,
            begin,
            end,
            strides,
            begin_mask,
            end_mask,
            ellipsis_mask,
            new_axis_mask: a.new_axis_mask,
            shrink_axis_mask: a.shrink_axis_mask,
        },
    )?;
    let [x, at, value] = [a.input, at, a.value].map(|v| b.reshape(v, [-1]).one());
    b.reshape(b.scatter_elements(x?, at?, value?).axis(0).one()?, shape).one()
}

/// Whether a mask speaks of a specification.
fn bit(mask: i64, i: usize) -> bool {
    i < 64 && mask >> i & 1 == 1
}

/// One place of each axis that is not taken as a whole, where that is all that a slice says.
fn places(b: &GraphBuilder, a: &Strided, plan: &SlicePlan) -> Lowered<Option<Var>> {
    let whole = |i: usize| bit(a.begin_mask & a.end_mask, i) && a.strides[i] == 1;
    let is_place = |axis: i64| plan.shrunk.contains(&axis);
    if plan.shrunk.is_empty() || !plan.sliced.iter().all(|(axis, i)| is_place(*axis) || whole(*i)) {
        return Ok(None);
    }
    let mut x = a.input;
    // Axes that are left keep their numbers if the last ones go first.
    for (axis, i) in plan.sliced.iter().rev().filter(|(axis, _)| is_place(*axis)) {
        x = b.gather(x, element(b, &a.begin, *i)?).axis(*axis).one()?;
    }
    unsqueezed(b, x, &plan.new).map(Some)
}

/// An element of a list, as a scalar.
fn element(b: &GraphBuilder, list: &Operand, at: usize) -> Lowered<Var> {
    let Operand::Var(list) = list else {
        return b.squeeze(b.gather(vector(b, list), [at as i64]).axis(0).one()?).axes([0]).one();
    };
    let item = || {
        let id = b.id(*list).ok().filter(|_| b.is_own(*list))?;
        let graph = b.graph();
        let node = &graph[graph.producer(id)?];
        let ty = |v: ValueId| graph[v].ty.as_ref().and_then(ValueType::dims);
        let single = |v: &Option<ValueId>| v.and_then(ty).is_some_and(|dims| dims == [1]);
        if node.is("Unsqueeze") && ty(id).is_some_and(|dims| dims == [1]) && at == 0 {
            return Some((*list, Some(b.var(node.input(0)?))));
        }
        let joined = node.is("Concat") && node.inputs.iter().all(single);
        let piece = node.input(at).filter(|_| joined)?;
        let before = graph.producer(piece).map(|id| &graph[id]).filter(|n| n.is("Unsqueeze"));
        Some((b.var(piece), before.and_then(|node| Some(b.var(node.input(0)?)))))
    };
    match item() {
        Some((_, Some(scalar))) => Ok(scalar),
        Some((piece, None)) => b.squeeze(piece).axes([0]).one(),
        None => b.gather(*list, at as i64).axis(0).one(),
    }
}

/// A slice whose places are computed.
fn dynamic(b: &GraphBuilder, a: &Strided) -> Lowered<Var> {
    let plan = SlicePlan::new(b, a, a.strides.len())?;
    if let Some(taken) = places(b, a, &plan)? {
        return Ok(taken);
    }
    let (begin, end) = (int64s(b, &a.begin)?, int64s(b, &a.end)?);
    let picked: Vec<i64> = plan.sliced.iter().map(|(_, i)| *i as i64).collect();
    let pick = |list: &Operand| -> Lowered<Var> {
        let list = vector(b, list);
        let all = picked.len() == a.strides.len();
        if all { Ok(list) } else { b.gather(list, &picked).axis(0).one() }
    };
    let flags = |on: &dyn Fn(i64, usize) -> bool| -> Option<Tensor> {
        let bits: Vec<u8> = plan.sliced.iter().map(|(axis, i)| u8::from(on(*axis, *i))).collect();
        let any = bits.contains(&1);
        any.then(|| Tensor::from_vec_as(Bool, vec![bits.len()], bits))
    };
    let step = |i: usize| a.strides[i];
    let ends = |last: bool| -> Vec<i64> {
        let one = |(_, i): &(i64, usize)| match (step(*i) < 0, last) {
            (false, true) => END,
            (false, false) => 0,
            (true, true) => BEGIN,
            (true, false) => END,
        };
        plan.sliced.iter().map(one).collect()
    };
    let (mut starts, mut stops) = (pick(&begin)?, pick(&end)?);
    if let Some(shrunk) = flags(&|axis, _| plan.shrunk.contains(&axis)) {
        let behind = b.add(starts, 1)?;
        let behind = b.where_(b.equal(behind, 0)?, END, behind)?;
        stops = b.where_(shrunk, behind, stops)?;
    }
    let is_kept = |axis: i64| !plan.shrunk.contains(&axis);
    if let Some(masked) = flags(&|axis, i| is_kept(axis) && bit(a.begin_mask, i)) {
        starts = b.where_(masked, ends(false), starts)?;
    }
    if let Some(masked) = flags(&|axis, i| is_kept(axis) && bit(a.end_mask, i)) {
        stops = b.where_(masked, ends(true), stops)?;
    }
    let axes: Vec<i64> = plan.sliced.iter().map(|(axis, _)| *axis).collect();
    let steps: Vec<i64> =
        plan.sliced.iter().map(|(axis, i)| if is_kept(*axis) { step(*i) } else { 1 }).collect();
    let x = b.slice(a.input, starts, stops).axes(axes).steps(steps).one()?;
    let x = if plan.shrunk.is_empty() { x } else { squeezed(b, x, &plan.shrunk)? };
    unsqueezed(b, x, &plan.new)
}

/// `x` backwards along axes.
pub(crate) fn reversed(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<Var> {
    if axes.is_empty() {
        return Ok(x);
    }
    let n = axes.len();
    b.slice(x, vec![-1i64; n], vec![BEGIN; n]).axes(axes).steps(vec![-1i64; n]).one()
}

/// ONNX reverses along the first two axes, of which one is the batch.
fn reverse_sequence(b: &Lower, a: ReverseSequence) -> Lowered<Var> {
    let (time, batch) = (axis_of(b, a.input, a.seq_dim)?, axis_of(b, a.input, a.batch_dim)?);
    let lengths = b.cast(a.seq_lengths, Int64)?;
    if time.max(batch) < 2 {
        let call = b.reverse_sequence(a.input, lengths);
        return call.time_axis(time as i64).batch_axis(batch as i64).one();
    }
    let mut perm = vec![batch as i64, time as i64];
    perm.extend(
        (0..rank(b, a.input)? as i64).filter(|axis| !perm[..2].contains(axis)).collect::<Vec<_>>(),
    );
    let x = super::shape::transposed(b, a.input, &perm)?;
    let x = b.reverse_sequence(x, lengths).time_axis(1).batch_axis(0).one()?;
    let mut back = vec![0; perm.len()];
    (0..).zip(&perm).for_each(|(i, axis)| back[*axis as usize] = i);
    super::shape::transposed(b, x, &back)
}

/// Moves elements along axes; those that leave at the end come in at the beginning.
fn roll(b: &Lower, a: Roll) -> Lowered<Var> {
    let shifts = match int64s(b, &a.shift)? {
        Operand::Var(v) => b.reshape(v, [-1]).one()?.into(),
        known => known,
    };
    let mut x = a.input;
    for (i, axis) in a.axis.iter().enumerate() {
        let axis = axis_of(b, x, *axis)? as i64;
        // The place where the result begins: from the end, within the axis.
        let size = b.shape_of(x).and_then(|shape| shape.get(axis as usize)?.known());
        let begin: Operand = match (&shifts, size) {
            (Operand::Ints(list), Some(size)) => {
                let shift = list.get(i).copied().unwrap_or(0);
                let size = size.max(1);
                vec![(size - shift.rem_euclid(size)) % size].into()
            }
            _ => {
                let size = b.shape(x).start(axis).end(axis + 1).one()?;
                let shift =
                    b.slice(vector(b, &shifts), [i as i64], [i as i64 + 1]).axes([0]).one()?;
                b.mod_(b.neg(shift)?, size).one()?.into()
            }
        };
        let tail = b.slice(x, begin.clone(), [END]).axes([axis]).one()?;
        let head = b.slice(x, [0], begin).axes([axis]).one()?;
        x = b.concat([tail, head]).axis(axis).one()?;
    }
    Ok(x)
}
