//! Support vector machines.

use super::scores::{Labels, Transform, floats, largest, logistic, table};
use crate::call::{KernelCall, KernelRow, one, row};
use crate::dims::{size, sizes};
use crate::fault::{Fault, Outcome};
use crate::parallel::fill_parts;
use crate::reals::{reals, stored};
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    row("SVMClassifier", svm_classifier).in_domain(super::DOMAIN),
    row("SVMRegressor", svm_regressor).in_domain(super::DOMAIN),
];

/// How alike a row and a support vector are.
enum SvmKernel {
    Linear,
    Poly { gamma: f64, coef0: f64, degree: f64 },
    Rbf { gamma: f64 },
    Sigmoid { gamma: f64, coef0: f64 },
}

impl SvmKernel {
    fn from_call(call: &KernelCall) -> Outcome<SvmKernel> {
        let params = floats(call, "kernel_params")?;
        let (gamma, coef0, degree) = match params[..] {
            [] => (0.0, 0.0, 0.0),
            [gamma, coef0, degree] => (gamma, coef0, degree),
            _ => return Err(Fault::invalid("kernel_params are not gamma, coef0 and degree")),
        };
        match call.string("kernel_type", "LINEAR")? {
            "LINEAR" => Ok(SvmKernel::Linear),
            "POLY" => Ok(SvmKernel::Poly { gamma, coef0, degree }),
            "RBF" => Ok(SvmKernel::Rbf { gamma }),
            "SIGMOID" => Ok(SvmKernel::Sigmoid { gamma, coef0 }),
            other => Err(Fault::invalid(format!("kernel_type `{other}` is not defined"))),
        }
    }

    fn value(&self, a: &[f64], b: &[f64]) -> f64 {
        let product = || -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        match *self {
            SvmKernel::Linear => product(),
            SvmKernel::Poly { gamma, coef0, degree } => (gamma * product() + coef0).powf(degree),
            SvmKernel::Sigmoid { gamma, coef0 } => (gamma * product() + coef0).tanh(),
            SvmKernel::Rbf { gamma } => {
                let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
                (-gamma * distance).exp()
            }
        }
    }
}

/// The kernel of every row of the input and every one of `count` vectors.
fn alike(
    call: &KernelCall,
    kernel: &SvmKernel,
    vectors: &[f64],
    count: usize,
) -> Outcome<Vec<f64>> {
    let x = call.x(0)?;
    let (rows, columns) = table(x)?;
    if count.checked_mul(columns) != Some(vectors.len()) {
        let found = vectors.len();
        let text = format!("{found} numbers are not {count} vectors of {columns} features");
        return Err(Fault::invalid(text));
    }
    let mut values = vec![0f64; call.room(DataType::Double, &[rows, count])?];
    let x = reals(x)?;
    fill_parts(&mut values, 1, columns, &|first, part| {
        for (i, value) in part.iter_mut().enumerate() {
            let (row, vector) = ((first + i) / count, (first + i) % count);
            *value = kernel
                .value(&x[row * columns..][..columns], &vectors[vector * columns..][..columns]);
        }
    });
    Ok(values)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn svm_regressor(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (rows, _) = table(call.x(0)?)?;
    let coefficients = floats(call, "coefficients")?;
    let rho = first(&floats(call, "rho")?)?;
    let supports = size(call.int("n_supports", 0)?)?;
    let mut y: Vec<f64> = match supports {
        0 => alike(call, &SvmKernel::Linear, &coefficients, 1)?,
        n if coefficients.len() != n => {
            let text = format!("there are {} coefficients for {n} vectors", coefficients.len());
            return Err(Fault::invalid(text));
        }
        n => alike(call, &SvmKernel::from_call(call)?, &floats(call, "support_vectors")?, n)?
            .chunks(n)
            .map(|row| dot(row, &coefficients))
            .collect(),
    };
    let one_class = call.flag("one_class", false)?;
    for v in &mut y {
        *v += rho;
        if one_class {
            *v = if *v > 0.0 { 1.0 } else { -1.0 };
        }
    }
    one(stored(DataType::Float, &[rows, 1], y)?)
}

fn first(list: &[f64]) -> Outcome<f64> {
    list.first().copied().ok_or_else(|| Fault::invalid("attribute `rho` is missing"))
}

/// Pairs of classes, each with a classifier of its own.
struct Pairs {
    classes: usize,
    /// Where the support vectors of each class begin; one more, where the last ends.
    starts: Vec<usize>,
    /// A row for each class but one, a column for each vector.
    coefficients: Vec<f64>,
    rho: Vec<f64>,
    /// Sigmoids that make probabilities of scores.
    sigmoids: Option<(Vec<f64>, Vec<f64>)>,
}

impl Pairs {
    fn from_call(call: &KernelCall, classes: usize, per_class: &[usize]) -> Outcome<Pairs> {
        let mut starts = vec![0usize];
        for n in per_class {
            let end = starts.last().and_then(|s| s.checked_add(*n));
            starts.push(end.ok_or_else(|| Fault::invalid("vectors_per_class overflow"))?);
        }
        let (a, b) = (floats(call, "prob_a")?, floats(call, "prob_b")?);
        let coefficients = floats(call, "coefficients")?;
        let rho = floats(call, "rho")?;
        let pairs = classes * classes.saturating_sub(1) / 2;
        let vectors = starts[starts.len() - 1];
        let fits = per_class.len() == classes
            && coefficients.len() >= vectors.saturating_mul(classes - 1)
            && rho.len() >= pairs
            && (a.is_empty() && b.is_empty() || a.len() >= pairs && b.len() >= pairs);
        if !fits {
            let text = "vectors_per_class, coefficients, rho, prob_a and prob_b do not fit";
            return Err(Fault::invalid(format!("{text} the {classes} classes")));
        }
        let sigmoids = (!a.is_empty()).then_some((a, b));
        Ok(Pairs { classes, starts, coefficients, rho, sigmoids })
    }

    fn vectors(&self) -> usize {
        self.starts[self.classes]
    }

    /// The score of every pair of classes, and how many of them each class wins.
    fn scores(&self, kernels: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut scores, mut votes) = (Vec::new(), vec![0f64; self.classes]);
        let part = |row: usize, class: usize| {
            let range = self.starts[class]..self.starts[class + 1];
            let weights = &self.coefficients[row * self.vectors()..][..self.vectors()];
            dot(&weights[range.clone()], &kernels[range])
        };
        for i in 0..self.classes {
            for j in i + 1..self.classes {
                let score = part(j - 1, i) + part(i, j) + self.rho[scores.len()];
                votes[if score > 0.0 { i } else { j }] += 1.0;
                scores.push(score);
            }
        }
        (scores, votes)
    }

    /// The probability of each class that fits those of the pairs best.
    fn probabilities(&self, scores: &[f64], (a, b): &(Vec<f64>, Vec<f64>)) -> Vec<f64> {
        const LEAST: f64 = 1e-7;
        let n = self.classes;
        let mut pairs = vec![0f64; n * n];
        let mut at = 0;
        for i in 0..n {
            for j in i + 1..n {
                let p = logistic(-(scores[at] * a[at] + b[at])).clamp(LEAST, 1.0 - LEAST);
                (pairs[i * n + j], pairs[j * n + i]) = (p, 1.0 - p);
                at += 1;
            }
        }
        coupled(n, &pairs)
    }
}

