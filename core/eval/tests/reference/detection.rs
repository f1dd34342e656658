//! Selection of boxes, greedily by falling score.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{from_reals, int64, reals};
use onnxd_ir::{DataType, Tensor};

properties! {
    non_max_suppression: "NonMaxSuppression";
}

/// Low and high of a box on both axes.
fn corners(b: &[f64], centred: bool) -> [(f64, f64); 2] {
    [0, 1].map(|i| match centred {
        true => (b[i] - b[i + 2] / 2.0, b[i] + b[i + 2] / 2.0),
        false => (b[i].min(b[i + 2]), b[i].max(b[i + 2])),
    })
}

/// Intersection over union.
fn overlap(a: &[(f64, f64); 2], b: &[(f64, f64); 2]) -> f64 {
    let area = |x: &[(f64, f64); 2]| (x[0].1 - x[0].0) * (x[1].1 - x[1].0);
    let side = |i: usize| (a[i].1.min(b[i].1) - a[i].0.max(b[i].0)).max(0.0);
    let common = side(0) * side(1);
    if common == 0.0 { 0.0 } else { common / (area(a) + area(b) - common) }
}

fn non_max_suppression(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, classes, count) = (1 + d.below(2), 1 + d.below(2), 1 + d.below(6));
    let centred = d.coin();
    let boxes = d.within(DataType::Float, &[batch, count, 4], 0.0, 4.0);
    // All scores differ.
    let mut scores: Vec<f64> =
        (0..batch * classes * count).map(|i| 0.1 + i as f64 / 100.0).collect();
    for i in (1..scores.len()).rev() {
        let j = d.noise() as usize % (i + 1);
        scores.swap(i, j);
    }
    let scores = from_reals(DataType::Float, &[batch, classes, count], scores);
    let most = d.coin().then(|| d.below(5) as i64);
    let threshold = d.coin().then_some(0.3f32);
    let least = d.coin().then_some(0.1505f32);
    let (bs, ss) = (reals(&boxes), reals(&scores));
    let area = |b: usize, i: usize| {
        let numbers = [0, 1, 2, 3].map(|k| bs.at(&[b, i, k]));
        corners(&numbers, centred)
    };
    let mut found = vec![];
    for o in crate::nd::indices(&[batch, classes]) {
        let score = |i: &usize| ss.at(&[o[0], o[1], *i]);
        let mut rest: Vec<usize> = (0..count).collect();
        rest.retain(|i| least.is_none_or(|l| score(i) > f64::from(l)));
        let mut chosen: Vec<usize> = vec![];
        while !rest.is_empty() && (chosen.len() as i64) < most.unwrap_or(0) {
            let best = *rest.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
            rest.retain(|i| *i != best);
            let limit = f64::from(threshold.unwrap_or(0.0));
            let shares = chosen.iter().map(|c| overlap(&area(o[0], *c), &area(o[0], best)));
            let shares: Vec<f64> = shares.collect();
            if shares.iter().any(|s| (s - limit).abs() < 1e-5 && *s != 0.0) {
                return None;
            }
            if shares.iter().all(|s| *s <= limit) {
                chosen.push(best);
                found.extend([o[0] as i64, o[1] as i64, best as i64]);
            }
        }
    }
    let case = case(op, d.pick(&[11, 10])).attr_if(centred, "center_point_box", true);
    let case = case.input(&boxes).input(&scores).maybe(most.map(Tensor::scalar).as_ref());
    let case = case.maybe(threshold.map(Tensor::scalar).as_ref());
    let case = case.maybe(least.map(Tensor::scalar).as_ref());
    Some(case.same(int64(&[found.len() / 3, 3], &found)))
}
