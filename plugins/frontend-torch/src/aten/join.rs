//! Tensors put together, and taken apart.

use super::shape::{Tensors, at_least, reshaped, unsupported};
use super::sizes::{self as of, axis, known, known_size, rank, single, size};
use super::slicing::{Range, ranged, selected};
use super::{Lower, RowContext, dtype};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Most parts that a tensor is taken apart into.
const PARTS_MAX: i64 = 1 << 14;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::cat" | "aten::concat" | "aten::concatenate" => cat;
        "aten::stack" | "aten::_stack" => stack;
        "aten::hstack" => hstack;
        "aten::vstack" | "aten::row_stack" => |b, a: Tensors| joined_as(b, &a.tensors, 2, 0);
        "aten::dstack" => |b, a: Tensors| joined_as(b, &a.tensors, 3, 2);
        "aten::column_stack" => column_stack;
        "aten::split.Tensor" | "aten::split_copy" | "aten::unsafe_split" => split;
        "aten::split.sizes" => |b, input: Var, split_size: Vec<Value>, dim: i64| parts(b, input, dim, split_size);
        "aten::split" | "aten::split_with_sizes" | "aten::split_with_sizes_copy"
        | "aten::unsafe_split_with_sizes" => split_with_sizes(input, split_sizes, dim);
        "aten::chunk" | "aten::unsafe_chunk" => chunk(input, chunks, dim);
        "aten::tensor_split.sections" => |b, input: Var, sections: i64, dim: i64| even(b, input, dim, sections);
        "aten::tensor_split.indices" => |b, input: Var, indices: Vec<Value>, dim: i64| cut(b, input, dim, indices);
        "aten::tensor_split.tensor_indices_or_sections" => tensor_split;
        "aten::hsplit.int" => |b, input: Var, sections: i64| {
            even(b, input, horizontal(b, input)?, sections)
        };
        "aten::vsplit.int" => |b, input: Var, sections: i64| even(b, input, 0, sections);
        "aten::dsplit.int" => |b, input: Var, sections: i64| even(b, input, 2, sections);
        "aten::hsplit.array" => |b, input: Var, indices: Vec<Value>| cut(b, input, horizontal(b, input)?, indices);
        "aten::vsplit.array" => |b, input: Var, indices: Vec<Value>| cut(b, input, 0, indices);
        "aten::dsplit.array" => |b, input: Var, indices: Vec<Value>| cut(b, input, 2, indices);
        "aten::unbind" | "aten::unbind_copy" => unbind(input, dim);
    }
}

arguments! {
    /// A list of tensors, or a sequence of the graph.
    struct Joined { tensors: Value, dim: i64 }
    struct Split { input: Var, split_size: Value, dim: i64 }
    struct TensorSplit { input: Var, tensor_indices_or_sections: Var, dim: i64 }
}

/// The tensors of a list in the type in which they meet; a sequence of the graph as it is.
enum JoinedTensors {
    Known(Vec<Var>),
    Sequence(Var),
}

fn list(b: &Lower, tensors: &Value) -> Lowered<JoinedTensors> {
    match tensors {
        Value::Var(sequence) => Ok(JoinedTensors::Sequence(*sequence)),
        Value::List(items) if !items.is_empty() => {
            let dtype = dtype::common(b, &items.iter().collect::<Vec<_>>())?;
            let each = items.iter().map(|item| dtype::operand(b, item, dtype));
            Ok(JoinedTensors::Known(each.collect::<Lowered<_>>()?))
        }
        _ => Err(b.diagnostic(Code::LayerParameter, "A list of tensors is needed.")),
    }
}

fn cat(b: &Lower, a: Joined) -> Lowered<Var> {
    match list(b, &a.tensors)? {
        JoinedTensors::Sequence(sequence) => b.concat_from_sequence(sequence).axis(a.dim).one(),
        JoinedTensors::Known(tensors) => joined(b, tensors, a.dim),
    }
}

/// Tensors of one type one after the other.
///
/// # Errors
/// Those of the builder.
pub(crate) fn joined(b: &Lower, tensors: Vec<Var>, dim: i64) -> Lowered<Var> {
    // torch skips tensors of shape [0], whatever the others are.
    let empty = |x: &Var| b.dims_of(*x).is_some_and(|dims| dims == [0]);
    let mut kept: Vec<Var> = tensors.iter().filter(|x| !empty(x)).copied().collect();
    if kept.is_empty() {
        kept = tensors.into_iter().take(1).collect();
    }
    let at = axis(b, kept[0], dim)?;
    match kept.as_slice() {
        [x] => Ok(*x),
        _ => b.concat(kept.iter().map(Operand::from)).axis(at as i64).one(),
    }
}

