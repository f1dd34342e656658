//! Transpose convolutions as plain ones, which are exact in integers: zeros between the pixels of
//! the input, and the kernel turned round.

use crate::constants::reals;
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::ir::ops::ConvTranspose;
use onnxd_plugin_sdk::ir::window::{self, Padding, WindowAxis};
use onnxd_plugin_sdk::ir::{At, Attr, Dim, Graph, Opsets, Reals, Tensor};

/// Along one axis: input, output, kernel, and the attributes.
struct DeconvAxis {
    input: i64,
    stride: i64,
    /// Zeros before and after the input with zeros between its pixels; negative ones cut off.
    before: i64,
    after: i64,
}

impl DeconvAxis {
    fn from_sizes(input: i64, output: i64, window: &WindowAxis) -> Option<DeconvAxis> {
        let Padding::Explicit([pad, _]) = window.padding else { return None };
        let (gaps, stride) = (window.reach()? - 1, window.stride);
        let before = gaps.checked_sub(pad)?;
        let spread = input.checked_mul(stride)?;
        let after = output.checked_add(gaps)?.checked_sub(spread)?.checked_sub(before)?;
        let cut = before.min(0).checked_add(after.min(0))?;
        (spread.checked_add(cut)? > 0).then_some(DeconvAxis { input, stride, before, after })
    }

    fn spread(&self) -> i64 {
        self.input * self.stride
    }
}

/// Puts a convolution in the place of a transpose convolution over images of known size.
pub(crate) fn unfold(graph: &mut Graph, opsets: &Opsets, deconv: &At<ConvTranspose>) -> Option<()> {
    let w = reals(graph, deconv.w).filter(|w| w.dims.len() == 4)?;
    let groups = usize::try_from(deconv.group).ok().filter(|g| *g > 0)?;
    if !deconv.output_shape.is_empty() || !w.dims[0].is_multiple_of(groups) {
        return None;
    }
    let shape = graph[deconv.x].ty.as_ref()?.shape()?.to_vec();
    let out = graph[deconv.out].ty.as_ref()?.shape()?.to_vec();
    let kernel: Vec<i64> = w.dims[2..].iter().map(|k| *k as i64).collect();
    let node = &graph[deconv.node];
    let window = window::axes(|name| node.attr(name), &kernel).ok()?;
    let axis = |i: usize| {
        let [input, output] = [&shape, &out].map(|s| s.get(2 + i).and_then(Dim::known));
        DeconvAxis::from_sizes(input?, output?, &window[i])
    };
    let axes = [axis(0)?, axis(1)?];
    let turned = turned(&w, groups).to_tensor(graph.constant(deconv.w)?.dtype())?;
    let done = GraphBuilder::edit(graph, opsets, |b| {
        b.stand_in(deconv.node, |b, _| {
            let x = cut(b, spread(b, b.var(deconv.x), &axes)?, &axes)?;
            let side = |f: fn(&DeconvAxis) -> i64| axes.iter().map(move |a| f(a).max(0));
            let pads: Vec<i64> = side(|a| a.before).chain(side(|a| a.after)).collect();
            let conv = b.conv(x, b.parameter("w", turned)).b(deconv.b).group(deconv.group);
            let dilations = Some(deconv.dilations.clone()).filter(|d| !d.is_empty());
            let dilations = dilations.map(|d| ("dilations", Attr::Ints(d)));
            let conv = conv.attrs(dilations).pads(&pads);
            Ok([conv.kernel_shape(&kernel).one()?])
        })
    });
    done.ok().map(drop)
}

/// `stride - 1` zeros after each row and each column.
fn spread(b: &GraphBuilder, x: Var, axes: &[DeconvAxis; 2]) -> Result<Var> {
    if axes.iter().all(|a| a.stride == 1) {
        return Ok(x);
    }
    let list = |role: &str, values: Vec<i64>| b.parameter(role, Tensor::vector(values));
    let [h, w] = axes;
    let shape = list("split_shape", vec![0, 0, h.input, 1, w.input, 1]);
    let x = b.reshape(x, shape).role("split").one()?;
    let pads = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, h.stride - 1, 0, w.stride - 1];
    let x = b.pad(x, list("zeros_pads", pads)).role("zeros").one()?;
    let shape = list("spread_shape", vec![0, 0, h.spread(), w.spread()]);
    b.reshape(x, shape).role("spread").one()
}

/// Without what lies before and after the input.
fn cut(b: &GraphBuilder, x: Var, axes: &[DeconvAxis; 2]) -> Result<Var> {
    if axes.iter().all(|a| a.before >= 0 && a.after >= 0) {
        return Ok(x);
    }
    let list = |role: &str, f: &dyn Fn(&DeconvAxis) -> i64| {
        b.parameter(role, Tensor::vector(axes.iter().map(f).collect::<Vec<_>>()))
    };
    let starts = list("cut_starts", &|a| (-a.before).max(0));
    let ends = list("cut_ends", &|a| a.spread() - (-a.after).max(0));
    let along = b.parameter("cut_axes", Tensor::vector(vec![2i64, 3]));
    b.slice(x, starts, ends).axes(along).role("cut").one()
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

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::eval::{Executor, RunOptions};
    use onnxd_plugin_sdk::ir::{Model, infer, text, verify};
    use std::collections::BTreeMap;

    fn opsets() -> Opsets {
        Model::new(Graph::new(""), 8, 17).opsets
    }

    fn output(graph: Graph) -> Vec<f32> {
        let mut model = Model::new(graph, 8, 17);
        let found = infer(&mut model);
        assert!(found.0.is_empty(), "{found}");
        let found = verify(&model, verify::VerifyLevel::Full);
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
                unfold(&mut after, &opsets(), &deconv).unwrap_or_else(|| panic!("{attributes}"));
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
        assert_eq!(unfold(&mut graph, &opsets(), &deconv), None);
        assert_eq!(graph.node_count(), 1);
    }
}
