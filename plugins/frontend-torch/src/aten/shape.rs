//! The same elements in another shape, and elements that are repeated.

use super::sizes::{axes, axis, known, known_size, rank, size, sizes, wrapped};
use super::{Lower, RowContext, sizes as of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{DataType, Dim};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Longest list of indices that becomes a constant.
pub(crate) const INDICES_MAX: i64 = 1 << 20;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::view" | "aten::view_copy" | "aten::_unsafe_view" | "aten::_reshape_copy"
            => |b, input: Var, size: Vec<Value>| {
            reshaped(b, input, values(size))
        };
        "aten::_reshape_alias" | "aten::_reshape_alias_copy" => |b, input: Var, size: Vec<Value>, stride: Value| {
            reshaped(b, input, values(size))
        };
        "aten::reshape" => |b, input: Var, shape: Vec<Value>| reshaped(b, input, values(shape));
        "aten::reshape_as" | "aten::view_as" => |b, input: Var, other: Var| reshaped_as(b, input, other);
        "aten::ravel" => |b, input: Var| reshaped(b, input, vec![(-1).into()]);
        "aten::flatten" => flatten(input, start_dim, end_dim);
        "aten::unflatten" => unflatten(input, dim, sizes);
        "aten::squeeze" | "aten::squeeze_copy" => squeeze(input);
        "aten::squeeze.dim" | "aten::squeeze_copy.dim" => |b, input: Var, dim: i64| squeezed(b, input, &[dim]);
        "aten::squeeze.dims" | "aten::squeeze_copy.dims" => |b, input: Var, dim: Vec<i64>| squeezed(b, input, &dim);
        "aten::unsqueeze" | "aten::unsqueeze_copy" => unsqueeze(input, dim);
        "aten::expand" | "aten::expand_copy" => |b, input: Var, size: Vec<Value>, implicit: bool| {
            expanded(b, input, &size)
        };
        "aten::broadcast_to" => |b, input: Var, size: Vec<Value>| expanded(b, input, &size);
        "aten::expand_as" => |b, input: Var, other: Var| expanded_as(b, input, other);
        "aten::broadcast_tensors" => broadcast_tensors;
        "aten::repeat" => |b, input: Var, repeats: Vec<Value>| repeated(b, input, repeats);
        "aten::tile" => tile(input, dims);
        "aten::repeat_interleave.self_int" => interleave;
        "aten::repeat_interleave.self_Tensor" => interleave_by;
        "aten::repeat_interleave.Tensor" => |b, repeats: Var, output_size: Value| indices_of(b, repeats);
        "aten::atleast_1d" => |b, input: Var| at_least(b, input, 1);
        "aten::atleast_2d" => |b, input: Var| at_least(b, input, 2);
        "aten::atleast_3d" => |b, input: Var| at_least(b, input, 3);
        "aten::atleast_1d.Sequence" => |b, a: Tensors| all_at_least(b, a, 1);
        "aten::atleast_2d.Sequence" => |b, a: Tensors| all_at_least(b, a, 2);
        "aten::atleast_3d.Sequence" => |b, a: Tensors| all_at_least(b, a, 3);
    }
}

arguments! {
    pub(crate) struct Tensors { tensors: Vec<Var> }
    struct Interleave { input: Var, repeats: Value, dim: Option<i64>, output_size: Value }
    struct InterleaveBy { input: Var, repeats: Var, dim: Option<i64>, output_size: Value }
}

/// A size of what a tensor is reshaped to.
#[derive(Clone, Debug)]
pub(crate) enum TargetSize {
    /// A number or a scalar; -1 stands for what is left.
    Value(Value),
    /// The size of this axis of the tensor.
    Same(usize),
}

impl From<i64> for TargetSize {
    fn from(n: i64) -> TargetSize {
        TargetSize::Value(Value::Int(n))
    }
}

impl From<Value> for TargetSize {
    fn from(size: Value) -> TargetSize {
        TargetSize::Value(size)
    }
}

pub(crate) fn values(sizes: Vec<Value>) -> Vec<TargetSize> {
    sizes.into_iter().map(TargetSize::Value).collect()
}