fn stack(b: &Lower, a: Joined) -> Lowered<Var> {
    let tensors = match list(b, &a.tensors)? {
        JoinedTensors::Sequence(sequence) => {
            return b.concat_from_sequence(sequence).axis(a.dim).new_axis(1).one();
        }
        JoinedTensors::Known(tensors) => tensors,
    };
    let rank = rank(b, tensors[0])?;
    let at = of::wrapped(b, a.dim, rank + 1)? as i64;
    let apart = |x: &Var| -> Lowered<Operand> {
        match rank {
            0 if b.dtype_of(*x) == Some(onnxd_plugin_sdk::ir::DataType::Int64) => {
                single(b, &Value::Var(*x))
            }
            _ => Ok(b.unsqueeze(*x, [at])?.into()),
        }
    };
    let mut apart = tensors.iter().map(apart).collect::<Lowered<Vec<_>>>()?;
    match (apart.len(), apart.pop()) {
        (1, Some(Operand::Var(only))) => Ok(only),
        (_, last) => b.concat(apart.into_iter().chain(last)).axis(at).one(),
    }
}

/// Tensors with at least so many axes, one after the other.
fn joined_as(b: &Lower, tensors: &[Var], least: usize, dim: i64) -> Lowered<Var> {
    let each = tensors.iter().map(|x| Ok(Value::Var(at_least(b, *x, least)?)));
    let tensors = Value::List(each.collect::<Lowered<_>>()?);
    cat(b, Joined { tensors, dim })
}

fn hstack(b: &Lower, a: Tensors) -> Lowered<Var> {
    let first = a.tensors.first().map_or(Ok(1), |x| rank(b, *x))?;
    joined_as(b, &a.tensors, 1, i64::from(first > 1))
}

fn column_stack(b: &Lower, a: Tensors) -> Lowered<Var> {
    let column = |x: &Var| match rank(b, *x)? {
        0 | 1 => reshaped(b, *x, vec![(-1).into(), 1.into()]),
        _ => Ok(*x),
    };
    let columns = a.tensors.iter().map(column).collect::<Lowered<Vec<_>>>()?;
    joined_as(b, &columns, 2, 1)
}

/// Parts of `x` of the given sizes.
///
/// # Errors
/// `N0213` if there are too many.
pub(crate) fn parts(b: &Lower, x: Var, dim: i64, sizes: Vec<Value>) -> Lowered<Value> {
    let at = axis(b, x, dim)? as i64;
    if sizes.len() as i64 > PARTS_MAX {
        let message = format!("A tensor is split into more than {PARTS_MAX} parts.");
        return Err(b.diagnostic(Code::SourceLimit, message));
    }
    match sizes.len() {
        0 => Ok(Value::List(vec![])),
        1 => Ok(vec![x].into()),
        n => Ok(b.split(x).split(of::vector(b, &sizes)?).axis(at).list(n)?.into()),
    }
}

fn split_with_sizes(b: &Lower, input: Var, split_sizes: Vec<Value>, dim: i64) -> Lowered<Value> {
    parts(b, input, dim, split_sizes)
}

/// Sizes of the parts of `n` that are `each` long; the last may be shorter.
fn pieces(b: &Lower, n: i64, each: i64) -> Lowered<Vec<Value>> {
    let count = if each > 0 { (n - 1).max(0) / each + 1 } else { 1 };
    if count > PARTS_MAX {
        let message = format!("A tensor is split into more than {PARTS_MAX} parts.");
        return Err(b.diagnostic(Code::SourceLimit, message));
    }
    let sizes = (0..count).map(|i| (n - i * each).min(each));
    Ok(if count == 1 { vec![Value::Int(n)] } else { sizes.map(Value::Int).collect() })
}

fn split(b: &Lower, a: Split) -> Lowered<Value> {
    let at = axis(b, a.input, a.dim)?;
    match (known_size(b, a.input, at), known(b, &a.split_size)) {
        (Some(n), Some(each)) => parts(b, a.input, a.dim, pieces(b, n, each)?),
        // The number of parts is not known.
        _ => {
            let each = of::scalar(b, &a.split_size)?;
            Ok(b.split_to_sequence(a.input).split(each).axis(at as i64).one()?.into())
        }
    }
}

