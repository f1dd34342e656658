//! Cross-layer equalization (arXiv 1906.04721) in N2D2's way: pairs of layers with weights that
//! follow each other directly, with at most a rectifier between, are equalized one after the
//! other, and all of them again while ranges of a channel differed by more than a constant.

use crate::options::Equalization;
use crate::plan::{Activation, CellInput, CellKind, CellNetwork, Parameters};
use onnxd_plugin_sdk::ir::{Dim, Graph, Node, ValueId};

/// Ranges of one channel that differ by no more are even enough.
const DELTA_MAX: f32 = 1.0;
/// Most rounds; a few suffice where it converges.
const ROUNDS_MAX: usize = 100;

/// Two layers.
struct Pair {
    first: usize,
    second: usize,
    /// Inputs of the second layer for each channel of the first.
    block: usize,
}

/// Equalizes the weights of `network`; gives the pairs of cells.
pub(crate) fn equalize(network: &mut CellNetwork, how: Equalization) -> Vec<(usize, usize)> {
    if how == Equalization::Off {
        return Vec::new();
    }
    let pairs = pairs(network, how);
    for pair in pairs.iter().filter(|_| how == Equalization::AsN2d2) {
        if let Activation::Rectifier { clipping } = &mut network.cells[pair.first].activation {
            *clipping = None;
        }
    }
    for _ in 0..ROUNDS_MAX {
        let mut delta = 0f32;
        for pair in &pairs {
            delta = delta.max(equalize_pair(network, pair));
        }
        if pairs.is_empty() || delta <= DELTA_MAX {
            break;
        }
    }
    pairs.iter().map(|pair| (pair.first, pair.second)).collect()
}

/// The pairs in the order of their second layers.
fn pairs(network: &CellNetwork, how: Equalization) -> Vec<Pair> {
    let cells = &network.cells;
    let mut equalizable = Vec::new();
    for (second, cell) in cells.iter().enumerate() {
        let Some(parameters) = &cell.parameters else { continue };
        let (mut at, mut moved) = (second, 1usize);
        let first = loop {
            let [CellInput::Cell(before)] = cells[at].inputs[..] else { break None };
            // What leaves the network is not scaled.
            if network.readers(before) != 1 || network.leaves(before) {
                break None;
            }
            match cells[before].kind {
                CellKind::Conv | CellKind::Fc => break Some(before),
                CellKind::Layout => {
                    let node = &network.model.graph[cells[before].node];
                    let Some(block) = block(&network.model.graph, node) else { break None };
                    moved *= block;
                    at = before;
                }
                _ => break None,
            }
        };
        let Some(first) = first else { continue };
        let smooth = match cells[first].activation {
            Activation::Linear | Activation::Rectifier { clipping: None } => true,
            Activation::Rectifier { .. } => how == Equalization::AsN2d2,
            Activation::Saturation { .. } => false,
        };
        let channels = cells[first].parameters.as_ref().map_or(0, |p| p.dims[0]);
        let inputs = parameters.dims[1] * parameters.group(channels * moved);
        if smooth && inputs == channels * moved {
            let block = if how == Equalization::AsN2d2 { 1 } else { moved };
            equalizable.push(Pair { first, second, block });
        }
    }
    equalizable
}

/// How many consecutive elements of the result each channel of a feature map became, if the node
/// keeps the channels in order and together.
fn block(graph: &Graph, node: &Node) -> Option<usize> {
    let shape = |v: Option<ValueId>| {
        let sizes = graph[v?].shape()?;
        let known = |d: &Dim| d.known().and_then(|d| usize::try_from(d).ok());
        sizes.iter().skip(1).map(known).collect::<Option<Vec<_>>>()
    };
    let (from, to) = (shape(node.input(0))?, shape(node.output(0))?);
    let keeps = match node.op.as_str() {
        "Identity" | "Dropout" => true,
        "Flatten" => node.int("axis", 1) == 1,
        "Reshape" | "Squeeze" => true,
        _ => false,
    };
    let (channels, kept) = (*from.first()?, *to.first()?);
    let sizes = (from.iter().product::<usize>(), to.iter().product::<usize>());
    if !keeps || channels == 0 || sizes.0 != sizes.1 || kept % channels != 0 {
        return None;
    }
    let block = kept / channels;
    (block == 1 || to.len() == 1).then_some(block)
}

impl Parameters {
    /// The number of groups of a convolution with so many input channels; 1 if they do not fit.
    fn group(&self, channels: usize) -> usize {
        let per_group = self.dims[1].max(1);
        if channels.is_multiple_of(per_group) { channels / per_group } else { 1 }
    }

    /// Weights of one output.
    pub(crate) fn per_output(&self) -> usize {
        self.dims[1..].iter().product()
    }
}

