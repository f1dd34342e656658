//! What rounding of weights does to the mean of what a weighted operator computes, taken back by its bias.
//!
//! Weights that are off by `e` make a product of inputs `x` off by `e * x`, on average by
//! `e * mean(x)`: constant for each output channel, and known from the means of the inputs, which
//! calibration sees anyway (arXiv 1906.04721, 4.2, with means from samples in place of those of batch
//! normalization). It takes no run of the quantized model, as `correct_biases` does. Where one scale
//! serves all channels, as small ones round to few integers, this is much of all that is lost.

use super::adaround::Shape;
use super::bias_correction::{has_bias, subtract};
use crate::accuracy::Base;
use crate::graph::quantized::{dequantize_source, floats};
use crate::graph::weighted::WeightedNode;
use onnxd_eval::quoted;
use onnxd_ir::ops::Gemm;
use onnxd_ir::{At, Model};
use std::iter::repeat_n;

/// The weighted operators whose biases are corrected.
fn weighted_of(base: &Base) -> impl Iterator<Item = &WeightedNode> {
    base.plan.weighted.iter().map(|(operator, _)| operator)
}

/// Takes back, in the biases of weighted operators, what the rounding of their weights adds on average to what
/// they compute. `quantized` is what the base became, with the same numbers of nodes. Products
/// without a bias, or of inputs whose means are not known, stay.
pub fn correct_biases_from_means(base: &Base, quantized: &mut Model) {
    for operator in weighted_of(base) {
        if !has_bias(&quantized.graph, operator) {
            continue;
        }
        if let Some(errors) = errors(base, quantized, operator) {
            subtract(&mut quantized.graph, operator, &errors);
        }
    }
}

/// By how much each output channel is off on average.
fn errors(base: &Base, quantized: &Model, operator: &WeightedNode) -> Option<Vec<f64>> {
    let (float, graph) = (&base.model.graph, &quantized.graph);
    let means = base.seen.get(&quoted(&float[operator.x].name))?.means.as_ref()?.known();
    let weights = float.constant(operator.w)?;
    let shape = Shape::from_product(float, operator, weights.dims())?;
    let value = dequantize_source(graph, graph[operator.node].input(WeightedNode::W)?).ok()?;
    let (steps, zeros) = (floats(graph, value.scale).ok()?, value.zero_points(graph).ok()?);
    let integers = graph.constant(value.q)?.to_i64s()?;
    let weights = weights.as_slice::<f32>()?;
    let alpha = At::<Gemm>::find(float, operator.node).map_or(1.0, |gemm| gemm.alpha);
    let channels = means.len() / shape.groups;
    if channels == 0 || means.len() % shape.groups != 0 || shape.k % channels != 0 {
        return None;
    }
    let rows = shape.groups * shape.n;
    if integers.len() != weights.len() || integers.len() != rows * shape.k {
        return None;
    }
    let taps = shape.k / channels;
    if taps > 1 && !shape.by_rows {
        return None;
    }
    // One for all rows, or one for each.
    let fits = |count: usize| count == 1 || count == rows;
    if !fits(steps.len()) || !(zeros.is_empty() || fits(zeros.len())) {
        return None;
    }
    // Of all integers and of all weights times the means of what they are multiplied by.
    let (mut value, mut real) = (vec![0f64; rows], vec![0f64; rows]);
    let mut total = vec![0f64; shape.groups];
    for (group, means) in means.chunks(channels).enumerate() {
        total[group] = taps as f64 * means.iter().map(|m| f64::from(*m)).sum::<f64>();
    }
    if shape.by_rows {
        let mean = |group: usize| means[group * channels..][..channels].iter();
        let each: Vec<Vec<f64>> = (0..shape.groups)
            .map(|g| mean(g).flat_map(|m| repeat_n(f64::from(*m), taps)).collect())
            .collect();
        for row in 0..rows {
            let (run, means) = (row * shape.k..(row + 1) * shape.k, &each[row / shape.n]);
            value[row] = product_of_integers(&integers[run.clone()], means);
            real[row] = product_of_floats(&weights[run], means);
        }
    } else {
        for (i, mean) in means.iter().enumerate() {
            let run = i * rows..(i + 1) * rows;
            add_integers(&mut value, &integers[run.clone()], f64::from(*mean));
            add_floats(&mut real, &weights[run], f64::from(*mean));
        }
    }
    let of_row = |row: usize| {
        let step = f64::from(*steps.get(row).or(steps.first())?);
        let zero = zeros.get(row).or(zeros.first()).copied().unwrap_or(0) as f64;
        let value = value[row] - zero * total[row / shape.n];
        Some(step * value - f64::from(alpha) * real[row])
    };
    (0..rows).map(of_row).collect()
}

onnxd_eval::vectorized! {
    fn product_of_integers(integers: &[i64], factors: &[f64]) -> f64 {
        dot(integers, factors, |q| f64::from(q as i32))
    }
}

onnxd_eval::vectorized! {
    fn product_of_floats(values: &[f32], factors: &[f64]) -> f64 {
        dot(values, factors, f64::from)
    }
}

onnxd_eval::vectorized! {
    fn add_integers(sums: &mut [f64], integers: &[i64], factor: f64) {
        sums.iter_mut().zip(integers).for_each(|(sum, q)| *sum += f64::from(*q as i32) * factor);
    }
}

onnxd_eval::vectorized! {
    fn add_floats(sums: &mut [f64], values: &[f32], factor: f64) {
        sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += f64::from(*x) * factor);
    }
}

/// The sum of products, several at a time.
#[inline(always)]
fn dot<T: Copy>(values: &[T], factors: &[f64], real: impl Fn(T) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0f64; LANES];
    let (rows, rest) = values.as_chunks::<LANES>();
    let (others, other) = factors.as_chunks::<LANES>();
    for (row, others) in rows.iter().zip(others) {
        for ((sum, x), y) in sums.iter_mut().zip(row).zip(others) {
            *sum += real(*x) * y;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().zip(other).map(|(x, y)| real(*x) * y).sum::<f64>()
}
