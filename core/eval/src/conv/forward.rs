//! Convolution as a matrix product over unrolled windows (im2col), or directly where each channel
//! has its own kernel.

use super::window::{Walk, Window};
use crate::call::Call;
use crate::fault::{Fault, Outcome};
use crate::gemm::{Matrix, Product, Sizes};
use crate::linear::multiply_add;
use crate::num::slice;
use onnxd_ir::Tensor;
use rayon::prelude::*;

/// Elements of the buffer of unrolled windows: small beside the caches of a machine, yet wide
/// enough that packing the weights anew for every tile costs little (2^18 took 40 % more processor
/// time on VGG-19 than 2^20).
const UNROLLED_MAX: usize = 1 << 20;

/// Sizes of one convolution.
struct Plan {
    window: Window,
    batch: usize,
    groups: usize,
    /// Input channels per group.
    channels: usize,
    /// Output channels per group.
    filters: usize,
}

/// Convolution of `x` `[N, C, ...]` with `w` `[M, C / group, ...]`, plus `bias` `[M]`.
pub(crate) fn convolved<T: Product>(
    call: &Call,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[T]>,
) -> Outcome<Tensor> {
    let (plan, dims) = plan(call, x, w)?;
    let total = call.room(T::DTYPE, &dims)?;
    let (x, w) = (slice::<T>(x)?, slice::<T>(w)?);
    let area = plan.window.outputs();
    let mut y = vec![T::default(); total];
    if total == 0 {
        return Ok(Tensor::from_vec(dims, y));
    }
    if let Some(bias) = bias {
        y.chunks_mut(area).enumerate().for_each(|(i, c)| c.fill(bias[i % bias.len()]));
    }
    if plan.channels == 1 {
        depthwise(&plan, &x, &w, &mut y);
    } else {
        grouped(&plan, &x, &w, &mut y);
    }
    Ok(Tensor::from_vec(dims, y))
}

fn plan(call: &Call, x: &Tensor, w: &Tensor) -> Outcome<(Plan, Vec<usize>)> {
    let misfit = |why: &str| Fault::invalid(format!("input {x:?} and weights {w:?}: {why}"));
    if x.rank() < 3 || x.rank() != w.rank() {
        return Err(misfit("ranks differ or leave no spatial axis"));
    }
    let groups = usize::try_from(call.int("group", 1)?).unwrap_or(0);
    let (x_dims, w_dims) = (x.dims(), w.dims());
    if groups == 0 || w_dims[0] % groups != 0 || w_dims[1].checked_mul(groups) != Some(x_dims[1]) {
        return Err(misfit(&format!("channels do not fit group = {groups}")));
    }
    let kernel = &w_dims[2..];
    if let Some(said) = call.ints("kernel_shape")?.filter(|k| !k.is_empty()) {
        let same = said.iter().copied().eq(kernel.iter().map(|k| *k as i64));
        if !same {
            return Err(misfit(&format!("kernel_shape is {said:?}")));
        }
    }
    let window = Walk::read(call, kernel)?.over(&x_dims[2..], false)?;
    let mut dims = vec![x_dims[0], w_dims[0]];
    dims.extend_from_slice(&window.output[window.output.len() - kernel.len()..]);
    let filters = w_dims[0] / groups;
    Ok((Plan { window, batch: x_dims[0], groups, channels: w_dims[1], filters }, dims))
}

/// One product per image and group.
fn grouped<T: Product>(plan: &Plan, x: &[T], w: &[T], y: &mut [T]) {
    let area = plan.window.outputs();
    let depth = plan.channels * plan.window.taps();
    let image = plan.channels * plan.window.inputs();
    let weights = plan.filters * depth;
    debug_assert_eq!(y.len(), plan.batch * plan.groups * plan.filters * area);
    y.par_chunks_mut(plan.filters * area).enumerate().for_each(|(i, y)| {
        let x = &x[i * image..(i + 1) * image];
        let w = &w[i % plan.groups * weights..][..weights];
        let s = Sizes { m: plan.filters, k: depth, n: area };
        if is_pointwise(&plan.window) {
            multiply_add(s, Matrix::new(w, depth), Matrix::new(x, area), y, area);
            return;
        }
        let tile = (UNROLLED_MAX / depth.max(1)).clamp(16, area.max(16)).min(area);
        let mut unrolled = vec![T::default(); depth * tile];
        for start in (0..area).step_by(tile) {
            let n = tile.min(area - start);
            unroll(&plan.window, x, start, n, &mut unrolled);
            let b = Matrix::new(&unrolled, n);
            multiply_add(Sizes { n, ..s }, Matrix::new(w, depth), b, &mut y[start..], area);
        }
    });
}

