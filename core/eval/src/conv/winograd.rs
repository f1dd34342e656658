//! Convolutions with kernels of 3x3 by Winograd's minimal filtering, F(4x4, 3x3) of Lavin and Gray
//! ("Fast Algorithms for Convolutional Neural Networks", 2015): 36 multiplications for 16 outputs
//! instead of 144. Weights and inputs are transformed, multiplied plane by plane, and the products
//! transformed back. That rounds more than the sums of the definition do, so that only runs that ask
//! for it take this way.

use super::plan::{ConvPlan, Ends};
use super::window::Window;
use crate::gemm::{GemmSizes, Matrix, Product, multiply_into};
use crate::parallel::{ColumnBlock, for_each_block, threads, vectorized};
use std::array::from_fn;
use std::ops::{Add, Mul, Sub};

/// Rows and columns of the outputs of a tile.
const OUT: usize = 4;
/// Rows and columns of its inputs.
const IN: usize = 6;
/// Matrix products: one for each transformed input of a tile.
const PLANES: usize = IN * IN;
/// Elements of a kernel.
const TAPS: usize = 9;

/// Elements between planes, lest all of them fall on the same lines of a cache; lanes that mean
/// nothing run into them, too.
const GAP: usize = 16;
/// Elements that the transformed inputs of a band, the weights of a share of the filters, and their
/// products take at most, as far as these can be cut.
const INPUTS_MAX: usize = 1 << 19;
const WEIGHTS_MAX: usize = 1 << 18;
const PRODUCTS_MAX: usize = 1 << 17;
/// Elements of memory that a band may take in all.
const MEMORY_MAX: usize = 1 << 20;

/// What a convolution takes, in multiplications of a matrix product: to transform a kernel, or the
/// inputs or outputs of a tile in one channel, and to copy a number for a product, as measured.
const OF_KERNEL: f64 = 500.0;
const OF_TILE: f64 = 800.0;
const COPIED: f64 = 5.0;
/// What is to be less than this part of the direct way, lest errors of these estimates cost time.
const SURE: f64 = 0.85;

/// By how much transforms make sums of products larger at most: 5.2^2 for inputs, 1.5^2 for weights
/// and 7.4^2 for products.
const GROWTH: f64 = 3400.0;

/// Numbers that are computed together: tiles side by side, or filters.
const LANES: usize = 8;

#[derive(Clone, Copy)]
struct Lanes([f32; LANES]);

impl Lanes {
    const ZERO: Lanes = Lanes([0.0; LANES]);

    #[inline(always)]
    fn read(from: &[f32]) -> Lanes {
        Lanes(from_fn(|i| from[..LANES][i]))
    }

    #[inline(always)]
    fn write(self, to: &mut [f32]) {
        to[..LANES].copy_from_slice(&self.0);
    }
}

impl Add for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn add(self, other: Lanes) -> Lanes {
        Lanes(from_fn(|i| self.0[i] + other.0[i]))
    }
}

impl Sub for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn sub(self, other: Lanes) -> Lanes {
        Lanes(from_fn(|i| self.0[i] - other.0[i]))
    }
}

impl Mul<f32> for Lanes {
    type Output = Lanes;

    #[inline(always)]
    fn mul(self, factor: f32) -> Lanes {
        Lanes(self.0.map(|v| v * factor))
    }
}

/// The points of the transforms other than 0 and infinity are these two and their opposites. With 1
/// and 2, which save some multiplications, errors are three to five times as large.
const NEAR: f32 = std::f32::consts::FRAC_1_SQRT_2;
const FAR: f32 = std::f32::consts::SQRT_2;

/// The transform of inputs along one axis.
#[inline(always)]
fn of_inputs(d: [Lanes; IN]) -> [Lanes; IN] {
    let (even, odd) = (d[4] - d[2] * 2.0, (d[3] - d[1] * 2.0) * NEAR);
    let (even2, odd2) = (d[4] - d[2] * 0.5, (d[3] - d[1] * 0.5) * FAR);
    let (first, last) = (d[0] - d[2] * 2.5 + d[4], d[1] - d[3] * 2.5 + d[5]);
    [first, even + odd, even - odd, even2 + odd2, even2 - odd2, last]
}

/// That of weights.
#[inline(always)]
fn of_weights(g: [Lanes; 3]) -> [Lanes; IN] {
    let (even, odd) = (g[0] * (-2.0 / 3.0) - g[2] * (1.0 / 3.0), g[1] * (-2.0 / 3.0 * NEAR));
    let (even2, odd2) = (g[0] * (1.0 / 6.0) + g[2] * (1.0 / 3.0), g[1] * (FAR / 6.0));
    [g[0], even + odd, even - odd, even2 + odd2, even2 - odd2, g[2]]
}

