//! Norms.

use super::formulas::{Norm, Weighted};
use super::layer::Layer;
use super::source::{Plain, Row};

impl Norm {
    /// `(x - mean) / sqrt(variance + epsilon) * weight + bias`; where no mean is subtracted, it is zero.
    pub(super) fn apply(&self, x: &mut [f64], weight: &[f64], bias: &[f64]) {
        let count = x.len() as f64;
        let mean = if self.subtracts_mean { x.iter().sum::<f64>() / count } else { 0.0 };
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let root = (variance + self.epsilon).sqrt();
        for (i, x) in x.iter_mut().enumerate() {
            let weight = weight.get(i).copied().unwrap_or(1.0);
            *x = (*x - mean) / root * weight + bias.get(i).copied().unwrap_or(0.0);
        }
    }
}

impl Layer<'_> {
    /// The norm `name` of each token.
    pub(super) fn norm(&self, x: &[Row], name: &str) -> Plain<Vec<Row>> {
        let [weight, bias] = self.norm_weights(name, self.f.hidden)?;
        let mut all = x.to_vec();
        all.iter_mut().for_each(|x| self.f.norm.apply(x, &weight, &bias));
        Ok(all)
    }

    /// Weights and biases, of which there may be none.
    pub(super) fn norm_weights(&self, name: &str, size: usize) -> Plain<[Row; 2]> {
        let weight = match self.f.norm.weighted {
            Weighted::No => return Ok([vec![], vec![]]),
            Weighted::By => self.vector(&format!("{name}.weight"), size)?,
            Weighted::ByOneMore => {
                let weight = self.vector(&format!("{name}.weight"), size)?;
                weight.map(|weight| weight.iter().map(|w| w + 1.0).collect())
            }
        };
        let weight = weight.ok_or_else(|| format!("`{name}.weight` is not there"))?;
        Ok([weight, self.vector(&format!("{name}.bias"), size)?.unwrap_or_default()])
    }
}
