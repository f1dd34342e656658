//! For tests of rules and passes: graphs go in as ONNX text, and both sides are verified and evaluated.

use crate::{Fuel, Pass, Rewrite, Rewriter, Skip, rule, run_passes};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{At, DataType, Dim, Model, Op, Tensor, text, verify};
use std::collections::BTreeMap;

/// Operator set version of the graphs in examples that are not whole models.
const OPSET: i64 = 17;
/// How far the outputs of both sides may differ, relative to the larger magnitude (at least 1).
const TOLERANCE: f64 = 1e-5;

/// Applies the rule to the first of the two ONNX texts in the comment at the head of `source`; the result must be the
/// second, compute the same on made-up inputs, and be left alone by a second application.
///
/// # Panics
/// If not.
pub fn check_doc_example<O: Op + 'static>(
    source: &str,
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
) {
    check_doc_example_of(source, rule("example", apply).as_ref());
}

/// As [`check_doc_example`], for a pass.
///
/// # Panics
/// If not.
pub fn check_doc_example_of(source: &str, pass: &dyn Pass) {
    let doc: String = source
        .lines()
        .filter_map(|l| l.strip_prefix("//!").or_else(|| l.strip_prefix("///")))
        .map(|l| format!("{l}\n"))
        .collect();
    let blocks: Vec<&str> =
        doc.split("```onnx\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    let [before, after] = blocks.as_slice() else {
        panic!("the comment has {} ONNX texts, expected two", blocks.len());
    };
    let mut got = check_pass_same(pass, before);
    // As what is wanted: new values have types, too.
    onnxd_ir::infer(&mut got);
    let mut want = model(after);
    forget_unused(&mut want);
    onnxd_ir::infer(&mut got);
    got.graph.name.clone_from(&want.graph.name);
    assert_eq!(text::print_graph(&got.graph), text::print_graph(&want.graph));
    assert_eq!(run(pass, &mut got).rewrites, 0, "the rule fires on its own result");
}

/// Applies the rule, which must fire; the outputs must stay the same on made-up inputs.
///
/// # Panics
/// If not.
pub fn check_same<O: Op + 'static>(
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
    graph: &str,
) -> Model {
    check_pass_same(rule("example", apply).as_ref(), graph)
}

/// Applies the rule, which must leave the graph alone for `reason`.
///
/// # Panics
/// If not.
pub fn check_skip<O: Op + 'static>(
    apply: fn(&mut Rewriter, At<O>) -> Rewrite,
    reason: &str,
    graph: &str,
) {
    check_pass_skip(rule("example", apply).as_ref(), reason, graph);
}

/// As [`check_same`], for a pass. Gives the changed model without what nothing reads.
///
/// # Panics
/// If it changed nothing, or the outputs differ.
pub fn check_pass_same(pass: &dyn Pass, graph: &str) -> Model {
    check_model_same(pass, &model(graph))
}

/// The same of a model that text cannot say.
///
/// # Panics
/// As [`check_pass_same`].
pub fn check_model_same(pass: &dyn Pass, before: &Model) -> Model {
    let mut after = before.clone();
    let report = run(pass, &mut after);
    let skipped = report.skipped;
    assert!(report.rewrites > 0, "nothing was rewritten: {skipped:?}");
    forget_unused(&mut after);
    valid(&after);
    let feeds = made_up(before);
    let (want, got) = (outputs(before, &feeds), outputs(&after, &feeds));
    assert_eq!(names(&want), names(&got));
    for ((name, want), (_, got)) in want.iter().zip(&got) {
        assert_close(name, want, got);
    }
    after
}

/// As [`check_skip`], for a pass. An empty reason stands for any.
///
/// # Panics
/// If it changed something or had no such reason.
pub fn check_pass_skip(pass: &dyn Pass, reason: &str, graph: &str) {
    let before = model(graph);
    let mut after = before.clone();
    let report = run(pass, &mut after);
    assert_eq!(text::print_graph(&before.graph), text::print_graph(&after.graph));
    let reasons: Vec<&Skip> = report.skipped.iter().map(|(_, why)| why).collect();
    assert!(reason.is_empty() || reasons.iter().any(|r| r.0 == reason), "{reasons:?}");
}

