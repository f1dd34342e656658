//! One node of any operator, converted to another version of the standard: what was valid stays
//! valid and computes values of the same types and sizes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::text::print_model;
use onnxd_ir::{VerifyLevel, Model, Tensor, ValueType, infer, schema, verify};
use std::collections::BTreeMap;

#[path = "../shared/node.rs"]
mod node;

/// Bytes of tensors; larger ones say nothing more about the code.
const BYTES_MAX: usize = 1 << 20;

/// A model of the node; as the bytes say, what it reads is known beforehand or given in a run.
fn model(source: &mut node::Source) -> Option<(Model, BTreeMap<String, Tensor>)> {
    let node::Applied { mut graph, node, opset, inputs, .. } = node::applied(source)?;
    let mut fed = BTreeMap::new();
    for (v, x) in node.inputs.clone().into_iter().flatten().zip(inputs.into_iter().flatten()) {
        if source.byte().is_multiple_of(2) {
            graph.set_initializer(v, Some(x));
            continue;
        }
        let dims = x.dims().iter().map(|d| *d as i64).collect::<Vec<_>>();
        graph[v].ty = Some(ValueType::tensor(x.dtype(), dims));
        graph.mark_input(v);
        fed.insert(graph[v].name.clone(), x);
    }
    node.outputs.iter().flatten().for_each(|v| graph.mark_output(*v));
    graph.add_node(node);
    Some((Model::new(graph, 8, opset), fed))
}

fn outputs(model: &Model, fed: &BTreeMap<String, Tensor>) -> Option<Vec<(String, Tensor)>> {
    let options = RunOptions { bytes_max: BYTES_MAX, ..RunOptions::default() };
    Executor::new(model).ok()?.run(fed, options).ok()
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = node::Source(bytes);
    let to = 1 + (source.byte() % schema::max_opset() as usize) as i64;
    let Some((mut before, fed)) = model(&mut source) else { return };
    if !infer(&mut before).0.is_empty() || !verify(&before, VerifyLevel::Full).0.is_empty() {
        return;
    }
    let mut after = before.clone();
    if onnxd_opset::convert(&mut after, to).is_err() {
        return;
    }
    let found = verify(&after, VerifyLevel::Full);
    assert!(found.0.is_empty(), "opset {to}: {found} {}", print_model(&before));
    let (Some(want), Some(got)) = (outputs(&before, &fed), outputs(&after, &fed)) else { return };
    for ((name, x), (other, y)) in want.iter().zip(&got) {
        let (x, y) = ((name, x.dtype(), x.dims()), (other, y.dtype(), y.dims()));
        assert_eq!(x, y, "opset {to}: {}", print_model(&before));
    }
});
