//! Pooling.

use crate::call::{KernelCall, KernelRow, one, row};
use crate::conv::window::{self, AXES, Window};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, float, is_nan, numeric};
use crate::parallel::{fill_parts, filled_parts, for_each_chunk};
use crate::vector;
use onnxd_ir::{DataType, Tensor};
use std::ops::Range;

pub(crate) const ROWS: &[KernelRow] = &[
    row("AveragePool", average_pool),
    row("GlobalAveragePool", global_average_pool),
    row("GlobalLpPool", global_lp_pool),
    row("GlobalMaxPool", global_max_pool),
    row("LpPool", lp_pool),
    row("MaxPool", max_pool),
    row("MaxRoiPool", max_roi_pool),
    row("MaxUnpool", max_unpool),
    row("RoiAlign", roi_align),
];

/// The window and the output's sizes.
pub(crate) fn pooled(call: &KernelCall) -> Outcome<(Window, Vec<usize>)> {
    let x = call.x(0)?;
    let kernel = call.ints("kernel_shape")?.unwrap_or_default();
    let kernel = dims::sizes(kernel)?;
    if x.rank() != kernel.len() + 2 {
        return Err(Fault::invalid(format!("kernel_shape {kernel:?} does not fit {x:?}")));
    }
    let ceil = call.flag("ceil_mode", false)?;
    let window = Window::over(&window::axes(call, &kernel)?, &x.dims()[2..], ceil)?;
    let dims = [&x.dims()[..2], &window.output[AXES - kernel.len()..]].concat();
    Ok((window, dims))
}

/// On one axis at output position `o`: the input coordinates under the window that are not padding,
/// and how many elements it covers with padding (what `ceil_mode` adds behind the padding does not
/// count).
pub(crate) struct Span {
    inside: Range<usize>,
    step: usize,
    padded: usize,
}

fn span(window: &Window, axis: usize, o: usize) -> Span {
    let (step, kernel) = (window.dilations[axis], window.kernel[axis]);
    let (before, size) = (window.before[axis], window.input[axis]);
    let start = o * window.strides[axis];
    let end = start + (kernel - 1) * step + 1;
    let padded_end = end.min(size + before + window.after[axis]);
    let padded = padded_end.saturating_sub(start).div_ceil(step);
    let skipped = before.saturating_sub(start).div_ceil(step);
    let first = (start + skipped * step).saturating_sub(before);
    let last = end.saturating_sub(before).min(size);
    Span { inside: first.min(last)..last, step, padded }
}

/// Computes one output element from the spans of its window; `f(channel, spans)`.
pub(crate) fn per_window<T: Num, R: Num>(
    window: &Window,
    x: &[T],
    out: &mut [R],
    f: impl Fn(&[T], usize, &[Span; AXES]) -> R + Sync,
) {
    let (inputs, outputs) = (window.inputs(), window.outputs());
    if outputs == 0 {
        return;
    }
    let [_, o1, o2] = window.output;
    let spans: [Vec<Span>; 2] =
        [1, 2].map(|axis| (0..window.output[axis]).map(|o| span(window, axis, o)).collect());
    let copy = |s: &Span| Span { inside: s.inside.clone(), ..*s };
    for_each_chunk(out, outputs, &|channel, out| {
        let x = &x[channel * inputs..(channel + 1) * inputs];
        for (i, y) in out.iter_mut().enumerate() {
            let at = [
                span(window, 0, i / (o1 * o2)),
                copy(&spans[0][i / o2 % o1]),
                copy(&spans[1][i % o2]),
            ];
            *y = f(x, channel, &at);
        }
    });
}

/// Calls `f(index)` for every input element of the window.
pub(crate) fn for_each_inside(window: &Window, spans: &[Span; AXES], mut f: impl FnMut(usize)) {
    let [_, i1, i2] = window.input;
    let [a, b, c] = spans;
    for y in a.inside.clone().step_by(a.step) {
        for x in b.inside.clone().step_by(b.step) {
            let line = (y * i1 + x) * i2;
            c.inside.clone().step_by(c.step).for_each(|z| f(line + z));
        }
    }
}

fn average_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (window, dims) = pooled(call)?;
    let with_padding = call.flag("count_include_pad", false)?;
    let total = call.room_like(x, &dims)?;
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = vec![T::default(); total];
        per_window(&window, &values, &mut y, |x, _, spans| {
            let (mut sum, mut inside) = (0f64, 0usize);
            for_each_inside(&window, spans, |i| {
                sum += f64::from(x[i]);
                inside += 1;
            });
            let all = spans.iter().fold(1f64, |n, s| n * s.padded as f64);
            (sum / if with_padding { all } else { inside as f64 }) as T
        });
        one(Tensor::from_vec(dims, y))
    })
}