/// A size as `Reshape` takes it.
enum ReshapeSize {
    Known(i64),
    /// That of the tensor's axis at the same place.
    Kept,
    Computed(Value),
}

/// `x` in the shape `sizes`.
///
/// # Errors
/// `N0203` if the shape cannot be said.
pub(crate) fn reshaped(b: &Lower, x: Var, sizes: Vec<TargetSize>) -> Lowered<Var> {
    let shape = b.shape_of(x).unwrap_or_default();
    let mut items: Vec<ReshapeSize> = vec![];
    for (i, size) in sizes.into_iter().enumerate() {
        items.push(item(b, x, &shape, i, size)?);
    }
    if let (Some(dims), Some(left)) = (b.dims_of(x), infer_at(&items)) {
        let others = items.iter().enumerate().filter(|(i, _)| *i != left);
        let others = others.map(|(i, item)| known_item(item, &dims, i));
        let element_count = of::count(dims.iter().map(|n| Some(*n)));
        if let (Some(element_count), Some(others @ 1..)) = (element_count, of::count(others))
            && element_count % others == 0
        {
            items[left] = ReshapeSize::Known(element_count / others);
        }
    }
    if is_same(b, x, &shape, &items) {
        return Ok(x);
    }
    let zero = items.iter().any(|item| matches!(item, ReshapeSize::Known(0)));
    let computed = |item: &ReshapeSize| matches!(item, ReshapeSize::Computed(_));
    let open = items.iter().filter(|item| computed(item)).count();
    if !zero && open == 1 && infer_at(&items).is_none() {
        items
            .iter_mut()
            .filter(|item| computed(item))
            .for_each(|item| *item = ReshapeSize::Known(-1));
    }
    let mut target = vec![];
    for (i, item) in items.into_iter().enumerate() {
        target.push(match item {
            ReshapeSize::Known(n) => Value::Int(n),
            ReshapeSize::Kept if zero => size(b, x, i)?,
            ReshapeSize::Kept => Value::Int(0),
            ReshapeSize::Computed(size) => size,
        });
    }
    let target = of::vector(b, &target)?;
    match zero {
        true => {
            needs(b, 14, "shapes with a size of 0")?;
            b.reshape(x, target).allowzero(1).one()
        }
        false => b.reshape(x, target).one(),
    }
}

fn item(b: &Lower, x: Var, shape: &[Dim], i: usize, size: TargetSize) -> Lowered<ReshapeSize> {
    let size = match size {
        TargetSize::Value(size) => size,
        TargetSize::Same(axis) => match shape.get(axis) {
            Some(Dim::Known(n)) => return Ok(ReshapeSize::Known(*n)),
            _ if axis == i => return Ok(ReshapeSize::Kept),
            _ => of::size(b, x, axis)?,
        },
    };
    if let Some(n) = known(b, &size) {
        return Ok(ReshapeSize::Known(n));
    }
    let same = |v| shape.get(i).is_some_and(|dim| of::dim_of(b, v).is_some_and(|d| d.same(dim)));
    Ok(match size {
        Value::Var(v) if same(v) => ReshapeSize::Kept,
        other => ReshapeSize::Computed(other),
    })
}

fn infer_at(items: &[ReshapeSize]) -> Option<usize> {
    items.iter().position(|item| matches!(item, ReshapeSize::Known(-1)))
}

fn known_item(item: &ReshapeSize, dims: &[i64], i: usize) -> Option<i64> {
    match item {
        ReshapeSize::Known(n) => Some(*n),
        ReshapeSize::Kept => dims.get(i).copied(),
        ReshapeSize::Computed(_) => None,
    }
}

/// Whether the shape is that of `x`.
fn is_same(b: &Lower, x: Var, shape: &[Dim], items: &[ReshapeSize]) -> bool {
    let same = |(dim, item): (&Dim, &ReshapeSize)| match item {
        ReshapeSize::Known(n) => dim.known() == Some(*n),
        ReshapeSize::Kept => true,
        ReshapeSize::Computed(_) => false,
    };
    let pairs = shape.iter().zip(items);
    let differ = pairs.filter(|pair| !same(*pair)).map(|(_, item)| item);
    let differ: Vec<&ReshapeSize> = differ.collect();
    b.rank_of(x) == Some(items.len())
        && match differ.as_slice() {
            [] => true,
            // What is left is what was there, unless another axis may be empty.
            [ReshapeSize::Known(-1)] => {
                shape.iter().filter(|d| d.known().is_none_or(|n| n < 1)).count() <= 1
            }
            _ => false,
        }
}

