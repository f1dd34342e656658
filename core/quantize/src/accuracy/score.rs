//! How near a quantized model is to the float model, run by run, so that two candidates are
//! told apart by what they do to the same samples.

use crate::accuracy::Agreement;

/// What was seen of the outputs in each run.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// By run and output.
    pub(crate) runs: Vec<Vec<Agreement>>,
}

impl Score {
    /// Takes in what other samples say.
    pub fn append(&mut self, other: Score) {
        self.runs.extend(other.runs);
    }

    /// Signal-to-noise ratio in dB of the worst output, at most 300: what else is exact makes up for nothing.
    #[must_use]
    pub fn db(&self) -> f64 {
        self.each_db().into_iter().flatten().fold(300.0, f64::min)
    }

    /// That of each output, from -infinity to infinity; `None` where the float model gives zeros alone. Few samples say
    /// little of others, so the noise counts with its standard error.
    #[must_use]
    pub fn each_db(&self) -> Vec<Option<f64>> {
        let noise = |at: usize| self.runs.iter().map(move |run| run[at].noise);
        let of = |(at, total): (usize, Agreement)| {
            let noise = total.noise + standard_error(noise(at));
            Agreement { noise, ..total }.sqnr_db().filter(|_| total.signal > 0.0)
        };
        self.totals().into_iter().enumerate().map(of).collect()
    }

    /// By how many dB the standard error lowers the ratio of the output `at`.
    #[must_use]
    pub fn error_db(&self, at: usize) -> f64 {
        let noise = || self.runs.iter().filter_map(move |run| Some(run.get(at)?.noise));
        let (total, error) = (noise().sum::<f64>(), standard_error(noise()));
        let share = error / total;
        if share.is_finite() { 10.0 * share.ln_1p() / std::f64::consts::LN_10 } else { 0.0 }
    }

    fn totals(&self) -> Vec<Agreement> {
        let mut totals = vec![Agreement::default(); self.runs.first().map_or(0, Vec::len)];
        for run in &self.runs {
            totals.iter_mut().zip(run).for_each(|(total, one)| total.merge(one));
        }
        totals
    }

    /// Whether another candidate loses less on the same samples than this one, by more than what the mean
    /// of differences of so many samples is off by (its standard error). What is compared is the
    /// noise of the runs as a share of all, which differs less between two ways than between runs.
    #[must_use]
    pub fn is_beaten_by(&self, other: &Score) -> bool {
        let totals = self.totals();
        let finite = |totals: &[Agreement]| totals.iter().all(|t| t.noise.is_finite());
        if !finite(&totals) {
            return finite(&other.totals());
        }
        let outputs = totals.iter().filter(|t| t.noise > 0.0).count().max(1) as f64;
        let gain = |(old, new): (&Vec<Agreement>, &Vec<Agreement>)| -> f64 {
            let both = old.iter().zip(new).zip(&totals).filter(|(_, total)| total.noise > 0.0);
            both.map(|((a, b), total)| (a.noise - b.noise) / total.noise / outputs).sum()
        };
        let gains: Vec<f64> = self.runs.iter().zip(&other.runs).map(gain).collect();
        let (count, sum) = (gains.len() as f64, gains.iter().sum::<f64>());
        if gains.len() < 2 {
            return sum > ALONE;
        }
        let squares: f64 = gains.iter().map(|g| (g - sum / count).powi(2)).sum();
        sum > 0.0 && sum * sum > squares * count / (count - 1.0)
    }
}

/// The standard error of a sum, by what its parts differ by; 0 for a single part, and where a part has no end.
fn standard_error(parts: impl Iterator<Item = f64> + Clone) -> f64 {
    let (count, sum) = parts.clone().fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x));
    if count < 2.0 || !f64::is_finite(sum) {
        return 0.0;
    }
    let squares: f64 = parts.map(|x| (x - sum / count).powi(2)).sum();
    (squares * count / (count - 1.0)).sqrt()
}

/// The share of the noise that must go where a single run says so.
const ALONE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn score(noises: &[f64]) -> Score {
        let one = |noise: &f64| {
            vec![Agreement { elements: 1, signal: 100.0, noise: *noise, ..Agreement::default() }]
        };
        Score { runs: noises.iter().map(one).collect() }
    }

    #[test]
    fn a_gain_counts_that_most_samples_have() {
        let plain = score(&[1.0, 2.0, 9.0, 4.0]);
        // The noise is 16, and its standard error twice the deviation of 3.6.
        let expected = 10.0 * (400.0 / (16.0 + (38.0f64 * 4.0 / 3.0).sqrt())).log10();
        assert!((plain.db() - expected).abs() < 1e-9, "{}", plain.db());
        let without = 10.0 * (400.0f64 / 16.0).log10();
        assert!((plain.error_db(0) - (without - plain.db())).abs() < 1e-9);
        assert_eq!((score(&[0.0, 0.0]).error_db(0), plain.error_db(1)), (0.0, 0.0));
        assert!(plain.is_beaten_by(&score(&[0.9, 1.9, 8.7, 3.8])));
        // The same gain in all, of one sample alone.
        assert!(!plain.is_beaten_by(&score(&[1.0, 2.0, 8.3, 4.0])));
        assert!(!plain.is_beaten_by(&plain) && !plain.is_beaten_by(&score(&[1.1, 2.1, 9.1, 4.1])));
        let lost = score(&[1.0, f64::INFINITY]);
        assert!(lost.is_beaten_by(&score(&[9.0, 9.0])) && !lost.is_beaten_by(&lost));
        assert!(!score(&[9.0, 9.0]).is_beaten_by(&lost));
        assert!(score(&[1.0]).is_beaten_by(&score(&[0.9])));
        assert!(!score(&[1.0]).is_beaten_by(&score(&[0.99])));
        let mut both = score(&[1.0, 2.0]);
        both.append(score(&[9.0, 4.0]));
        assert_eq!(both.db(), plain.db());
        // Equal runs leave no doubt.
        assert_eq!(score(&[1.0, 1.0]).db(), 20.0);
    }

    #[test]
    fn the_worst_output_counts() {
        let output = |signal: f64, noise: f64| Agreement {
            elements: 1,
            signal,
            noise,
            ..Agreement::default()
        };
        let two =
            Score { runs: vec![vec![output(100.0, 0.0), output(100.0, 100.0), output(0.0, 0.0)]] };
        assert_eq!(two.db(), 0.0);
        assert_eq!(Score::default().db(), 300.0);
    }
}
