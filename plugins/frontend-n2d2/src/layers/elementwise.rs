//! Operations between layers of one size, value by value.

use onnxd_plugin_sdk::ir::{ValueId, ops};

use crate::build::Feature;
use crate::cell::{Cell, Lowered};
use crate::diag::Diagnostic;

pub(super) const KEYS: &[&str] = &["Operation", "CoeffMode", "Weights", "Shifts"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Sum,
    AbsSum,
    EuclideanSum,
    Prod,
    Max,
}

/// What a list of coefficients has one number for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Input,
    Channel,
}

pub(super) fn elementwise(cell: &mut Cell) -> Lowered {
    const OPERATIONS: &[(&str, Operation)] = &[
        ("Sum", Operation::Sum),
        ("AbsSum", Operation::AbsSum),
        ("EuclideanSum", Operation::EuclideanSum),
        ("Prod", Operation::Prod),
        ("Max", Operation::Max),
    ];
    let Some(operation) = cell.section.choice("Operation", OPERATIONS)? else {
        let help = "Set it to Sum, AbsSum, EuclideanSum, Prod or Max.";
        return Err(cell.section.problem("Operation", "is missing").help(help));
    };
    let inputs = inputs(cell)?;
    let x = inputs[0];
    cell.check_outputs(x)?;
    let coefficients = Coefficients::read(cell, inputs.len(), x.size.channels)?;
    match operation {
        Operation::Sum => sum(cell, &inputs, &coefficients),
        Operation::AbsSum => abs_sum(cell, &inputs, &coefficients),
        Operation::EuclideanSum => euclidean_sum(cell, &inputs, &coefficients),
        Operation::Prod => Ok(inputs[1..]
            .iter()
            .fold(x, |product, factor| cell.same(x, ops::Mul::new(product.value, factor.value)))),
        Operation::Max => Ok(match inputs.len() {
            1 => x,
            _ => cell.same(x, ops::Max::new(values(&inputs))),
        }),
    }
}

fn values(inputs: &[Feature]) -> Vec<ValueId> {
    inputs.iter().map(|x| x.value).collect()
}

/// All inputs, of one size and one rank.
fn inputs(cell: &mut Cell) -> Result<Vec<Feature>, Diagnostic> {
    let inputs = cell.inputs.clone();
    if inputs.iter().any(|x| x.size != inputs[0].size) {
        return Err(cell.different_inputs());
    }
    let flat = inputs.iter().all(|x| x.flat);
    Ok(inputs.into_iter().map(|x| if flat { x } else { cell.unsqueezed(x) }).collect())
}

/// `Weights` and `Shifts`: for each input, one number or one for each channel.
struct Coefficients {
    weights: Vec<Vec<f32>>,
    shifts: Vec<Vec<f32>>,
}

impl Coefficients {
    /// What a list does not say has its default, as in N2D2: a short list is never spread. N2D2
    /// computes `PerLayer` as `PerInput`.
    fn read(cell: &Cell, inputs: usize, channels: usize) -> Result<Coefficients, Diagnostic> {
        const MODES: &[(&str, Mode)] =
            &[("PerLayer", Mode::Input), ("PerInput", Mode::Input), ("PerChannel", Mode::Channel)];
        let mode = cell.section.choice("CoeffMode", MODES)?.unwrap_or(Mode::Input);
        let list = |key: &str, default: f32| {
            let mut found = cell.section.or(key, Vec::<f32>::new())?;
            let (most, what) = match mode {
                Mode::Input => (inputs, "one for each input"),
                Mode::Channel => (channels, "one for each channel"),
            };
            if found.len() > most {
                let count = found.len();
                let message = format!("has {count} numbers, {most} are expected: {what}");
                return Err(cell.section.problem(key, message));
            }
            found.resize(most, default);
            Ok(match mode {
                Mode::Input => found.into_iter().map(|value| vec![value]).collect(),
                Mode::Channel => vec![found; inputs],
            })
        };
        Ok(Coefficients { weights: list("Weights", 1.0)?, shifts: list("Shifts", 0.0)? })
    }

    /// The sum of the shifts of all inputs after `f`; nothing if it is zero.
    fn total_shift(&self, f: impl Fn(f32) -> f32) -> Option<Vec<f32>> {
        let mut total = self.shifts[0].iter().map(|s| f(*s)).collect::<Vec<f32>>();
        for shifts in &self.shifts[1..] {
            total.iter_mut().zip(shifts).for_each(|(total, s)| *total += f(*s));
        }
        total.iter().any(|s| *s != 0.0).then_some(total)
    }
}

/// `w x` for each input.
fn weighted(cell: &mut Cell, inputs: &[Feature], weights: &[Vec<f32>]) -> Vec<Feature> {
    let pairs = inputs.iter().zip(weights);
    pairs.map(|(x, w)| if w.iter().all(|w| *w == 1.0) { *x } else { scaled(cell, *x, w) }).collect()
}

fn scaled(cell: &mut Cell, x: Feature, w: &[f32]) -> Feature {
    let w = cell.per_channel("weight", x, w.to_vec());
    cell.same(x, ops::Mul::new(x.value, w))
}

fn added(cell: &mut Cell, inputs: &[Feature]) -> Feature {
    match inputs {
        [x] => *x,
        [a, b] => cell.same(*a, ops::Add::new(a.value, b.value)),
        [first, ..] => cell.same(*first, ops::Sum::new(values(inputs))),
        [] => unreachable!("a layer has at least one input"),
    }
}

fn shifted(cell: &mut Cell, x: Feature, shift: Option<Vec<f32>>) -> Feature {
    let Some(shift) = shift else { return x };
    let shift = cell.per_channel("shift", x, shift);
    cell.same(x, ops::Add::new(x.value, shift))
}

/// `Σ (w x + s)`
fn sum(cell: &mut Cell, inputs: &[Feature], coefficients: &Coefficients) -> Lowered {
    let terms = weighted(cell, inputs, &coefficients.weights);
    let sum = added(cell, &terms);
    Ok(shifted(cell, sum, coefficients.total_shift(|s| s)))
}

/// `Σ w |x|`
fn abs_sum(cell: &mut Cell, inputs: &[Feature], coefficients: &Coefficients) -> Lowered {
    let terms: Vec<Feature> =
        inputs.iter().map(|x| cell.same(*x, ops::Abs::new(x.value))).collect();
    let terms = weighted(cell, &terms, &coefficients.weights);
    Ok(added(cell, &terms))
}

/// `sqrt(Σ (w² x² + s²))`
fn euclidean_sum(cell: &mut Cell, inputs: &[Feature], coefficients: &Coefficients) -> Lowered {
    let square = |x: f32| x * x;
    let terms: Vec<Feature> =
        inputs.iter().map(|x| cell.same(*x, ops::Mul::new(x.value, x.value))).collect();
    let squares: Vec<Vec<f32>> =
        coefficients.weights.iter().map(|w| w.iter().map(|w| square(*w)).collect()).collect();
    let terms = weighted(cell, &terms, &squares);
    let sum = added(cell, &terms);
    let sum = shifted(cell, sum, coefficients.total_shift(square));
    Ok(cell.same(sum, ops::Sqrt::new(sum.value)))
}
