//! Weights that are rounded by what samples say (see `accuracy`), for ranges found at run time. The
//! float model gets the reals that the learned integers stand for: they lie on the steps that the
//! weights have anyway, so that quantization makes these very integers of them.

use crate::emit::dynamic::Want;
use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::plan::{QuantizeRequest, Settings};
use crate::range::weights::{Quantized, finite};
use crate::report::Report;
use crate::search::{AdaRoundOptions, adaround};
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_ir::ops::{Conv, DequantizeLinear, Gemm, Op};
use onnxd_ir::{At, DataType, Graph, Model, NodeId, Tensor, ValueId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// Weights that were learned, for weighted operators of the main graph.
#[derive(Clone, Debug, Default)]
pub struct AdaRoundWeights {
    /// By weighted operator, the reals to read.
    weights: BTreeMap<NodeId, Tensor>,
    /// Layers that keep the nearest integers, and why.
    pub notes: Vec<Diagnostic>,
}

impl AdaRoundWeights {
    /// Learns the weights of a float model that is to be quantized for ranges found at run time.
    ///
    /// # Errors
    /// Why samples cannot be had, or the model does not run on them.
    pub fn learn(
        model: &Model,
        request: &QuantizeRequest,
        learning: &AdaRoundOptions,
    ) -> Result<AdaRoundWeights, Diagnostics> {
        let mut value = model.clone();
        let weighted = weighted_of(&model.graph, request);
        let nearest = code(&mut value.graph, &weighted);
        let rounding = adaround((model, &value), &weighted, learning)?;
        let learned = weighted.iter().filter_map(|(operator, _)| {
            let weights = model.graph.constant(operator.w)?;
            let integers = rounding.integers(operator.node)?;
            Some((operator.node, reals(weights, nearest.get(&operator.node)?, integers)?))
        });
        let weights = learned.collect();
        Ok(AdaRoundWeights { weights, notes: rounding.notes })
    }

    /// How many multiplications it takes, at the most usual sizes of inputs.
    #[must_use]
    pub fn effort(model: &Model, request: &QuantizeRequest, samples: u64) -> f64 {
        /// Places of a sample that a weighted operator is computed at.
        const PLACES: f64 = 64.0;
        let one = |operator: &WeightedNode| {
            let dims = model.graph.constant(operator.w).map_or(&[][..], Tensor::dims);
            let axis = operator.axis.unwrap_or(dims.len().saturating_sub(1));
            let n = dims.get(axis).copied().unwrap_or(1).max(1) as f64;
            let k = dims.iter().map(|d| *d as f64).product::<f64>() / n;
            let groups = At::<Conv>::find(&model.graph, operator.node).map_or(1, |conv| conv.group);
            k * k * (n + PLACES * samples as f64 * groups.max(1) as f64)
        };
        weighted_of(&model.graph, request).iter().map(|(operator, _)| one(operator)).sum()
    }

    /// Whether nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Writes the weights into the float model that they were learned for, but for weighted operators in
    /// `floats`.
    pub fn apply(&self, model: &mut Model, floats: &BTreeSet<NodeId>) {
        let graph = &mut model.graph;
        let taken = |id: &NodeId| self.weights.contains_key(id) && !floats.contains(id);
        let mut known: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for (node, reals) in self.weights.iter().filter(|(id, _)| taken(id)) {
            let Some(old) = graph[*node].input(WeightedNode::W) else { continue };
            if known.values().any(|new| *new == old) {
                continue;
            }
            let readers = graph.readers(old);
            if readers.iter().all(taken) && readers.len() == graph.uses(old) {
                graph.set_initializer(old, Some(reals.clone()));
                known.insert(old, old);
                continue;
            }
            let name = format!("{}_rounded", graph[old].name);
            let new =
                *known.entry(old).or_insert_with(|| graph.add_initializer(&name, reals.clone()));
            graph.set_input(*node, WeightedNode::W, Some(new));
        }
    }

    /// Says so of the weights in the report.
    pub fn tell(&self, float: &Model, done: &mut Report) {
        let names: BTreeSet<&str> = (self.weights.keys())
            .filter_map(|node| float.graph[*node].input(WeightedNode::W))
            .map(|w| float.graph[w].name.as_str())
            .collect();
        for row in done.tensors.iter_mut().filter(|row| names.contains(row.name.as_str())) {
            row.method.push_str(", AdaRound");
        }
    }
}

/// The weighted operators whose weights can be learned.
fn weighted_of(graph: &Graph, request: &QuantizeRequest) -> Vec<(WeightedNode, Settings)> {
    let of = |id: NodeId| {
        let operator = WeightedNode::at(graph, id).ok()?;
        let settings = request.settings_for(graph, &graph[id])?;
        let float = graph.constant(operator.w).is_some_and(|w| w.dtype() == DataType::Float);
        let plain =
            At::<Gemm>::find(graph, id).is_none_or(|gemm| gemm.alpha == 1.0 && gemm.beta == 1.0);
        let known = ![WeightedOp::Attention, WeightedOp::ConvTranspose].contains(&operator.op);
        (float && plain && known).then_some((operator, settings))
    };
    graph.node_ids().into_iter().filter_map(of).collect()
}

/// Lets weighted operators read their weights as integers and back; the nearest integers of each.
fn code(graph: &mut Graph, weighted: &[(WeightedNode, Settings)]) -> BTreeMap<NodeId, Quantized> {
    let mut known: BTreeMap<(ValueId, Want), (ValueId, Quantized)> = BTreeMap::new();
    let mut nearest = BTreeMap::new();
    for (operator, settings) in weighted {
        let want = Want::from_settings(operator.op, operator.axis, *settings);
        let key = (operator.w, want);
        let (read, found) = match known.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let weights = graph.constant(operator.w);
                let Some(found) = weights.and_then(|w| want.integers(w).ok()) else { continue };
                let Some(read) = read(graph, operator.w, &found) else { continue };
                new.insert((read, found))
            }
        };
        graph.set_input(operator.node, WeightedNode::W, Some(*read));
        nearest.insert(operator.node, found.clone());
    }
    nearest
}

