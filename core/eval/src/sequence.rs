//! Sequences and optionals.

use crate::call::{KernelCall, KernelRow, RunBody, control, integers};
use crate::cells::{joined, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::item::{RunValue, tensors};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    control("ConcatFromSequence", concat_from_sequence),
    control("Identity", identity),
    control("Optional", optional),
    control("OptionalGetElement", optional_get_element),
    control("OptionalHasElement", optional_has_element),
    control("SequenceAt", sequence_at),
    control("SequenceConstruct", sequence_construct),
    control("SequenceEmpty", sequence_empty),
    control("SequenceErase", sequence_erase),
    control("SequenceInsert", sequence_insert),
    control("SequenceLength", sequence_length),
    control("SequenceMap", sequence_map),
    control("SplitToSequence", split_to_sequence),
];

type Items<'a> = &'a [Option<RunValue>];

fn one(item: RunValue) -> Outcome<Vec<RunValue>> {
    Ok(vec![item])
}

fn given(items: Items<'_>, i: usize) -> Option<&RunValue> {
    items.get(i).and_then(Option::as_ref)
}

/// Input `i`, which must be a sequence.
fn sequence(items: Items<'_>, i: usize) -> Outcome<&[Tensor]> {
    match given(items, i) {
        Some(RunValue::Sequence(list)) => Ok(list),
        Some(other) => Err(Fault::invalid(format!("{} where a sequence is needed", other.kind()))),
        None => Err(Fault::invalid(format!("input {i} is missing"))),
    }
}

fn same_typed(list: &[Tensor], x: &Tensor) -> Outcome<()> {
    match list.first() {
        Some(first) if first.dtype() != x.dtype() => {
            Err(Fault::invalid(format!("{first:?} and {x:?} differ in element type")))
        }
        _ => Ok(()),
    }
}

/// A position given by input `i`; negative counts from the end.
fn position(call: &KernelCall, i: usize, places: usize) -> Outcome<Option<usize>> {
    let Some(x) = call.opt(i) else { return Ok(None) };
    match integers(x)?[..] {
        [at] => dims::index(at, places).map(Some),
        _ => Err(Fault::invalid(format!("position {x:?} is not a single integer"))),
    }
}

fn identity(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    one(given(items, 0).cloned().ok_or_else(|| Fault::invalid("input 0 is missing"))?)
}

fn optional(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    one(given(items, 0).cloned().unwrap_or(RunValue::Empty))
}

fn optional_has_element(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let found = matches!(given(items, 0), Some(RunValue::Tensor(_) | RunValue::Sequence(_)));
    one(RunValue::Tensor(Tensor::from_vec_as(DataType::Bool, vec![], vec![u8::from(found)])))
}

fn optional_get_element(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    match given(items, 0) {
        Some(RunValue::Empty) | None => Err(Fault::invalid("the optional has no element")),
        Some(item) => one(item.clone()),
    }
}

fn sequence_empty(_: &KernelCall, _: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    one(RunValue::sequence(vec![]))
}

fn sequence_construct(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let missing = || Fault::invalid("an input in between is missing");
    let all: Option<Vec<RunValue>> = items.iter().cloned().collect();
    let list = tensors(all.ok_or_else(missing)?)?;
    list.iter().try_for_each(|x| same_typed(&list, x))?;
    one(RunValue::sequence(list))
}

fn sequence_at(call: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let list = sequence(items, 0)?;
    let at = position(call, 1, list.len())?.ok_or_else(|| Fault::invalid("input 1 is missing"))?;
    one(RunValue::Tensor(list[at].clone()))
}

fn sequence_length(_: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    one(RunValue::Tensor(Tensor::scalar(sequence(items, 0)?.len() as i64)))
}

/// Without a position the last one.
fn sequence_erase(call: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let mut list = sequence(items, 0)?.to_vec();
    let last = list.len().checked_sub(1);
    let at = position(call, 1, list.len())?.or(last);
    list.remove(at.ok_or_else(|| Fault::invalid("the sequence is empty"))?);
    one(RunValue::sequence(list))
}

/// Without a position at the end, where position `n` also is; `-1` is before the last.
fn sequence_insert(call: &KernelCall, items: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let (list, x) = (sequence(items, 0)?, call.x(1)?);
    same_typed(list, x)?;
    let n = list.len();
    let at = match call.opt(2).map(integers).transpose()?.as_deref() {
        None => n,
        Some([at]) if *at == n as i64 => n,
        Some([at]) if at.checked_neg() == Some(n as i64) => 0,
        Some(_) => position(call, 2, n)?.unwrap_or(n),
    };
    let mut list = list.to_vec();
    list.insert(at, x.clone());
    one(RunValue::sequence(list))
}

