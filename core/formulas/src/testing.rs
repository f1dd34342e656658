//! Formulas on tensors, for tests.

use onnxd_build::{GraphBuilder, Result, Var};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Graph, Model, Opsets, Tensor, ValueType};

/// What a formula gives for tensors, in a version of the standard.
pub(crate) fn run(
    opset: i64,
    given: &[Tensor],
    f: impl Fn(&GraphBuilder, &[Var]) -> Result<Var>,
) -> Tensor {
    let b = GraphBuilder::new(Graph::new("g"), Opsets::from([(String::new(), opset)]));
    let name = |i: usize| format!("x{i}");
    let input = |(i, x): (usize, &Tensor)| {
        let dims: Vec<i64> = x.dims().iter().map(|n| *n as i64).collect();
        b.input(&name(i), ValueType::tensor(x.dtype(), dims))
    };
    let vars: Vec<Var> = given.iter().enumerate().map(input).collect();
    b.output(f(&b, &vars).expect("a formula"), "y").expect("a new name");
    let model = Model::new(b.finish(), 8, opset);
    let executor = Executor::new(&model).expect("a model");
    let feeds = given.iter().enumerate().map(|(i, x)| (name(i), x.clone())).collect();
    executor.run(&feeds, RunOptions::default()).expect("a run").remove(0).1
}
