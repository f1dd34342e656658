//! Runs the float network and the one in integers side by side, to see what quantization costs.

use crate::plan::{Network, Output, Plan};
use crate::statistics::{Feeds, floats, unusable};
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::eval::{Builtin, quoted};
use onnxd_plugin_sdk::ir::{DataType, Graph, Model, Tensor, ValueId, ValueType};
use onnxd_quant::{Agreement, Limits, Pair, agreements};

/// Samples that both run on, at most.
const SAMPLES_MAX: u64 = 32;

/// What was measured.
pub(crate) struct Measured {
    /// Samples that both ran on.
    pub(crate) samples: u64,
    /// Per cell.
    pub(crate) cells: Vec<Agreement>,
    /// The value of an input that lies farthest beyond what its integers mean, if one does.
    pub(crate) beyond: Option<f32>,
}

/// Compares the results of all cells on the first of the samples that calibrated, `most` at most.
/// `integer` computes them in integers, or in floats that hold integers.
pub(crate) fn measure(
    network: &Network,
    plan: &Plan,
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
    let (mut done, mut beyond) = (0, None);
    let mut both = cx.calibration().batches(size, samples).map(|batch| {
        cx.progress(done, samples)?;
        done += size as u64;
        let float = batch?;
        let integers = quantized(&float, integer, plan)?;
        beyond = farthest(beyond.into_iter().chain(outside(&float, integer, plan)));
        Ok((float, integers))
    });
    let stop = || cx.is_stopped();
    let limits = Limits { stop: Some(&stop), ..Limits::default() };
    let models = (&network.model, integer);
    let cells = agreements(&Builtin, models, &pairs, &mut both, (&[], limits))?;
    drop(both);
    Ok(Measured { samples, cells, beyond })
}

fn farthest(values: impl Iterator<Item = f32>) -> Option<f32> {
    values.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// The value of an input that lies farthest beyond its integers, by more than a step.
fn outside(samples: &Feeds, integer: &Model, plan: &Plan) -> Option<f32> {
    let graph = &integer.graph;
    let inputs = graph.inputs().iter().zip(&plan.inputs);
    let one = |(input, output): (&ValueId, &Output)| {
        let (low, high) = output.bounds();
        let step = plan.range as f32 / high as f32;
        let (low, high) = ((low - 1) as f32 * step, (high + 1) as f32 * step);
        let values = floats(samples.get(&graph[*input].name)?)?;
        farthest(values.iter().copied().filter(|x| *x < low || *x > high))
    };
    farthest(inputs.filter_map(one))
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
    plan: &Plan,
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
