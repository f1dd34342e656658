//! Convolution with one input channel per group: no product is worth unrolling for.

use super::plan::{ConvPlan, Ends};
use super::window::Window;
use crate::gemm::Product;
use crate::parallel::{Unfilled, pushed_parts, vectorized};

/// Output elements whose sums are held in registers.
const LANES: usize = 32;

pub(super) fn depthwise<T: Product>(plan: &ConvPlan, x: &[T], w: &[T], ends: &Ends<T>) -> Vec<T> {
    let window = &plan.window;
    let (area, inputs, taps) = (window.outputs(), window.inputs(), window.taps());
    let all = plan.groups * plan.filters;
    let phases = Phases::for_window(window);
    pushed_parts(plan.batch * all * area, area, taps, &|first, part| {
        let mut memory = T::scratch();
        if let Some(phases) = &phases {
            phases.clear(window, &mut memory);
        }
        for i in 0..part.room() / area {
            let at = first + i * area;
            let (image, filter) = (at / area / all, at / area % all);
            let group = filter / plan.filters;
            let x = &x[(image * plan.groups + group) * inputs..][..inputs];
            let w = &w[filter * taps..][..taps];
            match &phases {
                Some(phases) => phases.push(window, x, (w, ends.start(filter)), &mut memory, part),
                None => {
                    part.push_all(&ends.start(filter), area);
                    add_by_taps(window, x, w, part.since(i * area));
                }
            }
            ends.end(at, part.since(i * area));
        }
        T::keep(memory);
    })
}

/// How a channel is laid out so that every kernel element meets the inputs of neighbouring outputs
/// side by side: with padding, and sorted by the remainders of row and column divided by the
/// strides. A plane is `rows * width` elements for each pair of remainders, and the output is
/// computed with rows of `width` elements, of which the last few mean nothing.
struct Phases {
    rows: usize,
    width: usize,
    plane: usize,
    /// Where each kernel element of the last two axes begins to read.
    offsets: Vec<usize>,
}

impl Phases {
    /// `None` where the layout would be much larger than the channel.
    fn for_window(window: &Window) -> Option<Phases> {
        let ([_, k1, k2], [_, s1, s2]) = (window.kernel, window.strides);
        let [_, d1, d2] = window.dilations;
        let [_, o1, o2] = window.output;
        let (rows, width) = (o1 + (k1 - 1) * d1 / s1, o2 + (k2 - 1) * d2 / s2);
        let plane = [rows, width, s1, s2].iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        let channel = window.input[1] * window.input[2] + o1 * o2;
        if plane > 8 * channel + 1024 {
            return None;
        }
        let offset = |k: usize| {
            let (r, c) = (k / k2 * d1, k % k2 * d2);
            ((r % s1 * s2 + c % s2) * rows + r / s1) * width + c / s2
        };
        Some(Phases { rows, width, plane, offsets: (0..k1 * k2).map(offset).collect() })
    }

    /// Makes memory for the planes of a channel and for sums, with zeros where no input goes.
    fn clear<T: Product>(&self, window: &Window, memory: &mut Vec<T>) {
        let sums = ((window.output[1] - 1) * self.width + window.output[2]).next_multiple_of(LANES);
        memory.clear();
        // The last lanes may read past the last plane.
        memory.resize(window.input[0] * self.plane + LANES + sums, T::default());
    }

    /// `y = start + w * x` for one channel, in memory that was cleared for it or another one.
    fn push<T: Product>(
        &self,
        window: &Window,
        x: &[T],
        (w, start): (&[T], T),
        memory: &mut [T],
        y: &mut Unfilled<T>,
    ) {
        let ([o0, o1, o2], [i0, i1, i2]) = (window.output, window.input);
        let (planes, sums) = memory.split_at_mut(i0 * self.plane + LANES);
        for (x, plane) in x.chunks((i1 * i2).max(1)).zip(planes.chunks_mut(self.plane)) {
            self.lay_out(window, x, plane);
        }
        for o in 0..o0 {
            sums.fill(start);
            for (k, w) in w.chunks(self.offsets.len()).enumerate() {
                if let Some(i) = window.source(0, o, k) {
                    add_taps(&planes[i * self.plane..], (&self.offsets, w), sums);
                }
            }
            sums.chunks(self.width).take(o1).for_each(|sums| y.push(&sums[..o2]));
        }
    }

