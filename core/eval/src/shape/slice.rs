//! Cutting out and padding.

use super::layout::size_list;
use crate::call::{KernelCall, integers, one};
use crate::cells::{OUTSIDE, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Tensor, TensorError};

/// One table of source coordinates per axis, each taking everything.
pub(super) fn whole(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().map(|d| (0..*d).collect()).collect()
}

pub(super) fn slice(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let missing = || Fault::invalid("starts and ends are needed");
    let starts = call.ints_moved("starts", 1)?.ok_or_else(missing)?;
    let ends = call.ints_moved("ends", 2)?.ok_or_else(missing)?;
    let axes = match call.ints_moved("axes", 3)? {
        Some(axes) => axes,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = match call.opt(4) {
        Some(steps) => integers(steps)?,
        None => vec![1; starts.len()],
    };
    refuse!([ends.len(), axes.len(), steps.len()].iter().any(|n| *n != starts.len()) =>
        "starts, ends, axes and steps differ in length");
    dims::axes(&axes, x.rank())?;
    let mut tables = vec![None; x.rank()];
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let axis = dims::axis(*axis, x.rank())?;
        tables[axis] = Some(walk(*start, *end, *step, x.dims()[axis] as i64)?);
    }
    // Many small slices of one long axis must not each count it.
    let tables = tables.into_iter().zip(x.dims());
    let tables: Vec<Vec<usize>> =
        tables.map(|(table, d)| table.unwrap_or_else(|| (0..*d).collect())).collect();
    one(call.moved(|| sliced(x, &tables), || take(x, &tables, None))?)
}

/// The elements at some coordinates of each axis, which follow each other in equal steps.
pub(super) fn sliced(x: &Tensor, tables: &[Vec<usize>]) -> Result<Tensor, TensorError> {
    let walk = |table: &Vec<usize>| {
        let step = if table.len() > 1 { table[1].wrapping_sub(table[0]) as isize } else { 1 };
        (table.first().copied().unwrap_or(0), table.len(), step)
    };
    x.sliced(&tables.iter().map(walk).collect::<Vec<_>>())
}

/// Coordinates from `start` to before `end`, negative from the end of `n` elements.
fn walk(start: i64, end: i64, step: i64, n: i64) -> Outcome<Vec<usize>> {
    let absolute = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
    let (start, end) = (absolute(start), absolute(end));
    match step {
        0 => Err(Fault::invalid("a step of zero leads nowhere")),
        _ if n == 0 => Ok(vec![]),
        1.. => {
            let range = start.clamp(0, n) as usize..end.clamp(0, n) as usize;
            Ok(range.step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect())
        }
        _ => {
            // The standard lets a walk backwards begin inside, also where its start is before the first element.
            let (first, last) = (start.clamp(0, n - 1), end.clamp(-1, n - 1));
            let back = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
            Ok((last + 1..=first).rev().step_by(back).map(|i| i as usize).collect())
        }
    }
}

/// Pads, or cuts where a padding is negative. Inputs since opset 11.
pub(super) fn pad(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let name = if call.opset < 2 { "paddings" } else { "pads" };
    let pads = call.ints_moved(name, 1)?.ok_or_else(|| Fault::invalid("pads are missing"))?;
    let axes = match call.opt(3) {
        Some(axes) => integers(axes)?,
        None => (0..x.rank() as i64).collect(),
    };
    refuse!(pads.len() != 2 * axes.len() => "pads {pads:?} do not fit {x:?}");
    dims::axes(&axes, x.rank())?;
    let mode = call.string("mode", "constant")?;
    let fill = match (call.opt(2), call.float_opt("value")?) {
        (Some(value), _) if value.dtype() != x.dtype() || value.len() != 1 => {
            return Err(Fault::invalid(format!("{value:?} cannot fill {x:?}")));
        }
        (Some(value), _) => Some(value.clone()),
        (None, Some(value)) => Some(super::cast(&Tensor::scalar(value), x.dtype())?),
        (None, None) => None,
    };
    let mut sizes = x.dims().to_vec();
    let mut edges = Vec::new();
    for (i, axis) in axes.iter().enumerate() {
        let (axis, before, after) = (dims::axis(*axis, x.rank())?, pads[i], pads[i + axes.len()]);
        let n = x.dims()[axis] as i64;
        let size = n.checked_add(before).and_then(|n| n.checked_add(after));
        sizes[axis] = dims::size(size.ok_or_else(|| Fault::memory("the size overflows"))?)?;
        edges.push((axis, before));
    }
    call.room_like(x, &sizes)?;
    let mut tables = whole(x.dims());
    for (axis, before) in edges {
        let n = x.dims()[axis] as i64;
        let source = |i: usize| outside(mode, (i as i64).saturating_sub(before), n);
        tables[axis] = (0..sizes[axis]).map(source).collect::<Outcome<_>>()?;
    }
    one(take(x, &tables, fill.as_ref())?)
}

/// The source of coordinate `i`, which may lie outside of `n` elements.
fn outside(mode: &str, i: i64, n: i64) -> Outcome<usize> {
    if (0..n).contains(&i) {
        return Ok(i as usize);
    }
    match mode {
        "constant" => Ok(OUTSIDE),
        _ if n == 0 => Err(Fault::invalid("an empty axis has nothing to repeat")),
        "edge" => Ok(i.clamp(0, n - 1) as usize),
        "wrap" => Ok(i.rem_euclid(n) as usize),
        "reflect" if n == 1 => Ok(0),
        "reflect" => {
            let round = i.rem_euclid(2 * (n - 1));
            Ok(if round < n { round } else { 2 * (n - 1) - round } as usize)
        }
        other => Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    }
}

/// Cuts or pads around the middle to given sizes.
pub(super) fn center_crop_pad(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let wanted = size_list(call, 1)?;
    let axes = match call.ints("axes")? {
        Some(axes) => axes.to_vec(),
        None => (0..x.rank() as i64).collect(),
    };
    refuse!(axes.len() != wanted.len() => "sizes {wanted:?} do not fit the axes {axes:?}");
    let mut sizes = x.dims().to_vec();
    for (axis, size) in axes.iter().zip(&wanted) {
        sizes[dims::axis(*axis, x.rank())?] = *size;
    }
    call.room_like(x, &sizes)?;
    let table = |(size, n): (&usize, &usize)| -> Vec<usize> {
        let before = size.saturating_sub(*n) / 2;
        let skipped = n.saturating_sub(*size) / 2;
        let source = |i: usize| (i + skipped).checked_sub(before).filter(|s| s < n);
        (0..*size).map(|i| source(i).unwrap_or(OUTSIDE)).collect()
    };
    let tables: Vec<Vec<usize>> = sizes.iter().zip(x.dims()).map(table).collect();
    one(take(x, &tables, None)?)
}

#[cfg(test)]
mod tests {
    use super::walk;

    #[test]
    fn walks_begin_inside() {
        assert_eq!(walk(-3, i64::MIN, -2, 2).unwrap(), [0]);
        assert_eq!(walk(9, i64::MIN, -2, 3).unwrap(), [2, 0]);
        assert_eq!(walk(-3, i64::MAX, 1, 2).unwrap(), [0, 1]);
        assert_eq!(walk(-1, i64::MIN, -1, 0).unwrap(), [0; 0]);
    }
}
