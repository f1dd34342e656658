//! `onnxd compare`: two models on the same inputs, output by output and, where names agree, value by value.

use super::arrays::{self, Arrays};
use super::evaluate::run;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::compare::{Comparison as Difference, compare as difference, within};
use onnxd_ir::{DataType, Model, Tensor, ValueType};
use std::path::Path;

/// Size that stands for a dimension of unknown size when inputs are made up.
const FREE_DIM: usize = 2;

/// One value of both models.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Its name in the first model.
    pub name: String,
    /// Whether it is an output.
    pub output: bool,
    /// How it differs, or why it cannot be compared.
    pub difference: Result<Difference, String>,
    /// Whether every element is within the tolerances.
    pub within: bool,
}

/// Runs both models on the arrays of `inputs`, or on made-up ones, and compares what they give. `tolerance` is absolute
/// and relative.
///
/// # Errors
/// Everything that keeps one of them from running.
pub fn compare(
    a: &Path,
    b: &Path,
    inputs: Option<&Path>,
    tolerance: (f64, f64),
) -> Result<Vec<Comparison>, Diagnostics> {
    let (a, b) = (onnxd_onnx::load(a)?.model, onnxd_onnx::load(b)?.model);
    let inputs = match inputs {
        Some(path) => arrays::read(path)?,
        None => made_up(&a),
    };
    let (a, b) = (run(&a, &inputs, true)?, run(&b, &by_place(&inputs, &b), true)?);
    let mut found = Vec::new();
    for (i, (name, x)) in a.outputs.iter().enumerate() {
        let twin = b.outputs.iter().find(|(n, _)| n == name).or_else(|| b.outputs.get(i));
        found.push(match twin {
            Some((_, y)) => one(name, true, x, y, tolerance),
            None => Comparison {
                name: name.clone(),
                output: true,
                difference: Err("the second model has no such output".into()),
                within: false,
            },
        });
    }
    for (name, x) in &a.all {
        let is_output = a.outputs.iter().any(|(n, _)| n == name);
        if let Some((_, y)) = b.all.iter().find(|(n, _)| n == name)
            && !is_output
        {
            found.push(one(name, false, x, y, tolerance));
        }
    }
    Ok(found)
}

fn one(name: &str, output: bool, x: &Tensor, y: &Tensor, (atol, rtol): (f64, f64)) -> Comparison {
    Comparison {
        name: name.to_owned(),
        output,
        difference: difference(y, x).map_err(|why| why.to_string()),
        within: within(y, x, atol, rtol).unwrap_or(false),
    }
}

/// The same arrays under the names of the second model's inputs, where the names differ.
fn by_place(inputs: &Arrays, model: &Model) -> Arrays {
    let graph = &model.graph;
    let names: Vec<&String> = graph.inputs().iter().map(|v| &graph[*v].name).collect();
    if names.iter().all(|name| inputs.iter().any(|(n, _)| n == *name)) {
        return inputs.clone();
    }
    names.into_iter().zip(inputs).map(|(name, (_, t))| (name.clone(), t.clone())).collect()
}

/// Values between -1 and 1 by a fixed rule, or small integers, for every input without an initializer.
fn made_up(model: &Model) -> Arrays {
    let graph = &model.graph;
    let inputs = graph.inputs().iter().filter(|v| graph[**v].initializer().is_none());
    let made = inputs.map(|v| {
        let ty = graph[*v].ty.as_ref();
        let shape = ty.and_then(ValueType::shape).unwrap_or_default();
        let size = |d: &onnxd_ir::Dim| d.known().map_or(FREE_DIM, |n| n.max(0) as usize);
        let dims: Vec<usize> = shape.iter().map(size).collect();
        let dtype = ty.and_then(ValueType::dtype).unwrap_or(DataType::Float);
        (graph[*v].name.clone(), pattern(dtype, dims))
    });
    made.collect()
}

fn pattern(dtype: DataType, dims: Vec<usize>) -> Tensor {
    let count: usize = dims.iter().product();
    let at = |i: usize| (i.wrapping_mul(7919) % 2003) as f64 / 1001.0 - 1.0;
    let reals = onnxd_ir::Reals { values: (0..count).map(at).collect(), dims: dims.clone() };
    reals.to_tensor(dtype).unwrap_or_else(|| {
        let bytes = dtype.byte_len(count).unwrap_or(0);
        Tensor::new(dtype, dims, vec![0; bytes].into()).expect("zeros of the right length")
    })
}
