//! Reductions over lists of elements, and what ranks or accumulates along an axis.

use crate::case::{Case, FLOATS, INTEGERS, case};
use crate::dice::Dice;
use crate::nd::{Nd, codes, from_codes, from_whole, indices, put, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    real: "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare";
    exact: "ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
        "ReduceMean";
    boolean: "ReduceMax", "ReduceMin";
    arg: "ArgMax", "ArgMin";
    running: "CumSum", "CumProd";
    top_k: "TopK";
}

use DataType::*;

/// Which elements are reduced to which.
struct ReducePlan {
    dims: Vec<usize>,
    axes: Vec<usize>,
    out: Vec<usize>,
    keep: bool,
    /// Nothing is reduced, each element stays alone.
    lone: bool,
    spelt: Option<Vec<i64>>,
    opset: i64,
}

impl ReducePlan {
    fn random(op: &str, d: &mut Dice) -> ReducePlan {
        let opset = d.pick(&[18, 1, 11, 13, 20]);
        let dims = d.shape(4, 4);
        let (mut axes, mut spelt) = d.axes(dims.len());
        if opset < 11 {
            spelt = axes.iter().map(|a| *a as i64).collect();
        }
        let absent = d.once_in(3);
        let noop = opset >= if op == "ReduceSum" { 13 } else { 18 } && d.once_in(4);
        let all = absent || axes.is_empty();
        let lone = all && noop;
        if all {
            axes = if lone { vec![] } else { (0..dims.len()).collect() };
        }
        let keep = d.coin();
        let kept = |a: &usize| keep || lone || !axes.contains(a);
        let size = |a: usize| if axes.contains(&a) { 1 } else { dims[a] };
        let out = (0..dims.len()).filter(kept).map(size).collect();
        // An empty list of axes stands for none as an input only.
        let written = !absent && (!spelt.is_empty() || moved(op, opset));
        ReducePlan { axes, out, keep, lone, spelt: written.then_some(spelt), opset, dims }
    }

    /// Input indices that are reduced to an output index.
    fn group(&self, o: &[usize]) -> Vec<Vec<usize>> {
        let others: Vec<usize> = (0..self.dims.len()).filter(|a| !self.axes.contains(a)).collect();
        let keeps = self.out.len() == self.dims.len();
        let coordinate = |n: usize| if keeps { o[others[n]] } else { o[n] };
        let mut all = indices(&self.dims);
        all.retain(|i| (0..others.len()).all(|n| i[others[n]] == coordinate(n)));
        all
    }

    fn case(&self, op: &str, d: &mut Dice, x: &Tensor) -> Case {
        let noop = self.lone
            || (moved(op, self.opset)
                && !self.axes.is_empty()
                && self.spelt.is_some()
                && self.spelt != Some(vec![])
                && d.coin());
        let mut case = case(op, self.opset)
            .attr_if(!self.keep || d.coin(), "keepdims", self.keep)
            .attr_if(noop, "noop_with_empty_axes", true)
            .input(x);
        if let Some(spelt) = &self.spelt {
            case = match moved(op, self.opset) {
                true => case.input(&Tensor::vector(spelt.clone())),
                false => case.attr("axes", spelt),
            };
        }
        case
    }
}

/// Whether the axes are an input.
fn moved(op: &str, opset: i64) -> bool {
    opset >= if op == "ReduceSum" { 13 } else { 18 }
}

