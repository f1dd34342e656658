//! What classifiers and regressors share: tables of features, labels of classes, and what becomes of
//! scores at the end.

use crate::call::KernelCall;
use crate::cells::take;
use crate::fault::{Fault, Outcome};
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Tensor};

/// Rows and columns of a table of features; a vector is a single row.
pub(super) fn table(x: &Tensor) -> Outcome<(usize, usize)> {
    match *x.dims() {
        [columns] => Ok((1, columns)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Fault::invalid(format!("{x:?} is no table of features"))),
    }
}

/// Numbers of an attribute that the operator cannot do without.
pub(super) fn demanded<T>(found: Option<T>, name: &str) -> Outcome<T> {
    found.ok_or_else(|| Fault::invalid(format!("attribute `{name}` is missing")))
}

/// Floats of an attribute; none if it is absent.
pub(super) fn floats(call: &KernelCall, name: &str) -> Outcome<Vec<f64>> {
    let given = call.floats(name)?.unwrap_or_default();
    Ok(given.iter().map(|v| f64::from(*v)).collect())
}

/// A list of strings as a vector.
pub(super) fn strings(list: Vec<Bytes>) -> Outcome<Tensor> {
    Ok(Tensor::strings(vec![list.len()], list)?)
}

/// Labels of classes: integers or strings.
pub(super) struct Labels(Tensor);

impl Labels {
    /// Those that the node lists as strings, else those that it lists as `ints`.
    pub(super) fn from_call(call: &KernelCall, ints: &str) -> Outcome<Labels> {
        if let Some(Attr::Strs(list)) = call.attr("classlabels_strings")
            && !list.is_empty()
        {
            return Ok(Labels(strings(list.clone())?));
        }
        match call.ints(ints)? {
            Some(list) if !list.is_empty() => Ok(Labels(Tensor::vector(list.to_vec()))),
            _ => Err(Fault::invalid("it lists no labels of classes")),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_tensor(self) -> Tensor {
        self.0
    }

    /// Labels of the negative and the positive class: 0 and 1 unless it names two.
    pub(super) fn of_two(self) -> Outcome<Labels> {
        if self.len() == 2 {
            return Ok(self);
        }
        Ok(Labels(match self.0.as_strings() {
            Some(_) => strings(vec![Bytes::from_static(b"0"), Bytes::from_static(b"1")])?,
            None => Tensor::vector(vec![0i64, 1]),
        }))
    }

    /// The labels at these places.
    pub(super) fn at(&self, call: &KernelCall, places: Vec<usize>) -> Outcome<Tensor> {
        call.room(self.0.dtype(), &[places.len()])?;
        refuse!(let Some(place) = places.iter().find(|p| **p >= self.len()) => "class {place} has no label");
        take(&self.0, &[places], None)
    }
}

/// Where the first of the largest scores stands.
pub(super) fn largest(scores: &[f64]) -> usize {
    (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}

/// What is done to scores at the end.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Transform {
    None,
    Logistic,
    Softmax,
    SoftmaxZero,
    Probit,
}

impl Transform {
    /// The one that the attribute `post_transform` names.
    pub(super) fn from_call(call: &KernelCall) -> Outcome<Transform> {
        match call.string("post_transform", "NONE")? {
            "NONE" => Ok(Transform::None),
            "LOGISTIC" => Ok(Transform::Logistic),
            "SOFTMAX" => Ok(Transform::Softmax),
            "SOFTMAX_ZERO" => Ok(Transform::SoftmaxZero),
            "PROBIT" => Ok(Transform::Probit),
            other => Err(Fault::invalid(format!("post_transform `{other}` is not defined"))),
        }
    }

    /// The one of a number, as the newest version of the trees has them.
    pub(super) fn numbered(number: i64) -> Outcome<Transform> {
        match number {
            0 => Ok(Transform::None),
            1 => Ok(Transform::Softmax),
            2 => Ok(Transform::Logistic),
            3 => Ok(Transform::SoftmaxZero),
            4 => Ok(Transform::Probit),
            other => Err(Fault::invalid(format!("post_transform {other} is not defined"))),
        }
    }

    /// Transforms the scores of one row.
    pub(super) fn apply(self, scores: &mut [f64]) {
        match self {
            Transform::None => {}
            Transform::Logistic => scores.iter_mut().for_each(|v| *v = logistic(*v)),
            Transform::Probit => scores.iter_mut().for_each(|v| *v = probit(*v)),
            Transform::Softmax => softmax(scores, |_| true),
            Transform::SoftmaxZero => softmax(scores, |v| v.abs() > ZERO),
        }
    }

    /// Transforms the only score of a row; the others than `Probit` mean something for several.
    pub(super) fn apply_to_one(self, score: f64) -> f64 {
        if self == Transform::Probit { probit(score) } else { score }
    }
}

impl Transform {
    /// The scores of two classes that share one: `signed` if it tells them by its sign and not as a
    /// probability. The standard is silent on it; this is what ONNX Runtime does.
    pub(super) fn shared(self, score: f64, signed: bool) -> Vec<f64> {
        match self {
            Transform::Logistic => vec![logistic(-score), logistic(score)],
            Transform::Probit => vec![1.0 - probit(score), probit(score)],
            _ if signed => vec![-score, score],
            _ => vec![1.0 - score, score],
        }
    }
}

/// Up to here a score counts as none for `SOFTMAX_ZERO`.
const ZERO: f64 = 0.000_000_1;

/// Exponentials of the scores over their sum; those that do not count stay next to zero.
fn softmax(scores: &mut [f64], counts: impl Fn(f64) -> bool) {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for v in scores.iter_mut() {
        if counts(*v) {
            *v = (*v - most).exp();
            sum += *v;
        } else {
            *v *= (-most).exp();
        }
    }
    scores.iter_mut().for_each(|v| *v /= sum);
}

pub(super) fn logistic(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// The inverse of the normal distribution's sum, by Winitzki's approximation, which runtimes use.
fn probit(v: f64) -> f64 {
    const A: f64 = 0.147;
    let x = 2.0 * v - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let half = 2.0 / (std::f64::consts::PI * A) + 0.5 * log;
    let root = (half * half - log / A).sqrt() - half;
    std::f64::consts::SQRT_2 * root.sqrt().copysign(x)
}