    /// Copies a channel into the layout; what is not input stays as it is.
    fn lay_out<T: Product>(&self, window: &Window, x: &[T], plane: &mut [T]) {
        let ([_, s1, s2], [_, p1, p2]) = (window.strides, window.before);
        let [_, i1, i2] = window.input;
        for (phase, part) in plane.chunks_mut(self.rows * self.width).enumerate() {
            let (r, c) = (phase / s2, phase % s2);
            // Column `j` of the part is input column `j * s2 + c - p2`.
            let first = p2.saturating_sub(c).div_ceil(s2).min(self.width);
            let end = (i2 + p2).saturating_sub(c).div_ceil(s2).clamp(first, self.width);
            for (row, out) in part.chunks_mut(self.width).enumerate() {
                let line = (row * s1 + r).checked_sub(p1).filter(|i| *i < i1 && first < end);
                let Some(line) = line else { continue };
                let line = &x[line * i2 + first * s2 + c - p2..(line + 1) * i2];
                match s2 {
                    1 => out[first..end].copy_from_slice(&line[..end - first]),
                    2 => every_second(line, &mut out[first..end]),
                    _ => {
                        let source = line.iter().step_by(s2);
                        out[first..end].iter_mut().zip(source).for_each(|(y, x)| *y = *x);
                    }
                }
            }
        }
    }
}

vectorized! {
    fn every_second<T: Product>(line: &[T], out: &mut [T]) {
        let (pairs, last) = line.as_chunks::<2>();
        let count = pairs.len().min(out.len());
        for i in 0..count {
            out[i] = pairs[i][0];
        }
        out[count..].iter_mut().zip(last).for_each(|(y, x)| *y = *x);
    }
}

vectorized! {
    /// `sums[i] += sum over taps of w * x[offset + i]`.
    fn add_taps<T: Product>(x: &[T], taps: (&[usize], &[T]), sums: &mut [T]) {
        for (i, sums) in sums.chunks_exact_mut(LANES).enumerate() {
            let mut lanes = [T::default(); LANES];
            lanes.copy_from_slice(sums);
            for (offset, factor) in taps.0.iter().zip(taps.1) {
                let x = &x[offset + i * LANES..][..LANES];
                lanes.iter_mut().zip(x).for_each(|(y, x)| *y = y.plus(factor.times(*x)));
            }
            sums.copy_from_slice(&lanes);
        }
    }
}

/// `y += w * x` for one channel, kernel element by kernel element.
fn add_by_taps<T: Product>(window: &Window, x: &[T], w: &[T], y: &mut [T]) {
    let ([_, o1, o2], [_, i1, i2], [_, k1, k2]) = (window.output, window.input, window.kernel);
    let stride = window.strides[2];
    for (tap, factor) in w.iter().enumerate() {
        let k = [tap / (k1 * k2), tap / k2 % k1, tap % k2];
        let (first, end) = window.inner_range(k[2]);
        if first >= end {
            continue;
        }
        let at = first * stride + k[2] * window.dilations[2] - window.before[2];
        for (row, out) in y.chunks_mut(o2).enumerate() {
            let (a, b) = (window.source(0, row / o1, k[0]), window.source(1, row % o1, k[1]));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let line = x[(a * i1 + b) * i2 + at..].iter().step_by(stride);
            let out = out[first..end].iter_mut();
            out.zip(line).for_each(|(y, x)| *y = y.plus(factor.times(*x)));
        }
    }
}
