//! Recurrent layers by the standard's equations, one element of the state after the other.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, flat, reals};
use onnxd_ir::{DataType, Tensor};

properties! {
    layer: "RNN", "GRU", "LSTM";
}

/// An activation with its parameters.
#[derive(Clone, Copy)]
struct ActivationFunction {
    name: &'static str,
    alpha: f64,
    beta: f64,
}

impl ActivationFunction {
    fn apply(&self, x: f64) -> f64 {
        let (a, b) = (self.alpha, self.beta);
        match self.name {
            "Relu" => x.max(0.0),
            "Tanh" => x.tanh(),
            "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
            "Affine" => a * x + b,
            "LeakyRelu" if x < 0.0 => a * x,
            "LeakyRelu" => x,
            "ThresholdedRelu" if x < a => 0.0,
            "ThresholdedRelu" => x,
            "ScaledTanh" => a * (b * x).tanh(),
            "HardSigmoid" => (a * x + b).clamp(0.0, 1.0),
            "Elu" if x < 0.0 => a * (x.exp() - 1.0),
            "Elu" => x,
            "Softsign" => x / (1.0 + x.abs()),
            "Softplus" => (1.0 + x.exp()).ln(),
            other => panic!("no reference for {other}"),
        }
    }
}

/// Functions with the default values of the parameters that they take.
const FUNCTIONS: [(&str, Option<f64>, Option<f64>); 11] = [
    ("Tanh", None, None),
    ("Relu", None, None),
    ("Sigmoid", None, None),
    ("Affine", Some(1.0), Some(0.0)),
    ("LeakyRelu", Some(0.01), None),
    ("ThresholdedRelu", Some(1.0), None),
    ("ScaledTanh", Some(1.0), Some(1.0)),
    ("HardSigmoid", Some(0.2), Some(0.5)),
    ("Elu", Some(1.0), None),
    ("Softsign", None, None),
    ("Softplus", None, None),
];

/// The functions of all directions, written as attributes or not.
fn functions(
    d: &mut Dice,
    mut case: Case,
    usual: &[&'static str],
    directions: usize,
) -> (Case, Vec<ActivationFunction>) {
    if !d.coin() {
        let plain = usual.repeat(directions).into_iter();
        return (
            case,
            plain.map(|name| ActivationFunction { name, alpha: 0.0, beta: 0.0 }).collect(),
        );
    }
    let (mut all, mut names) = (vec![], vec![]);
    let (mut alphas, mut betas): (Vec<f32>, Vec<f32>) = (vec![], vec![]);
    let given = d.coin();
    for _ in 0..usual.len() * directions {
        let (name, alpha, beta) = d.pick(&FUNCTIONS);
        let choose = |d: &mut Dice, list: &mut Vec<f32>, default: Option<f64>| {
            let Some(default) = default else { return 0.0 };
            if given {
                list.push(d.pick(&[0.5, 0.25]));
            }
            if given { f64::from(list[list.len() - 1]) } else { default }
        };
        let alpha = choose(d, &mut alphas, alpha);
        let beta = choose(d, &mut betas, beta);
        names.push(name);
        all.push(ActivationFunction { name, alpha, beta });
    }
    case = case
        .attr("activations", &names)
        .attr_if(!alphas.is_empty(), "activation_alpha", &alphas)
        .attr_if(!betas.is_empty(), "activation_beta", &betas);
    (case, all)
}

/// Sizes and the inputs as numbers, those that are absent being zero.
struct RecurrentLayer<'a> {
    op: &'a str,
    hidden: usize,
    x: Nd,
    w: Nd,
    r: Nd,
    bias: Nd,
    peephole: Nd,
    clip: f64,
    /// `linear_before_reset` or `input_forget`.
    switch: bool,
}