/// Probabilities of classes from those of pairs of them: the second method of Wu, Lin and Weng, with
/// the bounds of LIBSVM.
fn coupled(n: usize, pairs: &[f64]) -> Vec<f64> {
    const ROUNDS_MAX: usize = 100;
    let error_max = 0.005 / n as f64;
    let mut q = vec![0f64; n * n];
    for i in 0..n {
        for j in (0..n).filter(|j| *j != i) {
            q[i * n + i] += pairs[j * n + i] * pairs[j * n + i];
            q[i * n + j] = -pairs[j * n + i] * pairs[i * n + j];
        }
    }
    let mut p = vec![1.0 / n as f64; n];
    for _ in 0..ROUNDS_MAX {
        let mut qp: Vec<f64> = q.chunks(n).map(|row| dot(row, &p)).collect();
        let mut pqp = dot(&p, &qp);
        if qp.iter().all(|v| (v - pqp).abs() < error_max) {
            break;
        }
        for i in 0..n {
            let row = &q[i * n..][..n];
            let step = (pqp - qp[i]) / row[i];
            p[i] += step;
            pqp = (pqp + step * (step * row[i] + 2.0 * qp[i])) / (1.0 + step) / (1.0 + step);
            qp.iter_mut().zip(row).for_each(|(v, q)| *v = (*v + step * q) / (1.0 + step));
            p.iter_mut().for_each(|v| *v /= 1.0 + step);
        }
    }
    p
}

fn svm_classifier(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let labels = Labels::from_call(call, "classlabels_ints")?;
    let per_class = sizes(call.ints("vectors_per_class")?.unwrap_or_default())?;
    if per_class.iter().all(|n| *n == 0) {
        return linear(call, &labels);
    }
    let transform = Transform::from_call(call)?;
    let (rows, _) = table(call.x(0)?)?;
    let pairs = Pairs::from_call(call, labels.len(), &per_class)?;
    let (kernel, vectors) = (SvmKernel::from_call(call)?, floats(call, "support_vectors")?);
    let kernels = alike(call, &kernel, &vectors, pairs.vectors())?;
    let mut best = Vec::with_capacity(rows);
    let mut all = Vec::new();
    for row in kernels.chunks(pairs.vectors()) {
        let (mut scores, votes) = pairs.scores(row);
        best.push(largest(&votes));
        match (&pairs.sigmoids, &scores[..]) {
            (Some(sigmoids), _) => {
                scores = pairs.probabilities(&scores, sigmoids);
                transform.apply(&mut scores);
            }
            (None, &[score]) => {
                scores = transform.shared(score, transform == Transform::None);
            }
            (None, _) => transform.apply(&mut scores),
        }
        all.extend(scores);
    }
    let width = all.len().checked_div(rows).unwrap_or(pairs.classes);
    let y = stored(DataType::Float, &[rows, width], all)?;
    Ok(vec![labels.at(call, best)?, y])
}

/// Without support vectors: the coefficients of each class are a linear model.
fn linear(call: &KernelCall, labels: &Labels) -> Outcome<Vec<Tensor>> {
    let transform = Transform::from_call(call)?;
    let (rows, _) = table(call.x(0)?)?;
    let coefficients = floats(call, "coefficients")?;
    let classes = labels.len();
    let mut scores = alike(call, &SvmKernel::Linear, &coefficients, classes)?;
    let rho = first(&floats(call, "rho")?)?;
    scores.iter_mut().for_each(|v| *v += rho);
    let positive = coefficients.iter().all(|v| *v >= 0.0);
    let place = |scores: &[f64]| {
        let best = largest(scores);
        let wins = if positive { scores[best] >= 0.5 } else { scores[best] > 0.0 };
        if classes == 2 && wins { 1 } else { best }
    };
    let best = scores.chunks(classes).map(place).collect();
    match classes {
        1 => scores.iter_mut().for_each(|v| *v = transform.apply_to_one(*v)),
        n => scores.chunks_mut(n).for_each(|scores| transform.apply(scores)),
    }
    let y = stored(DataType::Float, &[rows, classes], scores)?;
    Ok(vec![labels.at(call, best)?, y])
}
