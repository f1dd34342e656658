//! Activations by their formulas, and those that normalize along axes.

use crate::case::{Case, FLOATS, INTEGERS, case};
use crate::dice::{Dice, is_unsigned};
use crate::math::{erf, map, operand, wild, zip};
use crate::nd::{Nd, from_whole, indices, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    plain: "HardSwish", "Mish", "Sigmoid", "Softplus", "Softsign", "Tanh", "Gelu";
    with_alpha: "Celu", "Elu", "LeakyRelu", "Selu", "Swish", "ThresholdedRelu", "HardSigmoid",
        "Shrink";
    relu: "Relu";
    clip: "Clip";
    prelu: "PRelu";
    swiglu: "SwiGLU";
    along: "Softmax", "LogSoftmax", "Hardmax";
}

/// Moderate values, and now and then large ones.
fn values(d: &mut Dice, dtype: DataType, dims: &[usize]) -> Tensor {
    let most = d.pick(&[4.0, 1.0, 60.0]);
    d.within(dtype, dims, -most, most)
}

/// The output of a formula of single elements, which are of about the size of the input.
fn formula(case: Case, x: &Tensor, f: impl Fn(f64) -> f64) -> Case {
    let xs = reals(x);
    let sums: Vec<f64> = xs.v.iter().map(|x| 1.0 + x.abs()).collect();
    case.input(x).near(x.dtype(), map(&xs, f), &sums)
}

fn softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { x.exp().ln_1p() }
}

fn plain(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 5);
    let opset = match op {
        "HardSwish" => d.pick(&[14, 22]),
        "Mish" => d.pick(&[18, 22]),
        "Gelu" => 20,
        "Sigmoid" | "Tanh" => d.pick(&[13, 6]),
        _ => d.pick(&[22, 1]),
    };
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let x = values(d, dtype, &dims);
    let tanh = op == "Gelu" && d.coin();
    let root = (2.0 / std::f64::consts::PI).sqrt();
    let word = if tanh { "tanh" } else { "none" };
    let case = case(op, opset).attr_if(tanh || (op == "Gelu" && d.coin()), "approximate", word);
    Some(formula(case, &x, |x| match op {
        "HardSwish" => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        "Mish" => x * softplus(x).tanh(),
        "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "Softplus" => softplus(x),
        "Softsign" => x / (1.0 + x.abs()),
        "Tanh" => x.tanh(),
        _ if tanh => 0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh()),
        _ => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
    }))
}

fn with_alpha(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 5);
    let (opset, alpha, second) = match op {
        "Celu" => (12, 1.0, None),
        "Elu" => (d.pick(&[6, 22]), 1.0, None),
        "LeakyRelu" => (d.pick(&[6, 16]), 0.01, None),
        "Selu" => (d.pick(&[6, 22]), 1.673_263_2, Some(("gamma", 1.050_701))),
        "Swish" => (24, 1.0, None),
        "ThresholdedRelu" => (d.pick(&[10, 22]), 1.0, None),
        "HardSigmoid" => (d.pick(&[6, 22]), 0.2, Some(("beta", 0.5))),
        _ => (9, 0.5, Some(("bias", 0.0))),
    };
    let first = if op == "Shrink" { "lambd" } else { "alpha" };
    let choices = if op == "Celu" { [0.5f32, 2.0, 1.25] } else { [0.5, 0.0, 1.25] };
    let mut case = case(op, opset);
    let choose = |d: &mut Dice, name: &str, default: f32| {
        let value = if d.coin() { d.pick(&choices) } else { default };
        let written = value != default || d.coin();
        (written.then(|| name.to_owned()), value)
    };
    let (name, a) = choose(d, first, alpha);
    if let Some(name) = name {
        case = case.attr(&name, a);
    }
    let mut b = 0.0;
    if let Some((name, default)) = second {
        let (name, value) = choose(d, name, default);
        b = f64::from(value);
        if let Some(name) = name {
            case = case.attr(&name, value);
        }
    }
    let a = f64::from(a);
    let dtype = if op == "Celu" { DataType::Float } else { d.pick(&FLOATS[..3]) };
    let x = values(d, dtype, &dims);
    Some(formula(case, &x, |x| match op {
        "Celu" => x.max(0.0) + (a * ((x / a).exp() - 1.0)).min(0.0),
        "Elu" if x < 0.0 => a * (x.exp() - 1.0),
        "LeakyRelu" if x < 0.0 => a * x,
        "Elu" | "LeakyRelu" => x,
        "Selu" if x > 0.0 => b * x,
        "Selu" => b * (a * x.exp() - a),
        "Swish" => x / (1.0 + (-a * x).exp()),
        "ThresholdedRelu" if x > a => x,
        "ThresholdedRelu" => 0.0,
        "HardSigmoid" => (a * x + b).clamp(0.0, 1.0),
        _ if x < -a => x + b,
        _ if x > a => x - b,
        _ => 0.0,
    }))
}

