//! Normalizations by their formulas, the statistics being gathered anew for every element.

use crate::case::{Case, FLOATS, case};
use crate::dice::Dice;
use crate::nd::{Nd, codes, from_codes, indices, reals};
use onnxd_ir::{DataType, Tensor};

properties! {
    batch: "BatchNormalization";
    per_channel: "InstanceNormalization", "GroupNormalization";
    layer: "LayerNormalization";
    rms: "RMSNormalization";
    mean_variance: "MeanVarianceNormalization";
    lp: "LpNormalization";
    lrn: "LRN";
    dropout: "Dropout";
}

use DataType::*;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
}

/// The elements whose index satisfies a condition.
fn those(x: &Nd, keep: impl Fn(&[usize]) -> bool) -> Vec<f64> {
    indices(&x.dims).iter().filter(|i| keep(i)).map(|i| x.at(i)).collect()
}

/// Bounds of results that are divided by a deviation.
fn bounds(y: &Nd) -> Vec<f64> {
    y.v.iter().map(|v| 30.0 + v.abs()).collect()
}

fn batch(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    // A single axis is that of the batch.
    let channels = if rank == 1 { 1 } else { dims[1] };
    let channel = |i: &[usize]| if rank == 1 { 0 } else { i[1] };
    let opset = d.pick(&[15, 7, 9, 14]);
    let tx = d.pick(if opset < 14 { &FLOATS[..3] } else { FLOATS });
    let (ts, tm) = match opset {
        15 => (d.pick(&[tx, Float]), d.pick(&[tx, Float])),
        14 => (tx, d.pick(&[tx, Float])),
        _ => (tx, tx),
    };
    let epsilon = d.pick(&[1e-5f32, 0.25]);
    let momentum = d.pick(&[0.9f32, 0.5]);
    let training = d.coin();
    let x = d.tensor(tx, &dims);
    let (scale, b) = (d.tensor(ts, &[channels]), d.tensor(ts, &[channels]));
    let (old_mean, old_var) = (d.tensor(tm, &[channels]), d.within(tm, &[channels], 0.5, 4.0));
    let (xs, ss, bs) = (reals(&x), reals(&scale), reals(&b));
    let (ms, vs) = (reals(&old_mean), reals(&old_var));
    let seen: Vec<Vec<f64>> = (0..channels).map(|c| those(&xs, |i| channel(i) == c)).collect();
    let now =
        |c: usize, old: &Nd, f: fn(&[f64]) -> f64| if training { f(&seen[c]) } else { old.v[c] };
    let (means, vars): (Vec<f64>, Vec<f64>) =
        (0..channels).map(|c| (now(c, &ms, mean), now(c, &vs, variance))).unzip();
    // Small deviations blow rounding up.
    if training && vars.iter().any(|v| *v < 0.01) {
        return None;
    }
    let y = Nd::fill(&dims, |i| {
        let c = channel(i);
        (xs.at(i) - means[c]) / (vars[c] + f64::from(epsilon)).sqrt() * ss.v[c] + bs.v[c]
    });
    let case = case(op, opset)
        .attr_if(epsilon != 1e-5 || d.coin(), "epsilon", epsilon)
        .attr_if(momentum != 0.9 || d.coin(), "momentum", momentum)
        .attr_if(training && opset >= 14, "training_mode", true);
    let case = case.input(&x).input(&scale).input(&b).input(&old_mean).input(&old_var);
    let sums = bounds(&y);
    let mut case = case.near(tx, y, &sums);
    // Before opset 14 the outputs tell that the network trains.
    if training && (opset < 14 || d.coin()) {
        let m = f64::from(momentum);
        for (old, new) in [(&ms, &means), (&vs, &vars)] {
            let mixed = old.v.iter().zip(new).map(|(o, n)| o * m + n * (1.0 - m)).collect();
            case = case.near(tm, Nd { dims: vec![channels], v: mixed }, &vec![8.0; channels]);
        }
        for now in [means, vars].into_iter().filter(|_| opset < 14) {
            case = case.near(tm, Nd { dims: vec![channels], v: now }, &vec![8.0; channels]);
        }
    }
    Some(case)
}

