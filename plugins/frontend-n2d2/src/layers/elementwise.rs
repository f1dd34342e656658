//! Operations between layers of one size, value by value.

use crate::diag::refuse;
use onnxd_plugin_sdk::build::Var;

use crate::cell::{Cell, Feature, Lowered};
use crate::ini::{settings, words};

words! {
    Operation { Sum, AbsSum, EuclideanSum, Prod, Max }
    /// What a list of coefficients has one number for. N2D2 computes `PerLayer` as `PerInput`.
    Mode { PerLayer, PerInput, PerChannel }
}

settings! {
    struct ElemWise {
        Operation: Operation, CoeffMode: Mode = Mode::PerInput,
        Weights: Vec<f32> = vec![], Shifts: Vec<f32> = vec![],
    }
}

pub(super) fn elementwise(b: &Cell, a: &ElemWise) -> Lowered {
    let inputs = inputs(b)?;
    let x = inputs[0];
    b.check_outputs(x)?;
    let sizes = [inputs.len(), x.size.channels];
    let weights = coefficients(b, a, ("Weights", a.Weights.clone(), 1.0), sizes)?;
    let shifts = coefficients(b, a, ("Shifts", a.Shifts.clone(), 0.0), sizes)?;
    let values: Vec<Var> = inputs.iter().map(|x| x.value).collect();
    match a.Operation {
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
        Operation::Max if values.len() == 1 => Ok(values[0]),
        Operation::Max => b.max(values),
    }
}

/// All inputs, of one size and one rank.
fn inputs(b: &Cell) -> Lowered<Vec<Feature>> {
    refuse!(b.inputs.iter().any(|x| x.size != b.inputs[0].size) => b.different_inputs());
    let flat = b.inputs.iter().all(|x| x.flat);
    b.inputs.iter().map(|x| if flat { Ok(*x) } else { b.unsqueezed(*x) }).collect()
}

/// `Weights` or `Shifts`: for each input, one number or one for each channel. What a list does not
/// say has its default, as in N2D2: a short list is never spread.
fn coefficients(
    b: &Cell,
    a: &ElemWise,
    (key, mut found, default): (&str, Vec<f32>, f32),
    [inputs, channels]: [usize; 2],
) -> Lowered<Vec<Vec<f32>>> {
    let per_channel = a.CoeffMode == Mode::PerChannel;
    let (most, what) = if per_channel { (channels, "channel") } else { (inputs, "input") };
    if found.len() > most {
        let count = found.len();
        let message = format!("has {count} numbers, {most} are expected: one for each {what}");
        return Err(b.section.problem(key, message));
    }
    found.resize(most, default);
    Ok(match per_channel {
        true => vec![found; inputs],
        false => found.into_iter().map(|value| vec![value]).collect(),
    })
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
