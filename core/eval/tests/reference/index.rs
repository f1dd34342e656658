//! Elements picked, replaced and found by their places.

use crate::case::{Case, FLOATS, INTEGERS, case};
use crate::dice::Dice;
use crate::nd::whole;
use crate::nd::{Nd, codes, flat, from_codes, from_reals, from_whole, indices, int64, put, reals};
use crate::shape::{ANY, moved};
use onnxd_ir::{DataType, Tensor};

properties! {
    gather: "Gather";
    gather_elements: "GatherElements";
    gather_nd: "GatherND";
    scatter_elements: "ScatterElements", "Scatter";
    scatter_nd: "ScatterND";
    tensor_scatter: "TensorScatter";
    non_zero: "NonZero";
    compress: "Compress";
    one_hot: "OneHot";
    unique: "Unique";
}

use DataType::*;

/// Places below `n`, some of them spelt from the end.
fn places(d: &mut Dice, dims: &[usize], n: usize, negative: bool) -> Nd<i64> {
    let low = if negative { -(n as i64) } else { 0 };
    let count = dims.iter().product();
    Nd { dims: dims.to_vec(), v: d.whole(count, low, n as i64 - 1) }
}

fn tensor(d: &mut Dice, x: &Nd<i64>) -> Tensor {
    match d.coin() {
        true => Tensor::from_vec(x.dims.clone(), x.v.iter().map(|v| *v as i32).collect()),
        false => int64(&x.dims, &x.v),
    }
}

/// The index from the begin that a place means.
fn absolute(place: i64, n: usize) -> usize {
    usize::try_from(if place < 0 { place + n as i64 } else { place }).unwrap()
}

fn gather(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let (dims, at) = (d.dims(rank, 4), d.shape(3, 3));
    let opset = d.pick(&[13, 1, 11]);
    let (axis, spelt) = d.axis(rank);
    if dims[axis] == 0 && !at.contains(&0) {
        return None;
    }
    let picks = places(d, &at, dims[axis].max(1), opset >= 11);
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let out = [&dims[..axis], &at, &dims[axis + 1..]].concat();
    let y = moved(&x, &out, |o| {
        let (head, rest) = o.split_at(axis);
        let (middle, tail) = rest.split_at(at.len());
        [head, &[absolute(picks.at(middle), dims[axis])], tail].concat()
    });
    let case = case(op, opset).attr_if(axis != 0 || d.coin(), "axis", spelt);
    Some(case.input(&x).input(&tensor(d, &picks)).same(y))
}

fn gather_elements(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let (axis, spelt) = d.axis(rank);
    let mut at: Vec<usize> = dims.iter().map(|n| d.below(n + 1)).collect();
    at[axis] = d.size(4);
    if dims[axis] == 0 {
        at[axis] = 0;
    }
    let picks = places(d, &at, dims[axis].max(1), true);
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let y = moved(&x, &at, |o| put(o, axis, absolute(picks.at(o), dims[axis])));
    let case = case(op, d.pick(&[13, 11])).attr_if(axis != 0 || d.coin(), "axis", spelt);
    Some(case.input(&x).input(&tensor(d, &picks)).same(y))
}

/// Tuples of places in axes of these sizes, one for each index of `outer`.
fn tuples(d: &mut Dice, outer: &[usize], sizes: &[usize]) -> Nd<i64> {
    Nd::fill(&[outer, &[sizes.len()]].concat(), |o| {
        let n = sizes[o[outer.len()]] as i64;
        d.whole(1, -n, n - 1)[0]
    })
}

/// The tuple at an index, from the begin of the axes.
fn tuple(x: &Nd<i64>, outer: &[usize], sizes: &[usize]) -> Vec<usize> {
    let at = |k: usize| absolute(x.at(&[outer, &[k]].concat()), sizes[k]);
    (0..sizes.len()).map(at).collect()
}