/// Whether the input itself is the matrix of unrolled windows.
fn is_pointwise(window: &Window) -> bool {
    let plain = |list: [usize; 3], with: usize| list.iter().all(|n| *n == with);
    plain(window.kernel, 1)
        && plain(window.strides, 1)
        && plain(window.before, 0)
        && plain(window.after, 0)
}

/// Fills rows (channel, kernel element) of `n` columns: the inputs under that kernel element at the
/// output positions `start..start + n`.
fn unroll<T: Product>(window: &Window, x: &[T], start: usize, n: usize, out: &mut [T]) {
    let (taps, inputs) = (window.taps(), window.inputs());
    let [_, k1, k2] = window.kernel;
    let fill = |(row, out): (usize, &mut [T])| {
        let (channel, tap) = (row / taps, row % taps);
        let x = &x[channel * inputs..(channel + 1) * inputs];
        let k = [tap / (k1 * k2), tap / k2 % k1, tap % k2];
        unroll_tap(window, x, k, start, out);
    };
    let rows = x.len() / inputs.max(1) * taps;
    if n == 0 || rows == 0 {
        return;
    }
    out[..rows * n].par_chunks_mut(n).with_min_len(8).enumerate().for_each(fill);
}

/// One row of the unrolled matrix.
fn unroll_tap<T: Product>(window: &Window, x: &[T], k: [usize; 3], start: usize, out: &mut [T]) {
    let [_, o1, o2] = window.output;
    let [_, i1, i2] = window.input;
    let (first, end) = window.inner_range(k[2]);
    let mut done = 0;
    while done < out.len() {
        let position = start + done;
        let column = position % o2;
        let n = (o2 - column).min(out.len() - done);
        let run = &mut out[done..done + n];
        done += n;
        let (a, b) = (position / (o1 * o2), position / o2 % o1);
        let (Some(a), Some(b)) = (window.source(0, a, k[0]), window.source(1, b, k[1])) else {
            run.fill(T::default());
            continue;
        };
        let line = &x[(a * i1 + b) * i2..][..i2];
        let (from, to) = (first.clamp(column, column + n), end.clamp(column, column + n));
        run[..from - column].fill(T::default());
        run[to.max(from) - column..].fill(T::default());
        if from >= to {
            continue;
        }
        let at = from * window.strides[2] + k[2] * window.dilations[2] - window.before[2];
        let source = line[at..].iter().step_by(window.strides[2]);
        if window.strides[2] == 1 {
            run[from - column..to - column].copy_from_slice(&line[at..at + to - from]);
        } else {
            run[from - column..to - column].iter_mut().zip(source).for_each(|(y, x)| *y = *x);
        }
    }
}

/// One input channel per group: no product is worth unrolling for.
fn depthwise<T: Product>(plan: &Plan, x: &[T], w: &[T], y: &mut [T]) {
    let window = &plan.window;
    let (area, inputs, taps) = (window.outputs(), window.inputs(), window.taps());
    let all = plan.groups * plan.filters;
    y.par_chunks_mut(area).enumerate().for_each(|(i, y)| {
        let (image, filter) = (i / all, i % all);
        let group = filter / plan.filters;
        let x = &x[(image * plan.groups + group) * inputs..][..inputs];
        let w = &w[filter * taps..][..taps];
        accumulate(window, x, w, y);
    });
}

/// `y += w * x` for one channel.
fn accumulate<T: Product>(window: &Window, x: &[T], w: &[T], y: &mut [T]) {
    let ([o0, o1, o2], [_, i1, i2], [k0, k1, k2]) = (window.output, window.input, window.kernel);
    let stride = window.strides[2];
    for (tap, factor) in w.iter().enumerate() {
        let k = [tap / (k1 * k2), tap / k2 % k1, tap % k2];
        debug_assert!(k[0] < k0);
        let (first, end) = window.inner_range(k[2]);
        if first >= end {
            continue;
        }
        let at = first * stride + k[2] * window.dilations[2] - window.before[2];
        for row in 0..o0 * o1 {
            let (a, b) = (window.source(0, row / o1, k[0]), window.source(1, row % o1, k[1]));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let line = &x[(a * i1 + b) * i2 + at..(a * i1 + b + 1) * i2];
            let out = &mut y[row * o2 + first..row * o2 + end];
            if stride == 1 {
                out.iter_mut().zip(line).for_each(|(y, x)| *y = y.plus(factor.times(*x)));
            } else {
                let line = line.iter().step_by(stride);
                out.iter_mut().zip(line).for_each(|(y, x)| *y = y.plus(factor.times(*x)));
            }
        }
    }
}