fn lp_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (window, dims) = pooled(call)?;
    let p = norm_order(call)?;
    let total = call.room_like(x, &dims)?;
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = vec![T::default(); total];
        per_window(&window, &values, &mut y, |x, _, spans| {
            let mut sum = 0f64;
            for_each_inside(&window, spans, |i| sum += f64::from(x[i]).abs().powf(p));
            sum.powf(p.recip()) as T
        });
        one(Tensor::from_vec(dims, y))
    })
}

/// An integer since opset 2.
fn norm_order(call: &KernelCall) -> Outcome<f64> {
    Ok(match call.attr("p") {
        Some(onnxd_ir::Attr::Float(p)) => f64::from(*p),
        _ => call.int("p", 2)? as f64,
    })
}

/// The largest elements of windows over at most two axes, line by line.
fn largest_in_planes(window: &Window, x: &[f32], y: &mut [f32]) {
    let ([_, o1, o2], [_, i1, i2], [_, k1, k2]) = (window.output, window.input, window.kernel);
    let (stride, step, before) = (window.strides[2], window.dilations[2], window.before[2]);
    // The kernel's columns that meet an input at any output; it may be much wider.
    let columns = before.saturating_sub((o2 - 1) * stride).div_ceil(step)
        ..k2.min((i2 + before).div_ceil(step));
    fill_parts(y, o1 * o2, k1.saturating_mul(k2), &|first, part| {
        for (i, y) in part.chunks_mut((o1 * o2).max(1)).enumerate() {
            let x = &x[(first / (o1 * o2) + i) * i1 * i2..][..i1 * i2];
            for (row, out) in y.chunks_mut(o2).enumerate() {
                let lines = span(window, 1, row);
                for line in lines.inside.step_by(lines.step) {
                    let line = &x[line * i2..(line + 1) * i2];
                    for k in columns.clone() {
                        let (first, end) = window.inner_range(k);
                        if first >= end {
                            continue;
                        }
                        let at = first * stride + k * step - before;
                        let line = line[at..].iter().step_by(stride);
                        out[first..end].iter_mut().zip(line).for_each(|(y, x)| *y = x.larger(*y));
                    }
                }
            }
        }
    });
}

/// The largest element and, if wanted, its flat index in the whole input.
fn max_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let (window, dims) = pooled(call)?;
    let total = call.room_like(x, &dims)?;
    let column_major = call.flag("storage_order", false)?;
    let flat = window.kernel[0] == 1 && window.input[0] == 1 && window.output[0] == 1;
    if x.dtype() == DataType::Float && !call.wants(1) && flat && total > 0 {
        let mut y = vec![f32::NEG_INFINITY; total];
        largest_in_planes(&window, &call.slice::<f32>(0)?, &mut y);
        return one(Tensor::from_vec(dims, y));
    }
    numeric!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let mut y = vec![T::default(); total];
        per_window(&window, &values, &mut y, |x, _, spans| {
            let mut top = T::LOWEST;
            for_each_inside(&window, spans, |i| top = x[i].larger(top));
            top
        });
        let mut outputs = vec![Tensor::from_vec(dims.clone(), y)];
        if call.wants(1) {
            call.room(DataType::Int64, &dims)?;
            let mut places = vec![0i64; total];
            per_window(&window, &values, &mut places, |x, channel, spans| {
                let mut best: Option<usize> = None;
                for_each_inside(&window, spans, |i| {
                    if best.is_none_or(|b| x[i] > x[b] || (is_nan(x[i]) && !is_nan(x[b]))) {
                        best = Some(i);
                    }
                });
                let at = best.map_or(0, |b| if column_major { flipped(&window, b) } else { b });
                (channel * window.inputs() + at) as i64
            });
            outputs.push(Tensor::from_vec(dims, places));
        }
        Ok(outputs)
    })
}

/// The column-major index of the element at row-major index `i`.
fn flipped(window: &Window, i: usize) -> usize {
    let [i0, i1, i2] = window.input;
    let (a, b, c) = (i / (i1 * i2), i / i2 % i1, i % i2);
    (c * i1 + b) * i0 + a
}

/// Every channel reduced to one element by `f`.
fn global(
    call: &KernelCall,
    f: impl Fn(&mut dyn Iterator<Item = f64>, f64) -> f64,
) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    if x.rank() < 2 {
        return Err(Fault::invalid(format!("{x:?} has no channels")));
    }
    let (outer, inner) = x.dims().split_at(2);
    let area: usize = inner.iter().product();
    let dims = [outer, &vec![1; inner.len()]].concat();
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let channels: usize = outer.iter().product();
        let channel = |c: usize| values[c * area..(c + 1) * area].iter().map(|v| f64::from(*v));
        let y = (0..channels).map(|c| f(&mut channel(c), area as f64) as T).collect();
        one(Tensor::from_vec(dims, y))
    })
}

