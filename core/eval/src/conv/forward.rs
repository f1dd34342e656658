//! Convolution as a matrix product over unrolled windows (im2col), or directly where each channel
//! has its own kernel.

use super::depthwise::depthwise;
use super::plan::{ConvPlan, Ends, plan};
use super::window::Window;
use super::winograd::Winograd;
use crate::call::KernelCall;
use crate::fault::Outcome;
use crate::gemm::{GemmSizes, Matrix, PARALLEL_MIN, Product, add_to_block, multiply_add};
use crate::num::slice;
use crate::parallel::{ColumnBlock, fill_parts, filled_blocks, threads};
use onnxd_ir::{DataType, Tensor};

/// Elements of the buffer of unrolled windows: small beside the caches of a machine, yet wide
/// enough that packing the weights anew for every tile costs little (2^18 took 40 % more processor
/// time on VGG-19 than 2^20).
const UNROLLED_MAX: usize = 1 << 20;

/// Elements of a tile of the output, which is to be still in the cache when steps follow, and the
/// output positions that it has at least, lest the weights are packed too often.
const TILE_MAX: usize = 1 << 18;
const TILE_MIN: usize = 1024;
/// Output positions below which filters are shared out rather than positions.
const AREA_SMALL: usize = 256;

/// Convolution of `x` `[N, C, ...]` with `w` `[M, C / group, ...]`, plus `bias` `[M]`.
pub(crate) fn convolved<T: Product>(
    call: &KernelCall,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[T]>,
) -> Outcome<Tensor> {
    let (plan, dims) = plan(call, x, w)?;
    let total = call.room(T::DTYPE, &dims)?;
    let (x, w) = (slice::<T>(x)?, slice::<T>(w)?);
    let ends = Ends { bias, steps: call.steps };
    let y = match plan.channels {
        _ if total == 0 => vec![],
        1 => depthwise(&plan, &x, &w, &ends),
        _ => grouped(&plan, &x, &w, &ends),
    };
    Ok(Tensor::from_vec(dims, y))
}

/// [`convolved`] by Winograd's algorithm; `None` where it cannot be used or takes more time, and
/// where infinities, NaN, or numbers near the largest ones would spread within a tile.
pub(super) fn convolved_by_tiles(
    call: &KernelCall,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[f32]>,
) -> Outcome<Option<Tensor>> {
    let (plan, dims) = plan(call, x, w)?;
    let total = call.room(DataType::Float, &dims)?;
    let (x, w) = (slice::<f32>(x)?, slice::<f32>(w)?);
    let ends = Ends { bias, steps: call.steps };
    let tiles = Winograd { plan: &plan, x: &x, w: &w, ends: &ends };
    if total == 0 || !tiles.is_worth_it() || !tiles.is_finite() {
        return Ok(None);
    }
    let mut y = vec![0.0; total];
    tiles.fill(&mut y);
    Ok(Some(Tensor::from_vec(dims, y)))
}

/// One product per image and group.
struct GroupProducts<'a, T> {
    plan: &'a ConvPlan,
    x: &'a [T],
    w: &'a [T],
    ends: &'a Ends<'a, T>,
    area: usize,
    depth: usize,
}

fn grouped<T: Product>(plan: &ConvPlan, x: &[T], w: &[T], ends: &Ends<T>) -> Vec<T> {
    let area = plan.window.outputs();
    let depth = plan.channels * plan.window.taps();
    let images = plan.batch * plan.groups;
    let groups = GroupProducts { plan, x, w, ends, area, depth };
    let threads = threads();
    if images < threads && area < plan.filters && area < AREA_SMALL {
        let mut y = vec![T::default(); images * plan.filters * area];
        y.chunks_mut(plan.filters * area).enumerate().for_each(|(i, y)| groups.by_filters(i, y));
        return y;
    }
    let work = images.saturating_mul(plan.filters * area).saturating_mul(depth);
    let threads = if work < PARALLEL_MIN { 1 } else { threads };
    let share = area.div_ceil(threads.div_ceil(images)).next_multiple_of(16);
    let fits = (TILE_MAX / plan.filters.max(1)).max(TILE_MIN);
    let tile = share.min(fits).min((UNROLLED_MAX / depth.max(1)).max(16)).min(area);
    let start = |i: usize, row: usize| ends.start(i % plan.groups * plan.filters + row);
    filled_blocks((images, plan.filters, area), tile, &start, &|i, first, block| {
        groups.tile(i, first, block);
    })
}

