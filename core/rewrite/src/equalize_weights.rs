//! Cross-layer equalization (arXiv 1906.04721): evens out the weight ranges of consecutive layers, because one scale
//! per tensor then wastes less resolution. The function computed stays the same.
//!
//! For output channel `o` of the first layer and the inputs that it feeds in the second:
//! `r1 = max|w1[o]|`, `r2 = max|w2[:, o]|`, `s = sqrt(r1 * r2) / r1`, then `w1[o] *= s`, `b1[o] *= s`, `w2[:, o] /= s`.
//! That is exact where everything between the two layers commutes with a positive factor per channel.

use crate::{Pass, PassContext, REALS_MAX, Skip};
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::ops::{Conv, Gemm};
use onnxd_ir::{At, Attr, Graph, Model, NodeId, Reals, Tensor, ValueId};

/// The pass `equalize-weights`.
pub struct EqualizeWeights {
    /// Layers whose channels would all change by less than this factor are left alone.
    pub ratio_min: f64,
}

impl Default for EqualizeWeights {
    fn default() -> Self {
        EqualizeWeights { ratio_min: 1.001 }
    }
}

impl Pass for EqualizeWeights {
    fn name(&self) -> &'static str {
        "equalize-weights"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let graph = &mut model.graph;
        for id in graph.topological().unwrap_or_default() {
            if cx.fuel.is_empty() {
                break;
            }
            let Some(first) = WeightedLayer::at(graph, id) else { continue };
            match equalize(graph, &first, self.ratio_min) {
                Ok(()) => cx.rewrote(),
                Err(reason) => cx.skip(&graph[first.out].name.clone(), reason),
            }
        }
        Ok(())
    }
}

/// A convolution or a fully connected layer.
struct WeightedLayer {
    node: NodeId,
    x: ValueId,
    w: ValueId,
    w_slot: usize,
    bias: Option<ValueId>,
    out: ValueId,
    /// Axis of the weights that runs over outputs.
    out_axis: usize,
    group: usize,
    /// Whether it reads its input with channels and batch exchanged.
    transposed: bool,
}

impl WeightedLayer {
    fn at(graph: &Graph, id: NodeId) -> Option<WeightedLayer> {
        if let Some(c) = At::<Conv>::find(graph, id) {
            let (x, w, bias, out) = (c.x, c.w, c.b, c.out);
            let group = usize::try_from(c.group).ok().filter(|g| *g > 0)?;
            let (out_axis, transposed) = (0, false);
            return Some(WeightedLayer {
                node: id,
                x,
                w,
                w_slot: 1,
                bias,
                out,
                out_axis,
                group,
                transposed,
            });
        }
        let fc = At::<Gemm>::find(graph, id)?;
        let out_axis = usize::from(fc.transB == 0);
        let (x, w, bias, out) = (fc.a, fc.b, fc.c, fc.out);
        let (group, transposed) = (1, fc.transA != 0);
        Some(WeightedLayer { node: id, x, w, w_slot: 1, bias, out, out_axis, group, transposed })
    }

    fn weights<'g>(&self, graph: &'g Graph) -> Result<&'g Tensor, Skip> {
        let name = || &graph[self.w].name;
        let found = graph.constant(self.w).filter(|t| t.dtype().is_float());
        let Some(found) = found else {
            return Skip::because(format!("`{}` is not a constant of a float type", name()));
        };
        let is_conv = graph[self.node].op == "Conv";
        let fits = match found.rank() {
            2 => !is_conv,
            rank => is_conv && rank > 2,
        };
        if !fits || found.is_empty() || found.dims()[0] % self.group.max(1) != 0 {
            let (name, dims) = (name(), found.dims());
            return Skip::because(format!("`{name}` has the unsuitable shape {dims:?}"));
        }
        if found.len() > REALS_MAX {
            return Skip::because(format!("`{}` has more than {REALS_MAX} elements", name()));
        }
        Ok(found)
    }
}

fn equalize(graph: &mut Graph, first: &WeightedLayer, ratio_min: f64) -> Result<(), Skip> {
    let second = follow(graph, first.out)?;
    if second.w == first.w {
        return Skip::because("both layers share their weights");
    }
    let (w1, w2) = (first.weights(graph)?, second.weights(graph)?);
    let channels = w1.dims()[first.out_axis];
    let outputs = Channels::outputs(w1.dims(), first);
    let inputs = Channels::inputs(w2.dims(), &second, channels)?;
    let (r1, r2) = (outputs.ranges(w1, channels), inputs.ranges(w2, channels));
    let s: Vec<f64> = r1
        .iter()
        .zip(&r2)
        .map(|(r1, r2)| if *r1 > 0.0 && *r2 > 0.0 { (r1 * r2).sqrt() / r1 } else { 1.0 })
        .collect();
    if s.iter().all(|s| (1.0 / ratio_min..ratio_min).contains(s)) {
        return Skip::because("the ranges are even already");
    }
    let unusual = || Skip("weights of an unusual type".into());
    let w2 = inputs.divided(w2, &s).ok_or_else(unusual)?;
    let w1 = w1.scaled_along(first.out_axis, &s).ok_or_else(unusual)?;
    let gain = Reals { dims: vec![channels], values: s };
    let bias = match first.bias {
        None => None,
        Some(b) => {
            let old = graph.constant(b).filter(|b| b.dims() == gain.dims);
            let scaled = old.and_then(|b| b.scaled_along(0, &gain.values));
            let scaled =
                scaled.ok_or_else(|| Skip("the bias is not one constant per channel".into()))?;
            Some((first.node, 2, b, scaled))
        }
    };
    let weights =
        [(first.node, first.w_slot, first.w, w1), (second.node, second.w_slot, second.w, w2)];
    put(graph, weights.into_iter().chain(bias).collect())
}

