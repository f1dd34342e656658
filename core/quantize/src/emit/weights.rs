//! Weights and biases of weighted operators as integers.

use crate::emit::placer::{Placer, half_step};
use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::plan::request::Settings;
use crate::range::vectors::{add_magnitudes, sum_magnitudes};
use crate::range::weights::{Rule, finite, per_channel, per_tensor};
use crate::range::{Scale, integers};
use onnxd_ir::{Attr, DataType, Graph, NodeId, Tensor, ValueId};
use onnxd_proto::onnxd::QuantizedLayer;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Accumulators must stay below this many steps, which 32 bits hold.
const SUM_MAX: f64 = 2_147_000_000.0;

/// Steps of a bias where no weight says how large they are to be.
const FREE_STEPS: f64 = (1 << 20) as f64;

/// Weights that are the same for several nodes are quantized once.
type QuantizedOnce = BTreeMap<(ValueId, Option<usize>, DataType, [bool; 3]), (ValueId, Vec<f64>)>;

/// Gives all weighted operators integers for weights and biases.
pub(crate) fn quantize(placer: &mut Placer, weighted: &[(WeightedNode, Settings)]) {
    let mut known = QuantizedOnce::new();
    for (operator, settings) in weighted {
        let name = placer.name(operator.node);
        match quantize_one(placer, operator, *settings, &mut known) {
            Ok(()) => {
                let op = placer.graph[operator.node].op.clone();
                let above = settings.held_above() && operator.op != WeightedOp::Normalization;
                let held = if above { DataType::Uint8 } else { settings.weight };
                let rescaling = format!("{op} on {held}");
                placer.done.layers.push(QuantizedLayer {
                    name,
                    op,
                    rescaling,
                    ..QuantizedLayer::default()
                });
            }
            Err(why) => placer.done.leave(&name, why),
        }
    }
}

fn quantize_one(
    placer: &mut Placer,
    operator: &WeightedNode,
    settings: Settings,
    quantized_once: &mut QuantizedOnce,
) -> Result<(), String> {
    fold_factors(placer.graph, operator.node);
    let node = &placer.graph[operator.node];
    let (w, bias) = (node.input(WeightedNode::W), node.input(WeightedNode::BIAS));
    let w = w.ok_or("it has no weights")?;
    let graph = &placer.graph;
    let weights = aligned(graph.constant(w).ok_or("its weights are computed")?);
    let bias = match (operator.op, bias) {
        (WeightedOp::Attention | WeightedOp::MatMul, _) | (_, None) => None,
        (_, Some(v)) => Some((v, graph.constant(v).ok_or("its bias is computed")?.clone())),
    };
    // The steps of sums are too small for float16: the bias stays as it is.
    let bias = bias.filter(|(_, bias)| bias.dtype() == DataType::Float);
    let step = placer.scales.get(&operator.x).map_or(1.0, |s| s.scale);
    let axis = operator.axis.filter(|_| settings.per_channel);
    let rule = Rule::new(settings.weight, settings.symmetric, settings.reduce_range)
        .ok_or_else(|| format!("weights of {} are not supported", settings.weight))?;
    // With 8 bits and more, clipping gains less than what it does to a few outputs.
    let rule = Rule { search: settings.clip_weights || settings.weight.bits() < 8, ..rule };
    let sizes = sizes(operator, &weights)?;
    let reach = reach(settings);
    let biases = bias.as_ref().and_then(|(_, b)| b.to_reals()).map(|r| r.values);
    let floors = floors(&sizes, &biases.unwrap_or_default(), axis.is_some(), (step, reach));
    let above = settings.held_above() && operator.op != WeightedOp::Normalization;
    let key = (w, axis, settings.weight, [settings.reduce_range, settings.symmetric, above]);
    let (to, scales) = match quantized_once.get(&key) {
        Some((to, scales)) if fits(scales, &floors) => (*to, scales.clone()),
        _ => {
            let made = integers_of(placer, operator, (w, &weights), (axis, rule, above), &floors)?;
            quantized_once.insert(key, made.clone());
            made
        }
    };
    placer.graph.set_input(operator.node, WeightedNode::W, Some(to));
    if let Some((v, bias)) = bias {
        add_bias(placer, operator, (v, &bias), &scales, step)?;
    }
    Ok(())
}

