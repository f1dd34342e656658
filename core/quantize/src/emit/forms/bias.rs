//! The bias of an accumulator: integers with the scale of the accumulator.

use super::FoldContext;
use super::UnfoldContext;
use crate::graph::quantized::{Why, dequantize_source, floats, name};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Graph, Reals, Tensor, ValueId};

/// What a step of the sum is worth, for each column or for all: `factor * x_scale * w_scale`.
pub(crate) fn steps(graph: &Graph, scales: [ValueId; 2], factor: f32) -> Result<Vec<f32>, Why> {
    let (x, w) = (floats(graph, scales[0])?, floats(graph, scales[1])?);
    let by = factor * x.first().ok_or_else(|| format!("{} is empty", name(graph, scales[0])))?;
    Ok(w.into_iter().map(|w| by * w).collect())
}

/// Scales that were computed in different ways differ by so much.
const ROUNDING: f32 = 1e-6;

/// Input `i` of the node as integers with `steps`, each times `1 / beta`. What is not quantized, or
/// with other scales, is rounded to them: by half a step of the sum at most, which is far below one
/// of the result.
pub(crate) fn folded(
    site: &mut FoldContext,
    i: usize,
    steps: &[f32],
    beta: f32,
) -> Result<Option<ValueId>, Why> {
    let Some(v) = site.node.input(i) else { return Ok(None) };
    if let Ok(value) = dequantize_source(site.graph, v)
        && value.dtype == DataType::Int32
        && beta == 1.0
        && value.zero_points(site.graph)?.iter().all(|z| *z == 0)
    {
        let (input_scales, last) = (floats(site.graph, value.scale)?, value.along(site.graph, -1));
        let count = input_scales.len().max(steps.len());
        let fits = [input_scales.len(), steps.len()].iter().all(|n| [1, count].contains(n));
        let of = |all: &[f32], k: usize| all[k % all.len()];
        let close =
            |k| (of(&input_scales, k) - of(steps, k)).abs() <= ROUNDING * of(steps, k).abs();
        if last.is_ok() && fits && (0..count).all(close) {
            return Ok(Some(value.q));
        }
    }
    let dims = if steps.len() == 1 { vec![] } else { vec![steps.len()] };
    let steps = Reals { dims, values: steps.iter().map(|s| f64::from(*s)).collect() };
    let beyond = || {
        let what = name(site.graph, v);
        format!(
            "the bias {what} is no constant that 32-bit integers with the scale of the sum hold"
        )
    };
    let sum = reals(site.graph, v)?.zip(&steps, |b, s| (f64::from(beta) * b / s).round_ties_even());
    let sum = sum.ok_or_else(beyond)?;
    let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
    refuse!(!sum.values.iter().all(|q| range.contains(q)) => beyond());
    let integers = sum.values.iter().map(|q| *q as i32).collect();
    let name = format!("{}_quantized", site.graph[v].name);
    Ok(Some(site.shared(&name, Tensor::from_vec(sum.dims, integers))))
}

/// The reals of a constant, also of one that is quantized with a scale for all or for each element
/// of the last axis.
fn reals(graph: &Graph, v: ValueId) -> Result<Reals, Why> {
    let unknown = || format!("the bias {} is not a constant", name(graph, v));
    if let Some(t) = graph.constant(v) {
        return t.to_reals().ok_or_else(unknown);
    }
    let value = dequantize_source(graph, v)?.along(graph, -1)?;
    let q = graph.constant(value.q).and_then(Tensor::to_reals).ok_or_else(unknown)?;
    let spread = |values: Vec<f64>| match values.len() {
        1 => Reals::scalar(values[0]),
        n => Reals { dims: vec![n], values },
    };
    let mut zeros: Vec<f64> = value.zero_points(graph)?.into_iter().map(|z| z as f64).collect();
    zeros.resize(zeros.len().max(1), 0.0);
    let scales = floats(graph, value.scale)?.into_iter().map(f64::from).collect();
    let centered = q.zip(&spread(zeros), |q, z| q - z);
    centered.and_then(|q| q.zip(&spread(scales), |q, s| q * s)).ok_or_else(unknown)
}

/// The reals of input `i`, if there is one: integers whose scales are `steps` along the last axis.
pub(crate) fn real(
    site: &mut UnfoldContext,
    i: usize,
    steps: &[f32],
) -> Result<Option<ValueId>, Why> {
    site.node.input(i).map(|q| real_of(site, q, steps)).transpose()
}

/// As [`real`], of a value.
pub(crate) fn real_of(site: &mut UnfoldContext, q: ValueId, steps: &[f32]) -> Result<ValueId, Why> {
    let scale = match steps {
        [only] => Tensor::scalar(*only),
        several => Tensor::vector(several.to_vec()),
    };
    let axis = match (steps.len(), site.rank(q)?) {
        (1, _) => None,
        (_, 0) => return Err(format!("{} is one bias for several scales", name(site.graph, q))),
        (n, rank) => {
            site.sized(q, rank - 1, n)?;
            Some(rank as i64 - 1)
        }
    };
    let scale_name = format!("{}_scale", site.graph[q].name);
    let scale = site.graph.add_initializer(&scale_name, scale);
    Ok(site.real_of(q, scale, None, axis))
}