/// Writes integers and what makes reals of them.
fn read(graph: &mut Graph, w: ValueId, found: &Quantized) -> Option<ValueId> {
    let (scale, zero) = (found.scale_tensor(DataType::Float)?, found.zero_point_tensor()?);
    let name = graph[w].name.clone();
    let integers = graph.add_initializer(&format!("{name}_quantized"), found.integers.clone());
    let scale = graph.add_initializer(&format!("{name}_scale"), scale);
    let zero = graph.add_initializer(&format!("{name}_zero_point"), zero);
    let out = graph.add_value(&format!("{name}_dequantized"), None);
    let axis = found.axis.map_or(1, |axis| axis as i64);
    let op = DequantizeLinear {
        x_zero_point: Some(zero),
        axis,
        ..DequantizeLinear::new(integers, scale)
    };
    graph.add_node(op.into_node(out));
    Some(out)
}

/// What learned integers stand for. The ends of each range stay, so that its scale does.
fn reals(weights: &Tensor, nearest: &Quantized, learned: &Tensor) -> Option<Tensor> {
    let values = finite(weights).ok()?;
    let (near, learned) = (nearest.integers.to_i64s()?, learned.to_i64s()?);
    let inner: usize =
        nearest.axis.map_or(values.len(), |axis| weights.dims()[axis + 1..].iter().product());
    let channels = nearest.scales.len();
    let channel = |i: usize| i / inner.max(1) % channels;
    let mut ends = vec![[(0f32, usize::MAX); 2]; channels];
    for (i, x) in values.iter().enumerate() {
        let [low, high] = &mut ends[channel(i)];
        *low = if *x < low.0 { (*x, i) } else { *low };
        *high = if *x > high.0 { (*x, i) } else { *high };
    }
    let real = |(i, q): (usize, &i64)| {
        let end = ends[channel(i)].iter().any(|(_, at)| *at == i);
        nearest.scales[channel(i)].dequantize(if end { near[i] } else { *q }) as f32
    };
    (learned.len() == values.len())
        .then(|| Tensor::from_vec(weights.dims(), learned.iter().enumerate().map(real).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::quantize_dynamic_but;
    use crate::observe::{Feeds, Limits};
    use crate::report::Form;
    use onnxd_ir::text;

    /// Samples whose inputs all say much the same, so that errors of weights add up.
    fn sample(seed: usize) -> Feeds {
        let x = (0..32).map(|i| 1.0 + ((seed * 131 + i * 7919) % 211) as f32 / 1000.0);
        Feeds::from([("x".to_owned(), Tensor::from_vec([2, 16], x.collect::<Vec<f32>>()))])
    }

    #[test]
    fn what_is_learned_is_what_is_written_and_loses_less() {
        let graph = text::parse_graph(
            "g (float[2,16] x) => (float[2,4] y)
             <float[16,8] a, float[4,8] b, float[4] c>
             {
               m = MatMul(x, a)
               r = Relu(m)
               y = Gemm<transB = 1>(r, b, c)
             }",
        );
        let mut float = Model::new(graph.unwrap(), 8, 17);
        for (name, dims) in [("a", vec![16, 8]), ("b", vec![4, 8]), ("c", vec![4])] {
            let count: usize = dims.iter().product();
            let values: Vec<f32> =
                (0..count).map(|i| (i * 7919 % 2003) as f32 / 1e3 - 1.0).collect();
            let v = float.graph.value_named(name).unwrap();
            float.graph.set_initializer(v, Some(Tensor::from_vec(dims, values)));
        }
        let samples = || -> Box<dyn Iterator<Item = Result<Feeds, Diagnostics>>> {
            Box::new((0..40).map(|seed| Ok(sample(seed))))
        };
        for (weight, per_channel) in
            [(DataType::Int8, true), (DataType::Int8, false), (DataType::Uint8, true)]
        {
            let settings = Settings { weight, per_channel, ..Settings::default() };
            let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
            let limits = Limits::default();
            let learning = AdaRoundOptions {
                samples: &samples,
                limits,
                corrected: false,
                together: per_channel,
                go_on: &|_, _| true,
            };
            let learned = AdaRoundWeights::learn(&float, &request, &learning).unwrap();
            assert_eq!(learned.weights.len(), 2);
            let mut base = float.clone();
            learned.apply(&mut base, &BTreeSet::new());
            let db = |base: &Model| {
                let mut made = base.clone();
                quantize_dynamic_but(&mut made, &request, Form::Qdq, &BTreeSet::new()).unwrap();
                let mut apart = (40..60).map(|seed| Ok(sample(seed)));
                crate::accuracy::outputs_db((&float, &made), &mut apart, &[], limits).unwrap()
            };
            assert!(db(&base) > db(&float) + 1.0, "{weight} {} {}", db(&base), db(&float));
            // The steps stay as they are, and no weight is between two of them.
            for (operator, settings) in weighted_of(&float.graph, &request) {
                let want = Want::from_settings(operator.op, operator.axis, settings);
                let of = |model: &Model| want.integers(model.graph.constant(operator.w).unwrap());
                let (old, new) = (of(&float).unwrap(), of(&base).unwrap());
                let steps = |q: &Quantized| q.scales.iter().map(|s| s.scale).collect::<Vec<_>>();
                for (a, b) in steps(&old).iter().zip(steps(&new)) {
                    assert!((a - b).abs() <= 1e-6 * a, "{a} {b}");
                }
                let both = old.integers.to_i64s().unwrap().into_iter();
                let both = both.zip(new.integers.to_i64s().unwrap());
                assert!(both.clone().all(|(a, b)| (a - b).abs() <= 1));
                assert!(both.clone().any(|(a, b)| a != b));
            }
            // Products that stay in float keep their weights.
            let mut none = float.clone();
            learned.apply(&mut none, &float.graph.node_ids().into_iter().collect());
            let kept = |model: &Model| {
                let all = weighted_of(&model.graph, &request).into_iter();
                all.map(|(p, _)| model.graph.constant(p.w).cloned().unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(kept(&none), kept(&float));
        }
    }
}
