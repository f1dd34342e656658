//! The rows that a weighted operator multiplies by its weights, and what it makes of them.

use super::sums::Sums;
use crate::graph::weighted::{WeightedNode, WeightedOp};
use onnxd_ir::ops::{Conv, Gemm};
use onnxd_ir::window::{self, WindowAxis};
use onnxd_ir::{At, Graph, Tensor};
use rayon::prelude::*;

/// Rows that are taken in at a time.
const TOGETHER: usize = 512;

/// Positions of a picture that are looked at: neighbours say much the same.
const POSITIONS_MAX: usize = 256;

/// `groups` times `n` rows of `k` weights; each group of a convolution reads inputs of its own.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) groups: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Whether the weights are stored by rows; else by columns.
    pub(crate) by_rows: bool,
    /// How a convolution walks over its input.
    window: Option<Vec<WindowAxis>>,
}

impl Shape {
    /// For weights of these sizes.
    pub(crate) fn from_product(
        graph: &Graph,
        operator: &WeightedNode,
        dims: &[usize],
    ) -> Option<Shape> {
        let by_rows = match operator.op {
            WeightedOp::Conv => {
                let (conv, [n, rest @ ..]) = (At::<Conv>::find(graph, operator.node)?, dims) else {
                    return None;
                };
                let groups = usize::try_from(conv.group).ok().filter(|g| *g > 0 && n % g == 0)?;
                let kernel: Vec<i64> = rest.get(1..)?.iter().map(|k| *k as i64).collect();
                let node = &graph[conv.node];
                let window = Some(window::axes(|name| node.attr(name), &kernel).ok()?);
                let k = rest.iter().product();
                return Some(Shape { groups, n: n / groups, k, by_rows: true, window });
            }
            WeightedOp::Gemm => {
                let gemm = At::<Gemm>::find(graph, operator.node).filter(|g| g.transA == 0)?;
                gemm.transB != 0
            }
            WeightedOp::MatMul => false,
            WeightedOp::Attention | WeightedOp::ConvTranspose | WeightedOp::Normalization => {
                return None;
            }
        };
        let [a, b] = *dims else { return None };
        let (n, k) = if by_rows { (a, b) } else { (b, a) };
        Some(Shape { groups: 1, n, k, by_rows, window: None })
    }

    /// Where weight `i` of row `row` is, counted over all groups.
    pub(crate) fn at(&self, row: usize, i: usize) -> usize {
        if self.by_rows { row * self.k + i } else { i * self.n + row }
    }

    /// Takes in what the weighted operator reads and what it is to compute, a `Sums` for each group; `None`
    /// for sizes that do not fit.
    pub(crate) fn see(&self, sums: &mut [Sums], x: &Tensor, y: &Tensor) -> Option<()> {
        match &self.window {
            Some(window) => self.see_windows(window, sums, x, y),
            None => self.see_rows(sums.first_mut()?, x, y),
        }
    }

    fn see_rows(&self, sums: &mut Sums, x: &Tensor, y: &Tensor) -> Option<()> {
        let (x, y) = (x.as_slice::<f32>()?, y.as_slice::<f32>()?);
        if x.len() / self.k != y.len() / self.n || x.len() % self.k + y.len() % self.n != 0 {
            return None;
        }
        for (x, y) in x.chunks(TOGETHER * self.k).zip(y.chunks(TOGETHER * self.n)) {
            sums.add(x, y, 0);
        }
        Some(())
    }

    fn see_windows(
        &self,
        w: &[WindowAxis],
        sums: &mut [Sums],
        x: &Tensor,
        y: &Tensor,
    ) -> Option<()> {
        let ([items, c, input @ ..], [items_y, m, output @ ..]) = (x.dims(), y.dims()) else {
            return None;
        };
        let taps: usize = w.iter().map(|axis| axis.kernel as usize).product();
        let fits = items == items_y
            && *m == self.groups * self.n
            && c * taps == self.groups * self.k
            && input.len() == w.len()
            && output.len() == w.len();
        if !fits {
            return None;
        }
        let (area, places) = (input.iter().product::<usize>(), output.iter().product::<usize>());
        let (x, y) = (x.as_slice::<f32>()?, y.as_slice::<f32>()?);
        let sizes = w.iter().zip(input.iter().zip(output));
        let before = sizes.map(|(axis, (n, m))| Some(axis.pads(*n as i64, *m as i64)?[0]));
        let before = before.collect::<Option<Vec<i64>>>()?;
        let count = places.min(POSITIONS_MAX);
        let chosen = |i: usize| (i / count, i % count * places / count);
        let all: Vec<usize> = (0..items * count).collect();
        let channels = c / self.groups;
        for part in all.chunks(TOGETHER) {
            let taken: Vec<Vec<Option<usize>>> =
                part.iter().map(|i| under(w, chosen(*i).1, input, output, &before)).collect();
            sums.par_iter_mut().enumerate().for_each(|(g, sums)| {
                let mut rows = Vec::with_capacity(part.len() * self.k);
                let mut outs = Vec::with_capacity(part.len() * self.n);
                for (i, taps) in part.iter().zip(&taken) {
                    let (item, place) = chosen(*i);
                    for channel in g * channels..(g + 1) * channels {
                        let plane = &x[(item * c + channel) * area..][..area];
                        let tap = |at: &Option<usize>| at.map_or(0.0, |at| plane[at]);
                        rows.extend(taps.iter().map(tap));
                    }
                    let out = |r: usize| y[(item * m + g * self.n + r) * places + place];
                    outs.extend((0..self.n).map(out));
                }
                sums.add(&rows, &outs, g * self.n);
            });
        }
        Some(())
    }
}

/// The elements of a channel that are under the kernel at a place of the output; none in the padding.
fn under(
    axes: &[WindowAxis],
    place: usize,
    input: &[usize],
    output: &[usize],
    before: &[i64],
) -> Vec<Option<usize>> {
    let split = |mut at: usize, sizes: &[usize]| -> Vec<usize> {
        let mut found = vec![0; sizes.len()];
        for (to, size) in found.iter_mut().zip(sizes).rev() {
            (*to, at) = (at % size, at / size);
        }
        found
    };
    let kernel: Vec<usize> = axes.iter().map(|axis| axis.kernel as usize).collect();
    let corner = split(place, output);
    let tap = |tap: usize| {
        let mut at = 0;
        for (i, offset) in split(tap, &kernel).into_iter().enumerate() {
            let x =
                corner[i] as i64 * axes[i].stride + offset as i64 * axes[i].dilation - before[i];
            let x = usize::try_from(x).ok().filter(|x| *x < input[i])?;
            at = at * input[i] + x;
        }
        Some(at)
    };
    (0..kernel.iter().product()).map(tap).collect()
}
