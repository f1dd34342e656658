//! `onnxd compare`: two models on the same inputs, output by output and, where names agree, value by value.

use super::arrays::{self, Arrays};
use super::evaluate::run;
use crate::integers;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_eval::compare::{Comparison as Difference, compare as difference, passed_over, within};
use onnxd_ir::{DataType, Model, Tensor, ValueId, ValueType};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Size that stands for a dimension of unknown size when inputs are made up.
const FREE_DIM: usize = 2;
/// Elements of a made-up input.
const ELEMENTS_MAX: usize = 1 << 27;

const MADE_UP: &str = "compared on values between -1 and 1 that were made up by a fixed rule; \
                       give `--inputs` to compare on data";

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

/// Both models on the same inputs.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Outputs first, then values that have the same names.
    pub values: Vec<Comparison>,
    /// On what they were compared, and what was passed over; in words.
    pub notes: Vec<String>,
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
) -> Result<Compared, Diagnostics> {
    let (first, second) = (onnxd_onnx::load(a)?.model, onnxd_onnx::load(b)?.model);
    let (mut notes, mut inputs) = match inputs {
        Some(path) => {
            (vec![format!("compared on the arrays of `{}`", path.display())], arrays::read(path)?)
        }
        None => (vec![MADE_UP.to_owned()], made_up(&first)?),
    };
    notes.extend(leave_out(&first, &mut inputs));
    let mut for_b = renamed(&inputs, &first, &second);
    for (model, arrays) in [(&first, &mut inputs), (&second, &mut for_b)] {
        for name in integers::inputs(model, arrays) {
            notes.push(format!("integers for the input `{name}` were made by the declared step"));
        }
    }
    let (a, b) = (run(&first, &inputs, true)?, run(&second, &for_b, true)?);
    let mut comparisons = Vec::new();
    let outputs: Vec<&str> = a.outputs.iter().map(|(name, _)| name.as_str()).collect();
    for ((name, x), y) in a.outputs.iter().zip(arrays::belonging(&b.outputs, &outputs)) {
        comparisons.push(match y {
            Some(y) => {
                let (comparisons, said) = output(&first, &second, name, x, y, tolerance);
                notes.extend(said);
                comparisons
            }
            None => Comparison {
                name: name.clone(),
                output: true,
                difference: Err("the second model has no such output".into()),
                within: false,
            },
        });
    }
    let outputs: HashSet<&str> = outputs.into_iter().collect();
    let computed: HashMap<&str, &Tensor> = b.all.iter().map(|(n, t)| (n.as_str(), t)).collect();
    for (name, x) in &a.all {
        if let Some(y) = computed.get(name.as_str())
            && !outputs.contains(name.as_str())
        {
            comparisons.push(one(name, false, x, y, tolerance));
        }
    }
    Ok(Compared { values: comparisons, notes })
}

/// Compares an output; integers beside numbers by the scale that their model declares.
fn output(
    first: &Model,
    second: &Model,
    name: &str,
    x: &Tensor,
    y: &Tensor,
    tolerance: (f64, f64),
) -> (Comparison, Vec<String>) {
    let own = |model: &Model| {
        let at = first.graph.outputs().iter().position(|v| first.graph[*v].name == name)?;
        let named = model.graph.outputs().iter().find(|v| model.graph[**v].name == name);
        let id = named.or_else(|| model.graph.outputs().get(at))?;
        Some(model.graph[*id].name.clone())
    };
    let of_x = integers::output(first, name, x, y);
    let of_y = own(second).and_then(|name| integers::output(second, &name, y, x));
    let said = of_x.iter().chain(&of_y).map(|(_, text)| text.clone());
    let said = said.chain(passed_over(y, x)).map(|text| format!("output `{name}`: {text}"));
    let said = said.collect();
    let x = of_x.as_ref().map_or(x, |(numbers, _)| numbers);
    let y = of_y.as_ref().map_or(y, |(numbers, _)| numbers);
    (one(name, true, x, y, tolerance), said)
}

/// Takes arrays away that no input has the name of, where the others suffice; says which.
fn leave_out(model: &Model, inputs: &mut Arrays) -> Option<String> {
    let graph = &model.graph;
    let part = |array: &str, input: &str| {
        array == input || array.strip_prefix(input).is_some_and(|rest| rest.starts_with('.'))
    };
    let known = |array: &str| graph.inputs().iter().any(|v| part(array, &graph[*v].name));
    if !fed(model).iter().all(|v| inputs.iter().any(|(array, _)| part(array, &graph[*v].name))) {
        return None;
    }
    let (kept, left): (Arrays, Arrays) = inputs.drain(..).partition(|(name, _)| known(name));
    *inputs = kept;
    let names: Vec<String> = left.iter().map(|(name, _)| format!("`{}`", shown(name))).collect();
    (!names.is_empty()).then(|| format!("no input has the name of {}", names.join(", ")))
}

