//! Losses of classification, one place after the other.

use crate::case::{Case, FLOATS, case};
use crate::dice::Dice;
use crate::nd::{Nd, indices, int64, reals};
use onnxd_ir::Tensor;

properties! {
    loss: "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss";
}

fn loss(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let classes = dims[1] as i64;
    let places = [&dims[..1], &dims[2..]].concat();
    let softmax = op == "SoftmaxCrossEntropyLoss";
    let opset = d.pick(&[13, 12]);
    let dtype = d.pick(if opset < 13 || !softmax { &FLOATS[..3] } else { FLOATS });
    let reduction = d.pick(&["mean", "sum", "none"]);
    let ignored = d.coin().then(|| d.int(-1, classes - 1));
    let x = d.tensor(dtype, &dims);
    let weight = d.coin().then(|| d.within(dtype, &[dims[1]], 0.25, 2.0));
    let count = places.iter().product();
    let mut target = d.whole(count, 0, classes - 1);
    if let Some(ignored) = ignored {
        target.iter_mut().step_by(3).for_each(|t| *t = ignored);
    }
    let (xs, ws) = (reals(&x), weight.as_ref().map(reals));
    let log_prob = Nd::fill(&dims, |i| {
        let other = |c: usize| xs.at(&crate::nd::put(i, 1, c));
        let sum: f64 = (0..dims[1]).map(|c| other(c).exp()).sum();
        if softmax { xs.at(i) - sum.ln() } else { xs.at(i) }
    });
    let (mut losses, mut total) = (vec![], 0.0);
    for (place, class) in indices(&places).iter().zip(&target) {
        if ignored == Some(*class) {
            losses.push(0.0);
            continue;
        }
        let class = *class as usize;
        let weight = ws.as_ref().map_or(1.0, |w| w.v[class]);
        losses.push(-weight * log_prob.at(&[&place[..1], &[class], &place[1..]].concat()));
        total += weight;
    }
    let size: f64 = losses.iter().map(|l| l.abs()).sum();
    let (y, sums) = match reduction {
        "none" => {
            let sums = vec![16.0; losses.len()];
            (Nd { dims: places.clone(), v: losses }, sums)
        }
        "sum" => (Nd { dims: vec![], v: vec![losses.iter().sum()] }, vec![16.0 + size]),
        _ if total == 0.0 => return None,
        _ => {
            let mean = losses.iter().sum::<f64>() / total;
            (Nd { dims: vec![], v: vec![mean] }, vec![16.0 + size / total])
        }
    };
    let target = match d.coin() {
        true => int64(&places, &target),
        false => Tensor::from_vec(places, target.iter().map(|t| *t as i32).collect()),
    };
    let case = case(op, opset)
        .attr_if(reduction != "mean" || d.coin(), "reduction", reduction)
        .attr_if(ignored.is_some(), "ignore_index", ignored.unwrap_or(0));
    let case = case.input(&x).input(&target).maybe(weight.as_ref()).near(dtype, y, &sums);
    if !softmax || d.coin() {
        return Some(case);
    }
    let sums = vec![16.0; log_prob.v.len()];
    Some(case.near(dtype, log_prob, &sums))
}
