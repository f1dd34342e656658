//! Elementwise application with broadcasting: the loops, independent of what is computed.

use crate::call::Call;
use crate::dims::{broadcast, broadcast_strides, for_each_index};
use crate::fault::Outcome;
use crate::num::slice;
use onnxd_ir::{DataType, Element, Tensor};

/// `f` of every element.
pub(crate) fn map<T: Element, R: Element>(x: &Tensor, f: impl Fn(T) -> R) -> Outcome<Tensor> {
    Ok(Tensor::from_vec(x.dims(), slice::<T>(x)?.iter().map(|v| f(*v)).collect()))
}

/// A boolean of every element.
pub(crate) fn test<T: Element>(x: &Tensor, f: impl Fn(T) -> bool) -> Outcome<Tensor> {
    let bits = slice::<T>(x)?.iter().map(|v| u8::from(f(*v))).collect();
    Ok(Tensor::from_vec_as(DataType::Bool, x.dims(), bits))
}

/// `f` of every pair, both sides broadcast; `dtype` is the type of the result.
pub(crate) fn zip<A: Element, B: Element, R: Element>(
    call: &Call,
    dtype: DataType,
    (a, b): (&Tensor, &Tensor),
    f: impl Fn(A, B) -> R,
) -> Outcome<Tensor> {
    let dims = broadcast(a.dims(), b.dims())?;
    call.room(dtype, &dims)?;
    let (x, y) = (slice::<A>(a)?, slice::<B>(b)?);
    let values = pairs(&dims, (&x, a.dims()), (&y, b.dims()), |a, b| f(*a, *b));
    Ok(Tensor::from_vec_as(dtype, dims, values))
}

/// `f` of every pair of the broadcast elements, in row-major order.
pub(crate) fn pairs<A, B, R>(
    dims: &[usize],
    (a, a_dims): (&[A], &[usize]),
    (b, b_dims): (&[B], &[usize]),
    f: impl Fn(&A, &B) -> R,
) -> Vec<R> {
    if a_dims == b_dims {
        return a.iter().zip(b).map(|(a, b)| f(a, b)).collect();
    }
    let (runs, steps) =
        merged(dims, &[broadcast_strides(a_dims, dims), broadcast_strides(b_dims, dims)]);
    let mut out = Vec::with_capacity(dims.iter().product());
    let Some((&run, outer)) = runs.split_last() else {
        return vec![f(&a[0], &b[0])];
    };
    let (da, db) = (steps[0][outer.len()], steps[1][outer.len()]);
    for_each_start(outer, &steps, &mut |[a_start, b_start]| {
        let (a, b) = (&a[a_start..], &b[b_start..]);
        match (da, db) {
            _ if run == 0 => {}
            (1, 1) => out.extend(a[..run].iter().zip(&b[..run]).map(|(a, b)| f(a, b))),
            _ => out.extend((0..run).map(|i| f(&a[i * da], &b[i * db]))),
        }
    });
    out
}

/// Where each run of both operands begins.
fn for_each_start(outer: &[usize], steps: &[Vec<usize>], f: &mut dyn FnMut([usize; 2])) {
    for_each_index(outer, |index| {
        let start = |k: usize| index.iter().zip(&steps[k]).map(|(i, s)| i * s).sum::<usize>();
        f([start(0), start(1)]);
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
            let fill = |d: &[usize]| (0..d.iter().product::<usize>()).collect::<Vec<_>>();
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