/// Floats of a mapped file may lie at odd places, where each look at them would take a copy.
fn aligned(weights: &Tensor) -> Tensor {
    match weights.as_slice::<f32>() {
        Some(Cow::Owned(copy)) => Tensor::from_vec(weights.dims(), copy),
        _ => weights.clone(),
    }
}

/// What is known of a channel's weights, or of all.
#[derive(Clone, Copy, Default)]
struct ChannelSums {
    /// Sum of magnitudes.
    sum: f64,
    /// How many are added up.
    count: f64,
}

/// How small the scale of weights may be.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// With it sums fit.
    least: f64,
    /// The one to take where all weights are zero.
    free: f64,
    /// Whether they are.
    dead: bool,
}

impl Floor {
    fn raise(self, scale: f64) -> f64 {
        let Floor { least, free, dead } = self;
        let scale = if dead && free > 0.0 { free } else { scale.max(least) };
        f64::from(scale as f32).max(f64::from(f32::MIN_POSITIVE))
    }
}

/// Whether weights with these scales leave enough bits for sums.
fn fits(scales: &[f64], floors: &[Floor]) -> bool {
    scales.iter().enumerate().all(|(i, s)| *s >= floor_of(floors, i).least)
}

/// That of a channel, or the last, which is that of all where there is one.
fn floor_of(floors: &[Floor], i: usize) -> Floor {
    floors.get(i).or(floors.last()).copied().unwrap_or_default()
}

/// The size of the weights of each output channel. Where groups or further axes share an index,
/// it is that of all together.
fn sizes(operator: &WeightedNode, weights: &Tensor) -> Result<Vec<ChannelSums>, String> {
    let (values, dims) = (finite(weights)?, weights.dims());
    let axis = operator.axis.unwrap_or(match operator.op {
        WeightedOp::MatMul => dims.len().saturating_sub(1),
        _ => 1,
    });
    let channels = dims.get(axis).copied().unwrap_or(1);
    let inner = dims.iter().skip(axis + 1).product::<usize>().max(1);
    let mut sums = vec![0.0; channels];
    for outer in values.chunks(channels.saturating_mul(inner).max(1)) {
        match inner {
            1 => add_magnitudes(&mut sums, outer),
            _ => sums
                .iter_mut()
                .zip(outer.chunks(inner))
                .for_each(|(sum, run)| *sum += sum_magnitudes(run)),
        }
    }
    let count = (values.len() / channels.max(1)) as f64;
    Ok(sums.into_iter().map(|sum| ChannelSums { sum, count }).collect())
}

/// The largest integer that a weight is multiplied with, if integers are multiplied.
fn reach(settings: Settings) -> f64 {
    let bytes = settings.activation.bits() == 8 && settings.weight.bits() <= 8;
    if bytes { 255.0 } else { 0.0 }
}

/// For each channel, or for all: how small scales may be so that `reach` times every integer of the
/// weights, and the bias, add up in 32 bits.
fn floors(
    sizes: &[ChannelSums],
    bias: &[f64],
    per_channel: bool,
    (step, reach): (f64, f64),
) -> Vec<Floor> {
    let floor = |(i, size): (usize, &ChannelSums)| {
        let bias = bias.get(i).or(bias.last()).map_or(0.0, |b| b.abs());
        // Integers of weights are up to half a step larger than these.
        let rounding = (reach * size.count * 0.5).min(SUM_MAX / 2.0);
        Floor {
            least: (bias / step + reach * size.sum) / (SUM_MAX - rounding),
            free: bias / (FREE_STEPS * step),
            dead: size.sum == 0.0,
        }
    };
    let each = sizes.iter().enumerate().map(floor);
    if per_channel {
        return each.collect();
    }
    let largest = |a: Floor, b: Floor| Floor {
        least: a.least.max(b.least),
        free: a.free.max(b.free),
        dead: a.dead && b.dead,
    };
    vec![each.reduce(largest).unwrap_or_default()]
}