impl RecurrentLayer<'_> {
    /// What gate `g` of direction `k` gets for element `j` before its function: the input's part and
    /// the state's part, each with its bias.
    fn parts(&self, k: usize, g: usize, j: usize, x: &[usize], h: &[f64]) -> (f64, f64) {
        let row = g * self.hidden + j;
        let gates = self.w.dims[1];
        let fed: f64 = (0..self.w.dims[2])
            .map(|i| self.w.at(&[k, row, i]) * self.x.at(&[x[0], x[1], i]))
            .sum();
        let told: f64 = (0..self.hidden).map(|i| self.r.at(&[k, row, i]) * h[i]).sum();
        (fed + self.bias.at(&[k, row]), told + self.bias.at(&[k, gates + row]))
    }

    /// The next state and cell from the last ones.
    fn step(
        &self,
        k: usize,
        f: &[ActivationFunction],
        x: &[usize],
        h: &[f64],
        c: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let clip = |v: f64| v.clamp(-self.clip, self.clip);
        let gate = |f: ActivationFunction, g: usize, j: usize, more: f64| {
            let (fed, told) = self.parts(k, g, j, x, h);
            f.apply(clip(fed + told + more))
        };
        let peep = |p: usize, j: usize| self.peephole.at(&[k, p * self.hidden + j]);
        let all = 0..self.hidden;
        match self.op {
            "RNN" => (all.map(|j| gate(f[0], 0, j, 0.0)).collect(), vec![]),
            "GRU" => {
                let reset: Vec<f64> = all.clone().map(|j| gate(f[0], 1, j, 0.0)).collect();
                let kept: Vec<f64> = reset.iter().zip(h).map(|(r, h)| r * h).collect();
                let next = all.map(|j| {
                    let update = gate(f[0], 0, j, 0.0);
                    let (fed, told) = self.parts(k, 2, j, x, h);
                    let sum = match self.switch {
                        true => fed + reset[j] * told,
                        false => fed + self.parts(k, 2, j, x, &kept).1,
                    };
                    (1.0 - update) * f[1].apply(clip(sum)) + update * h[j]
                });
                (next.collect(), vec![])
            }
            _ => all
                .map(|j| {
                    let input = gate(f[0], 0, j, peep(0, j) * c[j]);
                    let forget = match self.switch {
                        true => 1.0 - input,
                        false => gate(f[0], 2, j, peep(2, j) * c[j]),
                    };
                    let cell = forget * c[j] + input * gate(f[1], 3, j, 0.0);
                    (gate(f[0], 1, j, peep(1, j) * cell) * f[2].apply(cell), cell)
                })
                .unzip(),
        }
    }
}

impl RecurrentLayer<'_> {
    /// The states after every step; leaves the last ones in `h` and `c`.
    fn run(
        &self,
        all: &[ActivationFunction],
        direction: &str,
        lengths: Option<&[usize]>,
        h: &mut Nd,
        c: &mut Nd,
    ) -> Nd {
        let (directions, batch) = (h.dims[0], h.dims[1]);
        let steps = self.x.dims[0];
        let mut y = Nd::fill(&[steps, directions, batch, self.hidden], |_| 0.0);
        for o in crate::nd::indices(&[directions, batch]) {
            let (k, b) = (o[0], o[1]);
            let f = &all[k * all.len() / directions..];
            let from = flat(&h.dims, &[k, b, 0]);
            let own = from..from + self.hidden;
            let count = lengths.map_or(steps, |l| l[b]);
            for step in 0..count {
                let back = direction == "reverse" || k == 1;
                let t = if back { count - 1 - step } else { step };
                let (next, cell) = self.step(k, f, &[t, b], &h.v[own.clone()], &c.v[own.clone()]);
                let place = flat(&y.dims, &[t, k, b, 0]);
                y.v[place..place + self.hidden].copy_from_slice(&next);
                h.v[own.clone()].copy_from_slice(&next);
                if self.op == "LSTM" {
                    c.v[own.clone()].copy_from_slice(&cell);
                }
            }
        }
        y
    }
}

/// The axes of a tensor in another order, at will.
fn turned(x: &Tensor, perm: &[usize], flip: bool) -> Tensor {
    if !flip {
        return x.clone();
    }
    let dims: Vec<usize> = perm.iter().map(|a| x.dims()[*a]).collect();
    crate::shape::moved(x, &dims, |o| {
        let mut from = vec![0; perm.len()];
        perm.iter().zip(o).for_each(|(a, i)| from[*a] = *i);
        from
    })
}

