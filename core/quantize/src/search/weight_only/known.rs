//! What samples say about the inputs of weighted operators, and factors of inputs that make up for weights of
//! few bits (after AWQ, <https://arxiv.org/abs/2306.00978>): a channel that is large, or whose
//! weights are small beside others of their block, gets larger weights, whose errors count less.
//!
//! What the inputs are divided by takes no further pass over the samples: of the sums `H` of all
//! pairs of inputs, those of the divided ones are `H[i,j] / (f[i] * f[j])`, and what an error of the
//! multiplied weights does to the output is told by the error divided again.

use super::blocks::{BlockSettings, Blocks};
use super::power::Power;
use crate::observe::hessian::{DAMPING, Inverse, Pairs};
use std::borrow::Cow;

/// Factors stay within this of one.
const FACTOR_MAX: f64 = 1e4;

/// Steps of the exponents that are tried.
const STEPS: u32 = 10;

/// Rows of weights with which factors are tried, of all weighted operators that read the inputs.
const TRIED_MAX: usize = 128;

/// Rows of a weighted operator with which its error is measured.
const MEASURED_MAX: usize = 256;

/// What must be left of the squared error at most for factors to be taken.
const GAIN_MIN: f64 = 0.98;

/// How samples are made use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightMethods {
    /// Errors of weights are made up for by those after them (GPTQ).
    pub gptq: bool,
    /// Inputs are divided by factors that their weights are multiplied by (AWQ).
    pub awq: bool,
}

/// How weights are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// To the nearest, in ranges with the least error of the weights.
    Alike,
    /// The same, where the errors of large inputs count more.
    Weighed,
    /// Errors are made up for.
    Compensated,
}

/// What is known of the inputs of a weighted operator.
#[derive(Clone)]
pub(crate) struct InputStatistics<'p> {
    pairs: &'p Pairs,
    inverse: Option<Cow<'p, Inverse>>,
    /// What the inputs are divided by.
    factors: Option<Vec<f64>>,
}

impl<'p> InputStatistics<'p> {
    pub(crate) fn from_pairs(pairs: &'p Pairs, methods: WeightMethods) -> InputStatistics<'p> {
        let inverse = methods.gptq.then(|| Inverse::from_pairs(pairs, DAMPING)).flatten();
        InputStatistics { pairs, inverse: inverse.map(Cow::Owned), factors: None }
    }

    /// The same of the inputs divided by these factors.
    fn divided(&self, factors: &[f64]) -> InputStatistics<'_> {
        let inverse = self.inverse.as_ref().map(|inverse| Cow::Owned(inverse.divided(factors)));
        InputStatistics { pairs: self.pairs, inverse, factors: Some(factors.to_vec()) }
    }

    fn factor(&self, input: usize) -> f64 {
        self.factors.as_ref().map_or(1.0, |factors| factors[input])
    }

    /// The method with the least sum of squared errors of the weighted operator, and that.
    fn better(&self, part: &WeightsByRow) -> (How, f64) {
        let error = |how| (how, self.error(part, &self.made(part, how)));
        let (alike, weighed) = (error(How::Alike), error(How::Weighed));
        let compensated = self.inverse.as_ref().map(|_| error(How::Compensated));
        let all = [Some(alike), Some(weighed), compensated].into_iter().flatten();
        all.fold(alike, |best, other| if other.1 < best.1 { other } else { best })
    }

    /// Weights as integers.
    fn made(&self, part: &WeightsByRow, how: How) -> Blocks {
        let (settings, sizes) = (part.settings, (part.n, part.k));
        let later = self.inverse.as_deref().filter(|_| how == How::Compensated);
        let matters = match (how, later) {
            (How::Alike, _) => return Blocks::quantize(&part.rows, sizes, &settings),
            // What is left of an error once it is made up for.
            (_, Some(inverse)) => {
                (0..part.k).map(|i| f64::from(inverse.row(i)[0]).powi(-2)).collect()
            }
            (_, None) => {
                let squares = self.pairs.squares().into_iter().enumerate();
                squares.map(|(i, x)| x / self.factor(i).powi(2)).collect()
            }
        };
        let matters = even(matters);
        Blocks::quantize(
            &part.rows,
            sizes,
            &BlockSettings { matters: Some(&matters), later, ..settings },
        )
    }

    fn error(&self, part: &WeightsByRow, made: &Blocks) -> f64 {
        let row = |n: usize| -> Vec<f32> {
            let each = part.rows[n * part.k..][..part.k].iter().zip(made.row(n)).enumerate();
            each.map(|(i, (w, q))| (f64::from(w - q) / self.factor(i)) as f32).collect()
        };
        self.pairs.energy(&row, part.n)
    }

