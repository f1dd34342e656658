//! What layers do to each token by itself.

use super::formulas::{ExpertWeights, Experts, Mlp};
use super::layer::Layer;
use super::source::{Plain, Row};
use std::f64::consts::PI;

/// How far the share of an expert that counts must be from those that do not, for its choice to be sure.
const SURE_SHARE: f64 = 1e-5;

impl Layer<'_> {
    /// What the MLP, or the experts in its place, give for each token.
    pub(super) fn think(&self, x: &[Row]) -> Plain<Vec<Row>> {
        match self.f.experts {
            Some(experts) if self.each().has_experts => {
                x.iter().map(|x| self.experts(x, &experts)).collect()
            }
            None if self.each().has_experts => {
                Err("experts of this family have no second implementation".to_owned())
            }
            _ => self.mlp(x),
        }
    }

    fn mlp(&self, x: &[Row]) -> Plain<Vec<Row>> {
        let f = self.f.activation;
        match self.f.mlp {
            Mlp::Gated { gate, up, down } => self.gated(x, [gate, up, down]),
            Mlp::InOne { gate_up, down } => {
                self.linear(down, &self.halves(&self.linear(gate_up, x)?))
            }
            Mlp::Plain { up, down } => {
                let mut inner = self.linear(up, x)?;
                inner.iter_mut().flatten().for_each(|x| *x = f(*x));
                self.linear(down, &inner)
            }
        }
    }

    fn gated(&self, x: &[Row], [gate, up, down]: [&str; 3]) -> Plain<Vec<Row>> {
        let f = self.f.activation;
        let mut inner = self.linear(gate, x)?;
        let up = self.linear(up, x)?;
        for (gate, up) in inner.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = f(*gate) * up;
        }
        self.linear(down, &inner)
    }

    /// `f(gate) * up` of rows that have both.
    fn halves(&self, both: &[Row]) -> Vec<Row> {
        let product = |both: &Row| {
            let (gate, up) = both.split_at(both.len() / 2);
            gate.iter().zip(up).map(|(gate, up)| (self.f.activation)(*gate) * up).collect()
        };
        both.iter().map(product).collect()
    }

    /// What the experts of a token give.
    fn experts(&self, x: &Row, e: &Experts) -> Plain<Row> {
        let x = std::slice::from_ref(x);
        let mut all = vec![0.0; self.f.hidden];
        let mut add = |share: f64, of: Row| {
            all.iter_mut().zip(of).for_each(|(all, x)| *all += share * x);
        };
        for (i, share) in self.shares(x, e)? {
            let given = match e.weights {
                ExpertWeights::Each([before, gate, up, down]) => {
                    let names = [gate, up, down].map(|part| format!("{before}.{i}.{part}"));
                    self.gated(x, [&names[0], &names[1], &names[2]])?
                }
                ExpertWeights::StackedApart([gate, up, down]) => {
                    let mut inner = self.one_of(gate, (i, e.count), x)?;
                    let up = self.one_of(up, (i, e.count), x)?;
                    for (gate, up) in inner.iter_mut().flatten().zip(up.iter().flatten()) {
                        *gate = (self.f.activation)(*gate) * up;
                    }
                    self.one_of(down, (i, e.count), &inner)?
                }
                ExpertWeights::Stacked([gate_up, down]) => {
                    let both = self.one_of(gate_up, (i, e.count), x)?;
                    self.one_of(down, (i, e.count), &self.halves(&both))?
                }
            };
            given.into_iter().for_each(|given| add(share, given));
        }
        if let Some([gate, names @ ..]) = e.shared {
            let given = self.gated(x, names)?.concat();
            let share = self.linear(gate, x)?.concat().first().map_or(0.0, |gate| sigmoid(*gate));
            add(share, given);
        }
        Ok(all)
    }

    /// The experts that a token goes to, with the share of each.
    fn shares(&self, x: &[Row], e: &Experts) -> Plain<Vec<(usize, f64)>> {
        let scores = self.linear(e.router, x)?.concat();
        let mut shares: Vec<(usize, f64)> = scores.into_iter().enumerate().collect();
        if shares.len() != e.count || !(1..=e.count).contains(&e.chosen) {
            return Err(format!("`{}` has not {} outputs", e.router, e.count));
        }
        softmax(shares.iter_mut().map(|(_, share)| share));
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let next = shares.get(e.chosen).map_or(0.0, |(_, share)| *share);
        shares.truncate(e.chosen);
        if shares.iter().any(|(_, share)| *share - next < SURE_SHARE * share) {
            return Err("rounding decides which experts count".to_owned());
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        let divisor = if e.divided { sum } else { 1.0 };
        Ok(shares.into_iter().map(|(i, share)| (i, share / divisor)).collect())
    }
}

/// Shares by the exponentials of scores.
pub(super) fn softmax<'a>(scores: impl Iterator<Item = &'a mut f64>) {
    let scores: Vec<&mut f64> = scores.collect();
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(**score));
    let mut scores = scores;
    scores.iter_mut().for_each(|score| **score = (**score - most).exp());
    let sum: f64 = scores.iter().map(|score| **score).sum();
    scores.into_iter().for_each(|score| *score /= sum);
}

/// The activation of this name in `config.json`.
pub(super) fn activation(word: &str) -> Plain<fn(f64) -> f64> {
    Ok(match word {
        "silu" | "swish" => |x| x * sigmoid(x),
        "gelu" | "gelu_python" => |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_accurate" => {
            |x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        "quick_gelu" => |x| x * sigmoid(1.702 * x),
        "relu" => |x| x.max(0.0),
        "relu2" => |x| x.max(0.0).powi(2),
        other => return Err(format!("the activation `{other}` has no second implementation")),
    })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function, by a series whose terms have one sign: `2 / sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!`
fn erf(x: f64) -> f64 {
    // Beyond, it is 1 in the precision of the number.
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, 0.0, 1.0);
    while term.abs() > 1e-17 * f64::abs(sum) {
        sum += term;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        n += 1.0;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::erf;

    /// Values of tables.
    #[test]
    fn the_error_function_is_that_of_tables() {
        let known = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (-4.0, -0.999_999_984_582_742_1),
            (7.0, 1.0),
        ];
        assert!(known.iter().all(|(x, y)| (erf(*x) - y).abs() < 1e-14));
    }
}
