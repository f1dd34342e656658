//! What the tests share: graphs as text, as comparable lines, and run.

// Each test file uses a part.
#![allow(dead_code)]

use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{DataType, Graph, Model, Reals, Tensor, ValueId, infer, text, verify};
use onnxd_quantize::emit::{Folded, fold, unfold};
use std::collections::BTreeMap;

/// A model of opset 17 whose types are inferred.
pub(crate) fn model(graph: &str) -> Model {
    let graph = text::parse_graph(graph).unwrap_or_else(|d| panic!("{d}"));
    let mut model = Model::new(graph, 8, 17);
    model.opsets.insert("com.microsoft".into(), 1);
    valid(&mut model);
    model
}

/// Infers types; nothing may be found wrong.
pub(crate) fn valid(model: &mut Model) {
    let found = infer::infer(model);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(model));
    let found = verify::verify(model, verify::VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(model));
}

/// The model in the other form, which is valid.
pub(crate) fn folded(model: &Model) -> (Model, Folded) {
    changed(model, fold)
}

/// As [`folded`], in the other direction.
pub(crate) fn unfolded(model: &Model) -> (Model, Folded) {
    changed(model, unfold)
}

fn changed(model: &Model, change: fn(&mut Model) -> Folded) -> (Model, Folded) {
    let mut model = model.clone();
    let told = change(&mut model);
    valid(&mut model);
    (model, told)
}

/// One line for each node, constants by their elements, in an order that does not depend on that of
/// the nodes.
pub(crate) fn lines(model: &Model) -> Vec<String> {
    let graph = &model.graph;
    let mut lines: Vec<String> = graph.nodes().map(|(_, node)| line(graph, node)).collect();
    lines.sort();
    lines
}

fn line(graph: &Graph, node: &onnxd_ir::Node) -> String {
    let show = |v: &Option<ValueId>| match v {
        None => "_".to_owned(),
        Some(v) => match graph.constant(*v) {
            Some(t) => format!("{t:?}{:?}", t.to_reals().map(|r| r.values)),
            None => graph[*v].name.clone(),
        },
    };
    let list = |vs: &[Option<ValueId>]| vs.iter().map(show).collect::<Vec<_>>().join(", ");
    let mut attrs: Vec<String> = node.attrs.iter().map(|(n, a)| format!("{n}={a:?}")).collect();
    attrs.sort();
    let (ins, outs) = (list(&node.inputs), list(&node.outputs));
    format!("{outs} = {}.{}<{}>({ins})", node.domain, node.op, attrs.join(" "))
}

/// Demands that both are the same but for the names of constants and the order of nodes.
pub(crate) fn assert_same(got: &Model, want: &Model) {
    let (got_lines, want_lines) = (lines(got), lines(want));
    assert_eq!(got_lines, want_lines, "\n{}", text::print_model(got));
}

/// Demands that `before` folds to `after` and unfolds to itself again.
pub(crate) fn assert_forms(before: &str, after: &str) -> Folded {
    let (before, after) = (model(before), model(after));
    let (got, told) = folded(&before);
    assert_same(&got, &after);
    told
}

/// The outputs on made-up inputs, widened.
pub(crate) fn outputs(model: &Model, seed: u64) -> Vec<Reals> {
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    let got = executor.run(&inputs(model, seed), RunOptions::default());
    let got = got.unwrap_or_else(|d| panic!("{d}\n{}", text::print_model(model)));
    got.into_iter().map(|(_, t)| t.to_reals().expect("numbers")).collect()
}

/// Inputs between -3 and 3 by a fixed rule, or all of an 8-bit type.
fn inputs(model: &Model, seed: u64) -> BTreeMap<String, Tensor> {
    let graph = &model.graph;
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let made = graph.inputs().iter().map(|v| {
        let ty = graph[*v].ty.as_ref().expect("inputs are typed");
        let dims: Vec<usize> = ty.dims().expect("known").iter().map(|d| *d as usize).collect();
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| next()).collect();
        let data = match ty.dtype().expect("known") {
            DataType::Float => {
                Tensor::from_vec(dims, values.iter().map(|x| (x * 6.0 - 3.0) as f32).collect())
            }
            DataType::Bool => Tensor::from_vec_as(
                DataType::Bool,
                dims,
                values.iter().map(|x| u8::from(*x > 0.5)).collect(),
            ),
            DataType::Uint8 => {
                Tensor::from_vec(dims, values.iter().map(|x| (x * 256.0) as u8).collect())
            }
            other => panic!("no made-up values of type {other}"),
        };
        (graph[*v].name.clone(), data)
    });
    made.collect()
}

/// How far two outputs are apart at most, in elements.
pub(crate) fn distance(a: &[Reals], b: &[Reals]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut far = 0f64;
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.dims, b.dims);
        for (x, y) in a.values.iter().zip(&b.values) {
            far = far.max((x - y).abs());
        }
    }
    far
}