/// Replaces inputs of nodes, (node, slot, old constant, new elements): all, or none if one of the elements is beyond
/// its type, as the bias of a channel with tiny weights may be.
fn put(graph: &mut Graph, scaled: Vec<(NodeId, usize, ValueId, Tensor)>) -> Result<(), Skip> {
    if let Some((_, _, old, _)) = scaled.iter().find(|(_, _, _, data)| !data.is_finite()) {
        let name = &graph[*old].name;
        return Skip::because(format!("a scaled element of `{name}` is not finite"));
    }
    for (node, slot, old, data) in scaled {
        let name = format!("{}_equalized", graph[old].name);
        let new = graph.add_initializer(&name, data);
        graph.set_input(node, slot, Some(new));
    }
    Ok(())
}

/// The next layer, if everything on the way commutes with a positive factor per channel and nothing branches off.
fn follow(graph: &Graph, mut v: ValueId) -> Result<WeightedLayer, Skip> {
    loop {
        let uses = graph.uses(v);
        let [reader] = graph.readers(v) else {
            return Skip::because(format!("`{}` is read {uses} times", graph[v].name));
        };
        if uses != 1 {
            return Skip::because(format!("`{}` is a graph output", graph[v].name));
        }
        if let Some(layer) = WeightedLayer::at(graph, *reader) {
            return match layer.x == v {
                true if layer.transposed => {
                    Skip::because(format!("`{}` is transposed by the next layer", graph[v].name))
                }
                true => Ok(layer),
                false => {
                    Skip::because(format!("`{}` is a weight of the next layer", graph[v].name))
                }
            };
        }
        let node = &graph[*reader];
        const HOMOGENEOUS: [&str; 8] = [
            "Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool",
            "Flatten", "Identity",
        ];
        let passes = node.is_standard() && HOMOGENEOUS.contains(&node.op.as_str());
        if !passes || node.input(0) != Some(v) || node.outputs.len() != 1 {
            return Skip::because(format!("{} stands between the two layers", node.op));
        }
        if node.op == "Flatten" && !matches!(node.attr("axis"), None | Some(Attr::Int(1))) {
            return Skip::because("Flatten does not keep the channels together");
        }
        v = node.output(0).ok_or_else(|| Skip("its result is not used".into()))?;
    }
}

/// Where weights have the channels of the first layer: blocks of `count` runs, each of one channel. The first of a
/// block is the one after the last of the block before, until `repeat` blocks have been at the same channels.
struct Channels {
    count: usize,
    run: usize,
    repeat: usize,
}

impl Channels {
    /// That the weights of the first layer compute.
    fn outputs(w1: &[usize], first: &WeightedLayer) -> Channels {
        let run = w1[first.out_axis + 1..].iter().product();
        Channels { count: w1[first.out_axis], run, repeat: usize::MAX }
    }

    /// That the weights of the second layer read.
    fn inputs(w2: &[usize], second: &WeightedLayer, channels: usize) -> Result<Channels, Skip> {
        let kernel: usize = w2[2..].iter().product();
        let [d0, d1] = [w2[0], w2[1]];
        if w2.len() == 2 {
            let inputs = if second.out_axis == 0 { d1 } else { d0 };
            if inputs % channels != 0 {
                return Skip::because(format!("{channels} channels meet {inputs} inputs"));
            }
            // A flattened feature map is a block of consecutive inputs.
            let block = inputs / channels;
            let run = if second.out_axis == 0 { block } else { d1 * block };
            return Ok(Channels { count: channels, run, repeat: usize::MAX });
        }
        if d1 * second.group != channels {
            return Skip::because(format!("{channels} channels meet {}", d1 * second.group));
        }
        Ok(Channels { count: d1, run: kernel, repeat: d0 / second.group })
    }

    /// The first channel of a block.
    fn first(&self, block: usize) -> usize {
        block / self.repeat.max(1) * self.count
    }

    fn block(&self) -> usize {
        (self.count * self.run).max(1)
    }

