//! Linear models.

use super::scores::{Labels, Transform, demanded, floats, largest, table};
use crate::call::{KernelCall, KernelRow, row};
use crate::dims::size;
use crate::fault::{Fault, Outcome};
use crate::parallel::fill_parts;
use crate::reals::{reals, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    row("LinearClassifier", linear_classifier).in_domain(super::DOMAIN),
    row("LinearRegressor", linear_regressor).in_domain(super::DOMAIN),
];

/// Products of each row of a table and the coefficients of each target, plus its intercept.
fn scores(call: &KernelCall, targets: usize, intercepts: &[f64]) -> Outcome<Vec<f64>> {
    let x = call.x(0)?;
    let (rows, columns) = table(x)?;
    let coefficients = floats(call, "coefficients")?;
    if targets.checked_mul(columns) != Some(coefficients.len()) {
        let found = coefficients.len();
        let text = format!("{found} coefficients are not {targets} times the {columns} features");
        return Err(Fault::invalid(text));
    }
    let mut sums = vec![0f64; call.room(DataType::Double, &[rows, targets])?];
    let x = reals(x)?;
    fill_parts(&mut sums, 1, columns, &|first, part| {
        for (i, sum) in part.iter_mut().enumerate() {
            let (row, target) = ((first + i) / targets, (first + i) % targets);
            let row = &x[row * columns..][..columns];
            let weights = &coefficients[target * columns..][..columns];
            let product: f64 = row.iter().zip(weights).map(|(a, b)| a * b).sum();
            *sum = product + intercepts.get(target).copied().unwrap_or(0.0);
        }
    });
    Ok(sums)
}

fn linear_classifier(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let labels = Labels::from_call(call, "classlabels_ints")?;
    let transform = Transform::from_call(call)?;
    let intercepts = floats(call, "intercepts")?;
    let (rows, columns) = table(call.x(0)?)?;
    let coefficients = demanded(call.floats("coefficients")?, "coefficients")?.len();
    let targets = match intercepts.len() {
        0 => coefficients / columns.max(1),
        targets => targets,
    };
    let mut scores = scores(call, targets, &intercepts)?;
    refuse!(targets == 0 => "it has no coefficients");
    if targets > 1 {
        let best = scores.chunks(targets).map(largest).collect();
        scores.chunks_mut(targets).for_each(|scores| transform.apply(scores));
        let y = stored(DataType::Float, &[rows, targets], scores)?;
        return Ok(vec![labels.at(call, best)?, y]);
    }
    let two = labels.len() == 2;
    let places = scores.iter().map(|v| usize::from(*v > 0.0)).collect();
    let scores: Vec<f64> = match two {
        true => scores.iter().flat_map(|v| transform.shared(*v, false)).collect(),
        false => scores.iter().map(|v| transform.apply_to_one(*v)).collect(),
    };
    let y = stored(DataType::Float, &[rows, 1 + usize::from(two)], scores)?;
    Ok(vec![labels.of_two()?.at(call, places)?, y])
}

fn linear_regressor(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let targets = size(call.int("targets", 1)?)?;
    let (rows, _) = table(call.x(0)?)?;
    let intercepts = floats(call, "intercepts")?;
    let intercepts = if intercepts.len() == targets { intercepts } else { vec![] };
    let mut scores = scores(call, targets, &intercepts)?;
    let transform = Transform::from_call(call)?;
    match targets {
        0 | 1 => scores.iter_mut().for_each(|v| *v = transform.apply_to_one(*v)),
        n => scores.chunks_mut(n).for_each(|scores| transform.apply(scores)),
    }
    Ok(vec![stored(DataType::Float, &[rows, targets], scores)?])
}
