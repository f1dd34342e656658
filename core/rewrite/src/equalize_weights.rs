//! Cross-layer equalization (arXiv 1906.04721): evens out the weight ranges of consecutive layers, because one scale
//! per tensor then wastes less resolution. The function computed stays the same.
//!
//! For output channel `o` of the first layer and the inputs that it feeds in the second:
//! `r1 = max|w1[o]|`, `r2 = max|w2[:, o]|`, `s = sqrt(r1 * r2) / r1`, then `w1[o] *= s`, `b1[o] *= s`, `w2[:, o] /= s`.
//! That is exact where everything between the two layers commutes with a positive factor per channel.

use crate::{Pass, PassContext, REALS_MAX, Skip};
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::ops::{Conv, Gemm};
use onnxd_ir::{At, Attr, DataType, Graph, Model, NodeId, Reals, Tensor, ValueId};

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

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostic> {
        let graph = &mut model.graph;
        for id in graph.topological().unwrap_or_default() {
            if cx.fuel.is_empty() {
                break;
            }
            let Some(first) = Layer::at(graph, id) else { continue };
            match equalize(graph, &first, self.ratio_min) {
                Ok(()) => cx.rewrote(),
                Err(reason) => cx.skip(&graph[first.out].name.clone(), reason),
            }
        }
        Ok(())
    }
}

/// A convolution or a fully connected layer.
struct Layer {
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

impl Layer {
    fn at(graph: &Graph, id: NodeId) -> Option<Layer> {
        if let Some(c) = At::<Conv>::find(graph, id) {
            let (x, w, bias, out) = (c.x, c.w, c.b, c.out);
            let group = usize::try_from(c.group).ok().filter(|g| *g > 0)?;
            let (out_axis, transposed) = (0, false);
            return Some(Layer {
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
        Some(Layer { node: id, x, w, w_slot: 1, bias, out, out_axis, group, transposed })
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

fn equalize(graph: &mut Graph, first: &Layer, ratio_min: f64) -> Result<(), Skip> {
    let second = follow(graph, first.out)?;
    if second.w == first.w {
        return Skip::because("both layers share their weights");
    }
    let (w1, w2) = (first.weights(graph)?, second.weights(graph)?);
    let channels = w1.dims()[first.out_axis];
    let inner: usize = w1.dims()[first.out_axis + 1..].iter().product();
    let r1 = ranges(w1, channels, &|i| i / inner % channels);
    let input_of = input_of(w2.dims(), &second, channels)?;
    let r2 = ranges(w2, channels, &input_of);
    let s: Vec<f64> = r1
        .iter()
        .zip(&r2)
        .map(|(r1, r2)| if *r1 > 0.0 && *r2 > 0.0 { (r1 * r2).sqrt() / r1 } else { 1.0 })
        .collect();
    if s.iter().all(|s| (1.0 / ratio_min..ratio_min).contains(s)) {
        return Skip::because("the ranges are even already");
    }
    let reals = |w: &Tensor| w.to_reals().ok_or_else(|| Skip("weights of an unusual type".into()));
    let (w1, w2) = (reals(w1)?, reals(w2)?);
    let gain = Reals { dims: vec![channels], values: s };
    let scaled2 = w2.values.iter().enumerate().map(|(i, x)| x / gain.values[input_of(i)]).collect();
    let w2 = Reals { dims: w2.dims.clone(), values: scaled2 };
    let bias = match first.bias {
        None => None,
        Some(b) => {
            let old = graph.constant(b).and_then(Tensor::to_reals).filter(|r| r.dims == gain.dims);
            Some((b, old.ok_or_else(|| Skip("the bias is not one constant per channel".into()))?))
        }
    };
    let mut scaled = vec![
        (first.node, first.w_slot, first.w, w1.scale_axis(first.out_axis, &gain)),
        (second.node, second.w_slot, second.w, w2),
    ];
    scaled.extend(bias.map(|(b, old)| (first.node, 2, b, &old * &gain)));
    put(graph, &scaled)
}

/// Replaces inputs of nodes, (node, slot, old constant, new elements): all, or none if one of the elements is beyond
/// its type, as the bias of a channel with tiny weights may be.
fn put(graph: &mut Graph, scaled: &[(NodeId, usize, ValueId, Reals)]) -> Result<(), Skip> {
    let rounded = |(node, slot, old, data): &(NodeId, usize, ValueId, Reals)| {
        let dtype = graph.constant(*old).map(Tensor::dtype);
        let data = dtype.and_then(|t| data.to_tensor(t));
        let finite =
            |t: &Tensor| t.to_reals().is_some_and(|r| r.values.iter().all(|x| x.is_finite()));
        let beyond = || Skip(format!("a scaled element of `{}` is not finite", graph[*old].name));
        Ok((*node, *slot, *old, data.filter(finite).ok_or_else(beyond)?))
    };
    let rounded: Vec<_> = scaled.iter().map(rounded).collect::<Result<_, Skip>>()?;
    for (node, slot, old, data) in rounded {
        let name = format!("{}_equalized", graph[old].name);
        let new = graph.add_initializer(&name, data);
        graph.set_input(node, slot, Some(new));
    }
    Ok(())
}

/// The next layer, if everything on the way commutes with a positive factor per channel and nothing branches off.
fn follow(graph: &Graph, mut v: ValueId) -> Result<Layer, Skip> {
    loop {
        let uses = graph.uses(v);
        let [reader] = graph.readers(v) else {
            return Skip::because(format!("`{}` is read {uses} times", graph[v].name));
        };
        if uses != 1 {
            return Skip::because(format!("`{}` is a graph output", graph[v].name));
        }
        if let Some(layer) = Layer::at(graph, *reader) {
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
            "Relu",
            "LeakyRelu",
            "MaxPool",
            "AveragePool",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "Flatten",
            "Identity",
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

type InputOf = Box<dyn Fn(usize) -> usize>;

/// The largest magnitude of each channel.
fn ranges(weights: &Tensor, channels: usize, channel: &dyn Fn(usize) -> usize) -> Vec<f64> {
    let mut ranges = vec![0f64; channels];
    let mut see = |i: usize, x: f64| {
        let range = &mut ranges[channel(i)];
        *range = range.max(x.abs());
    };
    match weights.as_slice::<f32>().filter(|_| weights.dtype() == DataType::Float) {
        Some(floats) => floats.iter().enumerate().for_each(|(i, x)| see(i, f64::from(*x))),
        None => {
            let reals = weights.to_reals().map(|r| r.values).unwrap_or_default();
            reals.iter().enumerate().for_each(|(i, x)| see(i, *x));
        }
    }
    ranges
}

/// The channel of the first layer that each weight of the second reads.
fn input_of(w2: &[usize], second: &Layer, channels: usize) -> Result<InputOf, Skip> {
    let kernel: usize = w2[2..].iter().product();
    let [d0, d1] = [w2[0], w2[1]];
    if w2.len() == 2 {
        let inputs = if second.out_axis == 0 { d1 } else { d0 };
        if inputs % channels != 0 {
            return Skip::because(format!("{channels} channels meet {inputs} inputs"));
        }
        // A flattened feature map is a block of consecutive inputs.
        let block = inputs / channels;
        return Ok(match second.out_axis {
            0 => Box::new(move |i| i % d1 / block),
            _ => Box::new(move |i| i / d1 / block),
        });
    }
    if d1 * second.group != channels {
        return Skip::because(format!("{channels} channels meet {}", d1 * second.group));
    }
    let outputs_per_group = d0 / second.group;
    Ok(Box::new(move |i| i / (d1 * kernel) / outputs_per_group * d1 + i / kernel % d1))
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
