use super::plan::{Ends, plan};
use super::winograd::Winograd;
use crate::call::{FunctionAttributes, KernelCall};
use crate::num::slice;
use crate::parallel::alone;
use crate::testing::{ints, reals, run};
use crate::{Executor, RunOptions};
use onnxd_ir::{Attr, DataType, Graph, Model, Node, Tensor, ValueType};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Numbers between -1 and 1 that follow from a seed.
fn noise(dims: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    Tensor::from_vec(dims, (0..dims.iter().product()).map(|_| next()).collect())
}

fn floats(x: &Tensor) -> Vec<f32> {
    slice::<f32>(x).unwrap().into_owned()
}

fn magnitudes(x: &Tensor) -> Tensor {
    Tensor::from_vec(x.dims(), reals(x).iter().map(|v| v.abs() as f32).collect())
}

/// A convolution of 3x3.
#[derive(Debug, Clone)]
struct Case {
    batch: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    pads: [i64; 4],
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (1usize..3, 1usize..20, 1usize..20, [1usize..22, 1..22]);
    (sizes, [0i64..3, 0..3, 0..3, 0..3], any::<u64>())
        .prop_map(|((batch, channels, filters, size), pads, seed)| Case {
            batch,
            channels,
            filters,
            size,
            pads,
            seed,
        })
        .prop_filter("the window fits", |c| {
            (0..2).all(|i| c.size[i] as i64 + c.pads[i] + c.pads[i + 2] >= 3)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_the_direct_way_but_for_rounding(case in cases(), shared: bool) {
        let Case { batch, channels, filters, size: [h, w], pads, seed } = case;
        let x = noise(&[batch, channels, h, w], seed);
        let k = noise(&[filters, channels, 3, 3], !seed);
        let bias = noise(&[filters], seed ^ 5);
        let attrs = [("pads", ints(&pads))];
        let direct = run("Conv", 11, &attrs, &[&x, &k, &bias]);
        let sums = run("Conv", 11, &attrs, &[&magnitudes(&x), &magnitudes(&k)]);
        let most = reals(&sums).iter().fold(0.0, |most: f64, v| most.max(*v));

        let mut node = Node::new("Conv", [], []);
        node.attrs = vec![("pads".to_owned(), ints(&pads))];
        let (scope, steps, bytes_max) = (FunctionAttributes::new(), &[], 1 << 26);
        let call = KernelCall {
            node: &node, opset: 11, inputs: &[], scope: &scope, bytes_max, steps, winograd: true, derives: false,
        };
        let (plan, dims) = plan(&call, &x, &k).unwrap();
        prop_assert_eq!(&dims, direct.dims());
        let [x, k, bias] = [&x, &k, &bias].map(floats);
        let ends = Ends { bias: Some(&bias), steps };
        let tiles = Winograd { plan: &plan, x: &x, w: &k, ends: &ends };
        prop_assert!(tiles.is_finite());
        let mut y = vec![0f32; direct.len()];
        match shared {
            true => tiles.fill(&mut y),
            false => alone(|| tiles.fill(&mut y)),
        }
        for (found, wanted) in y.iter().zip(reals(&direct)) {
            let error = (f64::from(*found) - wanted).abs();
            prop_assert!(error <= 2e-6 * (most + 1.0), "{found} for {wanted}, sums of {most}");
        }
    }
}

/// What `Relu(Conv(x, w))` gives with and without Winograd's algorithm.
fn both_ways(x: &Tensor, w: &Tensor, attrs: &[(&str, Attr)]) -> [Vec<f32>; 2] {
    let mut g = Graph::new("g");
    let dims = x.dims().iter().map(|d| onnxd_ir::Dim::Known(*d as i64));
    let input = g.add_input("x", Some(ValueType::tensor(DataType::Float, dims)));
    let weights = g.add_initializer("w", w.clone());
    let (y, z) = (g.add_value("y", None), g.add_value("z", None));
    let mut conv = Node::new("Conv", [input, weights], [y]);
    conv.attrs = attrs.iter().map(|(n, a)| ((*n).to_owned(), a.clone())).collect();
    g.add_node(conv);
    g.add_node(Node::new("Relu", [y], [z]));
    g.mark_output(z);
    let model = Model::new(g, 8, 17);
    let executor = Executor::new(&model).unwrap();
    [true, false].map(|winograd| {
        let feeds = BTreeMap::from([("x".to_owned(), x.clone())]);
        let options = RunOptions { winograd, ..RunOptions::default() };
        floats(&executor.run(&feeds, options).unwrap()[0].1)
    })
}

fn padded() -> [(&'static str, Attr); 1] {
    [("pads", ints(&[1; 4]))]
}

#[test]
fn a_run_that_asks_for_it_rounds_a_little_more() {
    let (x, w) = (noise(&[2, 32, 29, 30], 1), noise(&[40, 32, 3, 3], 2));
    let [fast, direct] = both_ways(&x, &w, &padded());
    assert_ne!(fast, direct, "it was not used");
    let most = direct.iter().fold(0f32, |most, v| most.max(*v));
    assert!(fast.iter().zip(&direct).all(|(a, b)| *a >= 0.0 && (a - b).abs() < 3e-6 * most));
}

#[test]
fn other_convolutions_stay_as_they_are() {
    let (x, w) = (noise(&[1, 32, 28, 28], 3), noise(&[32, 32, 3, 3], 4));
    let with = |name, list: &[i64]| [padded()[0].clone(), (name, ints(list))];
    let grouped = [padded()[0].clone(), ("group", Attr::Int(2))];
    let halves = noise(&[32, 16, 3, 3], 5);
    let few = (noise(&[1, 512, 3, 3], 6), noise(&[64, 512, 3, 3], 7));
    let all = [
        both_ways(&x, &w, &with("strides", &[2, 2])),
        both_ways(&x, &w, &with("strides", &[1, 2])),
        both_ways(&x, &w, &with("dilations", &[2, 1])),
        both_ways(&x, &halves, &grouped),
        both_ways(&x, &noise(&[32, 32, 1, 3], 8), &[]),
        both_ways(&few.0, &few.1, &padded()),
    ];
    assert!(all.iter().all(|[fast, direct]| fast == direct));
}

#[test]
fn what_is_not_finite_does_not_spread_within_tiles() {
    let (x, w) = (noise(&[1, 32, 28, 28], 3), noise(&[32, 32, 3, 3], 4));
    let bits = |list: &[f32]| list.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e36] {
        for in_weights in [false, true] {
            let (mut x, mut w) = (x.clone(), w.clone());
            let at = if in_weights { &mut w } else { &mut x };
            let mut values = floats(at);
            values[1000] = odd;
            *at = Tensor::from_vec(at.dims(), values);
            let [fast, direct] = both_ways(&x, &w, &padded());
            assert_eq!(bits(&fast), bits(&direct), "{odd}");
        }
    }
}
