//! Float graphs, and what becomes of them.

mod adaround;
mod bias_from_means;
mod bound;
mod channel_scales;
mod dynamic;
mod float32;
mod methods;
mod microsoft;
mod mixed;
mod net;
mod opt_in;
mod packing;
mod placement;
mod reals;
mod session;
mod smooth_quant;
mod subgraphs;
mod weight_only;
mod weights;

use crate::emit::{Ranges, place};
use crate::graph::quantized::MICROSOFT;
use crate::observe::{Limits, Stats};
use crate::plan::{QuantizeRequest, plan};
use crate::range::Levels;
use crate::range::method::{Method, statistics};
use crate::report::Report;
use onnxd_eval::{Builtin, Executor, RunOptions};
use onnxd_ir::{DataType, Model, Tensor, VerifyLevel, infer, text, verify};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by the names of a model's inputs.
pub(crate) type Feeds = BTreeMap<String, Tensor>;

/// Numbers from a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 20
    }

    /// From -1 to 1.
    pub(crate) fn real(&mut self) -> f32 {
        (self.next() % 20001) as f32 / 10000.0 - 1.0
    }

    pub(crate) fn tensor(&mut self, dims: &[usize]) -> Tensor {
        let count = dims.iter().product();
        Tensor::from_vec(dims, (0..count).map(|_| self.real()).collect())
    }
}

/// A model from a graph in ONNX text. Initializers that it only declares get random numbers.
pub(crate) fn model(graph: &str, seed: u64) -> Model {
    let mut graph = text::parse_graph(graph).unwrap_or_else(|d| panic!("{d}"));
    let mut dice = Dice(seed);
    let unknown: Vec<_> = graph
        .value_ids()
        .filter(|v| graph.producer(*v).is_none() && !graph.inputs().contains(v))
        .filter(|v| graph[*v].initializer().is_none())
        .collect();
    for v in unknown {
        let ty = graph[v].ty.clone().expect("declared with a type");
        let dims: Vec<usize> = ty
            .shape()
            .expect("a shape")
            .iter()
            .map(|d| d.known().expect("a size") as usize)
            .collect();
        let data = dice.tensor(&dims);
        let dtype = ty.dtype().filter(|dtype| dtype.is_float()).unwrap_or(DataType::Float);
        let data = data.to_reals().and_then(|reals| reals.to_tensor(dtype));
        graph.set_initializer(v, data);
    }
    let runtime = graph.nodes().any(|(_, node)| node.domain == MICROSOFT);
    let mut model = Model::new(graph, 8, 17);
    model.opsets.extend(runtime.then(|| (MICROSOFT.to_owned(), 1)));
    let found = infer(&mut model);
    assert!(found.0.is_empty(), "{found}");
    model
}

/// Random samples of all inputs.
pub(crate) fn samples(model: &Model, count: usize, seed: u64) -> Vec<Feeds> {
    let mut dice = Dice(seed);
    let graph = &model.graph;
    let mut one = || -> Feeds {
        let inputs = graph.inputs().iter();
        let shape = |v: &onnxd_ir::ValueId| -> Vec<usize> {
            let shape = graph[*v].shape().expect("a shape");
            shape.iter().map(|d| d.known().expect("a size") as usize).collect()
        };
        inputs.map(|v| (graph[*v].name.clone(), dice.tensor(&shape(v)))).collect()
    };
    (0..count).map(|_| one()).collect()
}

/// What a model computes.
pub(crate) fn outputs(model: &Model, feeds: &Feeds) -> Vec<(String, Tensor)> {
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    executor.run(feeds, RunOptions::default()).unwrap_or_else(|d| panic!("{d}"))
}

/// Quantizes with ranges from samples.
pub(crate) fn quantized(
    model: &Model,
    request: &QuantizeRequest,
    samples: &[Feeds],
) -> (Model, Report) {
    let plan = plan(&model.graph, request, &BTreeSet::new());
    let observed = plan.values.values().map(|q| q.observed);
    let computed = observed.filter(|v| model.graph.constant(*v).is_none());
    let names = computed.map(|v| model.graph[v].name.clone()).collect();
    let mut given = samples.iter().cloned().map(Ok);
    let method = Method::MinMax;
    let parts = method.parts(1);
    let make = |_: &str| Stats::new(&parts);
    let mut seen = BTreeMap::new();
    let done =
        statistics((&Builtin, model), names, &mut given, &make, &mut seen, Limits::default());
    done.unwrap_or_else(|d| panic!("{d}"));
    let ranges: Ranges = (plan.values.values())
        .filter_map(|q| {
            let levels = Levels::of(q.settings.activation)?;
            let stats = seen.get(&model.graph[q.observed].name)?;
            Some((q.observed, method.range(stats, levels, q.settings.symmetric)?))
        })
        .collect();
    let mut quantized = model.clone();
    let done = place(&mut quantized.graph, &plan, &ranges, method.name());
    let found = infer(&mut quantized);
    assert!(found.0.is_empty(), "{found}");
    let found = verify(&quantized, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_graph(&quantized.graph));
    (quantized, done)
}

/// The operators in topological order, `QuantizeLinear` as `Q` and `DequantizeLinear` as `D`.
pub(crate) fn operators(model: &Model) -> String {
    let graph = &model.graph;
    let order = graph.topological().expect("no cycle");
    let short = |op: &str| match op {
        "QuantizeLinear" => "Q".to_owned(),
        "DequantizeLinear" => "D".to_owned(),
        op => op.to_owned(),
    };
    order.iter().map(|id| short(&graph[*id].op)).collect::<Vec<_>>().join(" ")
}

/// The largest difference of two outputs over samples, and the largest magnitude.
pub(crate) fn difference(a: &Model, b: &Model, samples: &[Feeds]) -> (f64, f64) {
    let (mut worst, mut largest) = (0f64, 0f64);
    for feeds in samples {
        for ((name, a), (other, b)) in outputs(a, feeds).iter().zip(&outputs(b, feeds)) {
            assert_eq!(name, other);
            assert_eq!((a.dims(), a.dtype()), (b.dims(), DataType::Float), "{name}");
            let (a, b) = (a.to_reals().unwrap().values, b.to_reals().unwrap().values);
            for (x, y) in a.iter().zip(&b) {
                worst = worst.max((x - y).abs());
                largest = largest.max(x.abs());
            }
        }
    }
    (worst, largest)
}