/// That of products, which gives outputs.
#[inline(always)]
fn of_products(m: [Lanes; IN]) -> [Lanes; OUT] {
    let (sum, difference) = (m[1] + m[2], m[1] - m[2]);
    let (sum2, difference2) = (m[3] + m[4], m[3] - m[4]);
    [
        m[0] + sum + sum2,
        difference * NEAR + difference2 * FAR,
        sum * 0.5 + sum2 * 2.0,
        difference * (0.5 * NEAR) + difference2 * (2.0 * FAR) + m[5],
    ]
}

vectorized! {
    /// The bits of the largest magnitude; those of infinity and NaN are larger than all others.
    fn largest_bits(list: &[f32]) -> u32 {
        list.iter().fold(0, |most, v| most.max(v.to_bits() & !(1 << 31)))
    }
}

/// Rows of tiles that are computed at a time, and what their parts take.
#[derive(Clone, Copy)]
struct Band {
    /// Rows of tiles.
    rows: usize,
    /// Tiles in a row.
    across: usize,
    /// Filters whose transformed weights are there at a time.
    share: usize,
}

impl Band {
    fn for_rows(plan: &ConvPlan, rows: usize) -> Band {
        let across = plan.window.output[2].div_ceil(OUT);
        let fits = (WEIGHTS_MAX / plan.channels).min(PRODUCTS_MAX / (rows * across)) / PLANES;
        let share = fits / LANES * LANES;
        Band { rows, across, share: share.clamp(LANES, plan.filters.next_multiple_of(LANES)) }
    }

    fn tiles(self) -> usize {
        self.rows * self.across
    }

    /// Elements from one remainder of columns divided by four to the next in a laid out line.
    fn line(self) -> usize {
        (self.across + 1).next_multiple_of(LANES)
    }

    /// Elements of a laid out channel, and of one plane of inputs, weights and products.
    fn sizes(self, channels: usize) -> [usize; 4] {
        let lines = (OUT * self.rows + 2) * OUT * self.line() + LANES;
        let (inputs, products) = (channels * self.tiles(), self.share * self.tiles());
        [lines, inputs + GAP, channels * self.share + GAP, products + GAP]
    }

    /// Elements of all planes.
    fn memory(self, channels: usize) -> usize {
        let [lines, inputs, weights, products] = self.sizes(channels);
        lines + PLANES * (inputs + weights + products)
    }
}

/// One convolution.
pub(super) struct Winograd<'a> {
    pub(super) plan: &'a ConvPlan,
    pub(super) x: &'a [f32],
    pub(super) w: &'a [f32],
    pub(super) ends: &'a Ends<'a, f32>,
}