fn one(name: &str, output: bool, x: &Tensor, y: &Tensor, (atol, rtol): (f64, f64)) -> Comparison {
    Comparison {
        name: name.to_owned(),
        output,
        difference: difference(y, x).map_err(|why| why.to_string()),
        within: within(y, x, atol, rtol).unwrap_or(false),
    }
}

/// The inputs that a model must be given.
fn fed(model: &Model) -> Vec<ValueId> {
    let graph = &model.graph;
    graph.inputs().iter().copied().filter(|v| graph[*v].initializer().is_none()).collect()
}

/// The arrays for `a` under the names of the inputs of `b` that stand at the same places, where the names differ.
fn renamed(inputs: &Arrays, a: &Model, b: &Model) -> Arrays {
    let names = |model: &Model| -> Vec<String> {
        fed(model).into_iter().map(|v| model.graph[v].name.clone()).collect()
    };
    let (from, to) = (names(a), names(b));
    let given: HashSet<&String> = inputs.iter().map(|(name, _)| name).collect();
    if to.iter().all(|name| given.contains(name)) {
        return inputs.clone();
    }
    let new: HashMap<&String, &String> = from.iter().zip(&to).collect();
    let new = |name| (*new.get(name).unwrap_or(&name)).clone();
    inputs.iter().map(|(name, t)| (new(name), t.clone())).collect()
}

/// Values between -1 and 1 by a fixed rule, or small integers, for every input that must be given.
fn made_up(model: &Model) -> Result<Arrays, Diagnostic> {
    let made = fed(model).into_iter().map(|v| {
        let value = &model.graph[v];
        let ty = value.ty.as_ref();
        let shape = ty.and_then(ValueType::shape).unwrap_or_default();
        let size = |d: &onnxd_ir::Dim| d.known().map_or(FREE_DIM, |n| n.max(0) as usize);
        let dims: Vec<usize> = shape.iter().map(size).collect();
        let dtype = ty.and_then(ValueType::dtype).unwrap_or(DataType::Float);
        let made = pattern(dtype, &dims).ok_or_else(|| {
            let text =
                format!("no values of type {dtype} {dims:?} are made up for `{}`", value.name);
            Diagnostic::new(Code::EvalInputs, text).help("Give the inputs in a file.")
        });
        Ok((value.name.clone(), made?))
    });
    made.collect()
}

fn pattern(dtype: DataType, dims: &[usize]) -> Option<Tensor> {
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let count = count.filter(|n| *n <= ELEMENTS_MAX)?;
    let at = |i: usize| (i.wrapping_mul(7919) % 2003) as f64 / 1001.0 - 1.0;
    let reals = onnxd_ir::Reals { values: (0..count).map(at).collect(), dims: dims.to_vec() };
    reals.to_tensor(dtype).or_else(|| {
        let zeros = vec![0; dtype.byte_len(count)?];
        Tensor::new(dtype, dims.to_vec(), zeros.into()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::Graph;

    fn model(inputs: &[(&str, DataType, &[i64])]) -> Model {
        let mut g = Graph::new("g");
        for (name, dtype, dims) in inputs {
            g.add_input(name, Some(ValueType::tensor(*dtype, dims.iter().copied())));
        }
        Model::new(g, 8, 17)
    }

    #[test]
    fn inputs_are_made_up_within_bounds() {
        let made =
            made_up(&model(&[("x", DataType::Float, &[2, 0]), ("n", DataType::Int64, &[3])]));
        let made = made.unwrap();
        assert_eq!((made[0].1.dims(), made[1].1.dims()), ([2, 0].as_slice(), [3].as_slice()));
        for (dtype, dims) in [(DataType::Float, [1 << 40, 1 << 40]), (DataType::String, [1, 1])] {
            let found = made_up(&model(&[("x", dtype, &dims)])).unwrap_err();
            assert_eq!(found.code, "N0507");
        }
    }

    #[test]
    fn arrays_follow_the_places_of_inputs() {
        let a = model(&[("p", DataType::Float, &[1]), ("q", DataType::Float, &[2])]);
        let b = model(&[("r", DataType::Float, &[1]), ("s", DataType::Float, &[2])]);
        let mut inputs = made_up(&a).unwrap();
        inputs.reverse();
        let names: Vec<String> = renamed(&inputs, &a, &b).into_iter().map(|(n, _)| n).collect();
        assert_eq!(names, ["s", "r"]);
        assert_eq!(renamed(&inputs, &a, &a), inputs);
    }
}
