//! Runs the float network and the one in integers side by side, to see what quantization costs.

use crate::plan::{CellNetwork, IntegerPlan, Output};
use crate::statistics::{floats, unusable};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::eval::{Builtin, quoted};
use onnxd_plugin_sdk::ir::{DataType, Graph, Model, Tensor, ValueId, ValueType};
use onnxd_plugin_sdk::{Nearness, Origin, QuantizeContext};
use onnxd_quantize::accuracy::{Agreement, Pair, agreements};
use onnxd_quantize::observe::{Feeds, Limits};
use std::collections::BTreeMap;

/// Samples that both run on, at most.
const SAMPLES_MAX: u64 = 32;
/// Elements of a result that are compared.
const COMPARED_MAX: usize = 1 << 15;

/// What was measured.
pub(crate) struct Measured {
    /// Samples that both ran on.
    pub(crate) samples: u64,
    /// Per cell.
    pub(crate) cells: Vec<Agreement>,
    /// Values of inputs beyond what their integers mean.
    pub(crate) beyond: Beyond,
}

/// Values of inputs that saturate by more than a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beyond {
    /// The one that lies farthest beyond.
    pub(crate) farthest: Option<f32>,
    count: usize,
    of: usize,
}

impl Beyond {
    fn see(&mut self, values: &[f32], (low, high): (f32, f32)) {
        self.of += values.len();
        for x in values.iter().filter(|x| **x < low || **x > high) {
            self.count += 1;
            self.farthest = self.farthest.filter(|f| f.abs() >= x.abs()).or(Some(*x));
        }
    }

    /// In percent of all values.
    pub(crate) fn share(&self) -> f64 {
        100.0 * self.count as f64 / self.of.max(1) as f64
    }
}

/// Compares the results of all cells on the first of the samples that calibrated, `most` at most.
/// `integer` computes them in integers, or in floats that hold integers.
pub(crate) fn measure(
    network: &CellNetwork,
    plan: &IntegerPlan,
    integer: &Model,
    cx: &QuantizeContext,
    most: u64,
) -> Result<Measured, Diagnostics> {
    let graph = &network.model.graph;
    let cells = network.cells.iter().zip(&plan.cells);
    let pairs: Vec<Pair> = cells.map(|(c, p)| pair(graph, c.output, p.output)).collect();
    let samples = cx.calibration().samples().min(most).min(SAMPLES_MAX);
    // All results of a run are in memory together, so runs are small where sizes are not fixed.
    let size = match graph.inputs().iter().any(|v| has_fixed_batch(graph, *v)) {
        true => cx.calibration().batch_size(),
        false => 1,
    };
    let (mut done, mut beyond) = (0, Beyond::default());
    let mut both = cx.calibration().batches(size, samples).map(|batch| {
        cx.count("comparison of layers, sample", done, samples)?;
        done += size as u64;
        let float = batch?;
        let integers = quantized(&float, integer, plan)?;
        look_beyond(&mut beyond, &float, integer, plan);
        Ok((float, integers))
    });
    let stop = || cx.is_stopped();
    let limits = Limits {
        stop: Some(&stop),
        compared_max: COMPARED_MAX,
        at_once_max: 1,
        ..Limits::default()
    };
    let models = (&network.model, integer);
    let cells = agreements(&Builtin, models, &pairs, &mut both, (&[], limits))?;
    drop(both);
    Ok(Measured { samples, cells, beyond })
}

/// Compares the outputs with those of the network as it was before anything was done to it: on the
/// samples after the first `most`, which calibrated, or on these if there are no others.
pub(crate) fn whole(
    float: &Model,
    (network, plan): (&CellNetwork, &IntegerPlan),
    integer: &Model,
    cx: &QuantizeContext,
    most: u64,
) -> Result<Nearness, Diagnostics> {
    let graph = &network.model.graph;
    let cells = network.cells.iter().zip(&plan.cells);
    let outputs: BTreeMap<&str, Option<Output>> =
        cells.map(|(c, p)| (graph[c.output].name.as_str(), p.output)).collect();
    let is_float = |v: &&ValueId| {
        float.graph[**v].ty.as_ref().and_then(ValueType::dtype).is_none_or(DataType::is_float)
    };
    let values: Vec<ValueId> = float.graph.outputs().iter().filter(is_float).copied().collect();
    let made = |v: &ValueId| outputs.get(float.graph[*v].name.as_str()).copied().flatten();
    let pairs: Vec<Pair> = values.iter().map(|v| pair(&float.graph, *v, made(v))).collect();
    let (size, total) = (cx.calibration().batch_size(), cx.calibration().samples());
    // Without a limit there is no next multiple.
    let after = most.checked_next_multiple_of(size as u64).filter(|from| *from < total);
    let (from, origin) = after.map_or((0, Origin::Calibration), |from| (from, Origin::Apart));
    let to = total.min(from.saturating_add(SAMPLES_MAX));
    let skipped = usize::try_from(from / size as u64).unwrap_or(usize::MAX);
    let mut done = 0;
    let mut both = cx.calibration().batches(size, to).measuring().skip(skipped).map(|batch| {
        cx.count("quality, sample", done, to - from)?;
        done += size as u64;
        let samples = batch?;
        let integers = quantized(&samples, integer, plan)?;
        Ok((samples, integers))
    });
    let stop = || cx.is_stopped();
    let limits = Limits { stop: Some(&stop), at_once_max: 1, ..Limits::default() };
    let found = agreements(&Builtin, (float, integer), &pairs, &mut both, (&[], limits))?;
    let named = values.iter().zip(&found).filter(|(_, seen)| seen.signal > 0.0);
    let named = named.filter_map(|(v, seen)| Some((float.graph[*v].name.clone(), seen.sqnr_db()?)));
    let outputs: Vec<(String, f64)> = named.collect();
    if outputs.is_empty() {
        let text = "all outputs of the float network are zero or not finite on the samples";
        return Err(Diagnostic::new(Code::EvalInputs, text).into());
    }
    Ok(Nearness { outputs, samples: to - from, origin, ..Nearness::default() })
}