impl Winograd<'_> {
    /// Whether it can be computed so, in less time than directly. That depends on sizes alone, not
    /// on the threads that there are, so that every run of a sample gives the same.
    pub(super) fn is_worth_it(&self) -> bool {
        let ConvPlan { window, groups, channels, filters, .. } = *self.plan;
        let plain = |list: [usize; 3], with: usize| list.iter().all(|n| *n == with);
        let flat = window.input[0] == 1 && window.output[0] == 1 && window.before[0] == 0;
        let fits = flat && plain(window.strides, 1) && plain(window.dilations, 1);
        if !fits || window.kernel != [1, 3, 3] || groups != 1 || channels == 0 {
            return false;
        }
        // What one row of tiles takes grows with its length.
        let (down, across) = (window.output[1].div_ceil(OUT), window.output[2].div_ceil(OUT));
        let length = across.saturating_mul(channels.saturating_add(LANES));
        if length > MEMORY_MAX || Band::for_rows(self.plan, 1).memory(channels) > MEMORY_MAX {
            return false;
        }
        let bands = down.div_ceil(self.fitting_rows());
        let [area, tiles, bands] = [window.outputs(), down * across, bands].map(|n| n as f64);
        let [channels, filters] = [channels, filters].map(|n| n as f64);
        let kernels = channels * filters;
        let padded = (tiles / LANES as f64).ceil() * LANES as f64;
        let products = PLANES as f64 * kernels * padded;
        let transforms = OF_KERNEL * kernels * bands + OF_TILE * tiles * (channels + filters);
        let directly = TAPS as f64 * (kernels * area + COPIED * (channels * area + kernels));
        products + transforms < SURE * directly
    }

    /// Whether no sum of the transforms and products leaves the range of numbers.
    pub(super) fn is_finite(&self) -> bool {
        let largest = |list: &[f32]| f64::from(f32::from_bits(largest_bits(list)));
        let (x, w) = (largest(self.x), largest(self.w));
        let sums = GROWTH * self.plan.channels as f64 * x.max(1.0) * w.max(1.0);
        x.is_finite() && w.is_finite() && sums < f64::from(f32::MAX)
    }

    /// Rows of tiles whose inputs fit.
    fn fitting_rows(&self) -> usize {
        let ConvPlan { window, channels, .. } = self.plan;
        let (down, across) = (window.output[1].div_ceil(OUT), window.output[2].div_ceil(OUT));
        (INPUTS_MAX / (PLANES * channels * across)).clamp(1, down)
    }

    /// Fills `y`.
    pub(super) fn fill(&self, y: &mut [f32]) {
        let plan = self.plan;
        let [_, o1, o2] = plan.window.output;
        let down = o1.div_ceil(OUT);
        let rows = self.fitting_rows().min((down * plan.batch).div_ceil(threads()));
        // Bands of one size.
        let rows = down.div_ceil(down.div_ceil(rows));
        for_each_block(y, (plan.filters, o1 * o2), rows * OUT * o2, &|i, first, mut block| {
            self.band(i, first / o2, &mut block);
        });
    }

    /// The outputs of one image from line `first` on.
    fn band(&self, image: usize, first: usize, y: &mut ColumnBlock<f32>) {
        let Winograd { plan, w, ends, .. } = *self;
        let (channels, [_, o1, o2]) = (plan.channels, plan.window.output);
        let (filters, n) = y.sizes();
        let band = Band::for_rows(plan, (n / o2).div_ceil(OUT));
        let share = band.share;
        let [lines, inputs, weights, products] = band.sizes(channels);
        let mut memory = f32::scratch();
        // What is read has been written before, or means nothing.
        if memory.len() < band.memory(channels) {
            memory.resize(band.memory(channels), 0.0);
        }
        let (lines, rest) = memory.split_at_mut(lines);
        let (v, rest) = rest.split_at_mut(PLANES * inputs);
        let (u, m) = rest.split_at_mut(PLANES * weights);
        let area = plan.window.inputs();
        let x = &self.x[image * channels * area..][..channels * area];
        for (channel, x) in x.chunks(area).enumerate() {
            lay_out(&plan.window, first, x, band, lines);
            transform_inputs(lines, band, &mut v[channel * band.tiles()..], inputs);
        }
        for from in (0..filters).step_by(share) {
            let count = share.min(filters - from);
            let w = &w[from * channels * TAPS..][..count * channels * TAPS];
            transform_weights(w, channels, share, u, weights);
            let s = GemmSizes { m: count, k: channels, n: band.tiles() };
            for k in 0..PLANES {
                let u = Matrix::transposed(&u[k * weights..], share);
                let v = Matrix::new(&v[k * inputs..], band.tiles());
                multiply_into(s, u, v, &mut m[k * products..], band.tiles());
            }
            for f in 0..count {
                let run = y.row(from + f);
                run.fill(ends.start(from + f));
                add_outputs(&m[f * band.tiles()..], products, band, o2, run);
                ends.end((image * plan.filters + from + f) * o1 * o2 + first * o2, run);
            }
        }
        f32::keep(memory);
    }
}

/// Copies the lines of a channel that a band reads, with padding; in each line first the columns
/// whose remainder divided by four is 0, then 1, and so on, so that the same column of neighbouring
/// tiles lies side by side.
fn lay_out(window: &Window, first: usize, x: &[f32], band: Band, lines: &mut [f32]) {
    let ([_, i1, i2], [_, top, left]) = (window.input, window.before);
    let stride = band.line();
    for (row, out) in lines.chunks_exact_mut(OUT * stride).enumerate() {
        match (first + row).checked_sub(top).filter(|line| *line < i1) {
            Some(line) => deal(&x[line * i2..][..i2], left, out),
            None => out.fill(0.0),
        }
    }
}

vectorized! {
    /// Deals the numbers of a line out to the four parts of `out` in turn, zeros before and after.
    fn deal(line: &[f32], left: usize, out: &mut [f32]) {
        const PART: usize = 64;
        let stride = out.len() / OUT;
        let (a, rest) = out.split_at_mut(stride);
        let (b, rest) = rest.split_at_mut(stride);
        let (c, d) = rest.split_at_mut(stride);
        let parts = a.chunks_mut(PART).zip(b.chunks_mut(PART));
        let parts = parts.zip(c.chunks_mut(PART).zip(d.chunks_mut(PART)));
        for (i, ((a, b), (c, d))) in parts.enumerate() {
            // The numbers of this part, with padding.
            let mut padded = [0f32; OUT * PART];
            let start = i * padded.len();
            let from = start.saturating_sub(left).min(line.len());
            let to = (start + padded.len()).saturating_sub(left).min(line.len());
            if from < to {
                padded[from + left - start..][..to - from].copy_from_slice(&line[from..to]);
            }
            let all = a.iter_mut().zip(b).zip(c.iter_mut().zip(d)).zip(padded.as_chunks::<OUT>().0);
            for (((a, b), (c, d)), v) in all {
                (*a, *b, *c, *d) = (v[0], v[1], v[2], v[3]);
            }
        }
    }
}