fn gather_nd(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let opset = d.pick(&[13, 11, 12]);
    let batch = if opset >= 12 { d.below(rank) } else { 0 };
    let length = 1 + d.below(rank - batch);
    let outer = [&dims[..batch], &d.shape(2, 3)].concat();
    let sizes = &dims[batch..batch + length];
    if sizes.contains(&0) {
        return None;
    }
    let picks = tuples(d, &outer, sizes);
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let out = [&outer, &dims[batch + length..]].concat();
    let y = moved(&x, &out, |o| {
        let (head, tail) = o.split_at(outer.len());
        [&head[..batch], &tuple(&picks, head, sizes), tail].concat()
    });
    let case =
        case(op, opset).attr_if(batch > 0 || (opset >= 12 && d.coin()), "batch_dims", batch as i64);
    Some(case.input(&x).input(&int64(&picks.dims, &picks.v)).same(y))
}

/// Updates of elements: flat places in the data and the places of what comes there.
fn scattered(
    d: &mut Dice,
    case: Case,
    dims: &[usize],
    updates: &[usize],
    picks: &Nd<i64>,
    reduction: &str,
    target: impl Fn(&[usize]) -> Vec<usize>,
) -> Option<Case> {
    let pairs: Vec<usize> = indices(updates).iter().map(|u| flat(dims, &target(u))).collect();
    let case = case.attr_if(reduction != "none", "reduction", reduction);
    if reduction == "none" {
        let mut seen = pairs.clone();
        seen.sort_unstable();
        seen.dedup();
        // Which of several updates stays is nowhere defined.
        if seen.len() < pairs.len() {
            return None;
        }
        let dtype = d.pick(&ANY);
        let (x, new) = (d.bits(dtype, dims), d.bits(dtype, updates));
        let (mut y, from) = (codes(&x), codes(&new));
        pairs.iter().zip(&from.v).for_each(|(p, u)| y.v[*p] = *u);
        let case = case.input(&x).input(&int64(&picks.dims, &picks.v)).input(&new);
        return Some(case.same(from_codes(dtype, dims, &y.v)));
    }
    if d.coin() {
        let dtype = d.pick(INTEGERS);
        let (x, new) = (d.bits(dtype, dims), d.bits(dtype, updates));
        let (mut y, from) = (whole(&x), whole(&new));
        for (p, u) in pairs.iter().zip(&from.v) {
            let old = y.v[*p];
            y.v[*p] = match reduction {
                "add" => old.wrapping_add(*u),
                "mul" => old.wrapping_mul(*u),
                "max" => old.max(*u),
                _ => old.min(*u),
            };
        }
        let case = case.input(&x).input(&int64(&picks.dims, &picks.v)).input(&new);
        return Some(case.same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(FLOATS);
    let (x, new) = (d.within(dtype, dims, -2.0, 2.0), d.within(dtype, updates, -2.0, 2.0));
    let (mut y, from) = (reals(&x), reals(&new));
    let mut sums: Vec<f64> = y.v.iter().map(|v| v.abs()).collect();
    for (p, u) in pairs.iter().zip(&from.v) {
        let old = y.v[*p];
        y.v[*p] = match reduction {
            "add" => old + u,
            "mul" => old * u,
            "max" => old.max(*u),
            _ => old.min(*u),
        };
        sums[*p] = if reduction == "add" { sums[*p] + u.abs() } else { y.v[*p].abs() };
    }
    let case = case.input(&x).input(&int64(&picks.dims, &picks.v)).input(&new);
    Some(case.near(dtype, y, &sums))
}

fn reduction(d: &mut Dice, opset: i64) -> &'static str {
    match opset {
        18.. => d.pick(&["none", "add", "mul", "max", "min"]),
        16.. => d.pick(&["none", "add", "mul"]),
        _ => "none",
    }
}

fn scatter_elements(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims = d.dims(rank, 4);
    let (axis, spelt) = d.axis(rank);
    let opset = if op == "Scatter" { 9 } else { d.pick(&[18, 11, 13, 16]) };
    let mut at: Vec<usize> = dims.iter().map(|n| d.below(n + 1)).collect();
    let kind = reduction(d, opset);
    at[axis] = if dims[axis] == 0 { 0 } else { d.size(if kind == "none" { 2 } else { 4 }) };
    let picks = places(d, &at, dims[axis].max(1), opset >= 11);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let case = case(op, opset).attr_if(axis != 0 || d.coin(), "axis", spelt);
    let target = |u: &[usize]| put(u, axis, absolute(picks.at(u), dims[axis]));
    scattered(d, case, &dims, &at, &picks, kind, target)
}

fn scatter_nd(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims = d.dims(rank, 4);
    let opset = d.pick(&[18, 11, 13, 16]);
    let length = 1 + d.below(rank);
    let (outer, sizes) = (d.shape(2, 3), &dims[..length]);
    if sizes.contains(&0) {
        return None;
    }
    let picks = tuples(d, &outer, sizes);
    let updates = [&outer, &dims[length..]].concat();
    let kind = reduction(d, opset);
    let target = |u: &[usize]| {
        let (head, tail) = u.split_at(outer.len());
        [&tuple(&picks, head, sizes)[..], tail].concat()
    };
    scattered(d, case(op, opset), &dims, &updates, &picks, kind, target)
}

fn tensor_scatter(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let axis = 1 + d.below(rank - 1);
    let spelt = if d.coin() { axis as i64 - rank as i64 } else { axis as i64 };
    let length = 1 + d.below(dims[axis]);
    let circular = d.coin();
    let starts = d.coin().then(|| {
        let most = if circular { dims[axis] - 1 } else { dims[axis] - length };
        (0..dims[0]).map(|_| d.below(most + 1) as i64).collect::<Vec<_>>()
    });
    let dtype = d.pick(&ANY);
    let (past, update) = (d.bits(dtype, &dims), d.bits(dtype, &put(&dims, axis, length)));
    let (mut y, new) = (codes(&past), codes(&update));
    for u in indices(&new.dims) {
        let start = starts.as_ref().map_or(0, |s| s[u[0]] as usize);
        let to = flat(&dims, &put(&u, axis, (start + u[axis]) % dims[axis]));
        y.v[to] = new.at(&u);
    }
    let case = case(op, 24).attr_if(axis + 2 != rank || d.coin(), "axis", spelt).attr_if(
        circular || d.coin(),
        "mode",
        if circular { "circular" } else { "linear" },
    );
    let starts = starts.map(Tensor::vector);
    let case = case.input(&past).input(&update).maybe(starts.as_ref());
    Some(case.same(from_codes(dtype, &dims, &y.v)))
}

fn non_zero(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let dtype = d.pick(&[Int64, Float, Bool, Float16, Uint8, Double, Int32]);
    let x = d.within(dtype, &dims, 0.0, if dtype.is_float() { 0.25 } else { 1.0 });
    let values = reals(&x);
    let found: Vec<Vec<usize>> =
        indices(&dims).into_iter().filter(|i| values.at(i) != 0.0).collect();
    let y = Nd::fill(&[rank, found.len()], |o| found[o[1]][o[0]] as i64);
    Some(case(op, d.pick(&[13, 9])).input(&x).same(int64(&y.dims, &y.v)))
}

fn compress(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims = d.dims(rank, 4);
    let opset = d.pick(&[11, 9]);
    let (axis, spelt) = d.axis(rank);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let along = d.coin();
    let size = if along { dims[axis] } else { dims.iter().product() };
    let shorter = size - d.below(3).min(size);
    let condition = d.bits(Bool, &[shorter]);
    let kept: Vec<usize> = (0..shorter).filter(|k| codes(&condition).v[*k] == 1).collect();
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let case = case(op, opset).attr_if(along, "axis", spelt).input(&x).input(&condition);
    if along {
        let y = moved(&x, &put(&dims, axis, kept.len()), |o| put(o, axis, kept[o[axis]]));
        return Some(case.same(y));
    }
    let all = indices(&dims);
    Some(case.same(moved(&x, &[kept.len()], |o| all[kept[o[0]]].clone())))
}

fn one_hot(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(3, 4);
    let rank = dims.len() + 1;
    let opset = d.pick(&[11, 9]);
    let axis = d.below(rank);
    let spelt = if d.coin() { axis as i64 - rank as i64 } else { axis as i64 };
    let depth = 1 + d.below(5);
    let kind = d.pick(&[Int64, Int32, Float]);
    let outside = if d.coin() { 2.0 } else { 0.0 };
    let low = if opset >= 11 { -(depth as f64) - outside } else { 0.0 };
    let high = depth as f64 - 1.0 + outside;
    let count = dims.iter().product();
    let v = d.whole(count, low as i64, high as i64).iter().map(|v| *v as f64).collect();
    let x = from_reals(kind, &dims, v);
    let dtype = d.pick(&[Float, Int64, Bool, String, Uint8, Double, Int32]);
    let values = d.bits(dtype, &[2]);
    let (off, on) = (codes(&values).v[0], codes(&values).v[1]);
    let xs = reals(&x);
    let out = [&dims[..axis], &[depth], &dims[axis..]].concat();
    let y = Nd::fill(&out, |o| {
        let mut own = o.to_vec();
        let k = own.remove(axis) as f64;
        let place = xs.at(&own);
        if place == k || place + depth as f64 == k { on } else { off }
    });
    let depth = match d.below(3) {
        0 => Tensor::scalar(depth as i64),
        1 => Tensor::vector(vec![depth as i32]),
        _ => Tensor::scalar(depth as f32),
    };
    let case = case(op, opset).attr_if(axis + 1 != rank || d.coin(), "axis", spelt);
    let case = case.input(&x).input(&depth).input(&values);
    Some(case.same(from_codes(dtype, &out, &y.v)))
}

fn unique(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(4)).collect();
    let along = d.coin();
    let (axis, spelt) = d.axis(rank);
    let sorted = d.coin();
    let dtype = d.pick(&[Int64, Float, Int8, Uint8, Double, Float16, Int32]);
    let x = d.within(dtype, &dims, 0.0, if dtype.is_float() { 0.25 } else { 2.0 });
    let xs = reals(&x);
    // The slices to compare, or single elements.
    let all = indices(&dims);
    let count = if along { dims[axis] } else { all.len() };
    let part = |k: usize| match along {
        true => all.iter().filter(|i| i[axis] == k).map(|i| xs.at(i)).collect::<Vec<f64>>(),
        false => vec![xs.v[k]],
    };
    let mut firsts: Vec<usize> =
        (0..count).filter(|k| (0..*k).all(|j| part(j) != part(*k))).collect();
    if sorted {
        firsts.sort_by(|a, b| part(*a).partial_cmp(&part(*b)).unwrap());
    }
    let place = |k: usize| firsts.iter().position(|f| part(*f) == part(k)).unwrap() as i64;
    let inverse: Vec<i64> = (0..count).map(place).collect();
    let counts = firsts.iter().map(|f| (0..count).filter(|k| part(*k) == part(*f)).count() as i64);
    let y = match along {
        true => moved(&x, &put(&dims, axis, firsts.len()), |o| put(o, axis, firsts[o[axis]])),
        false => moved(&x, &[firsts.len()], |o| all[firsts[o[0]]].clone()),
    };
    let case = case(op, 11)
        .attr_if(along, "axis", spelt)
        .attr_if(!sorted || d.coin(), "sorted", sorted)
        .input(&x)
        .same(y);
    if d.coin() {
        return Some(case);
    }
    let case = case.same(Tensor::vector(firsts.iter().map(|f| *f as i64).collect()));
    Some(case.same(Tensor::vector(inverse)).same(Tensor::vector(counts.collect())))
}