/// Looks for values of inputs that lie beyond their integers.
fn look_beyond(beyond: &mut Beyond, samples: &Feeds, integer: &Model, plan: &IntegerPlan) {
    let graph = &integer.graph;
    for (input, output) in graph.inputs().iter().zip(&plan.inputs) {
        let (low, high) = output.bounds();
        let step = plan.range as f32 / high as f32;
        let bounds = ((low - 1) as f32 * step, (high + 1) as f32 * step);
        if let Some(values) = samples.get(&graph[*input].name).and_then(floats) {
            beyond.see(&values, bounds);
        }
    }
}

/// `value` in float, and the integers of the same name.
fn pair(graph: &Graph, value: ValueId, output: Option<Output>) -> Pair {
    let name = quoted(&graph[value].name);
    let scale = output.map_or(1.0, |o| o.scale);
    let range = output.map(|o| {
        let (low, high) = o.bounds();
        (low as f64 * scale, high as f64 * scale)
    });
    Pair { reference: name.clone(), found: name, scale, zero_point: 0.0, range }
}

fn has_fixed_batch(graph: &Graph, input: ValueId) -> bool {
    let shape = graph[input].ty.as_ref().and_then(|t| t.shape());
    shape.and_then(|dims| dims.first()?.known()).is_some_and(|batch| batch > 1)
}

/// Samples as the integer network takes them.
pub(crate) fn quantized(
    samples: &Feeds,
    integer: &Model,
    plan: &IntegerPlan,
) -> Result<Feeds, Diagnostics> {
    let graph = &integer.graph;
    let inputs = graph.inputs().iter().zip(&plan.inputs);
    let one = |(input, output): (&ValueId, &Output)| {
        let name = &graph[*input].name;
        let missing = || {
            let text = format!("there are no samples of input `{}`", shown(name));
            Diagnostic::new(Code::EvalInputs, text)
        };
        let sample = samples.get(name).ok_or_else(missing)?;
        let held = graph[*input].ty.as_ref().and_then(ValueType::dtype).unwrap_or(DataType::Float);
        let values = floats(sample).ok_or_else(|| unusable(name))?;
        let (low, high) = output.bounds();
        let (low, high, range) = (low as f32, high as f32, plan.range as f32);
        let step = |x: &f32| (x / range * high).trunc().clamp(low, high);
        let values: Vec<f32> = values.iter().map(step).collect();
        Ok((name.clone(), held_in(held, sample.dims(), values)))
    };
    inputs.map(one).collect::<Result<Feeds, Diagnostic>>().map_err(Into::into)
}

/// Integers in the element type `held`.
fn held_in(held: DataType, dims: &[usize], values: Vec<f32>) -> Tensor {
    fn all<T>(values: &[f32], narrow: fn(f32) -> T) -> Vec<T> {
        values.iter().map(|x| narrow(*x)).collect()
    }
    match held {
        DataType::Uint8 => Tensor::from_vec(dims, all(&values, |x| x as u8)),
        DataType::Int8 => Tensor::from_vec(dims, all(&values, |x| x as i8)),
        DataType::Uint16 => Tensor::from_vec(dims, all(&values, |x| x as u16)),
        DataType::Int16 => Tensor::from_vec(dims, all(&values, |x| x as i16)),
        DataType::Int32 => Tensor::from_vec(dims, all(&values, |x| x as i32)),
        _ => Tensor::from_vec(dims, values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saturates_is_a_share_of_all_values() {
        let mut beyond = Beyond::default();
        beyond.see(&[0.0, 1.0, 1.5, -0.5], (-0.1, 1.1));
        beyond.see(&[0.5, 2.0, 0.5, 0.5], (-0.1, 1.1));
        assert_eq!((beyond.farthest, beyond.share()), (Some(2.0), 37.5));
        let mut none = Beyond::default();
        none.see(&[0.0, 1.0], (0.0, 1.0));
        assert_eq!((none.farthest, none.share()), (None, 0.0));
    }
}
