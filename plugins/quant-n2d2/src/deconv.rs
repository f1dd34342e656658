//! Transposed convolutions as plain ones, which are exact in integers: zeros between the pixels of
//! the input, and the kernel turned round.

use crate::canonical::{constant, exchange, reals};
use onnxd_plugin_sdk::ir::ops::{Conv, ConvTranspose, Pad, Reshape, Slice};
use onnxd_plugin_sdk::ir::{At, Dim, Graph, Op, Reals, Tensor, ValueId, ValueType};

/// Along one axis: input, output, kernel, and the attributes.
struct Axis {
    input: i64,
    stride: i64,
    /// Zeros before and after the input with zeros between its pixels; negative ones cut off.
    before: i64,
    after: i64,
}

impl Axis {
    fn of(input: i64, output: i64, reach: i64, stride: i64, pad: i64) -> Option<Axis> {
        let before = reach.checked_sub(pad)?;
        let spread = input.checked_mul(stride)?;
        let after = output.checked_add(reach)?.checked_sub(spread)?.checked_sub(before)?;
        let cut = before.min(0).checked_add(after.min(0))?;
        (spread.checked_add(cut)? > 0).then_some(Axis { input, stride, before, after })
    }

    fn spread(&self) -> i64 {
        self.input * self.stride
    }
}

/// Puts a convolution in the place of a transposed one over images of known size.
pub(crate) fn unfold(graph: &mut Graph, deconv: &At<ConvTranspose>) -> Option<()> {
    let w = reals(graph, deconv.w).filter(|w| w.dims.len() == 4)?;
    let known_pads = deconv.auto_pad == "NOTSET" && deconv.output_shape.is_empty();
    let groups = usize::try_from(deconv.group).ok().filter(|g| *g > 0)?;
    if !known_pads || !w.dims[0].is_multiple_of(groups) {
        return None;
    }
    let shape = graph[deconv.x].ty.as_ref()?.shape()?.to_vec();
    let out = graph[deconv.out].ty.as_ref()?.shape()?.to_vec();
    let at = |list: &[i64], i: usize, default: i64| list.get(i).copied().unwrap_or(default);
    let axis = |i: usize| {
        let kernel = i64::try_from(*w.dims.get(2 + i)?).ok()?;
        let reach = (kernel - 1).checked_mul(at(&deconv.dilations, i, 1))?;
        let [input, output] = [&shape, &out].map(|s| s.get(2 + i).and_then(Dim::known));
        let stride = at(&deconv.strides, i, 1);
        Axis::of(input?, output?, reach, stride, at(&deconv.pads, i, 0))
    };
    let axes = [axis(0)?, axis(1)?];
    let turned = turned(&w, groups);
    let mut steps = Steps { graph, deconv, x: deconv.x, shape: shape.get(..2)?.to_vec() };
    if axes.iter().any(|a| a.stride > 1) {
        steps.spread(&axes);
    }
    if axes.iter().any(|a| a.before < 0 || a.after < 0) {
        steps.cut(&axes);
    }
    let x = steps.x;
    let name = graph.fresh_name(&format!("{}_w", graph[deconv.out].name));
    let weights = constant(graph, &name, deconv.w, &turned)?;
    let side = |f: fn(&Axis) -> i64| axes.iter().map(move |a| f(a).max(0));
    let conv = Conv {
        b: deconv.b,
        dilations: deconv.dilations.clone(),
        group: deconv.group,
        kernel_shape: w.dims[2..].iter().map(|k| *k as i64).collect(),
        pads: side(|a| a.before).chain(side(|a| a.after)).collect(),
        ..Conv::new(x, weights)
    };
    exchange(graph, deconv.node, conv);
    Some(())
}

/// `[C, O/g, kH, kW]` as `[O, C/g, kH, kW]`, every kernel turned by half a turn.
fn turned(w: &Reals, groups: usize) -> Reals {
    let &[channels, outputs, height, width] = &w.dims[..] else { return w.clone() };
    let (inner, area) = (channels / groups, height * width);
    let mut values = Vec::with_capacity(w.values.len());
    for group in 0..groups {
        for output in 0..outputs {
            for channel in 0..inner {
                let at = ((group * inner + channel) * outputs + output) * area;
                values.extend(w.values[at..at + area].iter().rev());
            }
        }
    }
    Reals { dims: vec![groups * outputs, inner, height, width], values }
}

/// What lies between the input and the convolution; all of it only moves values.
struct Steps<'g> {
    graph: &'g mut Graph,
    deconv: &'g At<ConvTranspose>,
    x: ValueId,
    /// Sizes of batch and channels.
    shape: Vec<Dim>,
}

