//! Quantized pooling, with the channels in front or behind.

use super::{ScaleAndZero, attributes, eight_bits, first};
use crate::call::{KernelCall, one};
use crate::cells::transposed;
use crate::dims;
use crate::fault::Outcome;
use crate::pool::{for_each_inside, per_window, pooled};
use crate::quant::{limits, quantized};
use crate::shape::cast;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// `f` of `x` with the channels moved to axis 1, its result moved back.
pub(super) fn channels_first(
    x: &Tensor,
    last: bool,
    f: impl FnOnce(Tensor) -> Outcome<Tensor>,
) -> Outcome<Vec<Tensor>> {
    let rank = x.rank();
    refuse!(rank < 2 => "{x:?} has no channels");
    if !last {
        return one(f(x.clone())?);
    }
    let front: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
    one(transposed(&f(transposed(x, &front)?)?, &back)?)
}

/// Sums of dequantized elements in `float`, in the order of the window.
pub(super) fn q_linear_average_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (from, to) = (ScaleAndZero::read(call, 1, 2)?, ScaleAndZero::read(call, 3, 4)?);
    let with_padding = call.flag("count_include_pad", false)?;
    channels_first(call.x(0)?, call.flag("channels_last", false)?, |x| {
        let range = limits(x.dtype())?;
        let given = [Some(x.clone())];
        let (window, dims) = pooled(&KernelCall { inputs: &given, ..*call })?;
        call.room(DataType::Int64, x.dims())?;
        let total = call.room(DataType::Int64, &dims)?;
        let real: Vec<f32> = eight_bits(&x)?.into_iter().map(|q| from.real(q)).collect();
        let mut y = vec![0i64; total];
        per_window(&window, &real, &mut y, |x, _, spans| {
            let (mut sum, mut inside) = (0f32, 0usize);
            for_each_inside(&window, spans, |i| {
                sum += x[i];
                inside += 1;
            });
            let count = if with_padding { window.taps() } else { inside };
            let mean = sum / count as f32;
            quantized(f64::from(mean / to.scale + to.zero as f32), 0, range)
        });
        cast(&Tensor::from_vec(dims, y), x.dtype())
    })
}

/// Exact sums, scaled once.
pub(super) fn q_linear_global_average_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (from, to) = (ScaleAndZero::read(call, 1, 2)?, ScaleAndZero::read(call, 3, 4)?);
    channels_first(call.x(0)?, call.flag("channels_last", false)?, |x| {
        let range = limits(x.dtype())?;
        call.room(DataType::Int64, x.dims())?;
        let (outer, inner) = x.dims().split_at(2);
        let area: usize = inner.iter().product();
        refuse!(area == 0 => "{x:?} has no element to average");
        let scale = from.scale / (to.scale * area as f32);
        let mean = |part: &[i64]| {
            let sum = part.iter().sum::<i64>() - from.zero * area as i64;
            quantized(f64::from(sum as f32 * scale), to.zero, range)
        };
        let y = eight_bits(&x)?.chunks(area).map(mean).collect();
        let dims = [outer, &vec![1; inner.len()]].concat();
        cast(&Tensor::from_vec(dims, y), x.dtype())
    })
}

/// The mean of the dequantized elements along `axes`.
pub(super) fn q_linear_reduce_mean(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (from, to) = (ScaleAndZero::read(call, 1, 2)?, ScaleAndZero::read(call, 3, 4)?);
    let range = limits(x.dtype())?;
    call.room(DataType::Double, x.dims())?;
    let real: Vec<f64> = eight_bits(x)?.into_iter().map(|q| f64::from(from.real(q))).collect();
    let real = Tensor::from_vec(x.dims(), real);
    let axes = dims::axes(call.ints("axes")?.unwrap_or_default(), x.rank())?;
    let axes = Tensor::vector(axes.into_iter().map(|a| a as i64).collect());
    let kept = [("keepdims", onnxd_ir::Attr::Int(call.int("keepdims", 1)?))];
    let mean = first(call, "ReduceMean", &kept, &[Some(&real), Some(&axes)])?;
    let q = |v: &f64| quantized(f64::from(*v as f32 / to.scale), to.zero, range);
    let y = crate::reals::reals(&mean)?.iter().map(q).collect();
    one(cast(&Tensor::from_vec(mean.dims(), y), x.dtype())?)
}

pub(super) fn nhwc_max_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let attrs = attributes(call);
    channels_first(call.x(0)?, true, |x| first(call, "MaxPool", &attrs, &[Some(&x)]))
}
