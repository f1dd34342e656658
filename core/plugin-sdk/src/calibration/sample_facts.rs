//! What samples are good for: numbers that are not finite, or one and the same everywhere, tell nothing of a network's
//! values.

use super::Feeds;
use crate::ir::Tensor;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What was seen of the samples when they were first read.
#[derive(Debug, Default)]
pub(super) struct SampleFacts(Mutex<Facts>);

#[derive(Debug, Default)]
struct Facts {
    /// Samples that were looked at.
    samples: u64,
    not_finite: u64,
    /// Of these, the first: its input and number.
    first_bad: Option<(String, u64)>,
    /// By input, its first number.
    first: BTreeMap<String, f64>,
    varies: bool,
}

impl SampleFacts {
    /// Looks at samples number `from` and up to `to`, each once.
    pub(super) fn see(&self, (from, to): (u64, u64), feeds: &Feeds) {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if from < facts.samples {
            return;
        }
        facts.samples = to;
        let count = usize::try_from(to - from).unwrap_or(1).max(1);
        let mut bad = vec![false; count];
        for (name, tensor) in feeds {
            if facts.varies && !tensor.dtype().is_float() {
                continue;
            }
            let values = numbers(tensor);
            let Some(first) = values.first() else { continue };
            let first = *facts.first.entry(name.clone()).or_insert(*first);
            facts.varies |= values.iter().any(|x| *x != first && !(x.is_nan() && first.is_nan()));
            let each = values.len().div_ceil(count);
            for ((bad, sample), at) in bad.iter_mut().zip(values.chunks(each)).zip(from..) {
                let is_bad = sample.iter().any(|x| !x.is_finite());
                *bad |= is_bad;
                if is_bad && facts.first_bad.as_ref().is_none_or(|(_, first)| at < *first) {
                    facts.first_bad = Some((name.clone(), at));
                }
            }
        }
        facts.not_finite += bad.iter().filter(|bad| **bad).count() as u64;
    }

    /// Samples with numbers that are not finite.
    pub(super) fn not_finite(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).not_finite
    }

    /// Input and number of the first of them, counted from 0.
    pub(super) fn first_not_finite(&self) -> Option<(String, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first_bad.clone()
    }

    /// Whether every input holds one and the same number in all samples.
    pub(super) fn is_constant(&self) -> bool {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts.samples > 0 && !facts.first.is_empty() && !facts.varies
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    if let Some(values) = tensor.as_slice::<f32>() {
        return values.iter().map(|x| f64::from(*x)).collect();
    }
    match tensor.to_reals() {
        Some(reals) => reals.values,
        None => tensor.to_i64s().unwrap_or_default().into_iter().map(|x| x as f64).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(batches: &[&[f32]]) -> SampleFacts {
        let seen = SampleFacts::default();
        for (at, batch) in (0u64..).zip(batches) {
            let tensor = Tensor::from_vec([2, batch.len() / 2], batch.to_vec());
            let feeds = Feeds::from([("x".to_owned(), tensor)]);
            seen.see((2 * at, 2 * at + 2), &feeds);
            seen.see((2 * at, 2 * at + 2), &feeds);
        }
        seen
    }

    #[test]
    fn samples_that_tell_nothing_are_known() {
        let facts = |seen: SampleFacts| (seen.not_finite(), seen.is_constant());
        assert_eq!(facts(seen(&[])), (0, false));
        assert_eq!(facts(seen(&[&[0.0; 4], &[0.0; 4]])), (0, true));
        assert_eq!(facts(seen(&[&[0.0; 4], &[0.0, 0.0, 0.0, 1.0]])), (0, false));
        assert_eq!(facts(seen(&[&[1.0, 2.0, f32::NAN, 4.0], &[1.0, 2.0, 3.0, 4.0]])), (1, false));
        let third = seen(&[&[1.0, 2.0], &[f32::NAN, 4.0]]);
        assert_eq!(third.first_not_finite(), Some(("x".to_owned(), 2)));
        assert_eq!(seen(&[&[1.0, 2.0]]).first_not_finite(), None);
        assert_eq!(facts(seen(&[&[f32::NAN; 4], &[f32::NAN; 4]])), (4, true));
        assert_eq!(facts(seen(&[&[f32::INFINITY, 1.0, 1.0, 1.0]])), (1, false));
    }
}
