//! Weights and biases of products as integers.

use crate::place::Placer;
use crate::report::{QuantizedLayer, name_of};
use crate::request::Settings;
use crate::weight::{self, Rule};
use crate::weighted::{Product, Weighted};
use onnxd_ir::{Attr, DataType, Graph, NodeId, Tensor, ValueId};
use onnxd_quant::{Scale, integers};
use std::collections::BTreeMap;

/// A bias of the largest magnitude must stay below this many steps.
const BIAS_STEPS: f64 = 2_147_000_000.0;

/// Steps of a bias where no weight says how large they are to be.
const FREE_STEPS: f64 = (1 << 20) as f64;

/// Weights that are the same for several nodes become integers once.
type Known = BTreeMap<(ValueId, Option<usize>, DataType, [bool; 2]), (ValueId, Vec<f64>)>;

/// Gives all products integers for weights and biases.
pub(crate) fn quantize(placer: &mut Placer, products: &[(Weighted, Settings)]) {
    let mut known = Known::new();
    for (product, settings) in products {
        match quantize_one(placer, product, *settings, &mut known) {
            Ok(()) => {
                let node = &placer.graph[product.node];
                placer.done.layers.push(QuantizedLayer {
                    name: name_of(placer.graph, node),
                    op: node.op.clone(),
                    written_as: format!("{} on {}", node.op, settings.weight),
                    sqnr_db: None,
                });
            }
            Err(why) => {
                let name = name_of(placer.graph, &placer.graph[product.node]);
                placer.done.leave(&name, why);
            }
        }
    }
}

fn quantize_one(
    placer: &mut Placer,
    product: &Weighted,
    settings: Settings,
    known: &mut Known,
) -> Result<(), String> {
    fold_factors(placer.graph, product.node);
    let node = &placer.graph[product.node];
    let (w, bias) = (node.input(Weighted::W), node.input(Weighted::BIAS));
    let w = w.ok_or("it has no weights")?;
    let graph = &placer.graph;
    let weights = graph.constant(w).ok_or("its weights are computed")?.clone();
    let bias = match (product.product, bias) {
        (Product::MatMul, _) | (_, None) => None,
        (_, Some(v)) => Some((v, graph.constant(v).ok_or("its bias is computed")?.clone())),
    };
    let step = placer.scales.get(&product.x).map_or(1.0, |s| s.scale);
    let axis = product.axis.filter(|_| settings.per_channel);
    let rule = Rule::new(settings.weight, settings.symmetric, settings.reduce_range)
        .ok_or_else(|| format!("weights of {} are not supported", settings.weight))?;
    // With 8 bits and more, clipping gains less than what it does to a few outputs.
    let rule = Rule { search: settings.clip_weights || settings.weight.bits() < 8, ..rule };
    let floors = bias.as_ref().map(|(_, bias)| floors(bias, axis.is_some(), step));
    let key = (w, axis, settings.weight, [settings.reduce_range, settings.symmetric]);
    let (to, scales) = match known.get(&key) {
        Some((to, scales)) if fits(scales, floors.as_deref()) => (*to, scales.clone()),
        _ => {
            let made = integers_of(placer, product, (w, &weights), (axis, rule), floors)?;
            known.insert(key, made.clone());
            made
        }
    };
    placer.graph.set_input(product.node, Weighted::W, Some(to));
    if let Some((v, bias)) = bias {
        add_bias(placer, product, (v, &bias), &scales, step)?;
    }
    Ok(())
}

/// Whether weights with these scales leave enough bits for a bias.
fn fits(scales: &[f64], floors: Option<&[(f64, f64)]>) -> bool {
    let floor = |i: usize, floors: &[(f64, f64)]| floors[i.min(floors.len() - 1)].0;
    floors.is_none_or(|floors| scales.iter().enumerate().all(|(i, s)| *s >= floor(i, floors)))
}