/// Weights as integers and back: the value to read, and the scales.
fn integers_of(
    placer: &mut Placer,
    operator: &WeightedNode,
    (w, weights): (ValueId, &Tensor),
    (axis, rule, above): (Option<usize>, Rule, bool),
    floors: &[Floor],
) -> Result<(ValueId, Vec<f64>), String> {
    let mut integers = match axis {
        Some(axis) => per_channel(weights, axis, rule),
        None => per_tensor(weights, rule),
    }?;
    let half = weights.dtype() == DataType::Float16;
    let raised = |i: usize, s: &Scale| {
        let scale = floor_of(floors, i).raise(s.scale);
        Scale { scale: if half { half_step(scale) } else { scale }, ..*s }
    };
    integers = integers.rescaled(weights, rule, &raised)?;
    if above {
        integers = integers.above();
    }
    let graph = &mut *placer.graph;
    let name = graph[w].name.clone();
    let layers = graph[operator.node].layers.clone();
    let scales: Vec<f64> = integers.scales.iter().map(|s| s.scale).collect();
    let missing = || "its scales have no tensor".to_owned();
    let step = integers.scale_tensor(weights.dtype()).ok_or_else(missing)?;
    let zero = integers.zero_point_tensor().ok_or_else(missing)?;
    placer.done.tensors.push(integers.row(&name));
    let x = graph.add_initializer(&format!("{name}_quantized"), integers.integers);
    let step = graph.add_initializer(&format!("{name}_scale"), step);
    let zero = graph.add_initializer(&format!("{name}_zero_point"), zero);
    let ty = graph[w].ty.clone();
    let out = graph.add_value(&format!("{name}_dequantized"), ty);
    placer.dequantize(x, (step, Some(zero)), axis, (out, &name), &layers);
    Ok((out, scales))
}

/// A bias with the scale of the accumulator: `scale = input's * weight's`, zero point 0.
fn add_bias(
    placer: &mut Placer,
    operator: &WeightedNode,
    (v, bias): (ValueId, &Tensor),
    scales: &[f64],
    step: f64,
) -> Result<(), String> {
    let values = bias.to_reals().ok_or("its bias holds no numbers")?.values;
    // A bias of one number goes to every channel.
    let count = values.len().max(scales.len());
    let at = |list: &[f64], i: usize| list[i.min(list.len() - 1)];
    let steps: Vec<f32> = scales.iter().map(|s| (s * step) as f32).collect();
    let rounded = (0..count).map(|i| {
        let step = f64::from(steps[i.min(steps.len() - 1)]);
        (at(&values, i) / step).round_ties_even() as i64
    });
    let rounded: Vec<i64> = rounded.collect();
    let data = integers(DataType::Int32, &[count], &rounded).ok_or("its bias has no tensor")?;
    let steps = match steps[..] {
        [step] => Tensor::scalar(step),
        _ => Tensor::vector(steps),
    };
    let graph = &mut *placer.graph;
    let name = graph[v].name.clone();
    let layers = graph[operator.node].layers.clone();
    let axis = (steps.rank() == 1).then_some(0);
    let x = graph.add_initializer(&format!("{name}_quantized"), data);
    let step = graph.add_initializer(&format!("{name}_scale"), steps);
    let out = graph.add_value(&format!("{name}_dequantized"), None);
    placer.dequantize(x, (step, None), axis, (out, &name), &layers);
    placer.graph.set_input(operator.node, WeightedNode::BIAS, Some(out));
    Ok(())
}

/// `alpha` goes into the weights and `beta` into the bias, so that both scales are those of the
/// integers.
fn fold_factors(graph: &mut Graph, id: NodeId) {
    for (attribute, slot) in [("alpha", WeightedNode::W), ("beta", WeightedNode::BIAS)] {
        let Some(Attr::Float(factor)) = graph[id].attr(attribute).cloned() else { continue };
        if !graph[id].is("Gemm") {
            continue;
        }
        let scaled = graph[id].input(slot).and_then(|v| {
            let data = graph.constant(v)?;
            let reals = data.to_reals()?.map(|x| x * f64::from(factor));
            Some((graph[v].name.clone(), reals.to_tensor(data.dtype())?))
        });
        if let Some((name, scaled)) = scaled.filter(|_| factor != 1.0) {
            let to = graph.add_initializer(&format!("{name}_{attribute}"), scaled);
            graph.set_input(id, slot, Some(to));
        }
        graph.node_mut(id).attrs.retain(|(name, _)| name != attribute);
    }
}
