//! Parts of a tensor along an axis, and writing into them.

use super::shape::{INDICES_MAX, expanded, expanded_as, reshaped, same_shape, unsupported};
use super::sizes::{self as of, axis, known, known_size, plus, rank, size};
use super::{
    Lower, RowContext,
    dtype::{self, dtype_of},
};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::select" | "aten::select_copy" => select(input, dim, index);
        "aten::slice" | "aten::slice_copy" => slice(input, dim, start, end, step);
        "aten::narrow" | "aten::narrow_copy" => narrow;
        "aten::select_scatter" => select_scatter;
        "aten::slice_scatter" => slice_scatter;
        "aten::as_strided" | "aten::as_strided_copy" => as_strided;
        "aten::as_strided_scatter" => as_strided_scatter;
    }
}

arguments! {
    struct Narrow { input: Var, dim: i64, start: Value, length: Value }
    struct SelectScatter { input: Var, src: Var, dim: i64, index: Value }
    struct SliceScatter { input: Var, src: Var, dim: i64, start: Value, end: Value, step: Value }
    struct Strided { input: Var, size: Vec<Value>, stride: Vec<Value>, storage_offset: Option<Value> }
    struct StridedScatter {
        input: Var, src: Var, size: Vec<Value>, stride: Vec<Value>, storage_offset: Option<Value>,
    }
}

/// A part of an axis, as Python's slices say it.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    start: Value,
    end: Value,
    step: i64,
}

impl Range {
    pub(crate) fn new(start: Value, end: Value) -> Range {
        Range { start, end, step: 1 }
    }

    pub(crate) fn from(start: Value) -> Range {
        Range::new(start, Value::Int(i64::MAX))
    }

    pub(crate) fn to(end: Value) -> Range {
        Range::new(Value::Int(0), end)
    }

    fn from_values(b: &Lower, start: Value, end: Value, step: &Value) -> Lowered<Range> {
        let or = |value, default| if value == Value::None { Value::Int(default) } else { value };
        let (start, end) = (or(start, 0), or(end, i64::MAX));
        match known(b, step) {
            Some(step @ 1..) => Ok(Range { start, end, step }),
            _ => Err(unsupported(b, "A slice needs a positive step that is known.")),
        }
    }

    /// Start and end in an axis of size `n`, if they are known.
    fn within(&self, b: &Lower, n: i64) -> Option<(i64, i64)> {
        let clamp = |x: i64| if x < 0 { (x + n).max(0) } else { x.min(n) };
        let (start, end) = (clamp(known(b, &self.start)?), clamp(known(b, &self.end)?));
        Some((start, end.max(start)))
    }

    fn is_all(&self, b: &Lower, size: Option<i64>) -> bool {
        let ends = |n| known(b, &self.end) == Some(i64::MAX) || n;
        let within = size.and_then(|n| Some(self.within(b, n)? == (0, n)));
        self.step == 1 && within.unwrap_or_else(|| known(b, &self.start) == Some(0) && ends(false))
    }
}

/// A part of `x` along an axis.
///
/// # Errors
/// Those of the builder.
pub(crate) fn ranged(b: &Lower, x: Var, axis: usize, range: &Range) -> Lowered<Var> {
    let n = known_size(b, x, axis);
    if range.is_all(b, n) {
        return Ok(x);
    }
    let (start, end) = match n.and_then(|n| range.within(b, n)) {
        Some((start, end)) => (Operand::Ints(vec![start]), Operand::Ints(vec![end])),
        None => (of::single(b, &range.start)?, of::single(b, &range.end)?),
    };
    let part = b.slice(x, start, end).axes([axis as i64]);
    if range.step == 1 { part.one() } else { part.steps([range.step]).one() }
}

