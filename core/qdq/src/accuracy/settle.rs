//! What rounding of weights does to the mean of what a product computes, taken back by its bias.
//!
//! Weights that are off by `e` make a product of inputs `x` off by `e * x`, on average by
//! `e * mean(x)`: constant for each output channel, and known from the means of the inputs, which
//! calibration sees anyway (arXiv 1906.04721, 4.2, with means from samples in place of those of batch
//! normalization). It takes no run of the quantized model, as `correct_biases` does. Where one scale
//! serves all channels, as small ones round to few integers, this is much of all that is lost.

use super::Base;
use super::bias::{has_bias, subtract};
use super::rounding::Shape;
use crate::coded::{decoded, floats};
use crate::weighted::{Product, Weighted};
use onnxd_eval::quoted;
use onnxd_ir::ops::Gemm;
use onnxd_ir::{At, Model};
use std::collections::BTreeMap;

/// The products whose biases are settled.
fn products(base: &Base) -> impl Iterator<Item = &Weighted> {
    base.plan.products.iter().map(|(product, _)| product)
}

/// The values whose means are needed, by name, and the axis of their channels.
pub(super) fn axes(base: &Base) -> BTreeMap<String, i64> {
    let axis = |p: &Weighted| if p.product == Product::Conv { 1 } else { -1 };
    products(base).map(|p| (quoted(&base.model.graph[p.x].name), axis(p))).collect()
}

/// Takes back, in the biases of products, what the rounding of their weights adds on average to what
/// they compute. `quantized` is what the base became, with the same numbers of nodes. Products
/// without a bias, or of inputs whose means are not known, stay.
pub fn settle_biases(base: &Base, quantized: &mut Model) {
    for product in products(base) {
        if !has_bias(&quantized.graph, product) {
            continue;
        }
        if let Some(errors) = errors(base, quantized, product) {
            subtract(&mut quantized.graph, product, &errors);
        }
    }
}

/// By how much each output channel is off on average.
fn errors(base: &Base, quantized: &Model, product: &Weighted) -> Option<Vec<f64>> {
    let (float, graph) = (&base.model.graph, &quantized.graph);
    let means = base.seen.get(&quoted(&float[product.x].name))?.means.as_ref()?.known();
    let weights = float.constant(product.w)?;
    let shape = Shape::of(float, product, weights.dims())?;
    let coded = decoded(graph, graph[product.node].input(Weighted::W)?).ok()?;
    let (steps, zeros) = (floats(graph, coded.scale).ok()?, coded.zeros(graph).ok()?);
    let integers = graph.constant(coded.q)?.to_i64s()?;
    let weights = weights.as_slice::<f32>()?;
    let alpha = At::<Gemm>::find(float, product.node).map_or(1.0, |gemm| gemm.alpha);
    let off = |row: usize, at: usize| {
        let step = steps.get(row).or(steps.first()).copied().unwrap_or(0.0);
        let zero = zeros.get(row).or(zeros.first()).copied().unwrap_or(0);
        let weight = f64::from(weights[at]) * f64::from(alpha);
        (integers[at] - zero) as f64 * f64::from(step) - weight
    };
    let (rows, channels) = (shape.groups * shape.n, means.len() / shape.groups);
    if channels == 0 || means.len() % shape.groups != 0 || shape.k % channels != 0 {
        return None;
    }
    let taps = shape.k / channels;
    let mut errors = vec![0f64; rows];
    if integers.len() != weights.len() || integers.len() != rows * shape.k {
        return None;
    }
    // In the order in which the weights lie.
    if !shape.by_rows {
        for (i, mean) in means.iter().enumerate() {
            let each = errors.iter_mut().enumerate();
            each.for_each(|(row, error)| *error += off(row, shape.at(row, i)) * f64::from(*mean));
        }
        return Some(errors);
    }
    for (row, error) in errors.iter_mut().enumerate() {
        let means = &means[row / shape.n * channels..][..channels];
        for (channel, mean) in means.iter().enumerate() {
            let taps = (channel * taps..(channel + 1) * taps).map(|i| off(row, shape.at(row, i)));
            *error += taps.sum::<f64>() * f64::from(*mean);
        }
    }
    Some(errors)
}
