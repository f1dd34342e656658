//! Reductions, and the operators that rank or accumulate along an axis.

mod along;
mod rank;

use crate::call::{KernelCall, KernelRow, one, raw, row};
use crate::cells::transposed;
use crate::dims;
use crate::fault::Outcome;
use crate::num::{Num, numeric, slice};
use crate::parallel::fill_parts;
use crate::vector;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    row("ArgMax", rank::arg_max),
    row("ArgMin", rank::arg_min),
    row("CumProd", along::cum_prod),
    row("CumSum", along::cum_sum),
    row("ReduceL1", reduce_l1),
    row("ReduceL2", |call| real(call, |run| run.map(|v| v * v).sum::<f64>().sqrt())),
    row("ReduceLogSum", |call| real(call, |run| run.sum::<f64>().ln())),
    row("ReduceLogSumExp", reduce_log_sum_exp),
    raw("ReduceMax", |call| extreme(call, true)),
    row("ReduceMean", reduce_mean),
    raw("ReduceMin", |call| extreme(call, false)),
    row("ReduceProd", reduce_prod),
    row("ReduceSum", reduce_sum),
    row("ReduceSumSquare", reduce_sum_square),
    row("TopK", rank::top_k),
];

/// The input with the reduced axes innermost, the length of the runs to reduce, and the sizes of
/// the result. `None` where nothing is to be reduced.
struct Runs {
    turned: Tensor,
    run: usize,
    dims: Vec<usize>,
}

fn runs(call: &KernelCall) -> Outcome<Option<Runs>> {
    let x = call.x(0)?;
    let named = call.ints_moved("axes", 1)?.unwrap_or_default();
    if named.is_empty() && call.flag("noop_with_empty_axes", false)? {
        return Ok(None);
    }
    let axes = match named.is_empty() {
        true => (0..x.rank()).collect(),
        false => dims::axes(&named, x.rank())?,
    };
    let keep = call.flag("keepdims", true)?;
    let others: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let turned = transposed(x, &[&others[..], &axes].concat())?;
    let run = axes.iter().map(|a| x.dims()[*a]).product();
    let size = |a: usize| if axes.contains(&a) { 1 } else { x.dims()[a] };
    let kept: Vec<usize> = if keep { (0..x.rank()).collect() } else { others };
    let dims: Vec<usize> = kept.into_iter().map(size).collect();
    call.room_like(x, &dims)?;
    Ok(Some(Runs { turned, run, dims }))
}

/// Reduces every run by `f`; `lone` is what the operator does to each element where no axis is
/// reduced.
fn reduced<T: Num>(
    call: &KernelCall,
    f: &(dyn Fn(&[T]) -> T + Sync),
    lone: &(dyn Fn(T) -> T + Sync),
) -> Outcome<Vec<Tensor>> {
    let Some(Runs { turned, run, dims }) = runs(call)? else {
        return one(crate::elementwise::map(call.x(0)?, lone)?);
    };
    let values = slice::<T>(&turned)?;
    let count: usize = dims.iter().product();
    let mut y = vec![T::default(); count];
    fill_parts(&mut y, 1, run, &|first, part| {
        let runs = (first..).map(|i| &values[i * run..(i + 1) * run]);
        part.iter_mut().zip(runs).for_each(|(y, run)| *y = f(run));
    });
    one(Tensor::from_vec(dims, y))
}

/// Sum of `f` of the elements: exact modulo 2^bits for integers, in `f64` for floats.
fn total<T: Num>(run: &[T], f: impl Fn(T) -> T, wide: impl Fn(f64) -> f64) -> T {
    if T::INTEGER {
        run.iter().fold(T::default(), |sum, v| sum.plus(f(*v)))
    } else {
        T::from_f64(vector::sum_of(run, wide))
    }
}

fn square<T: Num>(x: T) -> T {
    x.times(x)
}

fn reduce_sum(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        reduced::<T>(call, &|run| total(run, |v| v, |v| v), &|v| v)
    })
}

fn reduce_sum_square(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        reduced::<T>(call, &|run| total(run, square, |v| v * v), &square)
    })
}

fn reduce_l1(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        reduced::<T>(call, &|run| total(run, T::magnitude, f64::abs), &T::magnitude)
    })
}

fn reduce_prod(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        reduced::<T>(call, &|run| run.iter().fold(T::ONE, |p, v| p.times(*v)), &|v| v)
    })
}

/// Integers truncate.
fn reduce_mean(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        let mean = |run: &[T]| T::from_f64(vector::sum(run) / run.len() as f64);
        reduced::<T>(call, &mean, &|v| v)
    })
}

/// A reduction that is computed in `f64` for every type.
fn real(call: &KernelCall, f: fn(&mut dyn Iterator<Item = f64>) -> f64) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => {
        let wide = |run: &[T]| T::from_f64(f(&mut run.iter().map(|v| v.to_f64())));
        reduced::<T>(call, &wide, &|v| wide(&[v]))
    })
}

fn reduce_log_sum_exp(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    real(call, |run| {
        let all: Vec<f64> = run.collect();
        let top = all.iter().copied().fold(f64::NEG_INFINITY, Num::larger);
        if top.is_infinite() {
            return top;
        }
        top + all.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
    })
}

/// Folds by a choice between two elements; booleans order false before true.
fn extreme(call: &KernelCall, largest: bool) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    if x.dtype() == DataType::Bool {
        let fold = |run: &[u8]| {
            let start = u8::from(!largest);
            run.iter().fold(start, |m, v| if largest { m.max(*v) } else { m.min(*v) })
        };
        let y = reduced::<u8>(call, &fold, &|v| v)?.swap_remove(0);
        let bits = slice::<u8>(&y)?.into_owned();
        return one(Tensor::from_vec_as(DataType::Bool, y.dims(), bits));
    }
    let (wide, dtype) = (crate::call::widened(x)?, x.dtype());
    let inputs = [&[Some(wide.clone())], call.inputs.get(1..).unwrap_or_default()].concat();
    let call = &KernelCall { inputs: &inputs, ..*call };
    let y: Vec<Tensor> = numeric!(wide.dtype(), T => {
        let (start, pick): (T, fn(T, T) -> T) =
            if largest { (T::LOWEST, T::larger) } else { (T::HIGHEST, T::smaller) };
        reduced::<T>(call, &|run| run.iter().fold(start, |m, v| pick(m, *v)), &|v| v)
    })?;
    one(crate::call::rounded(&y[0], dtype)?)
}

#[cfg(test)]
mod tests;
