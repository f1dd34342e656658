//! One step of each kind of cell, for one element of the batch.

use super::numbers::RecurrentNumber;
use super::packed::Packed;
use super::{CellKind, Direction, RecurrentLayer};

/// Advances the state of batch `b` by the input at `t`; `sums` is the product of the state and the recurrence weights,
/// in which the gates are computed.
pub(super) fn advance<T: RecurrentNumber>(
    l: &RecurrentLayer,
    direction: &mut Direction<T>,
    b: usize,
    t: usize,
    sums: &mut [T],
) {
    let wide = l.gates * l.hidden;
    let fed = &direction.fed[(t * l.batch + b) * wide..][..wide];
    let area = b * l.hidden..(b + 1) * l.hidden;
    let (h, c) = (&mut direction.h[area.clone()], &mut direction.c[area]);
    let f = direction.functions;
    match l.kind {
        CellKind::Rnn => {
            add(sums, fed);
            clip(l, sums);
            T::activate(&f[0], sums);
            h.copy_from_slice(sums);
        }
        CellKind::Gru => {
            // Gates in the order update, reset, hidden.
            let (gates, hidden) = sums.split_at_mut(2 * l.hidden);
            add(gates, fed);
            clip(l, gates);
            T::activate(&f[0], gates);
            let (update, reset) = gates.split_at_mut(l.hidden);
            match &direction.remembered {
                None => {
                    add(hidden, direction.hidden_bias);
                    multiply(hidden, reset);
                }
                Some(weights) => remembered(weights, direction.hidden_bias, (h, reset), hidden),
            }
            add(hidden, &fed[2 * l.hidden..]);
            clip(l, hidden);
            T::activate(&f[1], hidden);
            for ((h, update), hidden) in h.iter_mut().zip(update).zip(hidden) {
                *h = T::ONE.minus(*update).times(*hidden).plus(update.times(*h));
            }
        }
        CellKind::Lstm => {
            add(sums, fed);
            lstm(l, direction.peephole, f, (h, c), sums);
        }
    }
}

/// `(reset * h) * weights' + bias`.
fn remembered<T: RecurrentNumber>(
    weights: &Packed<T>,
    bias: &[T],
    (h, reset): (&[T], &mut [T]),
    sums: &mut [T],
) {
    multiply(reset, h);
    weights.multiply(reset, sums);
    add(sums, bias);
}

/// Gates in the order input, output, forget, cell; peepholes input, output, forget.
fn lstm<T: RecurrentNumber>(
    l: &RecurrentLayer,
    peephole: &[T],
    f: &[super::Activation],
    (h, c): (&mut [T], &mut [T]),
    sums: &mut [T],
) {
    let n = l.hidden;
    let (input, rest) = sums.split_at_mut(n);
    let (output, rest) = rest.split_at_mut(n);
    let (forget, cell) = rest.split_at_mut(n);
    if !peephole.is_empty() {
        add_products(input, c, peephole);
        add_products(forget, c, &peephole[2 * n..]);
    }
    for gate in [&mut *input, &mut *forget, &mut *cell] {
        clip(l, gate);
    }
    T::activate(&f[0], input);
    match l.switch {
        true => forget.iter_mut().zip(&*input).for_each(|(forget, i)| *forget = T::ONE.minus(*i)),
        false => T::activate(&f[0], forget),
    }
    T::activate(&f[1], cell);
    multiply(c, forget);
    add_products(c, input, cell);
    if !peephole.is_empty() {
        add_products(output, c, &peephole[n..]);
    }
    clip(l, output);
    T::activate(&f[0], output);
    h.copy_from_slice(c);
    T::activate(&f[2], h);
    multiply(h, output);
}

fn add<T: RecurrentNumber>(to: &mut [T], what: &[T]) {
    to.iter_mut().zip(what).for_each(|(y, x)| *y = y.plus(*x));
}

fn multiply<T: RecurrentNumber>(to: &mut [T], by: &[T]) {
    to.iter_mut().zip(by).for_each(|(y, x)| *y = y.times(*x));
}

fn add_products<T: RecurrentNumber>(to: &mut [T], a: &[T], b: &[T]) {
    to.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = y.plus(a.times(*b)));
}

/// NaN stays.
fn clip<T: RecurrentNumber>(l: &RecurrentLayer, sums: &mut [T]) {
    if l.clip.is_finite() {
        let (low, high) = (T::from_f64(-l.clip), T::from_f64(l.clip));
        for sum in sums {
            let above = if *sum < low { low } else { *sum };
            *sum = if above > high { high } else { above };
        }
    }
}
