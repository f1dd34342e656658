//! Kernels of filters, by their numbers or their formula. Formulas and defaults are those of N2D2.

use std::f64::consts::PI;

use crate::diag::{Diagnostic, refuse, shown};
use crate::ini::SectionRef;

/// What a section can say about its kernel.
pub(super) const KEYS: [&str; 12] = [
    "Kernel", "Kernel.Gamma", "Kernel.Lambda", "Kernel.Mat", "Kernel.Positive", "Kernel.Psi",
    "Kernel.Sigma", "Kernel.Sigma1", "Kernel.Sigma2", "Kernel.SizeX", "Kernel.SizeY",
    "Kernel.Theta",
];

/// Most numbers of a kernel.
const NUMBERS_MAX: usize = 1 << 12;

/// Numbers, rows first.
#[derive(Debug, PartialEq)]
pub(super) struct FilterKernel {
    pub(super) values: Vec<f64>,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl FilterKernel {
    /// The one that a section describes.
    pub(super) fn from_section(section: SectionRef) -> Result<FilterKernel, Diagnostic> {
        let kernel = FilterKernel::described(section)?;
        match kernel.values.iter().all(|v| v.is_finite()) {
            true => Ok(kernel),
            false => Err(section.problem("Kernel", "has numbers that are not finite")),
        }
    }

    fn described(section: SectionRef) -> Result<FilterKernel, Diagnostic> {
        let name: String = section.required("Kernel")?;
        if name == "*" {
            return matrix(section);
        }
        let (width, height) =
            (section.required("Kernel.SizeX")?, section.required("Kernel.SizeY")?);
        refuse!(usize::checked_mul(width, height).is_none_or(|n| n == 0 || n > NUMBERS_MAX) =>
            section.problem("Kernel.SizeX", format!("gives a kernel of {width} x {height} numbers")));
        let number = |key: &str, default: f64| section.or(&format!("Kernel.{key}"), default);
        let sized = |formula: &dyn Fn(f64, f64) -> f64| {
            let middle = |size: usize| (size as f64 - 1.0) / 2.0;
            let at = |i: usize| {
                formula((i % width) as f64 - middle(width), (i / width) as f64 - middle(height))
            };
            FilterKernel { values: (0..width * height).map(at).collect(), width, height }
        };
        let sigma = number("Sigma", 2f64.sqrt())?;
        let signed = |kernel: FilterKernel| {
            let positive = section.or("Kernel.Positive", true)?;
            Ok(if positive { kernel } else { kernel.map(|v| -v) })
        };
        match name.as_str() {
            "Gaussian" => signed(sized(&|x, y| gaussian(x, y, sigma))),
            "LoG" | "LaplacianOfGaussian" => {
                let formula = |x: f64, y: f64| {
                    let r = (x * x + y * y) / (2.0 * sigma * sigma);
                    -(1.0 - r) * (-r).exp() / (PI * sigma.powi(4))
                };
                signed(sized(&formula).zero_sum())
            }
            "DoG" | "DifferenceOfGaussian" => {
                let (first, second) = (number("Sigma1", 2.0)?, number("Sigma2", 1.0)?);
                // Both without the factor of one dimension, which the sum of zero takes away.
                let part = |r: f64, sigma: f64| (-r / (2.0 * sigma * sigma)).exp() / sigma;
                let formula = |x: f64, y: f64| {
                    let r = x * x + y * y;
                    part(r, first) - part(r, second)
                };
                signed(sized(&formula).zero_sum())
            }
            "Gabor" => {
                let theta = section.required::<f64>("Kernel.Theta")?.to_radians();
                // The default is in radians and taken for degrees.
                let psi = number("Psi", PI / 2.0)?.to_radians();
                let (lambda, gamma) = (number("Lambda", 10.0)?, number("Gamma", 0.5)?);
                let formula = |x: f64, y: f64| {
                    let along = x * theta.cos() + y * theta.sin();
                    let across = y * theta.cos() - x * theta.sin();
                    let r = along * along + across * across * gamma * gamma;
                    (-r / (2.0 * sigma * sigma)).exp() * (2.0 * PI / lambda * along + psi).cos()
                };
                Ok(sized(&formula).zero_sum())
            }
            other => {
                let what = format!("`{}` is no kernel of N2D2", shown(other));
                Err(section.problem("Kernel", what))
            }
        }
    }

    fn map(self, of: impl Fn(f64) -> f64) -> FilterKernel {
        FilterKernel { values: self.values.into_iter().map(of).collect(), ..self }
    }

    /// Positive numbers by their sum, and negative ones by theirs.
    fn zero_sum(self) -> FilterKernel {
        let sum = |sign: f64| -> f64 { self.values.iter().map(|v| (v * sign).max(0.0)).sum() };
        let whole = |sum: f64| if sum > 0.0 { sum } else { 1.0 };
        let (above, below) = (whole(sum(1.0)), whole(sum(-1.0)));
        self.map(|v| v / if v > 0.0 { above } else { below })
    }
}

fn gaussian(x: f64, y: f64, sigma: f64) -> f64 {
    (-(x * x + y * y) / (2.0 * sigma * sigma)).exp() / (2.0 * PI * sigma * sigma)
}

/// Numbers as they stand: a square, unless a side is given.
fn matrix(section: SectionRef) -> Result<FilterKernel, Diagnostic> {
    let values: Vec<f64> = section.required("Kernel.Mat")?;
    let sides = [section.or("Kernel.SizeX", 0usize)?, section.or("Kernel.SizeY", 0usize)?];
    let (width, height) = match sides {
        [0, 0] => (values.len().isqrt(), values.len().isqrt()),
        [0, height] => (values.len() / height, height),
        [width, 0] => (width, values.len() / width),
        [width, height] => (width, height),
    };
    let fits = width.checked_mul(height) == Some(values.len());
    refuse!(!fits || values.is_empty() || values.len() > NUMBERS_MAX =>
        section.problem("Kernel.Mat", format!("has {} numbers for a kernel of {width} x {height}", values.len())));
    Ok(FilterKernel { values, width, height })
}
