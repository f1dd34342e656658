//! Weights: clipping before calibration, integers after.

use crate::histogram::{Histogram, bins};
use crate::options::{Clipping, PlanOptions};
use crate::plan::{CellNetwork, Integers, Parameters};

/// Cuts off the weights of every cell where `options.weights` says.
pub(crate) fn clip(network: &mut CellNetwork, options: &PlanOptions) {
    if options.weights == Clipping::None {
        return;
    }
    for parameters in network.cells.iter_mut().filter_map(|cell| cell.parameters.as_mut()) {
        let reach = f64::from(abs_max(&parameters.weights));
        if reach == 0.0 {
            continue;
        }
        let bins = bins(options.weights, options.bits);
        let mut histogram = Histogram::between(-reach, reach, bins);
        histogram.see(parameters.weights.iter().map(|w| f64::from(*w)));
        let t = histogram.threshold(options.weights, options.bits, options.quantile).abs() as f32;
        parameters.weights.to_mut().iter_mut().for_each(|w| *w = w.clamp(-t, t));
    }
}

/// Largest magnitude.
pub(crate) fn abs_max(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |m, w| m.max(w.abs()))
}

/// How the float parameters of a cell become integers: `round(w · weights[o])` and
/// `round(b · bias[o])`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gains {
    /// Per output, or one for all.
    pub(crate) weights: Vec<f64>,
    /// As many.
    pub(crate) bias: Vec<f64>,
}

impl Gains {
    /// Multiplies both by factors: one for all outputs, or one per output.
    pub(crate) fn widen(&mut self, by: &[f64]) {
        for list in [&mut self.weights, &mut self.bias] {
            if list.len() < by.len() {
                *list = vec![list[0]; by.len()];
            }
            list.iter_mut().zip(by.iter().cycle()).for_each(|(gain, f)| *gain *= f);
        }
    }

    /// The integers of a network whose inputs are divided by `range`, the magnitude of weights
    /// limited to `limit`.
    pub(crate) fn apply(&self, parameters: &Parameters, range: f64, limit: i32) -> Integers {
        let per_output = parameters.per_output();
        let pick = |list: &[f64], o: usize| if list.len() == 1 { list[0] } else { list[o] };
        let weight = |(i, w): (usize, &f32)| {
            let q = (f64::from(*w) * pick(&self.weights, i / per_output)).round();
            (q as i32).clamp(-limit, limit)
        };
        let bias =
            |(o, b): (usize, &f32)| (f64::from(*b) / range * pick(&self.bias, o)).round() as i64;
        Integers {
            weights: parameters.weights.iter().enumerate().map(weight).collect(),
            bias: parameters.bias.as_ref().map(|b| b.iter().enumerate().map(bias).collect()),
        }
    }
}