/// Equalizes one pair; gives the largest difference of ranges before.
fn equalize_pair(network: &mut CellNetwork, pair: &Pair) -> f32 {
    let [first, second] = network.cells.get_disjoint_mut([pair.first, pair.second]).expect("two");
    let (Some(first), Some(second)) = (&mut first.parameters, &mut second.parameters) else {
        return 0.0;
    };
    let channels = first.dims[0];
    let group = second.group(channels * pair.block);
    let input_of = InputChannels::new(second, group);
    let mut after = vec![0f32; channels];
    for (i, w) in second.weights.iter().enumerate() {
        if let Some(range) = after.get_mut(input_of.at(i) / pair.block) {
            *range = range.max(w.abs());
        }
    }
    let per_output = first.per_output();
    let mut factors = vec![1f32; channels];
    let mut delta = 0f32;
    for (o, factor) in factors.iter_mut().enumerate() {
        let weights = &mut first.weights.to_mut()[o * per_output..][..per_output];
        let bias = first.bias.as_mut().map(|b| &mut b[o]);
        let (r1, r2) = (weights.iter().fold(0f32, |m, w| m.max(w.abs())), after[o]);
        if !(r1 > 0.0 || bias.as_ref().is_none_or(|b| **b == 0.0)) {
            continue;
        }
        delta = delta.max((r1 - r2).abs());
        let even = (r1 * r2).sqrt();
        let s1 = if r1 > 0.0 { even / r1 } else { 0.0 };
        *factor = if r2 > 0.0 { even / r2 } else { 0.0 };
        weights.iter_mut().chain(bias).for_each(|x| *x *= s1);
    }
    for (i, w) in second.weights.to_mut().iter_mut().enumerate() {
        *w *= factors.get(input_of.at(i) / pair.block).unwrap_or(&1.0);
    }
    delta
}

/// Which input channel a weight reads.
struct InputChannels {
    per_group: usize,
    kernel: usize,
    outputs_per_group: usize,
}

impl InputChannels {
    fn new(of: &Parameters, group: usize) -> InputChannels {
        let kernel = of.dims[2..].iter().product();
        InputChannels {
            per_group: of.dims[1],
            kernel,
            outputs_per_group: (of.dims[0] / group).max(1),
        }
    }

    fn at(&self, weight: usize) -> usize {
        let output = weight / (self.per_group * self.kernel);
        output / self.outputs_per_group * self.per_group + weight / self.kernel % self.per_group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::recognize;
    use onnxd_plugin_sdk::eval::{Executor, RunOptions};
    use onnxd_plugin_sdk::ir::{Model, Tensor, infer, text};
    use std::collections::BTreeMap;

    /// Two channels of two by two pixels meet a fully connected layer.
    const SPATIAL: &str = "g (float[1,1,2,2] x) => (float[1,2] y)
         <float[2,1,1,1] w = {0.01, 100.0}, float[2] b = {0.5, -1.0},
          float[2,8] v = {1.0, 2.0, 3.0, 4.0, 0.1, 0.2, 0.3, 0.4,
                          5.0, 6.0, 7.0, 8.0, 0.5, 0.6, 0.7, 0.8}>
         {
           c = Conv(x, w, b)
           r = Relu(c)
           f = Flatten(r)
           y = Gemm<transB = 1>(f, v)
         }";

    fn run(model: &Model) -> Vec<f64> {
        let x = Tensor::from_vec(vec![1, 1, 2, 2], vec![0.3f32, -0.7, 1.1, 0.2]);
        let feeds = BTreeMap::from([("x".to_owned(), x)]);
        let found = Executor::new(model).unwrap().run(&feeds, RunOptions::default()).unwrap();
        found[0].1.to_reals().unwrap().values
    }

    fn equalized(how: Equalization) -> (Vec<f64>, Vec<f64>) {
        let graph = text::parse_graph(SPATIAL).unwrap();
        let mut model = Model::new(graph, 8, 17);
        infer(&mut model);
        let mut network = recognize(&model).unwrap();
        assert_eq!(equalize(&mut network, how).len(), usize::from(how != Equalization::Off));
        network.write_back();
        (run(&model), run(&network.model))
    }

    /// What reads an output of the network knows of no factors.
    #[test]
    fn outputs_stay_what_they_are() {
        for output in ["c", "r", "f"] {
            let mut graph = text::parse_graph(SPATIAL).unwrap();
            graph.mark_output(graph.value_named(output).unwrap());
            let mut model = Model::new(graph, 8, 17);
            infer(&mut model);
            let mut network = recognize(&model).unwrap();
            assert!(equalize(&mut network, Equalization::Exact).is_empty(), "{output}");
        }
    }

    #[test]
    fn blocks_of_inputs_keep_the_function() {
        let worst = |(a, b): (Vec<f64>, Vec<f64>)| {
            a.iter().zip(&b).map(|(a, b)| (a - b).abs() / a.abs()).fold(0.0, f64::max)
        };
        assert_eq!(worst(equalized(Equalization::Off)), 0.0);
        assert!(worst(equalized(Equalization::Exact)) < 1e-5);
        // N2D2's error, which is there to compare with it.
        assert!(worst(equalized(Equalization::AsN2d2)) > 0.01);
    }
}