fn global_average_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    if x.dtype() != DataType::Float || x.rank() < 2 {
        return global(call, |values, count| values.sum::<f64>() / count);
    }
    let values = call.slice::<f32>(0)?;
    let (outer, inner) = x.dims().split_at(2);
    let area: usize = inner.iter().product();
    let y = filled_parts(outer.iter().product(), 1, area, &|first, part| {
        let planes = (first..).map(|i| &values[i * area..(i + 1) * area]);
        part.iter_mut().zip(planes).for_each(|(y, x)| *y = (vector::sum(x) / area as f64) as f32);
    });
    one(Tensor::from_vec([outer, &vec![1; inner.len()]].concat(), y))
}

fn global_max_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    global(call, |values, _| values.fold(f64::NEG_INFINITY, Num::larger))
}

fn global_lp_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let p = norm_order(call)?;
    global(call, |values, _| values.map(|v| v.abs().powf(p)).sum::<f64>().powf(p.recip()))
}

/// Puts every element back where `MaxPool` found it; zero elsewhere.
fn max_unpool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, places) = (call.x(0)?, call.x(1)?);
    let kernel = dims::sizes(call.ints("kernel_shape")?.unwrap_or_default())?;
    if x.rank() != kernel.len() + 2 || places.dims() != x.dims() {
        return Err(Fault::invalid(format!("{x:?}, {places:?} and kernel {kernel:?} do not fit")));
    }
    let axes = window::axes(call, &kernel)?;
    let mut inferred = x.dims()[..2].to_vec();
    for (axis, size) in axes.iter().zip(&x.dims()[2..]) {
        let made = axis.transposed(*size as i64, 0, None).and_then(|made| made.0.try_into().ok());
        inferred.push(made.ok_or_else(|| Fault::invalid("the padding exceeds the output"))?);
    }
    let dims = match call.opt(2) {
        Some(shape) => dims::sizes(&crate::call::integers(shape)?)?,
        None => inferred.clone(),
    };
    if dims.len() != inferred.len() {
        return Err(Fault::invalid(format!("output shape {dims:?} does not fit {x:?}")));
    }
    let total = call.room_like(x, &dims)?;
    let steps = dims::strides(&dims);
    let strides = dims::strides(&inferred);
    float!(x.dtype(), T => {
        let mut y = vec![T::default(); total];
        for (v, place) in call.slice::<T>(0)?.iter().zip(crate::call::integers(places)?) {
            // Indices count in the inferred shape, also where a larger output is asked for.
            let at = usize::try_from(place).unwrap_or(usize::MAX);
            let target: usize = (0..dims.len())
                .map(|a| (at / strides[a] % inferred[a].max(1)).saturating_mul(steps[a]))
                .fold(0, usize::saturating_add);
            let outside = || Fault::invalid(format!("index {place} is outside of the output"));
            *y.get_mut(target).ok_or_else(outside)? = *v;
        }
        one(Tensor::from_vec(dims, y))
    })
}

/// Regions `[batch, x1, y1, x2, y2]` divided into a grid, the largest element of each part.
fn max_roi_pool(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, rois) = (call.x(0)?, call.x(1)?);
    let grid = dims::sizes(call.ints("pooled_shape")?.unwrap_or_default())?;
    let ([batch, channels, h, w], [count, 5], [ph, pw]) = (x.dims(), rois.dims(), &grid[..]) else {
        return Err(Fault::invalid(format!(
            "{x:?}, regions {rois:?} and grid {grid:?} do not fit"
        )));
    };
    let scale = f64::from(call.float("spatial_scale", 1.0)?);
    let dims = vec![*count, *channels, *ph, *pw];
    let total = call.room_like(x, &dims)?;
    float!(x.dtype(), T => {
        let (values, rois) = (call.slice::<T>(0)?, call.slice::<T>(1)?);
        let mut y = Vec::with_capacity(total);
        for roi in rois.chunks(5) {
            let image = dims::index(f64::from(roi[0]) as i64, *batch)?;
            let corner = |i: usize| (f64::from(roi[i]) * scale).round();
            let bounds = |low: f64, high: f64, p: usize, parts: usize, size: usize| {
                let step = (high - low + 1.0).max(1.0) / parts as f64;
                let edge = |v: f64| (v + low).clamp(0.0, size as f64) as usize;
                edge((p as f64 * step).floor())..edge(((p + 1) as f64 * step).ceil())
            };
            for i in 0..channels * ph * pw {
                let (c, py, px) = (i / (ph * pw), i / pw % ph, i % pw);
                let plane = &values[(image * channels + c) * h * w..][..h * w];
                let mut top: Option<T> = None;
                for row in bounds(corner(2), corner(4), py, *ph, *h) {
                    for column in bounds(corner(1), corner(3), px, *pw, *w) {
                        let v = plane[row * w + column];
                        top = Some(top.map_or(v, |t| v.larger(t)));
                    }
                }
                y.push(top.unwrap_or_default());
            }
        }
        one(Tensor::from_vec(dims, y))
    })
}

mod roi_align;
use roi_align::roi_align;

#[cfg(test)]
mod tests;
