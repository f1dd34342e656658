//! The functions that a recurrent layer may name for its gates.

use super::CellKind;
use crate::call::KernelCall;
use crate::fault::{Fault, Outcome};
use crate::vector;
use onnxd_diagnostics::refuse;
use onnxd_ir::Attr;

/// A function with its parameters.
#[derive(Clone, Copy)]
pub(super) struct Activation {
    f: ActivationFn,
    /// The same of many `float`s, where that is faster; it has no parameters.
    many: Option<vector::InPlace>,
    alpha: f64,
    beta: f64,
}

type ActivationFn = fn(f64, f64, f64) -> f64;

impl Activation {
    pub(super) fn apply(&self, x: f64) -> f64 {
        (self.f)(x, self.alpha, self.beta)
    }

    /// Replaces every number by the function of it.
    pub(super) fn of_floats(&self, run: &mut [f32]) {
        match self.many {
            Some(many) => many(run),
            None => run.iter_mut().for_each(|v| *v = self.apply(f64::from(*v)) as f32),
        }
    }
}

/// The function, and the default of each parameter that it takes.
type ActivationEntry = (ActivationFn, Option<f64>, Option<f64>);

fn entry(name: &str) -> Option<ActivationEntry> {
    let found: ActivationEntry = match name {
        "relu" => (|x, _, _| if x < 0.0 { 0.0 } else { x }, None, None),
        "tanh" => (|x, _, _| x.tanh(), None, None),
        "sigmoid" => (|x, _, _| 1.0 / (1.0 + (-x).exp()), None, None),
        "affine" => (|x, a, b| a * x + b, Some(1.0), Some(0.0)),
        "leakyrelu" => (|x, a, _| if x < 0.0 { a * x } else { x }, Some(0.01), None),
        "thresholdedrelu" => (|x, a, _| if x >= a { x } else { 0.0 }, Some(1.0), None),
        "scaledtanh" => (|x, a, b| a * (b * x).tanh(), Some(1.0), Some(1.0)),
        "hardsigmoid" => (|x, a, b| (a * x + b).clamp(0.0, 1.0), Some(0.2), Some(0.5)),
        "elu" => (|x, a, _| if x < 0.0 { a * x.exp_m1() } else { x }, Some(1.0), None),
        "softsign" => (|x, _, _| x / (1.0 + x.abs()), None, None),
        "softplus" => (|x, _, _| x.max(0.0) + (-x.abs()).exp().ln_1p(), None, None),
        _ => return None,
    };
    Some(found)
}

/// The functions of each direction. Parameters are used up by the functions that take them, in
/// order.
pub(super) fn activations(
    call: &KernelCall,
    kind: CellKind,
    directions: usize,
) -> Outcome<Vec<Vec<Activation>>> {
    let usual: &[&str] = match kind {
        CellKind::Rnn => &["Tanh"],
        CellKind::Gru => &["Sigmoid", "Tanh"],
        CellKind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    };
    let names: Vec<String> = match call.attr("activations") {
        Some(Attr::Strs(list)) => {
            list.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect()
        }
        Some(_) => return Err(Fault::invalid("attribute `activations` has the wrong type")),
        None => usual.repeat(directions).iter().map(|s| (*s).to_owned()).collect(),
    };
    // A list for two directions may stand at a layer that has one, as the default of RNN does.
    refuse!(names.len() < usual.len() * directions => "{} activations are too few", names.len());
    let mut alphas = call.floats("activation_alpha")?.unwrap_or_default().iter();
    let mut betas = call.floats("activation_beta")?.unwrap_or_default().iter();
    let mut next = |default: Option<f64>, first: bool| {
        let list = if first { &mut alphas } else { &mut betas };
        default.map_or(0.0, |d| list.next().map_or(d, |v| f64::from(*v)))
    };
    let mut all = Vec::new();
    for name in names.iter().take(usual.len() * directions) {
        let unknown = || Fault::invalid(format!("activation `{name}` is not defined"));
        let lower = name.to_ascii_lowercase();
        let (f, alpha, beta) = entry(&lower).ok_or_else(unknown)?;
        let many = match lower.as_str() {
            "tanh" => Some(vector::tanhs as vector::InPlace),
            "sigmoid" => Some(vector::sigmoids as vector::InPlace),
            _ => None,
        };
        all.push(Activation { f, many, alpha: next(alpha, true), beta: next(beta, false) });
    }
    Ok(all.chunks(usual.len()).map(<[Activation]>::to_vec).collect())
}
