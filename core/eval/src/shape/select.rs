//! Selection by value or position.

use crate::call::{KernelCall, one};
use crate::cells::{CellWidth, celled, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, numeric, slice};
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::cmp::Ordering;

/// Coordinates of all elements that are not zero, one row per axis.
pub(super) fn non_zero(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let set: Vec<bool> = match x.dtype() {
        DataType::String => {
            x.as_strings().unwrap_or_default().iter().map(|s| !s.is_empty()).collect()
        }
        _ => {
            let wide = super::cast(x, DataType::Bool)?;
            slice::<u8>(&wide)?.iter().map(|v| *v != 0).collect()
        }
    };
    let sizes: &[usize] = if x.rank() == 0 { &[1] } else { x.dims() };
    let mut rows = vec![Vec::new(); sizes.len()];
    let mut at = set.iter();
    dims::for_each_index(sizes, |index| {
        if at.next() == Some(&true) {
            rows.iter_mut().zip(index).for_each(|(row, i)| row.push(*i as i64));
        }
    });
    let nonzero_count = rows[0].len();
    call.room(DataType::Int64, &[rows.len(), nonzero_count])?;
    // A scalar has one place and no axis.
    let shape =
        if x.rank() == 0 { vec![0, nonzero_count] } else { vec![rows.len(), nonzero_count] };
    let values = if x.rank() == 0 { vec![] } else { rows.concat() };
    one(Tensor::from_vec(shape, values))
}

/// Keeps what a list of booleans says.
pub(super) fn compress(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let keep: Vec<usize> = slice::<u8>(call.x(1)?)?
        .iter()
        .enumerate()
        .filter_map(|(i, k)| (*k != 0).then_some(i))
        .collect();
    let (x, axis) = match call.int_opt("axis")? {
        Some(axis) => (x.clone(), dims::axis(axis, x.rank())?),
        None => (x.reshaped([x.len()])?, 0),
    };
    refuse!(keep.last().is_some_and(|last| *last >= x.dims()[axis]) =>
        "the condition is longer than axis {axis} of {x:?}");
    let mut tables = super::slice::whole(x.dims());
    tables[axis] = keep;
    one(take(&x, &tables, None)?)
}

/// The upper or lower triangle of the innermost matrices, zero elsewhere.
pub(crate) fn trilu(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let [.., rows, columns] = x.dims() else {
        return Err(Fault::invalid(format!("{x:?} is not a matrix")));
    };
    let k = call.scalar_opt(1)?.unwrap_or(0.0) as i64;
    let upper = call.flag("upper", true)?;
    celled!(x.dtype(), T => {
        let mut cells = <T as CellWidth>::load(x).into_owned();
        for (i, cell) in cells.iter_mut().enumerate() {
            let (row, column) = ((i / columns % rows) as i64, (i % columns) as i64);
            let diagonal = row.saturating_add(k);
            let keep = if upper { column >= diagonal } else { column <= diagonal };
            if !keep {
                *cell = <T as CellWidth>::blank();
            }
        }
        one(<T as CellWidth>::store(x.dtype(), x.dims().to_vec(), cells)?)
    })
}

/// Reverses the first `sequence_lens[b]` elements of every sequence of a batch.
pub(super) fn reverse_sequence(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, lens) = (call.x(0)?, crate::call::integers(call.x(1)?)?);
    let (batch, time) = (call.int("batch_axis", 1)?, call.int("time_axis", 0)?);
    let (batch, time) = (dims::axis(batch, x.rank())?, dims::axis(time, x.rank())?);
    let size = x.dims()[time];
    let wrong = lens.iter().any(|n| *n < 0 || *n > size as i64);
    refuse!(batch == time || lens.len() != x.dims()[batch] || wrong => "sequence lengths {lens:?} do not fit {x:?}");
    let strides = dims::strides(x.dims());
    celled!(x.dtype(), T => {
        let cells = <T as CellWidth>::load(x);
        let mut out = Vec::with_capacity(cells.len());
        dims::for_each_index(x.dims(), |index| {
            let (len, t) = (lens[index[batch]] as usize, index[time]);
            let from = if t < len { len - 1 - t } else { t };
            let flat: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
            out.push(cells[flat - t * strides[time] + from * strides[time]].clone());
        });
        one(<T as CellWidth>::store(x.dtype(), x.dims().to_vec(), out)?)
    })
}

/// Distinct slices with first places, inverse places and counts.
pub(super) fn unique(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (x, axis) = match call.int_opt("axis")? {
        Some(axis) => (x.clone(), dims::axis(axis, x.rank())?),
        None => (x.reshaped([x.len()])?, 0),
    };
    let mut perm: Vec<usize> = (0..x.rank()).filter(|a| *a != axis).collect();
    perm.insert(0, axis);
    let turned = crate::cells::transposed(&x, &perm)?;
    let turned = turned.as_strings().map(ranks).unwrap_or(turned);
    let sorted = call.flag("sorted", true)?;
    let count = x.dims()[axis];
    let groups = numeric!(turned.dtype(), T => {
        let values = slice::<T>(&turned)?;
        let run = values.len() / count.max(1);
        let row = |i: usize| &values[i * run..(i + 1) * run];
        Ok(equal_slices(count, sorted, &|a, b| compare(row(a), row(b))))
    })?;
    let mut inverse = vec![0i64; count];
    for (n, group) in groups.iter().enumerate() {
        group.iter().for_each(|i| inverse[*i] = n as i64);
    }
    let mut tables = super::slice::whole(x.dims());
    tables[axis] = groups.iter().map(|g| g[0]).collect();
    let counts = groups.iter().map(|g| g.len() as i64).collect();
    let firsts = groups.iter().map(|g| g[0] as i64).collect();
    Ok(vec![
        take(&x, &tables, None)?,
        Tensor::vector(firsts),
        Tensor::vector(inverse),
        Tensor::vector(counts),
    ])
}

/// Groups of equal slices, each with all its places in order. The groups are sorted, or in the order of their first
/// places.
fn equal_slices(
    count: usize,
    sorted: bool,
    order: &dyn Fn(usize, usize) -> Ordering,
) -> Vec<Vec<usize>> {
    let mut ranked: Vec<usize> = (0..count).collect();
    ranked.sort_by(|a, b| order(*a, *b));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in ranked {
        match groups.last_mut() {
            Some(group) if order(group[0], i) == Ordering::Equal => group.push(i),
            _ => groups.push(vec![i]),
        }
    }
    if !sorted {
        groups.sort_by_key(|g| g[0]);
    }
    groups
}

/// Numbers that are ordered as strings are by their bytes.
fn ranks(list: &[Bytes]) -> Tensor {
    let mut order: Vec<&Bytes> = list.iter().collect();
    order.sort_unstable();
    order.dedup();
    Tensor::vector(list.iter().map(|s| order.partition_point(|o| *o < s) as i64).collect())
}

/// Element by element; what is not a number comes last and counts as one value.
fn compare<T: Num>(a: &[T], b: &[T]) -> Ordering {
    let unordered = |x: &T| x.partial_cmp(x).is_none();
    let pairs = a
        .iter()
        .zip(b)
        .map(|(x, y)| x.partial_cmp(y).unwrap_or_else(|| unordered(x).cmp(&unordered(y))));
    pairs.fold(Ordering::Equal, Ordering::then)
}