    /// The sum of the squares of what the weighted operator gives.
    fn signal(&self, part: &WeightsByRow) -> f64 {
        let row = |n: usize| -> Vec<f32> {
            let each = part.rows[n * part.k..][..part.k].iter().enumerate();
            each.map(|(i, w)| (f64::from(*w) / self.factor(i)) as f32).collect()
        };
        self.pairs.energy(&row, part.n)
    }

    /// Weights as integers, what was done for it, and the signal-to-noise ratio of some of what the
    /// product gives.
    pub(crate) fn quantize(&self, part: &WeightsByRow) -> (Blocks, &'static str, Option<f64>) {
        let some = part.sample(part.n, MEASURED_MAX);
        let (how, noise) = self.better(&some);
        let signal = self.signal(&some);
        let method = match (self.factors.is_some(), how == How::Compensated) {
            (true, true) => "AWQ, GPTQ",
            (true, false) => "AWQ",
            (false, true) => "GPTQ",
            (false, false) => "MSE",
        };
        (self.made(part, how), method, Power { signal, noise }.db())
    }

    /// The factors with the least error of some weighted operators, if that is clearly less than without.
    pub(crate) fn factors(&self, parts: &[WeightsByRow]) -> Option<Vec<f64>> {
        let rows: usize = parts.iter().map(|part| part.n).sum();
        let parts: Vec<WeightsByRow> =
            parts.iter().map(|part| part.sample(rows, TRIED_MAX)).collect();
        let error =
            |known: &InputStatistics| parts.iter().map(|part| known.better(part).1).sum::<f64>();
        let x: Vec<f64> = self.pairs.squares().into_iter().map(f64::sqrt).collect();
        let mut w = vec![0f64; x.len()];
        for row in parts.iter().flat_map(|part| part.rows.chunks(part.k)) {
            w.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x).powi(2));
        }
        let of = |share: f64, even: f64| -> Vec<f64> {
            let factor = |(x, w): (&f64, &f64)| match *x > 0.0 && *w > 0.0 {
                true => x.powf(share) / w.sqrt().powf(even),
                false => 1.0,
            };
            centered(x.iter().zip(&w).map(factor).collect())
        };
        let tenths = (0..=STEPS).map(|i| f64::from(i) / f64::from(STEPS));
        let tried = tenths
            .flat_map(|a| [(a, 0.0), (a, 1.0 - a)])
            .filter(|settings| *settings != (0.0, 0.0));
        let mut best = (GAIN_MIN * error(self), None);
        for (share, even) in tried {
            let factors = of(share, even);
            let factor_error = error(&self.divided(&factors));
            if factor_error < best.0 {
                best = (factor_error, Some(factors));
            }
        }
        best.1
    }

    /// The same of inputs that are divided now.
    pub(crate) fn with(&self, factors: Option<&[f64]>) -> InputStatistics<'_> {
        factors.map_or_else(|| self.clone(), |factors| self.divided(factors))
    }
}

/// Weights of a weighted operator by rows.
pub(crate) struct WeightsByRow<'w> {
    pub(crate) rows: Cow<'w, [f32]>,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) settings: BlockSettings<'w>,
}

impl WeightsByRow<'_> {
    /// Rows from all over it: its share, if `most` of `all` are wanted.
    fn sample(&self, all: usize, most: usize) -> WeightsByRow<'_> {
        let step = all.div_ceil(most).max(1);
        let rows: Vec<f32> = self.rows.chunks(self.k).step_by(step).flatten().copied().collect();
        WeightsByRow {
            n: rows.len() / self.k,
            rows: rows.into(),
            k: self.k,
            settings: self.settings,
        }
    }
}

/// Divided by their mean, so that sums fit single precision.
fn even(values: Vec<f64>) -> Vec<f32> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mean = if mean.is_finite() && mean > 0.0 { mean } else { 1.0 };
    values.into_iter().map(|x| (x / mean) as f32).collect()
}

/// As far above one as below.
fn centered(mut factors: Vec<f64>) -> Vec<f64> {
    let (low, high) = factors.iter().fold((f64::MAX, 0f64), |(l, h), f| (l.min(*f), h.max(*f)));
    let middle = (low * high).sqrt();
    let bound = |f: f64| if f.is_finite() { f.clamp(1.0 / FACTOR_MAX, FACTOR_MAX) } else { 1.0 };
    factors.iter_mut().for_each(|f| *f = bound(*f / middle));
    factors
}
