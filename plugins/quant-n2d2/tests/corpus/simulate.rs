//! Runs a plan in integers, cell by cell, to compare with N2D2's own simulation.

use onnxd_plugin_sdk::eval::eval_node;
use onnxd_plugin_sdk::ir::{Attr, DataType, Node, Reals, Tensor};
use onnxd_quant_n2d2::plan::{
    Activation, Cell, CellInput, CellKind, CellNetwork, CellPlan, IntegerPlan, Rescale, bounds,
};
use std::collections::BTreeMap;

/// Values of all cells by name, for quantized inputs by name.
pub(crate) fn simulate(
    network: &CellNetwork,
    plan: &IntegerPlan,
    inputs: &BTreeMap<String, Reals>,
) -> BTreeMap<String, Reals> {
    let graph = &network.model.graph;
    let mut results: Vec<Reals> = Vec::new();
    for (at, cell) in network.cells.iter().enumerate() {
        let cell_plan = &plan.cells[at];
        let read = |slot: usize| {
            let (value, signed) = match cell.inputs[slot] {
                CellInput::Input(i) => {
                    (&inputs[&graph[graph.inputs()[i]].name], plan.inputs[i].signed)
                }
                CellInput::Cell(i) => (&results[i], plan.cells[i].output.is_some_and(|o| o.signed)),
            };
            match &cell_plan.branches[slot] {
                Some(rescale) => requantized(value, rescale, bounds(plan.bits, signed), None),
                None => value.clone(),
            }
        };
        let inputs: Vec<Reals> = (0..cell.inputs.len()).map(read).collect();
        results.push(compute(network, cell, cell_plan, &inputs));
    }
    network.cells.iter().zip(results).map(|(c, r)| (graph[c.output].name.clone(), r)).collect()
}

fn requantized(x: &Reals, by: &Rescale, bounds: (i64, i64), axis: Option<usize>) -> Reals {
    let (size, inner) = match axis {
        Some(axis) => (x.dims[axis], x.dims[axis + 1..].iter().product::<usize>()),
        None => (1, x.values.len()),
    };
    let one = |(i, v): (usize, &f64)| {
        by.apply(*v as i64, i / inner % size).clamp(bounds.0, bounds.1) as f64
    };
    Reals { dims: x.dims.clone(), values: x.values.iter().enumerate().map(one).collect() }
}

fn compute(network: &CellNetwork, cell: &Cell, plan: &CellPlan, inputs: &[Reals]) -> Reals {
    let graph = &network.model.graph;
    let node = &graph[cell.node];
    let mut result = match cell.kind {
        CellKind::Conv | CellKind::Fc => {
            let (parameters, integers) =
                (cell.parameters.as_ref().unwrap(), plan.integers.as_ref().unwrap());
            let values = integers.weights.iter().map(|w| f64::from(*w)).collect();
            let w = Reals { dims: parameters.dims.clone(), values };
            let mut result = run(network, node, &[&inputs[0], &w]);
            let axis = if cell.kind == CellKind::Fc { result.dims.len() - 1 } else { 1 };
            let inner: usize = result.dims[axis + 1..].iter().product();
            if let Some(bias) = &integers.bias {
                let sums = result.values.iter_mut().enumerate();
                sums.for_each(|(i, v)| *v += bias[i / inner % bias.len()] as f64);
            }
            result
        }
        CellKind::Sum => inputs[1..].iter().fold(inputs[0].clone(), |sum, x| &sum + x),
        CellKind::AveragePool => run(network, node, &[&inputs[0]]).map(f64::trunc),
        CellKind::Activation => inputs[0].clone(),
        CellKind::Layout => {
            let rest = node.inputs[1..].iter().map(|v| graph.constant(v.unwrap()).cloned());
            let mut all = vec![inputs[0].to_tensor(DataType::Double)];
            all.extend(rest);
            eval_node(node, 17, &all, 1 << 32).unwrap()[0].to_reals().unwrap()
        }
        CellKind::MaxPool | CellKind::Max | CellKind::Concat | CellKind::Float => {
            run(network, node, &inputs.iter().collect::<Vec<_>>())
        }
    };
    let Some(output) = plan.output.filter(|_| cell.kind != CellKind::Float) else { return result };
    if let Some(rescale) = &plan.rescale {
        let axis = if cell.kind == CellKind::Fc { result.dims.len() - 1 } else { 1 };
        result = requantized(&result, rescale, output.bounds(), Some(axis));
    }
    match cell.activation {
        Activation::Rectifier { .. } => result.map(|v| v.max(0.0)),
        _ => result,
    }
}

/// Computes a node in double precision.
fn run(network: &CellNetwork, node: &Node, inputs: &[&Reals]) -> Reals {
    let mut node = node.clone();
    if node.is("Conv") || node.is("Gemm") {
        node.inputs.truncate(2);
        if let Some((_, Attr::Float(beta))) = node.attrs.iter_mut().find(|(n, _)| n == "beta") {
            *beta = 1.0;
        }
    }
    let inputs: Vec<Option<Tensor>> =
        inputs.iter().map(|x| x.to_tensor(DataType::Double)).collect();
    let found = eval_node(&node, network.model.opset(), &inputs, 1 << 32).unwrap();
    found[0].to_reals().unwrap()
}