fn per_channel(op: &str, d: &mut Dice) -> Option<Case> {
    let instance = op == "InstanceNormalization";
    let rank = if instance { 3 + d.below(2) } else { 2 + d.below(3) };
    let mut dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let per_group = if instance { 1 } else { 1 + d.below(3) };
    let groups = dims[1];
    dims[1] *= per_group;
    let opset = d.pick(if instance { &[22, 6] } else { &[21, 18] });
    let dtype = d.pick(if opset < 18 { &FLOATS[..3] } else { FLOATS });
    let epsilon = d.pick(&[1e-5f32, 0.25]);
    let x = d.tensor(dtype, &dims);
    let parameters = if instance || opset >= 21 { dims[1] } else { groups };
    let (scale, b) = (d.tensor(dtype, &[parameters]), d.tensor(dtype, &[parameters]));
    let (xs, ss, bs) = (reals(&x), reals(&scale), reals(&b));
    let mut least = f64::INFINITY;
    let y = Nd::fill(&dims, |i| {
        let same = |j: &[usize]| j[0] == i[0] && j[1] / per_group == i[1] / per_group;
        let values = those(&xs, same);
        let k = if parameters == groups { i[1] / per_group } else { i[1] };
        least = least.min(variance(&values));
        let deviation = (variance(&values) + f64::from(epsilon)).sqrt();
        (xs.at(i) - mean(&values)) / deviation * ss.v[k] + bs.v[k]
    });
    if least < 0.01 && dims.iter().product::<usize>() > dims[0] * groups {
        return None;
    }
    let case = case(op, opset)
        .attr_if(epsilon != 1e-5 || d.coin(), "epsilon", epsilon)
        .attr_if(!instance, "num_groups", groups as i64);
    let sums = bounds(&y);
    Some(case.input(&x).input(&scale).input(&b).near(dtype, y, &sums))
}

/// A shape that broadcasts to these sizes without adding axes.
fn spread_dims(d: &mut Dice, to: &[usize]) -> Vec<usize> {
    if d.coin() { to.to_vec() } else { crate::math::operand(d, to) }
}

fn layer(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let (axis, spelt) = d.axis(rank);
    let dtype = d.pick(FLOATS);
    let epsilon = d.pick(&[1e-5f32, 0.25]);
    let x = d.tensor(dtype, &dims);
    let ds = spread_dims(d, &dims[axis..]);
    let scale = d.tensor(dtype, &ds);
    let b = d.coin().then(|| {
        let db = spread_dims(d, &dims[axis..]);
        d.tensor(dtype, &db)
    });
    let (xs, ss, bs) = (reals(&x), reals(&scale), b.as_ref().map(reals));
    let kept = [&dims[..axis], &vec![1; rank - axis]].concat();
    let values = |o: &[usize]| those(&xs, |i| i[..axis] == o[..axis]);
    let means = Nd::fill(&kept, |o| mean(&values(o)));
    let vars = Nd::fill(&kept, |o| variance(&values(o)));
    if vars.v.iter().any(|v| *v < 0.01) && dims[axis..].iter().product::<usize>() > 1 {
        return None;
    }
    let inverse = |v: f64| (v + f64::from(epsilon)).sqrt().recip();
    let y = Nd::fill(&dims, |i| {
        let normal = (xs.at(i) - means.spread(i)) * inverse(vars.spread(i));
        normal * ss.spread(i) + bs.as_ref().map_or(0.0, |b| b.spread(i))
    });
    let case = case(op, 17).attr_if(axis + 1 != rank || d.coin(), "axis", spelt).attr_if(
        epsilon != 1e-5 || d.coin(),
        "epsilon",
        epsilon,
    );
    let sums = bounds(&y);
    let case = case.input(&x).input(&scale).maybe(b.as_ref()).near(dtype, y, &sums);
    if d.coin() {
        return Some(case);
    }
    // The statistics have the type that they are computed in, by default `float`.
    let inverses = Nd { dims: kept, v: vars.v.iter().map(|v| inverse(*v)).collect() };
    let n = means.v.len();
    let loose: Vec<f64> = inverses.v.iter().map(|v| 20.0 * v).collect();
    Some(case.near(Float, means, &vec![4.0; n]).near(Float, inverses, &loose))
}

fn rms(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let (axis, spelt) = d.axis(rank);
    let tx = d.pick(FLOATS);
    // The result has the type of the scale.
    let ts = d.pick(&[tx, Float]);
    let epsilon = d.pick(&[1e-5f32, 0.25]);
    let x = d.tensor(tx, &dims);
    let ds = spread_dims(d, &dims[axis..]);
    let scale = d.tensor(ts, &ds);
    let (xs, ss) = (reals(&x), reals(&scale));
    let y = Nd::fill(&dims, |o| {
        let values = those(&xs, |i| i[..axis] == o[..axis]);
        let square = mean(&values.iter().map(|v| v * v).collect::<Vec<_>>());
        xs.at(o) / (square + f64::from(epsilon)).sqrt() * ss.spread(o)
    });
    let case = case(op, 23).attr_if(axis + 1 != rank || d.coin(), "axis", spelt).attr_if(
        epsilon != 1e-5 || d.coin(),
        "epsilon",
        epsilon,
    );
    // Where the types differ the normalized value is rounded to that of the input first.
    let narrow = |v: &f64| match tx {
        Float16 => 1e2 * v.abs(),
        Bfloat16 => 1e3 * v.abs(),
        _ => v.abs(),
    };
    let sums: Vec<f64> = y.v.iter().map(|v| 2.0 * narrow(v)).collect();
    Some(case.input(&x).input(&scale).near(ts, y, &sums))
}

