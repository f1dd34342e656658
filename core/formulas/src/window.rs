//! Windows of signal processing, as numbers.

use std::f64::consts::PI;

/// A window, as a function of the place from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub enum WindowFunction {
    Rectangle,
    Bartlett,
    Hann,
    /// `alpha - beta * cos(2 * pi * place)`
    Hamming {
        alpha: f64,
        beta: f64,
    },
    Blackman,
    Kaiser {
        beta: f64,
    },
}

impl WindowFunction {
    /// The usual Hamming window.
    pub const HAMMING: WindowFunction = WindowFunction::Hamming { alpha: 0.54, beta: 0.46 };

    /// What the window weighs at a place from 0 to 1.
    pub fn at(self, place: f64) -> f64 {
        let turn = 2.0 * PI * place;
        match self {
            WindowFunction::Rectangle => 1.0,
            WindowFunction::Bartlett => 1.0 - (2.0 * place - 1.0).abs(),
            WindowFunction::Hann => 0.5 - 0.5 * turn.cos(),
            WindowFunction::Hamming { alpha, beta } => alpha - beta * turn.cos(),
            WindowFunction::Blackman => 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos(),
            WindowFunction::Kaiser { beta } => {
                let arch = (1.0 - (2.0 * place - 1.0).powi(2)).max(0.0).sqrt();
                bessel(beta * arch) / bessel(beta)
            }
        }
    }

    /// Its numbers at so many places, of which the last one would be at `period`.
    pub fn points(self, count: i64, period: i64) -> Vec<f64> {
        match count {
            1 => vec![1.0],
            _ => (0..count).map(|i| self.at(i as f64 / period as f64)).collect(),
        }
    }
}

/// The modified Bessel function of order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 && k < 1e4 {
        term *= (x / (2.0 * k)).powi(2);
        sum += term;
        k += 1.0;
    }
    sum
}