impl Steps<'_> {
    fn add<O: Op>(&mut self, role: &str, op: O, sizes: &[i64]) {
        let name = format!("{}_{role}", self.graph[self.deconv.out].name);
        let name = self.graph.fresh_name(&name);
        let dtype = self.graph[self.deconv.x].ty.as_ref().and_then(ValueType::dtype);
        let sizes = sizes.iter().map(|n| Dim::Known(*n));
        let shape = Some(self.shape.iter().cloned().chain(sizes).collect());
        let layers = self.graph[self.deconv.node].layers.clone();
        self.x = self.graph.add(&name, op);
        self.graph[self.x].ty = Some(ValueType::Tensor { dtype, shape });
        if let Some(node) = self.graph.producer(self.x) {
            self.graph.node_mut(node).layers = layers;
        }
    }

    fn integers(&mut self, role: &str, values: Vec<i64>) -> ValueId {
        let name = format!("{}_{role}", self.graph[self.deconv.out].name);
        let name = self.graph.fresh_name(&name);
        self.graph.add_initializer(&name, Tensor::vector(values))
    }

    /// `stride - 1` zeros after each row and each column.
    fn spread(&mut self, [y, x]: &[Axis; 2]) {
        let shape = self.integers("apart_shape", vec![0, 0, y.input, 1, x.input, 1]);
        self.add("apart", Reshape::new(self.x, shape), &[y.input, 1, x.input, 1]);
        let pads = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, y.stride - 1, 0, x.stride - 1];
        let pads = self.integers("zeros_pads", pads);
        self.add("zeros", Pad::new(self.x, pads), &[y.input, y.stride, x.input, x.stride]);
        let shape = self.integers("spread_shape", vec![0, 0, y.spread(), x.spread()]);
        self.add("spread", Reshape::new(self.x, shape), &[y.spread(), x.spread()]);
    }

    fn cut(&mut self, axes: &[Axis; 2]) {
        let first = |a: &Axis| (-a.before).max(0);
        let last = |a: &Axis| a.spread() - (-a.after).max(0);
        let starts = self.integers("cut_starts", axes.iter().map(first).collect());
        let ends = self.integers("cut_ends", axes.iter().map(last).collect());
        let along = self.integers("cut_axes", vec![2, 3]);
        let sizes: Vec<i64> = axes.iter().map(|a| last(a) - first(a)).collect();
        let slice = Slice { axes: Some(along), ..Slice::new(self.x, starts, ends) };
        self.add("cut", slice, &sizes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::eval::{Executor, RunOptions};
    use onnxd_plugin_sdk::ir::{Model, infer, text, verify};
    use std::collections::BTreeMap;

    fn output(graph: Graph) -> Vec<f32> {
        let mut model = Model::new(graph, 8, 17);
        let found = infer(&mut model);
        assert!(found.0.is_empty(), "{found}");
        let found = verify(&model, verify::Level::Full);
        assert!(found.0.is_empty(), "{found}");
        let values = (0..2 * 4 * 3 * 5).map(|i| (i * 37 % 23) as f32 - 11.0).collect();
        let x = BTreeMap::from([("x".to_owned(), Tensor::from_vec(vec![2, 4, 3, 5], values))]);
        let found = Executor::new(&model).unwrap().run(&x, RunOptions::default()).unwrap();
        found[0].1.to_reals().unwrap().values.iter().map(|v| *v as f32).collect()
    }

    /// Integers, so that the order of sums does not matter.
    fn model(attributes: &str, group: usize) -> Graph {
        let outputs = 6 / group;
        let weights = 4 * outputs * 3 * 2;
        let list: Vec<String> =
            (0..weights).map(|i| ((i * 29 % 17) as i64 - 8).to_string()).collect();
        let body = format!(
            "net (float[N, 4, 3, 5] x) => (y)
             <float[4, {outputs}, 3, 2] k = {{{}}}, float[6] b = {{1, 2, 3, 4, 5, 6}}>
             {{ y = ConvTranspose<group = {group}{attributes}>(x, k, b) }}",
            list.join(", ")
        );
        let mut model = Model::new(text::parse_graph(&body).unwrap(), 8, 17);
        assert!(infer(&mut model).0.is_empty());
        model.graph
    }

    #[test]
    fn a_transposed_convolution_is_a_convolution_of_spread_pixels() {
        for attributes in [
            "",
            ", strides = [2, 3]",
            ", strides = [2, 3], pads = [1, 0, 2, 1]",
            ", strides = [3, 2], pads = [2, 1, 2, 1], output_padding = [2, 1]",
            ", strides = [1, 2], pads = [3, 4, 0, 2], dilations = [2, 1]",
            ", strides = [4, 1], dilations = [1, 3]",
        ] {
            for group in [1, 2] {
                let before = model(attributes, group);
                let mut after = before.clone();
                let (id, _) = after.nodes().next().unwrap();
                let deconv = At::<ConvTranspose>::find(&after, id).unwrap();
                unfold(&mut after, &deconv).unwrap_or_else(|| panic!("{attributes}"));
                assert!(after.nodes().all(|(_, n)| n.op != "ConvTranspose"));
                assert_eq!(output(after), output(before), "{attributes}, {group} groups");
            }
        }
    }

    #[test]
    fn what_does_not_say_its_pads_stays() {
        let mut graph = model(", auto_pad = \"SAME_UPPER\", strides = [2, 2]", 1);
        let (id, _) = graph.nodes().next().unwrap();
        let deconv = At::<ConvTranspose>::find(&graph, id).unwrap();
        assert_eq!(unfold(&mut graph, &deconv), None);
        assert_eq!(graph.node_count(), 1);
    }
}