fn relu(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 5);
    if d.coin() {
        let dtype = d.pick(&[DataType::Int32, DataType::Int64, DataType::Int8, DataType::Int16]);
        let x = d.bits(dtype, &dims);
        let y = Nd { v: whole(&x).v.iter().map(|v| (*v).max(0)).collect(), dims };
        return Some(case(op, 14).input(&x).same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(FLOATS);
    let x = wild(d, dtype, &dims);
    let y = map(&reals(&x), |x| if x.is_nan() { x } else { x.max(0.0) });
    Some(case(op, d.pick(&[13, 6, 14])).input(&x).rounded(dtype, y))
}

fn clip(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 5);
    let opset = d.pick(&[13, 6, 11, 12]);
    let integer = opset >= 12 && d.coin();
    let dtype = d.pick(if integer { INTEGERS } else { &FLOATS[..3] });
    let x = if integer { d.bits(dtype, &dims) } else { wild(d, dtype, &dims) };
    // The limits may cross; then the upper one wins.
    let mut limit = || {
        d.coin().then(|| match is_unsigned(dtype) {
            true => d.int(0, 100) as f64,
            false => d.int(-3, 3) as f64,
        })
    };
    let (low, high) = (limit(), limit());
    let scalar = |v: f64| crate::nd::from_reals(dtype, &[], vec![v]);
    let mut case = case(op, opset);
    if opset < 11 {
        case = case.attr_if(low.is_some(), "min", low.unwrap_or(0.0) as f32);
        case = case.attr_if(high.is_some(), "max", high.unwrap_or(0.0) as f32).input(&x);
    } else {
        case = case.input(&x).maybe(low.map(scalar).as_ref()).maybe(high.map(scalar).as_ref());
    }
    if integer {
        let clipped = |v: &i128| {
            let v = low.map_or(*v, |l| (*v).max(l as i128));
            high.map_or(v, |h| v.min(h as i128))
        };
        let y = Nd { v: whole(&x).v.iter().map(clipped).collect(), dims };
        return Some(case.same(from_whole(dtype, &y)));
    }
    let y = map(&reals(&x), |v| {
        let v = if low.is_some_and(|l| v < l) { low.unwrap_or(v) } else { v };
        if high.is_some_and(|h| v > h) { high.unwrap_or(v) } else { v }
    });
    Some(case.rounded(dtype, y))
}

fn prelu(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let slopes = operand(d, &dims);
    let opset = d.pick(&[16, 7, 9]);
    if opset >= 9 && d.coin() {
        use DataType::*;
        let dtype = d.pick(&[Int32, Int64, Uint32, Uint64]);
        let (x, slope) = (d.tensor(dtype, &dims), d.tensor(dtype, &slopes));
        let y = zip(&whole(&x), &whole(&slope), |x, s| if x < 0 { x * s } else { x });
        return Some(case(op, opset).input(&x).input(&slope).same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(&FLOATS[..3]);
    let (x, slope) = (d.tensor(dtype, &dims), d.tensor(dtype, &slopes));
    let y = zip(&reals(&x), &reals(&slope), |x, s| if x < 0.0 { x * s } else { x });
    Some(case(op, opset).input(&x).input(&slope).rounded(dtype, y))
}

fn swiglu(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let dtype = d.pick(FLOATS);
    let alpha = d.pick(&[1.0f32, 1.5]);
    let (gate, x) = (d.tensor(dtype, &dims), d.tensor(dtype, &dims));
    let f = |g: f64, x: f64| g / (1.0 + (-f64::from(alpha) * g).exp()) * x;
    let y = zip(&reals(&gate), &reals(&x), f);
    let case = case(op, 28).attr_if(alpha != 1.0, "alpha", alpha);
    Some(case.input(&gate).input(&x).rounded(dtype, y))
}

fn along(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 5);
    let opset = d.pick(&[13, 1, 11]);
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let (axis, spelt) = d.axis(rank);
    let (axis, spelt) = if opset < 11 { (axis, axis as i64) } else { (axis, spelt) };
    let default = if opset < 13 { 1 } else { rank - 1 };
    let x = values(d, dtype, &dims);
    let xs = reals(&x);
    // Before opset 13 all axes from this one on are normalized together.
    let group = |o: &[usize]| {
        let all = indices(&dims).into_iter();
        let same = |i: &Vec<usize>| match opset {
            ..13 => i[..axis] == o[..axis],
            _ => (0..rank).all(|a| a == axis || i[a] == o[a]),
        };
        all.filter(same).collect::<Vec<_>>()
    };
    let y = Nd::fill(&dims, |o| {
        let others = group(o);
        let top = others.iter().map(|i| xs.at(i)).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = others.iter().map(|i| (xs.at(i) - top).exp()).sum();
        match op {
            "Softmax" => (xs.at(o) - top).exp() / sum,
            "LogSoftmax" => xs.at(o) - top - sum.ln(),
            _ => f64::from(others.iter().find(|i| xs.at(i) == top).is_some_and(|i| i == o)),
        }
    });
    let sums = Nd::fill(&dims, |o| if op == "LogSoftmax" { 8.0 + xs.at(o).abs() } else { 1.0 });
    let case = case(op, opset).attr_if(axis != default || d.coin(), "axis", spelt).input(&x);
    Some(case.near(dtype, y, &sums.v))
}