fn reshaped_as(b: &Lower, x: Var, other: Var) -> Lowered<Var> {
    match b.dims_of(other) {
        Some(dims) => reshaped(b, x, dims.into_iter().map(TargetSize::from).collect()),
        None if same_shape(b, x, other) => Ok(x),
        None => b.reshape(x, b.shape(other).one()?).one(),
    }
}

/// Whether both are known to have the same shape.
pub(crate) fn same_shape(b: &Lower, x: Var, other: Var) -> bool {
    let (Some(one), Some(two)) = (b.shape_of(x), b.shape_of(other)) else { return false };
    one.len() == two.len() && one.iter().zip(&two).all(|(d, e)| d.same(e))
}

fn flatten(b: &Lower, input: Var, start_dim: i64, end_dim: i64) -> Lowered<Var> {
    let rank = rank(b, input)?;
    let (start, end) = (wrapped(b, start_dim, rank)?, wrapped(b, end_dim, rank)?);
    if rank == 0 {
        return reshaped(b, input, vec![1.into()]);
    }
    if start > end {
        let message = format!("flatten from axis {start} to axis {end}.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    if start == end {
        return Ok(input);
    }
    let merged = (start..=end).map(|axis| known_size(b, input, axis));
    let merged = of::count(merged).unwrap_or(-1);
    let after = (end + 1..rank).map(TargetSize::Same);
    reshaped(
        b,
        input,
        (0..start).map(TargetSize::Same).chain([merged.into()]).chain(after).collect(),
    )
}

fn unflatten(b: &Lower, input: Var, dim: i64, sizes: Vec<Value>) -> Lowered<Var> {
    let (rank, at) = (rank(b, input)?, axis(b, input, dim)?);
    let mut sizes = sizes;
    let left = sizes.iter().position(|size| known(b, size) == Some(-1));
    if let (Some(left), Some(whole)) = (left, known_size(b, input, at)) {
        let others = sizes.iter().enumerate().filter(|(i, _)| *i != left);
        let others = of::count(others.map(|(_, size)| known(b, size)));
        if let Some(n) = others.filter(|n| *n > 0) {
            sizes[left] = Value::Int(whole / n);
        }
    }
    let (before, after) = ((0..at).map(TargetSize::Same), (at + 1..rank).map(TargetSize::Same));
    reshaped(b, input, before.chain(values(sizes)).chain(after).collect())
}

fn squeeze(b: &Lower, input: Var) -> Lowered<Var> {
    let shape = b.shape_of(input);
    let Some(shape) = shape.filter(|shape| shape.iter().all(|d| d.known().is_some())) else {
        note_open(b, "Axes of sizes that are not known are kept by squeeze.");
        let rank = rank(b, input)?;
        let ones: Vec<i64> = (0..rank as i64)
            .filter(|axis| known_size(b, input, *axis as usize) == Some(1))
            .collect();
        return without_axes(b, input, ones);
    };
    let ones = shape.iter().enumerate().filter(|(_, d)| **d == Dim::Known(1));
    without_axes(b, input, ones.map(|(i, _)| i as i64).collect())
}

/// Removes those of `dims` that have size 1.
fn squeezed(b: &Lower, x: Var, dims: &[i64]) -> Lowered<Var> {
    let mut ones = vec![];
    for axis in axes(b, x, dims)?.into_iter().filter(|_| b.rank_of(x) != Some(0)) {
        match known_size(b, x, axis) {
            Some(1) => ones.push(axis as i64),
            Some(_) => {}
            None => {
                note_open(b, "An axis whose size is not known is squeezed: it must be 1.");
                ones.push(axis as i64);
            }
        }
    }
    ones.sort_unstable();
    ones.dedup();
    without_axes(b, x, ones)
}

fn note_open(b: &Lower, message: &str) {
    b.note(b.diagnostic(Code::LayerParameter, message));
}

/// `x` without some axes of size 1.
///
/// # Errors
/// Those of the builder.
pub(crate) fn without_axes(b: &Lower, x: Var, axes: Vec<i64>) -> Lowered<Var> {
    if axes.is_empty() { Ok(x) } else { b.squeeze(x).axes(axes).one() }
}

fn unsqueeze(b: &Lower, input: Var, dim: i64) -> Lowered<Var> {
    let rank = rank(b, input)?;
    let at = wrapped(b, dim, rank + 1)?;
    b.unsqueeze(input, [at as i64])
}

/// `x` broadcast to `sizes`, of which -1 keeps what is there.
///
/// # Errors
/// Those of the builder.
pub(crate) fn expanded(b: &Lower, x: Var, sizes: &[Value]) -> Lowered<Var> {
    let shape = b.shape_of(x).unwrap_or_default();
    let new = sizes.len().saturating_sub(shape.len());
    let mut target = vec![];
    for (i, size) in sizes.iter().enumerate() {
        let old = i.checked_sub(new).and_then(|i| shape.get(i));
        let kept = match (known(b, size), size) {
            (Some(-1), _) => true,
            (Some(n), _) => old == Some(&Dim::Known(n)),
            (None, Value::Var(v)) => {
                old.is_some_and(|old| of::dim_of(b, *v).is_some_and(|d| d.same(old)))
            }
            _ => false,
        };
        target.push(if kept { Value::Int(1) } else { size.clone() });
    }
    let none = new == 0 && target.iter().all(|size| known(b, size) == Some(1));
    if none && b.rank_of(x).is_some() {
        return Ok(x);
    }
    b.expand(x, of::vector(b, &target)?)
}

/// `x` broadcast to the shape of `other`.
///
/// # Errors
/// Those of the builder.
pub(crate) fn expanded_as(b: &Lower, x: Var, other: Var) -> Lowered<Var> {
    if same_shape(b, x, other) {
        return Ok(x);
    }
    match b.dims_of(other) {
        Some(dims) => b.expand(x, dims),
        None => b.expand(x, b.shape(other).one()?),
    }
}

fn broadcast_tensors(b: &Lower, a: Tensors) -> Lowered<Value> {
    let all = a.tensors.clone();
    let mut all = all.into_iter();
    let Some(first) = all.next() else { return Ok(Value::List(vec![])) };
    let whole = all.try_fold(first, |so_far, x| match same_shape(b, so_far, x) {
        true => Ok(so_far),
        false => b.expand(so_far, b.shape(x).one()?),
    })?;
    let each = a.tensors.iter().map(|x| expanded_as(b, *x, whole));
    Ok(each.collect::<Lowered<Vec<Var>>>()?.into())
}

/// `x` with new axes in front, so that it has `rank` axes.
fn in_front(b: &Lower, x: Var, to: usize) -> Lowered<Var> {
    let new = to.saturating_sub(rank(b, x)?);
    if new == 0 { Ok(x) } else { b.unsqueeze(x, (0..new as i64).collect::<Vec<_>>()) }
}

fn repeated(b: &Lower, x: Var, repeats: Vec<Value>) -> Lowered<Var> {
    let x = in_front(b, x, repeats.len())?;
    if repeats.iter().all(|n| known(b, n) == Some(1)) {
        return Ok(x);
    }
    b.tile(x, of::vector(b, &repeats)?)
}

fn tile(b: &Lower, input: Var, dims: Vec<Value>) -> Lowered<Var> {
    let missing = rank(b, input)?.saturating_sub(dims.len());
    repeated(b, input, vec![Value::Int(1); missing].into_iter().chain(dims).collect())
}

/// The tensor and the axis along which it is repeated; all its elements if none is named.
fn repeated_axis(b: &Lower, x: Var, dim: Option<i64>) -> Lowered<(Var, usize)> {
    match dim {
        Some(dim) => Ok((x, axis(b, x, dim)?)),
        None => Ok((reshaped(b, x, vec![(-1).into()])?, 0)),
    }
}

fn interleave(b: &Lower, a: Interleave) -> Lowered<Var> {
    let (x, at) = repeated_axis(b, a.input, a.dim)?;
    if let (Some(n), Some(times)) = (known_size(b, x, at), known(b, &a.repeats))
        && n.saturating_mul(times) <= INDICES_MAX
    {
        let indices = (0..n).flat_map(|i| (0..times).map(move |_| i));
        return b.gather(x, indices.collect::<Vec<_>>()).axis(at as i64).one();
    }
    let whole = sizes(b, x)?;
    let apart = b.unsqueeze(x, [at as i64 + 1])?;
    let mut repeats = vec![Value::Int(1); whole.len() + 1];
    repeats[at + 1] = a.repeats;
    let mut target = values(whole);
    target[at] = (-1).into();
    reshaped(b, b.tile(apart, of::vector(b, &repeats)?)?, target)
}

fn interleave_by(b: &Lower, a: InterleaveBy) -> Lowered<Var> {
    let (x, at) = repeated_axis(b, a.input, a.dim)?;
    let single = b.rank_of(a.repeats) == Some(0) || b.dims_of(a.repeats) == Some(vec![1]);
    if single && known_size(b, x, at) != Some(1) {
        let repeats = Value::Var(a.repeats);
        let (dim, output_size) = (Some(at as i64), Value::None);
        return interleave(b, Interleave { input: x, repeats, dim, output_size });
    }
    b.gather(x, indices_of(b, a.repeats)?).axis(at as i64).one()
}

/// Each index as often as `repeats` says at its place.
fn indices_of(b: &Lower, repeats: Var) -> Lowered<Var> {
    let counts = b.constant_of(repeats).and_then(|counts| counts.to_i64s());
    if let Some(counts) =
        counts.filter(|counts| counts.iter().all(|n| (0..=INDICES_MAX).contains(n)))
        && counts.iter().sum::<i64>() <= INDICES_MAX
    {
        let indices = (0i64..).zip(counts).flat_map(|(i, n)| (0..n).map(move |_| i));
        return Ok(of::ints(b, indices.collect()));
    }
    let repeats = b.cast(repeats, DataType::Int64)?;
    // The index at a place is the number of ends before it.
    let ends = b.cum_sum(repeats, 0).one()?;
    let count = b.reduce_sum(repeats).axes([0]).keepdims(0).one()?;
    let places = b.unsqueeze(b.range(0, count, 1).one()?, [1])?;
    let before = b.cast(b.less_or_equal(ends, places)?, DataType::Int64)?;
    b.reduce_sum(before).axes([1]).keepdims(0).one()
}

/// `x` with at least `least` axes, as `atleast_2d` places new ones.
///
/// # Errors
/// Those of [`rank`].
pub(crate) fn at_least(b: &Lower, x: Var, least: usize) -> Lowered<Var> {
    match (rank(b, x)?, least) {
        (n, _) if n >= least => Ok(x),
        (0, _) => reshaped(b, x, vec![1.into(); least]),
        (1, 2) => b.unsqueeze(x, [0]),
        (1, _) => b.unsqueeze(x, [0, 2]),
        _ => b.unsqueeze(x, [2]),
    }
}

fn all_at_least(b: &Lower, a: Tensors, least: usize) -> Lowered<Value> {
    let each = a.tensors.iter().map(|x| at_least(b, *x, least));
    Ok(each.collect::<Lowered<Vec<Var>>>()?.into())
}

/// That the operators of the graph are new enough.
///
/// # Errors
/// `N0203` if they are not.
pub(crate) fn needs(b: &Lower, opset: i64, what: &str) -> Lowered<()> {
    match b.opset() >= opset {
        true => Ok(()),
        false => Err(unsupported(b, &format!("ONNX has {what} since opset {opset}."))),
    }
}

/// A finding about what an operator cannot be converted with.
pub(crate) fn unsupported(b: &Lower, what: &str) -> Diagnostic {
    b.diagnostic(Code::LayerUnsupported, what)
}
