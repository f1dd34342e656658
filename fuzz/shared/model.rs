//! What onnxd does with a model, whatever it came from.

use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::text::print_model;
use onnxd_ir::{DataType, VerifyLevel, Model, Tensor, ValueType, infer, verify};
use std::collections::BTreeMap;

/// Bytes of tensors; larger inputs and results say nothing more about the code.
const BYTES_MAX: usize = 1 << 20;
const ELEMENTS_MAX: usize = 1 << 12;

pub fn exercise(model: &mut Model) {
    let sound = verify(model, VerifyLevel::Structure).0.is_empty();
    drop(verify(model, VerifyLevel::Full));
    drop(print_model(model));
    if sound && infer(model).0.is_empty() {
        run(model);
    }
}

fn run(model: &Model) {
    if has_loop(model) {
        return;
    }
    let Some(inputs) = zeros(model) else { return };
    let Ok(executor) = Executor::new(model) else { return };
    let options = RunOptions { bytes_max: BYTES_MAX, ..RunOptions::default() };
    drop(executor.run(&inputs, options));
}

/// A loop may run as long as its model says; that is a matter of deadlines.
fn has_loop(model: &Model) -> bool {
    let mut found = false;
    model.for_each_graph(|graph| {
        found |= graph.nodes().any(|(_, node)| matches!(node.op.as_str(), "Loop" | "Scan"));
    });
    found
}

/// Zeros for every input; one where a size is not known.
fn zeros(model: &Model) -> Option<BTreeMap<String, Tensor>> {
    let graph = &model.graph;
    let fed = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    fed.map(|v| {
        let value = &graph[*v];
        let ValueType::Tensor { dtype: Some(dtype), shape } = value.ty.as_ref()? else {
            return None;
        };
        let sizes = shape.iter().flatten().map(|d| usize::try_from(d.known().unwrap_or(1)));
        let dims: Vec<usize> = sizes.collect::<Result<_, _>>().ok()?;
        Some((value.name.clone(), zero(*dtype, dims)?))
    })
    .collect()
}

fn zero(dtype: DataType, dims: Vec<usize>) -> Option<Tensor> {
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let count = count.filter(|n| *n <= ELEMENTS_MAX)?;
    match dtype {
        DataType::String => Tensor::strings(dims, vec![Default::default(); count]).ok(),
        _ => Tensor::new(dtype, dims, vec![0; (count * dtype.bits()).div_ceil(8)].into()).ok(),
    }
}