    /// The largest magnitude of each channel.
    fn ranges(&self, weights: &Tensor, channels: usize) -> Vec<f64> {
        if let Some(floats) = weights.as_slice::<f32>() {
            let mut ranges = vec![0f32; channels];
            for (block, part) in floats.chunks(self.block()).enumerate() {
                let runs = part.chunks(self.run.max(1)).zip(&mut ranges[self.first(block)..]);
                runs.for_each(|(run, range)| {
                    *range = run
                        .iter()
                        .fold(*range, |most, x| if x.abs() > most { x.abs() } else { most });
                });
            }
            return ranges.into_iter().map(f64::from).collect();
        }
        let mut ranges = vec![0f64; channels];
        let reals = weights.to_reals().map(|r| r.values).unwrap_or_default();
        for (block, part) in reals.chunks(self.block()).enumerate() {
            let runs = part.chunks(self.run.max(1)).zip(&mut ranges[self.first(block)..]);
            runs.for_each(|(run, range)| {
                *range = run.iter().fold(*range, |most, x| most.max(x.abs()));
            });
        }
        ranges
    }

    /// The weights, each divided by what its channel has; `None` if they are not of a float type.
    fn divided(&self, weights: &Tensor, by: &[f64]) -> Option<Tensor> {
        if let Some(floats) = weights.as_slice::<f32>() {
            let mut found = Vec::with_capacity(floats.len());
            for (block, part) in floats.chunks(self.block()).enumerate() {
                for (run, by) in part.chunks(self.run.max(1)).zip(&by[self.first(block)..]) {
                    found.extend(run.iter().map(|x| (f64::from(*x) / by) as f32));
                }
            }
            return Some(Tensor::from_vec(weights.dims(), found));
        }
        let mut reals = weights.to_reals()?;
        for (block, part) in reals.values.chunks_mut(self.block()).enumerate() {
            let runs = part.chunks_mut(self.run.max(1)).zip(&by[self.first(block)..]);
            runs.for_each(|(run, by)| run.iter_mut().for_each(|x| *x /= by));
        }
        reals.to_tensor(weights.dtype())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_pass_same, check_pass_skip};

    #[test]
    fn convolution_into_fully_connected_by_blocks() {
        let model = check_pass_same(
            &EqualizeWeights::default(),
            "g (float[1,1,2,2] x) => (float[1,2] y)
             <float[2,1,1,1] w = {0.01, 100.0}, float[2] b = {0.5, -1.0},
              float[2,8] v = {1.0, 2.0, 3.0, 4.0, 0.1, 0.2, 0.3, 0.4, 5.0, 6.0, 7.0, 8.0, 0.5, 0.6, 0.7, 0.8}>
             {
               c = Conv(x, w, b)
               r = Relu(c)
               f = Flatten(r)
               y = Gemm<transB = 1>(f, v)
             }",
        );
        let w = model.graph.value_named("w_equalized").unwrap();
        let w = model.graph.constant(w).unwrap().to_reals().unwrap().values;
        assert!((w[0] - (0.01f64 * 8.0).sqrt()).abs() < 1e-6);
        assert!((w[1] - (100.0f64 * 0.8).sqrt()).abs() < 1e-5);
    }

    #[test]
    fn depthwise_convolution() {
        check_pass_same(
            &EqualizeWeights::default(),
            "g (float[1,1,3,3] x) => (float[1,2,3,3] y)
             <float[2,1,1,1] w = {0.01, 100.0}, float[2,1,1,1] v = {3.0, 0.2}>
             {
               c = Conv(x, w)
               y = Conv<group = 2>(c, v)
             }",
        );
    }

    #[test]
    fn channels_that_end_up_elsewhere_are_left_alone() {
        for (flatten, second, reason) in [
            ("Flatten<axis = 2>(c)", "Gemm(f, v)", "Flatten does not keep the channels together"),
            ("Flatten(c)", "Gemm<transA = 1>(f, u)", "`f` is transposed by the next layer"),
        ] {
            let graph = format!(
                "g (float[2,1,1,2] x) => (float[a,b] y)
                 <float[2,1,1,1] w = {{0.01, 100.0}}, float[2,2] v = {{1.0, 2.0, 3.0, 4.0}},
                  float[2,1] u = {{3.0, 0.5}}>
                 {{ c = Conv(x, w) f = {flatten} y = {second} }}"
            );
            check_pass_skip(&EqualizeWeights::default(), reason, &graph);
        }
    }

    #[test]
    fn a_bias_that_would_overflow_keeps_the_layers_as_they_are() {
        check_pass_skip(
            &EqualizeWeights::default(),
            "a scaled element of `b` is not finite",
            "g (float16[1,1,1,1] x) => (float16[1,1,1,1] y)
             <float16[1,1,1,1] w = {0.00001}, float16[1] b = {1000.0}, float16[1,1,1,1] v = {1.0}>
             {
               c = Conv(x, w, b)
               y = Conv(c, v)
             }",
        );
    }

    #[test]
    fn a_clip_does_not_commute() {
        check_pass_skip(
            &EqualizeWeights::default(),
            "Clip stands between the two layers",
            "g (float[1,1,3,3] x) => (float[1,1,3,3] y)
             <float[1,1,1,1] w = {0.01}, float[1,1,1,1] v = {3.0}, float lo = {0.0}, float hi = {6.0}>
             {
               c = Conv(x, w)
               r = Clip(c, lo, hi)
               y = Conv(r, v)
             }",
        );
    }
}
