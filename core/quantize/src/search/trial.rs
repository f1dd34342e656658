//! One candidate of a search.

use crate::range::Method;

/// One candidate.
#[derive(Clone, Copy)]
pub(crate) struct Trial {
    /// Of the bases of a search.
    pub(crate) base: usize,
    pub(crate) method: Method,
    pub(crate) clip_weights: bool,
    /// Of the learned integers of weights; `None` for the nearest.
    pub(crate) rounding: Option<usize>,
    pub(crate) correct: bool,
    pub(crate) db: f64,
}

impl Trial {
    pub(crate) fn new(base: usize, method: Method) -> Trial {
        let (clip_weights, rounding, correct) = (false, None, false);
        Trial { base, method, clip_weights, rounding, correct, db: 0.0 }
    }

    /// What the report calls it, where so was done to the base.
    pub(crate) fn name(&self, change: &'static str) -> String {
        let mut parts = vec![self.method.name()];
        parts.extend((!change.is_empty()).then_some(change));
        parts.extend(self.clip_weights.then_some("clipped weights"));
        parts.extend(self.rounding.map(|_| "AdaRound"));
        parts.extend(self.correct.then_some("corrected biases"));
        parts.join(", ")
    }
}