/// As a conversion runs it: types are inferred before it, and taken back.
fn run(pass: &dyn Pass, model: &mut Model) -> crate::PassReport {
    let done = run_passes(model, &[pass], Fuel::UNLIMITED, &mut |_, _| Ok(()));
    done.unwrap_or_else(|d| panic!("after {}: {d}", pass.name())).remove(0)
}

fn model(graph: &str) -> Model {
    let model = match graph.trim_start().starts_with('<') {
        true => text::parse_model(graph),
        false => text::parse_graph(graph).map(|graph| Model::new(graph, 8, OPSET)),
    };
    let mut model = model.unwrap_or_else(|d| panic!("{d}"));
    valid(&model);
    // Passes see inferred types.
    onnxd_ir::infer(&mut model);
    model
}

fn valid(model: &Model) {
    let found = verify::verify(model, verify::VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(model));
}

/// Initializers that nothing reads are not written to files either.
fn forget_unused(model: &mut Model) {
    let graph = &mut model.graph;
    for v in graph.value_ids() {
        let is_inner = !graph.inputs().contains(&v) && graph.producer(v).is_none();
        if is_inner && graph.uses(v) == 0 {
            graph.set_initializer(v, None);
            graph[v].ty = None;
        }
    }
}

fn outputs(model: &Model, feeds: &BTreeMap<String, Tensor>) -> Vec<(String, Tensor)> {
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    executor.run(feeds, RunOptions::default()).unwrap_or_else(|d| panic!("{d}"))
}

fn names(outputs: &[(String, Tensor)]) -> Vec<&str> {
    outputs.iter().map(|(name, _)| name.as_str()).collect()
}

fn assert_close(name: &str, want: &Tensor, got: &Tensor) {
    assert_eq!(want.dims(), got.dims(), "{name}");
    assert_eq!(want.dtype(), got.dtype(), "{name}");
    let (Some(want), Some(got)) = (want.to_reals(), got.to_reals()) else {
        return assert_eq!(want, got, "{name}");
    };
    for (a, b) in want.values.iter().zip(&got.values) {
        let scale = a.abs().max(b.abs()).max(1.0);
        assert!((a - b).abs() <= TOLERANCE * scale, "{name}: {a} became {b}");
    }
}

/// Inputs between -2 and 2 by a fixed rule, those of 8 bits over most of their range; symbolic sizes are 2.
fn made_up(model: &Model) -> BTreeMap<String, Tensor> {
    let graph = &model.graph;
    let mut state = 1u64;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 22) as f64 - 2.0
    };
    let inputs = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    inputs
        .map(|v| {
            let ty = graph[*v].ty.as_ref().expect("inputs of examples have a type");
            let size = |d: &Dim| d.known().map_or(2, |n| n as usize);
            let dims: Vec<usize> = ty.shape().unwrap_or_default().iter().map(size).collect();
            let count = dims.iter().product();
            let values: Vec<f64> = (0..count).map(|_| next()).collect();
            let tensor = match ty.dtype() {
                Some(DataType::Bool) => {
                    let bits = values.iter().map(|x| u8::from(*x > 0.0)).collect();
                    Tensor::from_vec_as(DataType::Bool, dims, bits)
                }
                Some(DataType::Int64) => {
                    Tensor::from_vec(dims, values.iter().map(|x| *x as i64).collect())
                }
                Some(DataType::Int8) => {
                    Tensor::from_vec(dims, values.iter().map(|x| (x * 60.0) as i8).collect())
                }
                Some(DataType::Uint8) => Tensor::from_vec(
                    dims,
                    values.iter().map(|x| (x * 60.0 + 128.0) as u8).collect(),
                ),
                Some(dtype) => onnxd_ir::Reals { dims, values }
                    .to_tensor(dtype)
                    .unwrap_or_else(|| panic!("no made-up values of type {dtype}")),
                None => panic!("inputs of examples have an element type"),
            };
            (graph[*v].name.clone(), tensor)
        })
        .collect()
}