fn mean_variance(op: &str, d: &mut Dice) -> Option<Case> {
    let given = d.coin();
    let rank = if given { 1 + d.below(4) } else { 4 };
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let opset = d.pick(&[13, 9]);
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let (axes, spelt) = if given { d.axes(rank) } else { (vec![0, 2, 3], vec![]) };
    if axes.is_empty() {
        return None;
    }
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let mut least = f64::INFINITY;
    let y = Nd::fill(&dims, |o| {
        let values = those(&xs, |i| (0..rank).all(|a| axes.contains(&a) || i[a] == o[a]));
        least = least.min(variance(&values));
        (xs.at(o) - mean(&values)) / (variance(&values).sqrt() + 1e-9)
    });
    if least < 0.01 {
        return None;
    }
    let sums = bounds(&y);
    Some(case(op, opset).attr_if(given, "axes", &spelt).input(&x).near(dtype, y, &sums))
}

fn lp(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let (axis, spelt) = d.axis(rank);
    let opset = d.pick(&[22, 1]);
    let dtype = d.pick(if opset < 22 { &FLOATS[..3] } else { FLOATS });
    let p = 1 + d.below(2) as i64;
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let y = Nd::fill(&dims, |o| {
        let values = those(&xs, |i| (0..rank).all(|a| a == axis || i[a] == o[a]));
        let norm: f64 = match p {
            1 => values.iter().map(|v| v.abs()).sum(),
            _ => values.iter().map(|v| v * v).sum::<f64>().sqrt(),
        };
        xs.at(o) / norm
    });
    if y.v.iter().any(|v| v.is_nan()) {
        return None;
    }
    let case = case(op, opset).attr_if(axis + 1 != rank || d.coin(), "axis", spelt).attr_if(
        p != 2 || d.coin(),
        "p",
        p,
    );
    Some(case.input(&x).rounded(dtype, y))
}

fn lrn(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let mut dims = d.dims(rank, 4);
    dims[1] = d.size(7);
    let opset = d.pick(&[13, 1]);
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let size = 1 + d.below(6);
    let (alpha, beta, bias) =
        (d.pick(&[1e-4f32, 0.5]), d.pick(&[0.75f32, 0.5]), d.pick(&[1f32, 2.0]));
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let y = Nd::fill(&dims, |o| {
        let (first, last) = (o[1] + 1, o[1] + 1 + size);
        // Channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2).
        let window = (first..last).filter_map(|c| (c - 1).checked_sub((size - 1) / 2));
        let around = window.filter(|c| *c < dims[1]);
        let square: f64 = around.map(|c| xs.at(&crate::nd::put(o, 1, c)).powi(2)).sum();
        let base = f64::from(bias) + f64::from(alpha) / size as f64 * square;
        xs.at(o) / base.powf(f64::from(beta))
    });
    let case = case(op, opset)
        .attr("size", size as i64)
        .attr_if(alpha != 1e-4 || d.coin(), "alpha", alpha)
        .attr_if(beta != 0.75 || d.coin(), "beta", beta)
        .attr_if(bias != 1.0 || d.coin(), "bias", bias);
    Some(case.input(&x).rounded(dtype, y))
}

fn dropout(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let opset = d.pick(&[22, 7, 10, 12, 13]);
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let x = d.tensor(dtype, &dims);
    let mut case = case(op, opset).attr_if(opset < 12 && d.coin(), "ratio", 0.25f32).input(&x);
    if opset >= 12 {
        let ratio = d.coin().then(|| Tensor::scalar(0.25f32));
        case = case.maybe(ratio.as_ref());
        if d.coin() {
            case = case.input(&from_codes(Bool, &[], &[0]));
        }
    }
    let case = case.same(from_codes(dtype, &dims, &codes(&x).v));
    if d.coin() {
        return Some(case);
    }
    let kept = if opset < 10 { dtype } else { Bool };
    let ones = vec![1.0; dims.iter().product()];
    Some(case.same(crate::nd::from_reals(kept, &dims, ones)))
}
