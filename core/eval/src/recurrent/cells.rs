//! One step of each kind of cell, for one element of the batch.

use super::{Direction, Kind, Layer, product};

/// Advances the state of batch `b` by the input at `t`; `told` is the product of the state and the
/// recurrence weights.
pub(super) fn advance(l: &Layer, direction: &mut Direction, b: usize, t: usize, told: &[f64]) {
    match l.kind {
        Kind::Rnn => rnn(l, direction, b, t, told),
        Kind::Gru => gru(l, direction, b, t, told),
        Kind::Lstm => lstm(l, direction, b, t, told),
    }
}

/// The input part of the gates at a place.
fn fed(l: &Layer, t: usize, b: usize) -> usize {
    (t * l.batch + b) * l.gates * l.hidden
}

fn rnn(l: &Layer, d: &mut Direction, b: usize, t: usize, told: &[f64]) {
    let start = fed(l, t, b);
    for (j, told) in told.iter().enumerate() {
        let sum = d.fed[start + j] + told + d.recurrent_bias[j];
        d.h[b * l.hidden + j] = d.functions[0].of(sum.clamp(-l.clip, l.clip));
    }
}

/// Gates in the order update, reset, hidden.
fn gru(l: &Layer, d: &mut Direction, b: usize, t: usize, told: &[f64]) {
    let (n, start) = (l.hidden, fed(l, t, b));
    let (f, g) = (d.functions[0], d.functions[1]);
    let gate = |d: &Direction, k: usize| {
        f.of((d.fed[start + k] + told[k] + d.recurrent_bias[k]).clamp(-l.clip, l.clip))
    };
    let update: Vec<f64> = (0..n).map(|j| gate(d, j)).collect();
    let reset: Vec<f64> = (0..n).map(|j| gate(d, n + j)).collect();
    let h = &d.h[b * n..(b + 1) * n];
    let bias = &d.recurrent_bias[2 * n..];
    let remembered: Vec<f64> = if l.switch {
        (0..n).map(|j| reset[j] * (told[2 * n + j] + bias[j])).collect()
    } else {
        let kept: Vec<f64> = reset.iter().zip(h).map(|(r, h)| r * h).collect();
        let mut sums = product(1, n, n, &kept, &d.r[2 * n * n..]);
        sums.iter_mut().zip(bias).for_each(|(v, b)| *v += b);
        sums
    };
    for j in 0..n {
        let sum = (d.fed[start + 2 * n + j] + remembered[j]).clamp(-l.clip, l.clip);
        let h = &mut d.h[b * n + j];
        *h = (1.0 - update[j]) * g.of(sum) + update[j] * *h;
    }
}

/// Gates in the order input, output, forget, cell; peepholes input, output, forget.
fn lstm(l: &Layer, d: &mut Direction, b: usize, t: usize, told: &[f64]) {
    let (n, start) = (l.hidden, fed(l, t, b));
    let (f, g, h) = (d.functions[0], d.functions[1], d.functions[2]);
    for j in 0..n {
        let before = d.c[b * n + j];
        let sum = |k: usize, peep: f64| {
            let k = k * n + j;
            (d.fed[start + k] + told[k] + d.recurrent_bias[k] + peep).clamp(-l.clip, l.clip)
        };
        let input = f.of(sum(0, d.peephole[j] * before));
        let forget = match l.switch {
            true => 1.0 - input,
            false => f.of(sum(2, d.peephole[2 * n + j] * before)),
        };
        let cell = forget * before + input * g.of(sum(3, 0.0));
        let output = f.of(sum(1, d.peephole[n + j] * cell));
        d.c[b * n + j] = cell;
        d.h[b * n + j] = output * h.of(cell);
    }
}
