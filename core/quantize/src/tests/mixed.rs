//! Weights of 8 bits for the operators that cost most.

use super::session::Given;
use super::{model, samples};
use crate::accuracy::{Held, SampleSet, measure};
use crate::plan::{QuantizeRequest, Settings};
use crate::report::{Form, Report};
use crate::search::{mixed_precision, quantize_weights};
use crate::session::OwnMemory;
use crate::session::Session;
use onnxd_ir::{DataType, Model};
use std::time::Duration;

const AUTO: &str = r#"{"quantization": {"accuracy": "auto", "mode": "weight_only"}}"#;

fn request() -> QuantizeRequest {
    let settings = Settings { weight: DataType::Int4, block_size: 16, ..Settings::default() };
    QuantizeRequest { settings, ..QuantizeRequest::default() }
}

/// Three operators with as many weights, the first of which decides nearly all of the output.
fn unlike() -> Model {
    let mut model = model(
        "g (float[4,32] x) => (float[4,8] y) 
         <float[32,8] u, float[32,8] v, float[32,8] w, float s = {0.01}>
         { a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, w) d = Add(b, c) e = Mul(d, s)
           y = Add(a, e) }",
        3,
    );
    model.opsets.insert(String::new(), 21);
    model
}

/// The value of a fact of the report.
fn fact<'r>(report: &'r Report, key: &str) -> &'r str {
    &report.metadata.iter().find(|(own, _)| own == key).expect("a fact").1
}

/// Operators are chosen without the samples that the result is graded on, and the report says so.
#[test]
fn held_out_samples_choose_nothing() {
    let model = unlike();
    let feeds = samples(&model, 16, 5);
    let sealed = Given::new(AUTO, feeds.clone(), 12);
    let held = Held::last_of_few(&SampleSet::of(&sealed), &model);
    let (mixed, report) =
        mixed_precision(&model, &request(), Form::Qdq, Some(&held), &sealed).unwrap();
    assert!(fact(&report, "quantization.mixed").starts_with("1 of 3 operators"), "{report:?}");
    let mut made = model.clone();
    quantize_weights(&mut made, &mixed, Form::Qdq, None, &OwnMemory).unwrap();
    let all = Given::new(AUTO, feeds, usize::MAX);
    let mut done = Report::default();
    measure(&model, &made, Some(&held), &all, &mut done).unwrap();
    assert_eq!((done.quality.origin.as_str(), done.quality.samples), ("apart", 4));
}

/// Where the time was over before all were measured, the report counts both.
#[test]
fn operators_that_were_not_measured_are_told() {
    let model = unlike();
    let mut cx = Given::new(AUTO, samples(&model, 4, 5), usize::MAX);
    cx.tick = Duration::from_secs(cx.quantization().time_budget_s() / 2);
    let (_, report) = mixed_precision(&model, &request(), Form::Qdq, None, &cx).unwrap();
    let told = fact(&report, "quantization.mixed");
    let measured = report.tried.len();
    assert!((1..3).contains(&measured), "{told}");
    assert!(
        told.contains(&format!("of 3 operators, of which {measured} were measured,")),
        "{told}"
    );
}

/// A single sample cannot be held out, and then grades what it chose.
#[test]
fn a_single_sample_is_no_other() {
    let model = unlike();
    let cx = Given::new(AUTO, samples(&model, 1, 5), usize::MAX);
    let held = Held::last_of_few(&SampleSet::of(&cx), &model);
    let (_, report) = mixed_precision(&model, &request(), Form::Qdq, Some(&held), &cx).unwrap();
    assert_eq!(report.tried.len(), 3);
    let mut done = Report::default();
    measure(&model, &model, Some(&held), &cx, &mut done).unwrap();
    assert_eq!(done.quality.origin, "calibration");
}

/// Names of nodes are any text: one that would be a pattern stands for its node alone, and so does one of several that
/// are alike.
#[test]
fn names_are_no_patterns() {
    for name in ["*", "blk?", "MatMul -> b", ""] {
        for at in 0..2 {
            let mut model = unlike();
            for (id, named) in model.graph.node_ids().into_iter().zip([name, "blk1", name]) {
                let node = model.graph.node_mut(id);
                node.name = if at == 0 { named } else { name }.to_owned();
            }
            let cx = Given::new(AUTO, samples(&model, 4, 5), usize::MAX);
            let (mixed, report) =
                mixed_precision(&model, &request(), Form::Qdq, None, &cx).unwrap();
            assert_eq!(report.tried.len(), 3);
            let dbs: Vec<f64> = report.tried.iter().map(|tried| tried.sqnr_db).collect();
            assert!(dbs[1] > dbs[0] + 20.0 && dbs[2] > dbs[0] + 20.0, "{name}: {dbs:?}");
            let mut made = model.clone();
            let done = quantize_weights(&mut made, &mixed, Form::Qdq, None, &OwnMemory).unwrap();
            let types: Vec<&str> = done.tensors.iter().map(|t| t.element_type.as_str()).collect();
            assert_eq!(types, ["int8", "int4", "int4"], "{name}");
        }
    }
}
