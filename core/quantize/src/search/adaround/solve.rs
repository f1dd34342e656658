//! Integers of a row of weights that give the least squared error of an output.
//!
//! With inputs `x` of the quantized network, weights `w + e` and the wanted output `y`, the error is
//! `e' H e - 2 g' e` up to a constant, where `H = sum x x'` and `g = sum (y - w x) x`. Adaptive
//! rounding (arXiv 2004.10568) relaxes the choice of the integers and follows a gradient. Here one
//! integer after the other takes its best neighbour until none gains (as in arXiv 2309.01885): on
//! `H`, a step costs one of its rows, and no sample. It starts from the nearest integers, and from
//! those of which each makes up for the errors of the ones before (GPTQ); the better end is taken.

use crate::observe::hessian::Inverse;

/// Times that all integers of a row are looked at, at most.
const SWEEPS: usize = 20;

/// Gains below this share of what a step costs are none.
const GAIN_MIN: f32 = 1e-5;

/// A row of weights: `values` are to become `scale * (integer - zero)`.
#[derive(Clone, Debug)]
pub(crate) struct WeightRow {
    pub(crate) values: Vec<f32>,
    pub(crate) scale: f32,
    pub(crate) zero: i64,
    /// The nearest integers.
    pub(crate) nearest: Vec<i64>,
    /// The integers to use.
    pub(crate) ends: (i64, i64),
}

/// A row and what its errors are to make up for: `g`.
pub(crate) struct Task<'w> {
    row: &'w WeightRow,
    slope: Vec<f32>,
}

/// Integers on the way, with `H e - g`.
struct RoundingState {
    integers: Vec<i64>,
    pull: Vec<f32>,
}

impl<'w> Task<'w> {
    pub(crate) fn new(row: &'w WeightRow, slope: Vec<f32>) -> Task<'w> {
        Task { row, slope }
    }

    fn error(&self, i: usize, integer: i64) -> f32 {
        (integer - self.row.zero) as f32 * self.row.scale - self.row.values[i]
    }

    /// The integers that weight `i` may have.
    fn ends(&self, i: usize) -> (i64, i64) {
        let (lo, hi) = self.row.ends;
        ((self.row.nearest[i] - 1).max(lo), (self.row.nearest[i] + 1).min(hi))
    }

    /// The integer next to `x`.
    fn integer(&self, i: usize, x: f32) -> i64 {
        let (lo, hi) = self.ends(i);
        let integer = (x / self.row.scale).round_ties_even() as i64;
        integer.saturating_add(self.row.zero).clamp(lo, hi)
    }

    /// `e' H e - 2 g' e`
    fn cost(&self, state: &RoundingState) -> f64 {
        let one = |i: usize| {
            let e = f64::from(self.error(i, state.integers[i]));
            e * f64::from(state.pull[i] - self.slope[i])
        };
        (0..self.slope.len()).map(one).sum()
    }
}

/// The integers of rows that share `gram`, which is `H` with something added to the diagonal.
pub(crate) fn solve(tasks: &[Task], gram: &[f32], inverse: Option<&Inverse>) -> Vec<Vec<i64>> {
    let nearest = tasks.iter().map(|task| task.row.nearest.clone()).collect();
    let mut best = descend(tasks, nearest, gram);
    if let Some(inverse) = inverse {
        let other = descend(tasks, corrected(tasks, inverse), gram);
        for ((task, best), other) in tasks.iter().zip(&mut best).zip(other) {
            if task.cost(&other) < task.cost(best) {
                *best = other;
            }
        }
    }
    best.into_iter().map(|state| state.integers).collect()
}

/// Moves single integers as long as that lowers the error.
fn descend(tasks: &[Task], start: Vec<Vec<i64>>, gram: &[f32]) -> Vec<RoundingState> {
    let k = tasks.first().map_or(1, |task| task.slope.len());
    let of = |(task, integers): (&Task, &Vec<i64>)| -> Vec<f32> {
        integers.iter().enumerate().map(|(i, q)| task.error(i, *q)).collect()
    };
    let errors: Vec<Vec<f32>> = tasks.iter().zip(&start).map(of).collect();
    let pull = |task: &Task| task.slope.iter().map(|g| -g).collect();
    let mut states: Vec<RoundingState> = tasks
        .iter()
        .zip(start)
        .map(|(task, integers)| RoundingState { integers, pull: pull(task) })
        .collect();
    for (i, h) in gram.chunks(k).enumerate() {
        for (state, errors) in states.iter_mut().zip(&errors) {
            state.pull[i] += dot(h, errors);
        }
    }
    for _ in 0..SWEEPS {
        let mut moved = false;
        for (i, h) in gram.chunks(k).enumerate() {
            for (task, state) in tasks.iter().zip(&mut states) {
                moved |= step(task, state, i, h);
            }
        }
        if !moved {
            break;
        }
    }
    states
}

/// Gives integer `i` its best neighbour; whether it moved.
fn step(task: &Task, state: &mut RoundingState, i: usize, h: &[f32]) -> bool {
    let (lo, hi) = task.ends(i);
    let (now, pull) = (state.integers[i], state.pull[i]);
    // The change of the error by a step is a parabola; its integer minimum is next to the real one.
    let best = match h[i] > 0.0 {
        true => (-pull / h[i] / task.row.scale).round_ties_even() as i64,
        false => 0,
    };
    let to = now.saturating_add(best).clamp(lo, hi);
    let delta = (to - now) as f32 * task.row.scale;
    let (gain, cost) = (-2.0 * delta * pull, delta * delta * h[i]);
    if to == now || gain - cost <= GAIN_MIN * cost {
        return false;
    }
    state.integers[i] = to;
    state.pull.iter_mut().zip(h).for_each(|(pull, h)| *pull += delta * h);
    true
}

/// Rounds the real weights with the least error, `w + inverse(H) g`, one after the other; the later
/// ones make up for each error.
fn corrected(tasks: &[Task], inverse: &Inverse) -> Vec<Vec<i64>> {
    let k = tasks.first().map_or(1, |task| task.slope.len());
    let mut targets: Vec<Vec<f32>> = tasks.iter().map(|task| task.row.values.clone()).collect();
    for i in 0..k {
        let u = inverse.row(i);
        for (task, target) in tasks.iter().zip(&mut targets) {
            let t = dot(u, &task.slope[i..]);
            target[i..].iter_mut().zip(u).for_each(|(x, u)| *x += t * u);
        }
    }
    let mut found: Vec<Vec<i64>> = vec![vec![0; k]; tasks.len()];
    for i in 0..k {
        let u = inverse.row(i);
        for ((task, target), found) in tasks.iter().zip(&mut targets).zip(&mut found) {
            let x = target[i];
            found[i] = task.integer(i, x);
            let factor = (x - task.row.values[i] - task.error(i, found[i])) / u[0];
            target[i + 1..].iter_mut().zip(&u[1..]).for_each(|(x, u)| *x -= factor * u);
        }
    }
    found
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 16];
    let (parts, others) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = parts.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in parts.zip(others) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    rest + sums.iter().sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::hessian::{DAMPING, Pairs};