impl<'a, T: Product> GroupProducts<'a, T> {
    /// Input and weights of image and group `i`, and the first of its output channels.
    fn operands(&self, i: usize) -> (&'a [T], &'a [T], usize) {
        let plan = self.plan;
        let image = plan.channels * plan.window.inputs();
        let (group, weights) = (i % plan.groups, plan.filters * self.depth);
        let x = &self.x[i * image..(i + 1) * image];
        (x, &self.w[group * weights..][..weights], group * plan.filters)
    }

    /// The matrix whose columns are the windows at `n` output positions.
    fn columns<'b>(
        &self,
        x: &'b [T],
        start: usize,
        n: usize,
        memory: &'b mut Vec<T>,
    ) -> Matrix<'b, T> {
        if is_pointwise(&self.plan.window) {
            // Without channels there is nothing to be read.
            return Matrix::new(x.get(start..).unwrap_or_default(), self.area);
        }
        // All of it is overwritten.
        if memory.len() < self.depth * n {
            memory.resize(self.depth * n, T::default());
        }
        let rows = self.depth;
        unroll(&self.plan.window, x, start, (rows, n), memory);
        Matrix::new(memory, n)
    }

    /// All positions of image and group `i` at once, the filters shared out over the threads.
    fn by_filters(&self, i: usize, y: &mut [T]) {
        let (x, w, first) = self.operands(i);
        let mut memory = T::scratch();
        let b = self.columns(x, 0, self.area, &mut memory);
        let s = GemmSizes { m: self.plan.filters, k: self.depth, n: self.area };
        y.chunks_mut(self.area)
            .enumerate()
            .for_each(|(f, run)| run.fill(self.ends.start(first + f)));
        multiply_add(s, Matrix::new(w, self.depth), b, y, self.area);
        T::keep(memory);
        let from = i * self.plan.filters;
        let runs = y.chunks_mut(self.area).enumerate();
        runs.for_each(|(f, run)| self.ends.end((from + f) * self.area, run));
    }

    /// Some output positions of image and group `i`, from `start` on, which hold what they begin with.
    fn tile(&self, i: usize, start: usize, mut y: ColumnBlock<T>) {
        let (x, w, _) = self.operands(i);
        let (filters, n) = y.sizes();
        let mut memory = T::scratch();
        let b = self.columns(x, start, n, &mut memory);
        add_to_block(self.depth, Matrix::new(w, self.depth), b, &mut y);
        T::keep(memory);
        let index = |f: usize| (i * self.plan.filters + f) * self.area + start;
        (0..filters).for_each(|f| self.ends.end(index(f), y.row(f)));
    }
}

/// Whether the input itself is the matrix of unrolled windows.
fn is_pointwise(window: &Window) -> bool {
    let plain = |list: [usize; 3], with: usize| list.iter().all(|n| *n == with);
    plain(window.kernel, 1)
        && plain(window.strides, 1)
        && plain(window.before, 0)
        && plain(window.after, 0)
}

/// Fills `rows` (channel, kernel element) of `n` columns: the inputs under that kernel element at the
/// output positions `start..start + n`. Where there is no input, all of it is padding.
fn unroll<T: Product>(
    window: &Window,
    x: &[T],
    start: usize,
    (rows, n): (usize, usize),
    out: &mut [T],
) {
    let (taps, inputs) = (window.taps(), window.inputs());
    let [_, k1, k2] = window.kernel;
    let fill = |row: usize, out: &mut [T]| {
        let (channel, tap) = (row / taps, row % taps);
        let x = &x[channel * inputs..(channel + 1) * inputs];
        let k = [tap / (k1 * k2), tap / k2 % k1, tap % k2];
        unroll_tap(window, x, k, start, out);
    };
    if n == 0 || rows == 0 {
        return;
    }
    fill_parts(&mut out[..rows * n], n, 1, &|first, part| {
        part.chunks_mut(n).enumerate().for_each(|(i, out)| fill(first / n + i, out));
    });
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
