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

    /// Signal-to-noise ratio in dB: the mean over the outputs.
    #[must_use]
    pub fn db(&self) -> f64 {
        let totals = self.totals();
        let of = |a: &Agreement| a.sqnr_db().map(|db| db.min(300.0));
        let known: Vec<f64> = totals.iter().filter_map(of).collect();
        known.iter().sum::<f64>() / known.len().max(1) as f64
    }

    /// That of each output, from -infinity to infinity; `None` where the float model gives zeros
    /// alone.
    #[must_use]
    pub fn each_db(&self) -> Vec<Option<f64>> {
        let of = |a: &Agreement| a.sqnr_db().filter(|_| a.signal > 0.0);
        self.totals().iter().map(of).collect()
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
        assert!((plain.db() - 10.0 * 25f64.log10()).abs() < 1e-9);
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
    }
}