/// An index as an operand; one from the end becomes one from the start if the size is known.
fn index(b: &Lower, x: Var, axis: usize, index: &Value) -> Lowered<Operand> {
    Ok(match (of::scalar(b, index)?, known_size(b, x, axis)) {
        (Operand::Int(i), Some(n)) if !(-n..n).contains(&i) => {
            let message = format!("Index {i} of an axis of size {n}.");
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
        (Operand::Int(i), Some(n)) => Operand::Int(if i < 0 { i + n } else { i }),
        (other, _) => other,
    })
}

/// Element `at` of `x` along an axis, which goes.
///
/// # Errors
/// `N0204` if there is no such element.
pub(crate) fn selected(b: &Lower, x: Var, axis: usize, at: &Value) -> Lowered<Var> {
    b.gather(x, index(b, x, axis, at)?).axis(axis as i64).one()
}

fn select(b: &Lower, input: Var, dim: i64, index: Value) -> Lowered<Var> {
    selected(b, input, axis(b, input, dim)?, &index)
}

fn slice(b: &Lower, input: Var, dim: i64, start: Value, end: Value, step: Value) -> Lowered<Var> {
    let range = Range::from_values(b, start, end, &step)?;
    ranged(b, input, axis(b, input, dim)?, &range)
}

fn narrow(b: &Lower, a: Narrow) -> Lowered<Var> {
    let at = axis(b, a.input, a.dim)?;
    let start = match (known(b, &a.start), known_size(b, a.input, at)) {
        (Some(start), Some(n)) if start < 0 => Value::Int(start + n),
        (Some(start), _) => Value::Int(start),
        _ => a.start,
    };
    let end = match plus(b, &start, &a.length)? {
        // The end of a part that is counted from the end.
        Value::Int(0) if known(b, &start).is_some_and(|start| start < 0) => Value::Int(i64::MAX),
        end => end,
    };
    ranged(b, a.input, at, &Range::new(start, end))
}

fn select_scatter(b: &Lower, a: SelectScatter) -> Lowered<Var> {
    let at = axis(b, a.input, a.dim)?;
    let src = b.unsqueeze(like(b, a.src, a.input)?, [at as i64])?;
    let place = index(b, a.input, at, &a.index)?;
    let index = match place {
        Operand::Int(i) => {
            let end = if i == -1 { i64::MAX } else { i + 1 };
            let range = Range::new(Value::Int(i), Value::Int(end));
            return with_range(b, a.input, src, at, &range);
        }
        Operand::Var(v) => Value::Var(v),
        _ => a.index,
    };
    if at == 0 {
        return b.scatter_nd(a.input, b.unsqueeze(of::single(b, &index)?, [0])?, src).one();
    }
    let ones = vec![1; rank(b, a.input)?];
    let everywhere = b.reshape(of::single(b, &index)?, ones).one()?;
    let everywhere = b.expand(everywhere, b.shape(src).one()?)?;
    b.scatter_elements(a.input, everywhere, src).axis(at as i64).one()
}

fn slice_scatter(b: &Lower, a: SliceScatter) -> Lowered<Var> {
    let at = axis(b, a.input, a.dim)?;
    let range = Range::from_values(b, a.start, a.end, &a.step)?;
    with_range(b, a.input, like(b, a.src, a.input)?, at, &range)
}

/// `src` in the element type of `x`.
fn like(b: &Lower, src: Var, x: Var) -> Lowered<Var> {
    b.cast(src, dtype_of(b, x)?)
}

/// `x` with `src` in place of a part.
fn with_range(b: &Lower, x: Var, src: Var, axis: usize, range: &Range) -> Lowered<Var> {
    let n = known_size(b, x, axis);
    if range.is_all(b, n) {
        return if same_shape(b, src, x) { Ok(src) } else { expanded_as(b, src, x) };
    }
    let src = filled_out(b, x, src, axis)?;
    let within = n.and_then(|n| range.within(b, n)).filter(|(_, end)| *end <= INDICES_MAX);
    if let Some((start, end)) = within {
        if start == end {
            return Ok(x);
        }
        let indices: Vec<i64> = (start..end).step_by(range.step as usize).collect();
        if axis == 0 || range.step != 1 {
            return match axis {
                0 => {
                    let places = Tensor::from_vec([indices.len(), 1], indices);
                    b.scatter_nd(x, b.constant(places), src).one()
                }
                _ => with_indices(b, x, src, axis, of::ints(b, indices)),
            };
        }
    }
    if range.step != 1 {
        let all = b.range(0, of::scalar(b, &size(b, x, axis)?)?, 1).one()?;
        return with_indices(b, x, src, axis, ranged(b, all, 0, range)?);
    }
    let (before, after) = (Range::to(range.start.clone()), Range::from(range.end.clone()));
    let (first, last) = match (within, n) {
        (Some((start, end)), Some(n)) => (start == 0, end == n),
        _ => (known(b, &range.start) == Some(0), known(b, &range.end) == Some(i64::MAX)),
    };
    let mut parts: Vec<Operand> = vec![];
    if !first {
        parts.push(ranged(b, x, axis, &before)?.into());
    }
    parts.push(src.into());
    if !last {
        parts.push(ranged(b, x, axis, &after)?.into());
    }
    b.concat(parts).axis(axis as i64).one()
}

/// `src` broadcast along all axes but one to the shape of `x`.
fn filled_out(b: &Lower, x: Var, src: Var, axis: usize) -> Lowered<Var> {
    let (Some(shape), Some(of_src)) = (b.shape_of(x), b.shape_of(src)) else { return Ok(src) };
    let new = shape.len().saturating_sub(of_src.len());
    let narrow = (0..shape.len()).filter(|i| *i != axis).any(|i| match i.checked_sub(new) {
        None => true,
        Some(j) => of_src[j].known() == Some(1) && shape[i].known() != Some(1),
    });
    if !narrow {
        return Ok(src);
    }
    let mut sizes = of::sizes(b, x)?;
    sizes[axis] = Value::Int(1);
    expanded(b, src, &sizes)
}

/// `x` with the slices of `src` at `indices`.
fn with_indices(b: &Lower, x: Var, src: Var, axis: usize, indices: Var) -> Lowered<Var> {
    if axis == 0 {
        return b.scatter_nd(x, b.unsqueeze(indices, [1])?, src).one();
    }
    let others: Vec<i64> = (0..rank(b, x)? as i64).filter(|i| *i != axis as i64).collect();
    let everywhere = expanded_as(b, b.unsqueeze(indices, others)?, src)?;
    b.scatter_elements(x, everywhere, src).axis(axis as i64).one()
}

/// The places in memory that strides give, in the order of the result.
enum StridedPositions {
    Known(Vec<i64>, Vec<i64>),
    /// As sizes or strides are known when the model runs.
    Computed(Var),
}

fn places(
    b: &Lower,
    size: &[Value],
    stride: &[Value],
    offset: Option<&Value>,
) -> Lowered<StridedPositions> {
    if size.len() != stride.len() {
        return Err(unsupported(b, "A tensor has not as many strides as axes."));
    }
    let offset = offset.unwrap_or(&Value::Int(0));
    let all = (of::all_known(b, size), of::all_known(b, stride), of::known(b, offset));
    let (Some(sizes), Some(strides), Some(offset)) = all else {
        return computed_places(b, size, stride, offset).map(StridedPositions::Computed);
    };
    let count = sizes.iter().try_fold(1i64, |n, size| n.checked_mul(*size));
    let fits = |n: &i64| (0..=INDICES_MAX).contains(n);
    if !count.is_some_and(|n| fits(&n)) || !sizes.iter().all(fits) {
        return Err(unsupported(b, "A tensor with strides of its own is too large."));
    }
    let mut places = if count == Some(0) { Vec::new() } else { vec![offset] };
    for (n, step) in sizes.iter().zip(&strides) {
        let along = |at: i64| (0..*n).map(move |i| at.wrapping_add(i.wrapping_mul(*step)));
        places = places.into_iter().flat_map(along).collect();
    }
    Ok(StridedPositions::Known(sizes, places))
}

/// The sum of what each axis contributes.
fn computed_places(b: &Lower, size: &[Value], stride: &[Value], offset: &Value) -> Lowered<Var> {
    let rank = size.len();
    let mut sum = dtype::operand(b, offset, DataType::Int64)?;
    for (axis, (n, step)) in size.iter().zip(stride).enumerate() {
        let along = b.range(0i64, of::scalar(b, n)?, 1i64).one()?;
        let along = b.mul(along, of::scalar(b, step)?)?;
        let behind: Vec<i64> = (1..(rank - axis) as i64).collect();
        let along = if behind.is_empty() { along } else { b.unsqueeze(along, behind)? };
        sum = b.add(sum, along)?;
    }
    Ok(sum)
}

impl StridedPositions {
    /// As indices; with `last` along a last axis of one element.
    fn indices(self, b: &Lower, last: bool) -> Lowered<Var> {
        match self {
            StridedPositions::Known(sizes, places) => {
                let dims = sizes.iter().map(|n| *n as usize).chain(last.then_some(1));
                Ok(b.constant(Tensor::from_vec(dims.collect::<Vec<_>>(), places)))
            }
            StridedPositions::Computed(var) if last => b.unsqueeze(var, [-1]),
            StridedPositions::Computed(var) => Ok(var),
        }
    }
}

fn as_strided(b: &Lower, a: Strided) -> Lowered<Var> {
    let places = places(b, &a.size, &a.stride, a.storage_offset.as_ref())?;
    let flat = reshaped(b, a.input, vec![(-1).into()])?;
    if let StridedPositions::Known(sizes, places) = &places {
        let all = b.dims_of(flat).is_some_and(|dims| dims == [places.len() as i64]);
        if all && places.iter().enumerate().all(|(i, place)| *place == i as i64) {
            return reshaped(b, a.input, sizes.iter().copied().map(Into::into).collect());
        }
    }
    b.gather(flat, places.indices(b, false)?).one()
}

fn as_strided_scatter(b: &Lower, a: StridedScatter) -> Lowered<Var> {
    let places = places(b, &a.size, &a.stride, a.storage_offset.as_ref())?;
    let flat = reshaped(b, a.input, vec![(-1).into()])?;
    let src = expanded(b, like(b, a.src, a.input)?, &a.size)?;
    let written = b.scatter_nd(flat, places.indices(b, true)?, src).one()?;
    let whole: Lowered<Vec<Value>> =
        (0..rank(b, a.input)?).map(|axis| size(b, a.input, axis)).collect();
    reshaped(b, written, super::shape::values(whole?))
}