    fn row(values: &[f32], nearest: &[i64]) -> WeightRow {
        let (values, nearest) = (values.to_vec(), nearest.to_vec());
        WeightRow { values, scale: 1.0, zero: 0, nearest, ends: (-8, 7) }
    }

    #[test]
    fn two_errors_that_add_up_are_put_on_both_sides() {
        // Both read the same input: 0.4 + 0.4 is nearer to 1 than to 0.
        let row = row(&[0.4, 0.4, 0.1], &[0, 0, 0]);
        let gram = [2.0, 2.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0];
        let found = solve(&[Task::new(&row, vec![0.0; 3])], &gram, None).remove(0);
        assert_eq!((found[0] + found[1], found[2]), (1, 0), "{found:?}");
        // What the layer before lost is made up for: an output that is 0.3 too low per unit.
        let row = self::row(&[0.3], &[0]);
        let found = solve(&[Task::new(&row, vec![0.3])], &[1.0], None);
        assert_eq!(found, [[1]]);
        // One step at most, and no further than the integers go.
        let found = solve(&[Task::new(&row, vec![9.0])], &[1.0], None);
        assert_eq!(found, [[1]]);
        let last = self::row(&[7.2], &[7]);
        assert_eq!(solve(&[Task::new(&last, vec![9.0])], &[1.0], None), [[7]]);
    }

    #[test]
    fn near_the_best_of_all() {
        const K: usize = 6;
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let (mut found_cost, mut nearest, mut least) = (0.0, 0.0, 0.0);
        for _ in 0..40 {
            let mut pairs = Pairs::new(K);
            let samples: Vec<f32> = (0..20)
                .flat_map(|_| {
                    let common = next();
                    [(); K].map(|()| common + 0.4 * next())
                })
                .collect();
            pairs.add(&samples);
            let (gram, inverse) = (pairs.damped(DAMPING), Inverse::from_pairs(&pairs, DAMPING));
            let values: Vec<f32> = (0..K).map(|_| 3.0 * next()).collect();
            let rounded: Vec<i64> = values.iter().map(|x| x.round_ties_even() as i64).collect();
            let row = row(&values, &rounded);
            let slope: Vec<f32> = (0..K).map(|_| next()).collect();
            let cost = |q: &[i64]| -> f64 {
                let e: Vec<f32> = q.iter().zip(&values).map(|(q, w)| *q as f32 - w).collect();
                let one = |i: usize| e[i] * (dot(&gram[i * K..][..K], &e) - 2.0 * slope[i]);
                (0..K).map(|i| f64::from(one(i))).sum()
            };
            let task = Task::new(&row, slope.clone());
            let integers = solve(&[task], &gram, inverse.as_ref()).remove(0);
            let all = (0..3usize.pow(K as u32)).map(|n| {
                let one = |i: usize| rounded[i] + (n / 3usize.pow(i as u32) % 3) as i64 - 1;
                cost(&(0..K).map(one).collect::<Vec<_>>())
            });
            least += all.fold(f64::INFINITY, f64::min);
            nearest += cost(&rounded);
            found_cost += cost(&integers);
        }
        // Costs are up to a constant, which is the same for all.
        assert!(found_cost - least < 0.1 * (nearest - least), "{least} {found_cost} {nearest}");
    }
}