/// Applies the body to the elements of the sequences, one after the other; tensors are the same for
/// all.
fn sequence_map(call: &KernelCall, items: Items, run: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let body = call.graph("body")?;
    let steps = sequence(items, 0)?.len();
    let mut lists: Vec<Vec<Tensor>> = vec![Vec::new(); body.outputs().len()];
    let mut bytes = 0usize;
    for step in 0..steps {
        let pick = |item: &Option<RunValue>| match item {
            Some(RunValue::Sequence(list)) if list.len() == steps => {
                Ok(RunValue::Tensor(list[step].clone()))
            }
            Some(RunValue::Tensor(x)) => Ok(RunValue::Tensor(x.clone())),
            _ => Err(Fault::invalid("an input does not fit the first sequence")),
        };
        let inputs = items.iter().map(pick).collect::<Outcome<Vec<_>>>()?;
        refuse!(inputs.len() != body.inputs().len() => "the body does not fit the inputs");
        for (list, y) in lists.iter_mut().zip(tensors(run(body, inputs)?)?) {
            bytes += y.byte_len() + size_of::<Tensor>();
            list.push(y);
        }
        refuse!(bytes > call.bytes_max => Fault::memory(format!("the sequences exceed {} bytes", call.bytes_max)));
    }
    Ok(lists.into_iter().map(RunValue::sequence).collect())
}

/// Sizes of the parts: given, all of one size but the last, or 1.
fn part_sizes(call: &KernelCall, size: usize) -> Outcome<Vec<usize>> {
    let fits_memory = |parts: usize| call.room(DataType::Double, &[parts, 16]);
    let Some(split) = call.opt(1) else {
        fits_memory(size)?;
        return Ok(vec![1; size]);
    };
    let sizes = dims::sizes(&integers(split)?)?;
    if split.rank() > 0 {
        let total = sizes.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
        let misfit = || Fault::invalid(format!("parts {sizes:?} do not make up {size}"));
        return if total == Some(size) { Ok(sizes) } else { Err(misfit()) };
    }
    let part = sizes[0];
    refuse!(part == 0 => "parts of size 0 make up nothing");
    fits_memory(size.div_ceil(part))?;
    Ok((0..size).step_by(part).map(|start| part.min(size - start)).collect())
}

fn split_to_sequence(call: &KernelCall, _: Items, _: &mut RunBody) -> Outcome<Vec<RunValue>> {
    let x = call.x(0)?;
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    // The tables of indices may be large where the tensor has no elements.
    x.dims().iter().try_for_each(|d| call.room(DataType::Int64, &[*d]).map(drop))?;
    let squeeze = call.opt(1).is_none() && !call.flag("keepdims", true)?;
    let mut tables: Vec<Vec<usize>> = x.dims().iter().map(|d| (0..*d).collect()).collect();
    let (mut start, mut list) = (0, Vec::new());
    for size in part_sizes(call, x.dims()[axis])? {
        tables[axis] = (start..start + size).collect();
        start += size;
        let mut part = take(x, &tables, None)?;
        if squeeze {
            let mut sizes = part.dims().to_vec();
            sizes.remove(axis);
            part = part.reshaped(sizes)?;
        }
        list.push(part);
    }
    one(RunValue::sequence(list))
}

fn concat_from_sequence(
    call: &KernelCall,
    items: Items,
    _: &mut RunBody,
) -> Outcome<Vec<RunValue>> {
    let list = sequence(items, 0)?;
    let first = list.first().ok_or_else(|| Fault::invalid("the sequence is empty"))?;
    let new_axis = call.flag("new_axis", false)?;
    let axis = call.int_opt("axis")?.ok_or_else(|| Fault::invalid("`axis` is missing"))?;
    let axis = dims::axis(axis, first.rank() + usize::from(new_axis))?;
    let widened = |x: &Tensor| -> Outcome<Tensor> {
        if !new_axis || x.rank() != first.rank() {
            return Ok(x.clone());
        }
        Ok(x.reshaped([&x.dims()[..axis], &[1], &x.dims()[axis..]].concat())?)
    };
    let bytes: usize = list.iter().map(Tensor::byte_len).sum();
    refuse!(bytes > call.bytes_max => Fault::memory(format!("the result exceeds {} bytes", call.bytes_max)));
    let parts = list.iter().map(widened).collect::<Outcome<Vec<Tensor>>>()?;
    one(RunValue::Tensor(joined(&parts.iter().collect::<Vec<_>>(), axis)?))
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