vectorized! {
    /// Transforms a channel: one element per tile in each plane. Lanes behind the last tile of a row
    /// run into the next one, which is written later.
    fn transform_inputs(lines: &[f32], band: Band, planes: &mut [f32], plane: usize) {
        let stride = band.line();
        for row in 0..band.rows {
            let lines = &lines[OUT * row * OUT * stride..];
            for first in (0..band.across).step_by(LANES) {
                let mut half = [[Lanes::ZERO; IN]; IN];
                for (r, half) in half.iter_mut().enumerate() {
                    let line = &lines[r * OUT * stride + first..];
                    let mut d = [Lanes::ZERO; IN];
                    for (c, d) in d.iter_mut().enumerate() {
                        *d = Lanes::read(&line[c % OUT * stride + c / OUT..]);
                    }
                    *half = of_inputs(d);
                }
                let at = row * band.across + first;
                for c in 0..IN {
                    let mut d = [Lanes::ZERO; IN];
                    d.iter_mut().zip(&half).for_each(|(d, half)| *d = half[c]);
                    for (r, v) in of_inputs(d).iter().enumerate() {
                        v.write(&mut planes[(r * IN + c) * plane + at..]);
                    }
                }
            }
        }
    }
}

vectorized! {
    /// Transforms kernels of some filters: in each plane a row of `share` elements per channel.
    fn transform_weights(w: &[f32], channels: usize, share: usize, planes: &mut [f32], plane: usize) {
        let count = w.len() / (channels * TAPS);
        let mut turned = [[Lanes::ZERO; TAPS]; TURNED];
        for first in (0..count).step_by(LANES) {
            let w = |i: usize| &w[(first + i).min(count - 1) * channels * TAPS..][..channels * TAPS];
            let w = [w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7)];
            for start in (0..channels).step_by(TURNED) {
                let n = TURNED.min(channels - start);
                turn(w.map(|w| &w[start * TAPS..][..n * TAPS]), turned.as_flattened_mut());
                for (channel, g) in turned[..n].iter().enumerate() {
                    let half = [
                        of_weights([g[0], g[3], g[6]]),
                        of_weights([g[1], g[4], g[7]]),
                        of_weights([g[2], g[5], g[8]]),
                    ];
                    let at = (start + channel) * share + first;
                    for r in 0..IN {
                        let row = of_weights([half[0][r], half[1][r], half[2][r]]);
                        for (c, v) in row.iter().enumerate() {
                            v.write(&mut planes[(r * IN + c) * plane + at..]);
                        }
                    }
                }
            }
        }
    }
}

/// Channels whose weights are turned at a time.
const TURNED: usize = 32;

/// Transposes rows.
#[inline(always)]
fn turn(rows: [&[f32]; LANES], out: &mut [Lanes]) {
    let [a, b, c, d, e, f, g, h] = rows;
    let all = a.iter().zip(b).zip(c.iter().zip(d)).zip(e.iter().zip(f).zip(g.iter().zip(h)));
    for (out, (((a, b), (c, d)), ((e, f), (g, h)))) in out.iter_mut().zip(all) {
        *out = Lanes([*a, *b, *c, *d, *e, *f, *g, *h]);
    }
}

vectorized! {
    /// Transforms the products of a filter back and adds them to `run`, which has lines of `width`
    /// outputs.
    fn add_outputs(planes: &[f32], plane: usize, band: Band, width: usize, run: &mut [f32]) {
        for (row, lines) in run.chunks_mut(OUT * width).enumerate() {
            for first in (0..band.across).step_by(LANES) {
                let at = row * band.across + first;
                let mut half = [[Lanes::ZERO; IN]; OUT];
                for c in 0..IN {
                    let mut m = [Lanes::ZERO; IN];
                    for (r, m) in m.iter_mut().enumerate() {
                        *m = Lanes::read(&planes[(r * IN + c) * plane + at..]);
                    }
                    half.iter_mut().zip(of_products(m)).for_each(|(half, v)| half[c] = v);
                }
                for (half, line) in half.iter().zip(lines.chunks_mut(width)) {
                    let parts = of_products(*half);
                    let mut together = [[0f32; OUT]; LANES];
                    for (i, four) in together.iter_mut().enumerate() {
                        for (v, part) in four.iter_mut().zip(&parts) {
                            *v = part.0[i];
                        }
                    }
                    let line = line[first * OUT..].iter_mut().zip(together.as_flattened());
                    line.for_each(|(y, v)| *y += v);
                }
            }
        }
    }
}
