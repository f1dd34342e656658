//! How large weights and their errors are.

/// Sums of squares of weights and of their errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Power {
    pub(crate) signal: f64,
    pub(crate) noise: f64,
}

impl Power {
    /// Both together.
    pub(crate) fn and(self, other: Power) -> Power {
        Power { signal: self.signal + other.signal, noise: self.noise + other.noise }
    }

    /// The ratio in dB; `None` without a signal, without noise, or where one is beyond all numbers.
    pub(crate) fn db(self) -> Option<f64> {
        let Power { signal, noise } = self;
        let db = 10.0 * (signal / noise).log10();
        (signal > 0.0 && noise > 0.0 && db.is_finite()).then_some(db)
    }
}