fn chunk(b: &Lower, input: Var, chunks: i64, dim: i64) -> Lowered<Value> {
    let at = axis(b, input, dim)?;
    if !(1..=PARTS_MAX).contains(&chunks) {
        return Err(b.diagnostic(Code::LayerParameter, "chunk needs a positive number of parts."));
    }
    match known_size(b, input, at) {
        Some(0) => parts(b, input, dim, vec![Value::Int(0); chunks as usize]),
        Some(n) => parts(b, input, dim, pieces(b, n, (n - 1) / chunks + 1)?),
        None if chunks == 1 => Ok(vec![input].into()),
        // As many parts as wanted, unless the axis is too short for them.
        None => {
            let split = b.split(input).axis(at as i64);
            let count = chunks as usize;
            if b.opset() >= 18 {
                return Ok(split.num_outputs(chunks).list(count)?.into());
            }
            let n = of::single(b, &size(b, input, at)?)?;
            let each = b.div(b.add(n.clone(), [chunks - 1])?, [chunks])?;
            let begun = b.mul(each, (0..chunks).collect::<Vec<_>>())?;
            let sizes = b.min([each, b.sub(n, begun)?])?;
            Ok(split.split(sizes).list(count)?.into())
        }
    }
}

/// `sections` parts whose sizes differ by one at most, the longer ones first.
fn even(b: &Lower, x: Var, dim: i64, sections: i64) -> Lowered<Value> {
    let at = axis(b, x, dim)?;
    if !(1..=PARTS_MAX).contains(&sections) {
        return Err(b.diagnostic(Code::LayerParameter, "A positive number of parts is needed."));
    }
    if let Some(n) = known_size(b, x, at) {
        let sizes = (0..sections).map(|i| Value::Int((n + sections - 1 - i) / sections));
        return parts(b, x, dim, sizes.collect());
    }
    let n = of::single(b, &size(b, x, at)?)?;
    let extra: Vec<i64> = (0..sections).rev().collect();
    let sizes = b.div(b.add(n, extra)?, sections)?;
    Ok(b.split(x).split(sizes).axis(at as i64).list(sections as usize)?.into())
}

/// Parts between places.
fn cut(b: &Lower, x: Var, dim: i64, places: Vec<Value>) -> Lowered<Value> {
    let at = axis(b, x, dim)?;
    let whole = known_size(b, x, at).zip(of::all_known(b, &places));
    if let Some((n, known)) = whole {
        let clamp = |x: i64| if x < 0 { (x + n).max(0) } else { x.min(n) };
        let ends: Vec<i64> = known.into_iter().map(clamp).chain([n]).collect();
        if ends.is_sorted() {
            let starts = [0].into_iter().chain(ends.iter().copied());
            let sizes = ends.iter().zip(starts).map(|(end, start)| Value::Int(end - start));
            return parts(b, x, dim, sizes.collect());
        }
    }
    let starts = [Value::Int(0)].into_iter().chain(places.iter().cloned());
    let ends = places.iter().cloned().chain([Value::Int(i64::MAX)]);
    let part = |(start, end)| ranged(b, x, at, &Range::new(start, end));
    Ok(starts.zip(ends).map(part).collect::<Lowered<Vec<Var>>>()?.into())
}

fn tensor_split(b: &Lower, a: TensorSplit) -> Lowered<Value> {
    let how = a.tensor_indices_or_sections;
    let Some(numbers) = b.constant_of(how).and_then(|numbers| numbers.to_i64s()) else {
        return Err(unsupported(b, "tensor_split needs places that are known."));
    };
    match (b.rank_of(how), numbers.as_slice()) {
        (Some(0), [sections]) => even(b, a.input, a.dim, *sections),
        _ => cut(b, a.input, a.dim, numbers.into_iter().map(Value::Int).collect()),
    }
}

/// The axis along which `hsplit` cuts.
fn horizontal(b: &Lower, x: Var) -> Lowered<i64> {
    Ok(i64::from(rank(b, x)? > 1))
}

fn unbind(b: &Lower, input: Var, dim: i64) -> Lowered<Value> {
    let at = axis(b, input, dim)?;
    match known_size(b, input, at) {
        Some(n @ 0..=PARTS_MAX) => {
            let each = (0..n).map(|i| selected(b, input, at, &Value::Int(i)));
            Ok(each.collect::<Lowered<Vec<Var>>>()?.into())
        }
        _ => Ok(b.split_to_sequence(input).axis(at as i64).keepdims(0).one()?.into()),
    }
}
