//! Operations between layers of one size, value by value.

use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Feature, Lowered};
use crate::ini::words;

words! { Operation { Sum, AbsSum, EuclideanSum, Prod, Max } }
words! {
    /// What a list of coefficients has one number for. N2D2 computes `PerLayer` as `PerInput`.
    Mode { PerLayer, PerInput, PerChannel }
}

pub(super) fn elementwise(b: &Cell) -> Lowered {
    let operation = b.section.required::<Operation>("Operation")?;
    let inputs = inputs(b)?;
    let x = inputs[0];
    b.check_outputs(x)?;
    let Coefficients { weights, shifts } = Coefficients::read(b, inputs.len(), x.size.channels)?;
    let values: Vec<Var> = inputs.iter().map(|x| x.value).collect();
    match operation {
        // `Σ (w x + s)`
        Operation::Sum => {
            let sum = weighted_sum(b, x, &values, &weights)?;
            shifted(b, x, sum, &shifts)
        }
        // `Σ w |x|`
        Operation::AbsSum => {
            let terms = values.iter().map(|v| b.abs(v)).collect::<Lowered<Vec<Var>>>()?;
            weighted_sum(b, x, &terms, &weights)
        }
        // `sqrt(Σ (w² x² + s²))`
        Operation::EuclideanSum => {
            let terms = values.iter().map(|v| b.mul(v, v)).collect::<Lowered<Vec<Var>>>()?;
            let sum = weighted_sum(b, x, &terms, &squares(&weights))?;
            b.sqrt(shifted(b, x, sum, &squares(&shifts))?)
        }
        Operation::Prod => values[1..].iter().try_fold(values[0], |product, v| b.mul(product, v)),
        Operation::Max => {
            if let [v] = values[..] {
                Ok(v)
            } else {
                b.max(values)
            }
        }
    }
}

/// All inputs, of one size and one rank.
fn inputs(b: &Cell) -> Lowered<Vec<Feature>> {
    if b.inputs.iter().any(|x| x.size != b.inputs[0].size) {
        return Err(b.different_inputs());
    }
    let flat = b.inputs.iter().all(|x| x.flat);
    b.inputs.iter().map(|x| if flat { Ok(*x) } else { b.unsqueezed(*x) }).collect()
}

/// `Weights` and `Shifts`: for each input, one number or one for each channel.
struct Coefficients {
    weights: Vec<Vec<f32>>,
    shifts: Vec<Vec<f32>>,
}

impl Coefficients {
    /// What a list does not say has its default, as in N2D2: a short list is never spread.
    fn read(b: &Cell, inputs: usize, channels: usize) -> Lowered<Coefficients> {
        let mode = b.section.or("CoeffMode", Mode::PerInput)?;
        let per_channel = mode == Mode::PerChannel;
        let list = |key: &str, default: f32| {
            let mut found = b.section.or(key, Vec::<f32>::new())?;
            let (most, what) = match per_channel {
                false => (inputs, "one for each input"),
                true => (channels, "one for each channel"),
            };
            if found.len() > most {
                let count = found.len();
                let message = format!("has {count} numbers, {most} are expected: {what}");
                return Err(b.section.problem(key, message));
            }
            found.resize(most, default);
            Ok(match per_channel {
                false => found.into_iter().map(|value| vec![value]).collect(),
                true => vec![found; inputs],
            })
        };
        Ok(Coefficients { weights: list("Weights", 1.0)?, shifts: list("Shifts", 0.0)? })
    }
}

fn squares(numbers: &[Vec<f32>]) -> Vec<Vec<f32>> {
    numbers.iter().map(|of| of.iter().map(|x| x * x).collect()).collect()
}

/// `Σ w x` of values like `x`.
fn weighted_sum(b: &Cell, x: Feature, terms: &[Var], weights: &[Vec<f32>]) -> Lowered {
    let weighted = |(term, w): (&Var, &Vec<f32>)| match w.iter().all(|w| *w == 1.0) {
        true => Ok(*term),
        false => b.mul(term, b.per_channel("weight", x, w.clone())),
    };
    let terms = terms.iter().zip(weights).map(weighted).collect::<Lowered<Vec<Var>>>()?;
    match terms[..] {
        [term] => Ok(term),
        [first, second] => b.add(first, second),
        _ => b.sum(terms),
    }
}

/// A value like `x` with the sum of the shifts of all inputs, unless that is zero.
fn shifted(b: &Cell, x: Feature, sum: Var, shifts: &[Vec<f32>]) -> Lowered {
    let mut total = shifts[0].clone();
    for shifts in &shifts[1..] {
        total.iter_mut().zip(shifts).for_each(|(total, s)| *total += s);
    }
    match total.iter().all(|s| *s == 0.0) {
        true => Ok(sum),
        false => b.add(sum, b.per_channel("shift", x, total)),
    }
}