fn flipped(x: &Nd, perm: &[usize], flip: bool) -> Nd {
    if !flip {
        return x.clone();
    }
    let dims: Vec<usize> = perm.iter().map(|a| x.dims[*a]).collect();
    Nd::fill(&dims, |o| {
        let mut from = vec![0; perm.len()];
        perm.iter().zip(o).for_each(|(a, i)| from[*a] = *i);
        x.at(&from)
    })
}

fn layer(op: &str, d: &mut Dice) -> Option<Case> {
    let (gates, usual): (usize, &[&str]) = match op {
        "RNN" => (1, &["Tanh"]),
        "GRU" => (3, &["Sigmoid", "Tanh"]),
        _ => (4, &["Sigmoid", "Tanh", "Tanh"]),
    };
    let (steps, batch, width, hidden) =
        (1 + d.below(4), 1 + d.below(3), 1 + d.below(3), 1 + d.below(3));
    let direction = d.pick(&["forward", "reverse", "bidirectional"]);
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let opset = d.pick(&[14, 7, 22]);
    let swapped = opset >= 14 && d.coin();
    let dtype = d.pick(&[DataType::Float, DataType::Double]);
    let wide = gates * hidden;
    let mut small = |dims: &[usize]| d.within(dtype, dims, -1.0, 1.0);
    let x = small(&[steps, batch, width]);
    let (w, r) = (small(&[directions, wide, width]), small(&[directions, wide, hidden]));
    let bias = small(&[directions, 2 * wide]);
    let states = [small(&[directions, batch, hidden]), small(&[directions, batch, hidden])];
    let peephole = small(&[directions, 3 * hidden]);
    let lengths: Option<Vec<usize>> =
        d.coin().then(|| (0..batch).map(|_| 1 + d.below(steps)).collect());
    let [has_bias, has_h, has_c, has_peephole] =
        [d.coin(), d.coin(), op == "LSTM" && d.coin(), op == "LSTM" && d.coin()];
    let clip = d.coin().then_some(0.75f32);
    let switch = op != "RNN" && d.coin();
    let zeros = |x: &Tensor| Nd { dims: x.dims().to_vec(), v: vec![0.0; x.len()] };
    let or_zeros = |given: bool, x: &Tensor| if given { reals(x) } else { zeros(x) };
    let l = RecurrentLayer {
        op,
        hidden,
        x: reals(&x),
        w: reals(&w),
        r: reals(&r),
        bias: or_zeros(has_bias, &bias),
        peephole: or_zeros(has_peephole, &peephole),
        clip: clip.map_or(f64::INFINITY, f64::from),
        switch,
    };
    let case = case(op, opset)
        .attr("hidden_size", hidden as i64)
        .attr_if(direction != "forward" || d.coin(), "direction", direction)
        .attr_if(swapped, "layout", true)
        .attr_if(clip.is_some(), "clip", clip.unwrap_or(0.0))
        .attr_if(switch && op == "GRU", "linear_before_reset", true)
        .attr_if(switch && op == "LSTM", "input_forget", true);
    let (case, all) = functions(d, case, usual, directions);
    let (mut h, mut c) = (or_zeros(has_h, &states[0]), or_zeros(has_c, &states[1]));
    let y = l.run(&all, direction, lengths.as_deref(), &mut h, &mut c);
    let lengths = lengths.map(|l| Tensor::vector(l.iter().map(|n| *n as i32).collect()));
    let state = |i: usize| turned(&states[i], &[1, 0, 2], swapped);
    let mut case = case.input(&turned(&x, &[1, 0, 2], swapped)).input(&w).input(&r);
    case = case.maybe(has_bias.then_some(&bias)).maybe(lengths.as_ref());
    case = case.maybe(has_h.then(|| state(0)).as_ref());
    if op == "LSTM" {
        case =
            case.maybe(has_c.then(|| state(1)).as_ref()).maybe(has_peephole.then_some(&peephole));
    }
    let near = |case: Case, y: &Nd| {
        let sums: Vec<f64> = y.v.iter().map(|v| 10.0 + 10.0 * v.abs()).collect();
        case.near(dtype, y.clone(), &sums)
    };
    let hs = |x: &Nd| flipped(x, &[1, 0, 2], swapped);
    let case = near(case, &flipped(&y, &[2, 0, 1, 3], swapped));
    let case = near(case, &hs(&h));
    Some(if op == "LSTM" { near(case, &hs(&c)) } else { case })
}
