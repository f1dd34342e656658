//! Elementwise application with broadcasting: the loops, independent of what is computed.

use crate::call::{KernelCall, one};
use crate::dims::{broadcast, broadcast_strides};
use crate::fault::Outcome;
use crate::num::slice;
use crate::parallel::filled_parts;
use crate::vector;
use onnxd_ir::{DataType, Element, Tensor};

/// `f` of every element.
pub(crate) fn map<T: Element, R: Element>(
    x: &Tensor,
    f: impl Fn(T) -> R + Sync,
) -> Outcome<Tensor> {
    tensor_of(x, R::DTYPE, &|x, y| each(x, y, &f))
}

/// A boolean of every element.
pub(crate) fn test<T: Element>(x: &Tensor, f: impl Fn(T) -> bool + Sync) -> Outcome<Tensor> {
    tensor_of(x, DataType::Bool, &|x, y| each(x, y, &|v| u8::from(f(v))))
}

/// What a kernel makes of the elements of an operator's first input, if that is of `float`s.
pub(crate) fn of_floats(
    call: &KernelCall,
    kernel: &(dyn Fn(&mut [f32]) + Sync),
) -> Outcome<Option<Vec<Tensor>>> {
    let x = call.x(0)?;
    (x.dtype() == DataType::Float).then(|| one(vector::mapped(x, kernel)?)).transpose()
}

/// The loop of [`map`], which is all that is compiled for each function. Iterators would be compiled for each, too.
#[allow(clippy::needless_range_loop)]
fn each<T: Copy, R>(x: &[T], y: &mut [R], f: &impl Fn(T) -> R) {
    let x = &x[..y.len()];
    for i in 0..y.len() {
        y[i] = f(x[i]);
    }
}

/// The tensor whose parts `fill` computes from the same parts of `x`.
fn tensor_of<T: Element, R: Element>(
    x: &Tensor,
    dtype: DataType,
    fill: &(dyn Fn(&[T], &mut [R]) + Sync),
) -> Outcome<Tensor> {
    Ok(Tensor::from_vec_as(dtype, x.dims(), filled(&slice::<T>(x)?, fill)))
}

fn filled<T: Element, R: Element>(x: &[T], fill: &(dyn Fn(&[T], &mut [R]) + Sync)) -> Vec<R> {
    filled_parts(x.len(), 1, 1, &|first, part| fill(&x[first..first + part.len()], part))
}

/// `f` of every pair, both sides broadcast; `dtype` is the type of the result.
pub(crate) fn zip<A: Element, B: Element, R: Element>(
    call: &KernelCall,
    dtype: DataType,
    both: (&Tensor, &Tensor),
    f: impl Fn(A, B) -> R + Sync,
) -> Outcome<Tensor> {
    zipped(call, dtype, both, &|out, a, b| run(out, a, b, &f))
}

/// The loop of [`zip`], as [`each`] is that of [`map`].
#[allow(clippy::needless_range_loop)]
fn run<A: Copy, B: Copy, R>(out: &mut [R], a: &[A], b: &[B], f: &impl Fn(A, B) -> R) {
    let (a, b) = (&a[..out.len()], &b[..out.len()]);
    for i in 0..out.len() {
        out[i] = f(a[i], b[i]);
    }
}

/// Computes results from elements that lie one after the other.
type Loop<'f, A, B, R> = dyn Fn(&mut [R], &[A], &[B]) + Sync + 'f;

/// As [`zip`], where `run` computes results one after the other from elements that lie so.
fn zipped<A: Element, B: Element, R: Element>(
    call: &KernelCall,
    dtype: DataType,
    (a, b): (&Tensor, &Tensor),
    run: &Loop<'_, A, B, R>,
) -> Outcome<Tensor> {
    let dims = broadcast(a.dims(), b.dims())?;
    call.room(dtype, &dims)?;
    let (x, y) = (slice::<A>(a)?, slice::<B>(b)?);
    let out = for_each_run(&dims, [a.dims(), b.dims()], &|out, starts, steps| {
        let (x, y) = (&x[starts[0]..], &y[starts[1]..]);
        if steps == [1, 1] {
            return run(out, x, y);
        }
        // An element that stands for all is repeated, so that one loop does.
        let (one_x, one_y) = ([x[0]; BLOCK], [y[0]; BLOCK]);
        for (i, out) in out.chunks_mut(BLOCK).enumerate() {
            let x = if steps[0] == 0 { &one_x } else { &x[i * BLOCK..] };
            let y = if steps[1] == 0 { &one_y } else { &y[i * BLOCK..] };
            run(out, x, y);
        }
    });
    Ok(Tensor::from_vec_as(dtype, dims, out))
}

/// Elements that are computed at once where one operand is the same for all.
const BLOCK: usize = 64;

/// `f` of every pair of the broadcast elements, in row-major order; for what is no number.
pub(crate) fn pairs<A: Sync, B: Sync, R: Clone + Default + Send>(
    dims: &[usize],
    (a, a_dims): (&[A], &[usize]),
    (b, b_dims): (&[B], &[usize]),
    f: impl Fn(&A, &B) -> R + Sync,
) -> Vec<R> {
    for_each_run(dims, [a_dims, b_dims], &|out, [a_start, b_start], [da, db]| {
        let (a, b) = (&a[a_start..], &b[b_start..]);
        out.iter_mut().enumerate().for_each(|(i, y)| *y = f(&a[i * da], &b[i * db]));
    })
}

/// Computes a run of results: where it begins in both operands, and how far apart their elements are.
type OneRun<'f, R> = dyn Fn(&mut [R], [usize; 2], [usize; 2]) + Sync + 'f;

/// Results of which `f` computes every innermost run, or part of one: elements are 0 (one for all) or 1 apart.
fn for_each_run<R: Clone + Default + Send>(
    dims: &[usize],
    operands: [&[usize]; 2],
    f: &OneRun<'_, R>,
) -> Vec<R> {
    let (runs, steps) = merged(dims, &operands.map(|own| broadcast_strides(own, dims)));
    let run = runs.last().copied().unwrap_or(1);
    let inner = [0, 1].map(|k: usize| steps[k].last().copied().unwrap_or(1));
    let outer = runs.len().saturating_sub(1);
    let unit = if outer == 0 { 1 } else { run };
    filled_parts(dims.iter().product(), unit, 1, &|first, part| {
        let mut done = 0;
        while done < part.len() {
            let at = first + done;
            let (mut row, column) = (at / run, at % run);
            let mut starts = inner.map(|step| column * step);
            for axis in (0..outer).rev() {
                let i = row % runs[axis];
                row /= runs[axis];
                (0..2).for_each(|k| starts[k] += i * steps[k][axis]);
            }
            let size = (run - column).min(part.len() - done);
            f(&mut part[done..done + size], starts, inner);
            done += size;
        }
    })
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
            dims in proptest::collection::vec((prop_oneof![0usize..4, 60usize..70], 0u8..3), 0..4),
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
            let x: Vec<u64> = a.iter().map(|a| a * 1000).collect();
            let (x, y) = (Tensor::from_vec(a_dims.clone(), x), Tensor::from_vec(b_dims.clone(), b.clone()));
            let sum = crate::testing::run("Add", 14, &[], &[&x, &y]);
            prop_assert_eq!(&*sum.as_slice::<u64>().unwrap(), &found[..]);
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