fn real(op: &str, d: &mut Dice) -> Option<Case> {
    let plan = ReducePlan::random(op, d);
    let dtype = d.pick(if plan.opset < 13 { &FLOATS[..3] } else { FLOATS });
    let x = match op {
        "ReduceLogSum" => d.within(dtype, &plan.dims, 0.125, 4.0),
        "ReduceProd" => d.within(dtype, &plan.dims, -1.5, 1.5),
        _ => d.tensor(dtype, &plan.dims),
    };
    let xs = reals(&x);
    let (mut y, mut sums) = (vec![], vec![]);
    for o in indices(&plan.out) {
        let values: Vec<f64> = plan.group(&o).iter().map(|i| xs.at(i)).collect();
        // What reductions of nothing give was settled late.
        if values.is_empty() && (plan.opset < 20 || op == "ReduceMean") {
            return None;
        }
        let n = values.len() as f64;
        let sum = |f: &dyn Fn(f64) -> f64| values.iter().map(|v| f(*v)).sum::<f64>();
        let total = sum(&f64::abs);
        let (value, size) = match op {
            "ReduceL1" => (total, total),
            "ReduceL2" => (sum(&|v| v * v).sqrt(), total),
            "ReduceLogSum" => (sum(&|v| v).ln(), 4.0),
            "ReduceLogSumExp" => (sum(&f64::exp).ln(), 8.0),
            "ReduceMax" => (values.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
            "ReduceMin" => (values.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
            "ReduceMean" => (sum(&|v| v) / n, total / n),
            "ReduceProd" => {
                let product: f64 = values.iter().product();
                (product, product.abs())
            }
            "ReduceSum" => (sum(&|v| v), total),
            _ => (sum(&|v| v * v), sum(&|v| v * v)),
        };
        y.push(value);
        sums.push(size);
    }
    let y = Nd { dims: plan.out.clone(), v: y };
    Some(plan.case(op, d, &x).near(dtype, y, &sums))
}

fn exact(op: &str, d: &mut Dice) -> Option<Case> {
    let plan = ReducePlan::random(op, d);
    let extreme = matches!(op, "ReduceMax" | "ReduceMin");
    let mut types = vec![Int32, Int64, Uint32, Uint64];
    if extreme && plan.opset >= 12 {
        types.extend([Int8, Uint8]);
    }
    let dtype = d.pick(&types);
    let wide = op != "ReduceMean" && d.coin();
    let x = if wide { d.bits(dtype, &plan.dims) } else { d.tensor(dtype, &plan.dims) };
    let xs = whole(&x);
    let mut y = vec![];
    for o in indices(&plan.out) {
        let values: Vec<i128> = plan.group(&o).iter().map(|i| xs.at(i)).collect();
        if values.is_empty() && (plan.opset < 20 || op == "ReduceMean") {
            return None;
        }
        let edge = |low: bool| {
            let bits = dtype.bits() as u32;
            match (crate::dice::is_unsigned(dtype), low) {
                (true, true) => 0,
                (true, false) => (1 << bits) - 1,
                (false, true) => -(1i128 << (bits - 1)),
                (false, false) => (1 << (bits - 1)) - 1,
            }
        };
        let sum = values.iter().sum::<i128>();
        y.push(match op {
            "ReduceL1" => values.iter().map(|v| v.abs()).sum(),
            "ReduceMax" => values.iter().copied().max().unwrap_or(edge(true)),
            "ReduceMin" => values.iter().copied().min().unwrap_or(edge(false)),
            "ReduceProd" => values.iter().fold(1, |p: i128, v| p.wrapping_mul(*v)),
            "ReduceSum" => sum,
            "ReduceMean" => sum / values.len() as i128,
            _ => values.iter().fold(0, |s: i128, v| s.wrapping_add(v.wrapping_mul(*v))),
        });
    }
    let y = from_whole(dtype, &Nd { dims: plan.out.clone(), v: y });
    Some(plan.case(op, d, &x).same(y))
}

fn boolean(op: &str, d: &mut Dice) -> Option<Case> {
    let mut plan = ReducePlan::random(op, d);
    if plan.opset < 18 {
        return None;
    }
    plan.opset = 20;
    let x = d.bits(Bool, &plan.dims);
    let xs = codes(&x);
    let y = Nd::fill(&plan.out, |o| {
        let mut values = plan.group(o).into_iter().map(|i| xs.at(&i) == 1);
        u128::from(if op == "ReduceMax" { values.any(|v| v) } else { values.all(|v| v) })
    });
    Some(plan.case(op, d, &x).same(from_codes(Bool, &y.dims, &y.v)))
}

fn arg(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let opset = d.pick(&[13, 1, 11, 12]);
    let (axis, spelt) = d.axis(rank);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let (keep, last) = (d.coin(), opset >= 12 && d.coin());
    let dtype = if d.coin() { d.pick(INTEGERS) } else { d.pick(&FLOATS[..3]) };
    let (few, any) = (d.within(dtype, &dims, 0.0, 2.0), d.tensor(dtype, &dims));
    let x = if d.coin() { any } else { few };
    let xs = reals(&x);
    let y = Nd::fill(&put(&dims, axis, 1), |o| {
        let at = |k: usize| xs.at(&put(o, axis, k)) * if op == "ArgMax" { 1.0 } else { -1.0 };
        let top = (0..dims[axis]).map(at).fold(f64::NEG_INFINITY, f64::max);
        let mut all = (0..dims[axis]).filter(|k| at(*k) == top);
        if last { all.next_back().unwrap() as i64 } else { all.next().unwrap() as i64 }
    });
    let mut out = y.dims.clone();
    if !keep {
        out.remove(axis);
    }
    let case = case(op, opset)
        .attr_if(axis != 0 || d.coin(), "axis", spelt)
        .attr_if(!keep || d.coin(), "keepdims", keep)
        .attr_if(last, "select_last_index", true);
    Some(case.input(&x).same(Tensor::from_vec(out, y.v)))
}

fn running(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 5);
    let (axis, spelt) = d.axis(rank);
    let (exclusive, reverse) = (d.coin(), d.coin());
    let opset = if op == "CumSum" { d.pick(&[14, 11]) } else { 26 };
    // Elements before the index, in the direction of the walk.
    let before = |o: &[usize]| {
        let here = o[axis];
        let past = |k: &usize| if reverse { *k > here } else { *k < here };
        (0..dims[axis]).filter(|k| past(k) || (!exclusive && *k == here)).collect::<Vec<_>>()
    };
    let place = if d.coin() { Tensor::scalar(spelt) } else { Tensor::scalar(spelt as i32) };
    let case = case(op, opset).attr_if(exclusive || d.coin(), "exclusive", exclusive).attr_if(
        reverse || d.coin(),
        "reverse",
        reverse,
    );
    if d.coin() {
        let dtype = d.pick(&[Int32, Int64, Uint32, Uint64]);
        let x = d.bits(dtype, &dims);
        let xs = whole(&x);
        let y = Nd::fill(&dims, |o| {
            let values = before(o).into_iter().map(|k| xs.at(&put(o, axis, k)));
            match op {
                "CumSum" => values.fold(0i128, i128::wrapping_add),
                _ => values.fold(1, i128::wrapping_mul),
            }
        });
        return Some(case.input(&x).input(&place).same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(if opset < 14 { &FLOATS[..2] } else { FLOATS });
    let x = d.within(dtype, &dims, -2.0, 2.0);
    let xs = reals(&x);
    let fold = |o: &[usize], f: fn(f64) -> f64| {
        let values = before(o).into_iter().map(|k| f(xs.at(&put(o, axis, k))));
        if op == "CumSum" { values.sum::<f64>() } else { values.product() }
    };
    let y = Nd::fill(&dims, |o| fold(o, |v| v));
    let sums = Nd::fill(&dims, |o| fold(o, f64::abs));
    Some(case.input(&x).input(&place).near(dtype, y, &sums.v))
}

fn top_k(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims = d.dims(rank, 6);
    let opset = d.pick(&[11, 1, 10, 24]);
    let (axis, spelt) = d.axis(rank);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let smallest = opset >= 11 && d.coin();
    let k = d.below(dims[axis] + 1);
    let integer = opset >= 11 && d.coin();
    let dtype = if integer { d.pick(INTEGERS) } else { d.pick(&FLOATS[..3]) };
    let (few, any) = (d.within(dtype, &dims, 0.0, 3.0), d.tensor(dtype, &dims));
    let x = if d.coin() { any } else { few };
    let xs = reals(&x);
    // How many elements come before one: better ones, and equal ones at smaller places.
    let rank_of = |i: &[usize]| {
        let sign = if smallest { -1.0 } else { 1.0 };
        let at = |n: usize| sign * xs.at(&put(i, axis, n));
        let own = i[axis];
        let ahead = |n: &usize| at(*n) > at(own) || (at(*n) == at(own) && *n < own);
        (0..dims[axis]).filter(ahead).count()
    };
    let out = put(&dims, axis, k);
    let places = Nd::fill(&out, |o| {
        let mut all = 0..dims[axis];
        all.find(|n| rank_of(&put(o, axis, *n)) == o[axis]).unwrap() as i64
    });
    let values = Nd::fill(&out, |o| codes(&x).at(&put(o, axis, places.at(o) as usize)));
    let mut case = case(op, opset)
        .attr_if(axis + 1 != rank || d.coin(), "axis", spelt)
        .attr_if(smallest, "largest", false)
        .attr_if(opset < 10, "k", k as i64)
        .input(&x);
    if opset >= 10 {
        case = case.input(&Tensor::vector(vec![k as i64]));
    }
    let case = case.same(from_codes(dtype, &out, &values.v));
    Some(case.same(Tensor::from_vec(out, places.v)))
}