/// For each channel, or for all: the smallest scale of weights with which the bias fits 32 bits,
/// and the one to take where all weights are zero.
fn floors(bias: &Tensor, per_channel: bool, step: f64) -> Vec<(f64, f64)> {
    let values = bias.to_reals().map(|r| r.values).unwrap_or_default();
    let floor = |b: f64| (b.abs() / (BIAS_STEPS * step), b.abs() / (FREE_STEPS * step));
    if per_channel && !values.is_empty() {
        return values.into_iter().map(floor).collect();
    }
    vec![floor(values.into_iter().fold(0.0, |most, b| b.abs().max(most)))]
}

/// Weights as integers and back: the value to read, and the scales.
fn integers_of(
    placer: &mut Placer,
    product: &Weighted,
    (w, weights): (ValueId, &Tensor),
    (axis, rule): (Option<usize>, Rule),
    floors: Option<Vec<(f64, f64)>>,
) -> Result<(ValueId, Vec<f64>), String> {
    let mut found = match axis {
        Some(axis) => weight::per_channel(weights, axis, rule),
        None => weight::per_tensor(weights, rule),
    }?;
    if let Some(floors) = floors {
        let raised = |i: usize, s: &Scale, dead: bool| {
            let (least, free) = floors[i.min(floors.len() - 1)];
            let scale = if dead && free > 0.0 { free } else { s.scale.max(least) };
            Scale { scale: f64::from(scale as f32).max(f64::from(f32::MIN_POSITIVE)), ..*s }
        };
        found = found.rescaled(weights, rule, &raised)?;
    }
    let graph = &mut *placer.graph;
    let name = graph[w].name.clone();
    let layers = graph[product.node].layers.clone();
    let scales: Vec<f64> = found.scales.iter().map(|s| s.scale).collect();
    let missing = || "its scales have no tensor".to_owned();
    let step = found.scale_tensor(DataType::Float).ok_or_else(missing)?;
    let zero = found.zero_point_tensor().ok_or_else(missing)?;
    placer.done.tensors.push(found.row(&name));
    let x = graph.add_initializer(&format!("{name}_quantized"), found.integers);
    let step = graph.add_initializer(&format!("{name}_scale"), step);
    let zero = graph.add_initializer(&format!("{name}_zero_point"), zero);
    let ty = graph[w].ty.clone();
    let out = graph.add_value(&format!("{name}_dequantized"), ty);
    placer.dequantize(x, (step, Some(zero)), axis, (out, &name), &layers);
    Ok((out, scales))
}

/// A bias in steps of the products: `scale = input's * weight's`, zero point 0.
fn add_bias(
    placer: &mut Placer,
    product: &Weighted,
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
    let layers = graph[product.node].layers.clone();
    let axis = (steps.rank() == 1).then_some(0);
    let x = graph.add_initializer(&format!("{name}_quantized"), data);
    let step = graph.add_initializer(&format!("{name}_scale"), steps);
    let out = graph.add_value(&format!("{name}_dequantized"), None);
    placer.dequantize(x, (step, None), axis, (out, &name), &layers);
    placer.graph.set_input(product.node, Weighted::BIAS, Some(out));
    Ok(())
}

/// `alpha` goes into the weights and `beta` into the bias, so that both scales are those of the
/// integers.
fn fold_factors(graph: &mut Graph, id: NodeId) {
    for (attribute, slot) in [("alpha", Weighted::W), ("beta", Weighted::BIAS)] {
        let Some(Attr::Float(factor)) = graph[id].attr(attribute).cloned() else { continue };
        if !graph[id].is("Gemm") {
            continue;
        }
        let scaled = graph[id].input(slot).and_then(|v| {
            let reals = graph.constant(v)?.to_reals()?.map(|x| x * f64::from(factor));
            Some((graph[v].name.clone(), reals.to_tensor(DataType::Float)?))
        });
        if let Some((name, scaled)) = scaled.filter(|_| factor != 1.0) {
            let to = graph.add_initializer(&format!("{name}_{attribute}"), scaled);
            graph.set_input(id, slot, Some(to));
        }
        graph.node_mut(id).attrs.retain(|(name, _)| name != attribute);
    }
}
