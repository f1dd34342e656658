//! Elementwise application with broadcasting: the loops, independent of what is computed.

use crate::call::Call;
use crate::dims::{broadcast, broadcast_strides};
use crate::fault::Outcome;
use crate::num::slice;
use crate::parallel::fill_parts;
use onnxd_ir::{DataType, Element, Tensor};

/// `f` of every element.
pub(crate) fn map<T: Element, R: Element>(
    x: &Tensor,
    f: impl Fn(T) -> R + Sync,
) -> Outcome<Tensor> {
    Ok(Tensor::from_vec(x.dims(), mapped(&slice::<T>(x)?, f)))
}

/// A boolean of every element.
pub(crate) fn test<T: Element>(x: &Tensor, f: impl Fn(T) -> bool + Sync) -> Outcome<Tensor> {
    let bits = mapped(&slice::<T>(x)?, |v| u8::from(f(v)));
    Ok(Tensor::from_vec_as(DataType::Bool, x.dims(), bits))
}

/// `f` of every element of a slice.
pub(crate) fn mapped<T: Element, R: Element>(x: &[T], f: impl Fn(T) -> R + Sync) -> Vec<R> {
    let mut out = vec![R::default(); x.len()];
    fill_parts(&mut out, 1, 1, &|first, part| {
        part.iter_mut().zip(&x[first..]).for_each(|(y, x)| *y = f(*x));
    });
    out
}

/// `f` of every pair, both sides broadcast; `dtype` is the type of the result.
pub(crate) fn zip<A: Element, B: Element, R: Element>(
    call: &Call,
    dtype: DataType,
    (a, b): (&Tensor, &Tensor),
    f: impl Fn(A, B) -> R + Sync,
) -> Outcome<Tensor> {
    let dims = broadcast(a.dims(), b.dims())?;
    call.room(dtype, &dims)?;
    let (x, y) = (slice::<A>(a)?, slice::<B>(b)?);
    let values = pairs(&dims, (&x, a.dims()), (&y, b.dims()), |a, b| f(*a, *b));
    Ok(Tensor::from_vec_as(dtype, dims, values))
}

/// `f` of every pair of the broadcast elements, in row-major order.
pub(crate) fn pairs<A: Sync, B: Sync, R: Clone + Default + Send>(
    dims: &[usize],
    (a, a_dims): (&[A], &[usize]),
    (b, b_dims): (&[B], &[usize]),
    f: impl Fn(&A, &B) -> R + Sync,
) -> Vec<R> {
    let steps = [broadcast_strides(a_dims, dims), broadcast_strides(b_dims, dims)];
    let (runs, steps) = merged(dims, &steps);
    let mut out = vec![R::default(); dims.iter().product()];
    let (run, da, db) = match (runs.last(), steps[0].last(), steps[1].last()) {
        (Some(run), Some(da), Some(db)) => (*run, *da, *db),
        _ => (1, 1, 1),
    };
    for_each_run(&mut out, run, &runs, &steps, &|out, [a_start, b_start]| {
        let (a, b) = (&a[a_start..], &b[b_start..]);
        match (da, db) {
            (1, 1) => out.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = f(a, b)),
            (1, 0) => out.iter_mut().zip(a).for_each(|(y, a)| *y = f(a, &b[0])),
            (0, 1) => out.iter_mut().zip(b).for_each(|(y, b)| *y = f(&a[0], b)),
            _ => (0..).zip(out).for_each(|(i, y)| *y = f(&a[i * da], &b[i * db])),
        }
    });
    out
}

/// Calls `f` for every innermost run of the result, or part of one, with where it begins in both
/// operands.
fn for_each_run<R: Send>(
    out: &mut [R],
    run: usize,
    runs: &[usize],
    steps: &[Vec<usize>],
    f: &(dyn Fn(&mut [R], [usize; 2]) + Sync),
) {
    let outer = runs.len().saturating_sub(1);
    let unit = if outer == 0 { 1 } else { run };
    let inner = |k: usize| steps[k].last().copied().unwrap_or(0);
    fill_parts(out, unit, 1, &|first, part| {
        let mut done = 0;
        while done < part.len() {
            let at = first + done;
            let (mut row, column) = (at / run, at % run);
            let mut starts = [column * inner(0), column * inner(1)];
            for axis in (0..outer).rev() {
                let i = row % runs[axis];
                row /= runs[axis];
                (0..2).for_each(|k| starts[k] += i * steps[k][axis]);
            }
            let size = (run - column).min(part.len() - done);
            f(&mut part[done..done + size], starts);
            done += size;
        }
    });
}

/// Joins neighbouring axes that all operands walk through evenly, so that the innermost runs are
/// long.
fn merged(dims: &[usize], strides: &[Vec<usize>]) -> (Vec<usize>, Vec<Vec<usize>>) {
    if dims.contains(&0) {
        return (vec![0], vec![vec![1]; strides.len()]);
    }
    let mut runs: Vec<usize> = Vec::new();
    let mut steps: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for (axis, size) in dims.iter().enumerate().filter(|(_, size)| **size != 1) {
        let evenly = !runs.is_empty()
            && steps.iter().zip(strides).all(|(s, all)| s[s.len() - 1] == all[axis] * size);
        match runs.last_mut().filter(|_| evenly) {
            Some(run) => {
                *run *= size;
                steps.iter_mut().zip(strides).for_each(|(s, all)| {
                    s.pop();
                    s.push(all[axis]);
                });
            }
            None => {
                runs.push(*size);
                steps.iter_mut().zip(strides).for_each(|(s, all)| s.push(all[axis]));
            }
        }
    }
    (runs, steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dims::for_each_index;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_equal_the_definition(
            dims in proptest::collection::vec((0usize..4, 0u8..3), 0..5),
            cut in 0usize..5,
        ) {
            let full: Vec<usize> = dims.iter().map(|d| d.0).collect();
            let side = |which: u8| -> Vec<usize> {
                dims.iter().map(|(d, one)| if *one == which { 1 } else { *d }).collect()
            };
            let (a_dims, mut b_dims) = (side(1), side(2));
            b_dims.drain(..cut.min(b_dims.len()));
            let Ok(out) = broadcast(&a_dims, &b_dims) else { return Ok(()) };
            prop_assume!(full.len() == out.len());
            let fill = |d: &[usize]| (0..d.iter().product::<usize>() as u64).collect::<Vec<_>>();
            let (a, b) = (fill(&a_dims), fill(&b_dims));
            let found = pairs(&out, (&a, &a_dims), (&b, &b_dims), |a, b| a * 1000 + b);
            let (sa, sb) = (broadcast_strides(&a_dims, &out), broadcast_strides(&b_dims, &out));
            let mut expected = Vec::new();
            for_each_index(&out, |i| {
                let at = |s: &[usize]| i.iter().zip(s).map(|(i, s)| i * s).sum::<usize>();
                expected.push(a[at(&sa)] * 1000 + b[at(&sb)]);
            });
            prop_assert_eq!(found, expected);
        }
    }
}
