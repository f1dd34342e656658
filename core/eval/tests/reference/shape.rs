//! Moved elements: every output element names the input element that it is.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, broadcast, codes, flat, from_codes, from_reals, indices, put};
use onnxd_ir::{DataType, Tensor};

properties! {
    concat: "Concat";
    split: "Split";
    transpose: "Transpose";
    tile: "Tile";
    expand: "Expand";
    identity: "Identity";
    flatten: "Flatten";
    reshape: "Reshape";
    squeeze: "Squeeze";
    unsqueeze: "Unsqueeze";
    described: "Shape", "Size";
    blocks: "DepthToSpace", "SpaceToDepth";
    trilu: "Trilu";
    reverse_sequence: "ReverseSequence";
    constant_of_shape: "ConstantOfShape";
    eye_like: "EyeLike";
    range: "Range";
}

use DataType::*;

/// Types that the operators that only move elements have known for long.
pub const ANY: [DataType; 15] = [
    Int64, Float, Uint8, Bool, Float16, String, Double, Int16, Complex64, Complex128, Int8, Uint16,
    Int32, Uint32, Uint64,
];

/// The same and those of less than a byte.
const NEWEST: [DataType; 8] = [Int64, Uint4, Int4, Float4E2M1, Float8E5M2, Bfloat16, String, Bool];

pub fn list(v: &[usize]) -> Tensor {
    Tensor::vector(v.iter().map(|n| *n as i64).collect())
}

/// An output whose elements are those of `x` at the indices that `f` gives.
pub fn moved(x: &Tensor, dims: &[usize], f: impl Fn(&[usize]) -> Vec<usize>) -> Tensor {
    let from = codes(x);
    let y = Nd::fill(dims, |o| from.at(&f(o)));
    from_codes(x.dtype(), dims, &y.v)
}

/// As [`moved`], some elements being taken from nowhere.
pub fn moved_or(
    x: &Tensor,
    dims: &[usize],
    fill: u128,
    f: impl Fn(&[usize]) -> Vec<i64>,
) -> Tensor {
    let from = codes(x);
    let y = Nd::fill(dims, |o| from.get(&f(o)).unwrap_or(fill));
    from_codes(x.dtype(), dims, &y.v)
}

fn concat(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let opset = d.pick(&[13, 4, 11]);
    let (axis, spelt) = d.axis(rank);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let dtype = d.pick(&ANY);
    let sizes: Vec<usize> = (0..1 + d.below(4)).map(|_| d.size(4)).collect();
    let xs: Vec<Tensor> = sizes.iter().map(|n| d.bits(dtype, &put(&dims, axis, *n))).collect();
    let out = put(&dims, axis, sizes.iter().sum());
    let y = Nd::fill(&out, |o| {
        let (mut i, mut k) = (0, o[axis]);
        while k >= sizes[i] {
            k -= sizes[i];
            i += 1;
        }
        codes(&xs[i]).at(&put(o, axis, k))
    });
    let case = xs.iter().fold(case(op, opset).attr("axis", spelt), Case::input);
    Some(case.same(from_codes(dtype, &out, &y.v)))
}

fn split(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let opset = d.pick(&[18, 2, 11, 13]);
    let (axis, spelt) = d.axis(rank);
    let spelt = if opset < 11 { axis as i64 } else { spelt };
    let parts: Vec<usize> = (0..1 + d.below(4)).map(|_| d.size(3)).collect();
    let (count, explicit) = (parts.len(), d.coin());
    let mut dims = d.dims(rank, 4);
    let mut sizes = parts;
    if explicit {
        dims[axis] = sizes.iter().sum();
    } else {
        // Even parts, the last of which may be smaller since opset 18.
        let each = 1 + d.below(3);
        let less = if opset >= 18 { d.below(each.min(count)) } else { 0 };
        sizes = vec![each; count];
        sizes[count - 1] -= less;
        dims[axis] = each * count - less;
    }
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let mut case = case(op, opset).attr_if(axis != 0 || d.coin(), "axis", spelt).input(&x);
    if explicit {
        case = if opset < 13 { case.attr("split", &sizes) } else { case.input(&list(&sizes)) };
    } else {
        case = case.attr_if(opset >= 18, "num_outputs", count as i64);
    }
    let mut start = 0;
    for n in sizes {
        let part = moved(&x, &put(&dims, axis, n), |o| put(o, axis, o[axis] + start));
        case = case.same(part);
        start += n;
    }
    Some(case)
}

fn transpose(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let opset = d.pick(&[25, 1, 13]);
    let dtype = if opset >= 25 { d.pick(&NEWEST) } else { d.pick(&ANY) };
    let x = d.bits(dtype, &dims);
    let given = d.coin();
    let perm = match given {
        true => d.order(dims.len()),
        false => (0..dims.len()).rev().collect(),
    };
    let out: Vec<usize> = perm.iter().map(|a| dims[*a]).collect();
    let y = moved(&x, &out, |o| {
        let mut from = vec![0; perm.len()];
        perm.iter().zip(o).for_each(|(a, i)| from[*a] = *i);
        from
    });
    Some(case(op, opset).attr_if(given, "perm", &perm).input(&x).same(y))
}

fn tile(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 3);
    let repeats = d.dims(dims.len(), 3);
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let out: Vec<usize> = dims.iter().zip(&repeats).map(|(n, r)| n * r).collect();
    let y = moved(&x, &out, |o| o.iter().zip(&dims).map(|(i, n)| i % n).collect());
    Some(case(op, d.pick(&[13, 6])).input(&x).input(&list(&repeats)).same(y))
}

fn expand(op: &str, d: &mut Dice) -> Option<Case> {
    let out = d.shape(4, 3);
    let (dims, shape) = (crate::math::operand(d, &out), crate::math::operand(d, &out));
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let all = broadcast(&[&dims, &shape]);
    let from = codes(&x);
    let y = Nd::fill(&all, |o| from.spread(o));
    let case = case(op, d.pick(&[13, 8])).input(&x).input(&list(&shape));
    Some(case.same(from_codes(dtype, &all, &y.v)))
}

/// A version, and any bits of a type that it knows.
fn version(d: &mut Dice, dims: &[usize]) -> (i64, Tensor) {
    let opset = d.pick(&[25, 5, 13]);
    let dtype = if opset >= 25 { d.pick(&NEWEST) } else { d.pick(&ANY) };
    (opset, d.bits(dtype, dims))
}

/// The same elements under other sizes.
fn renamed(case: Case, x: &Tensor, dims: &[usize]) -> Case {
    case.same(from_codes(x.dtype(), dims, &codes(x).v))
}

fn identity(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let (opset, x) = version(d, &dims);
    Some(renamed(case(op, opset).input(&x), &x, &dims))
}

fn flatten(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let (opset, x) = version(d, &dims);
    let (axis, rank) = (d.below(dims.len() + 1), dims.len());
    let back = opset >= 13 && axis < rank && d.coin();
    let spelt = axis as i64 - if back { rank as i64 } else { 0 };
    let out = [dims[..axis].iter().product(), dims[axis..].iter().product()];
    let case = case(op, opset.max(9)).attr_if(axis != 1 || d.coin(), "axis", spelt).input(&x);
    Some(renamed(case, &x, &out))
}

fn reshape(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let (opset, x) = version(d, &dims);
    let mut out: Vec<usize> = d.order(dims.len()).iter().map(|a| dims[*a]).collect();
    if out.len() > 1 && d.coin() {
        let last = out.pop()?;
        out[0] *= last;
    }
    let mut spelt: Vec<i64> = out.iter().map(|n| *n as i64).collect();
    let zeros = opset >= 25 && d.coin();
    for i in 0..if zeros { 0 } else { out.len() } {
        // Zero copies the size that stands there.
        if out[i] == 0 && dims[i] != 0 {
            return None;
        }
        if out[i] == dims[i] && d.coin() {
            spelt[i] = 0;
        }
    }
    if !spelt.is_empty() && !out.contains(&0) && d.coin() {
        let open = d.below(spelt.len());
        spelt[open] = -1;
    }
    let case = case(op, opset).attr_if(zeros, "allowzero", true).input(&x);
    Some(renamed(case.input(&Tensor::vector(spelt)), &x, &out))
}

/// Axes as an attribute, since opset 13 as an input.
fn with_axes(op: &str, opset: i64, x: &Tensor, spelt: Vec<i64>) -> Case {
    let case = case(op, opset);
    match opset {
        ..13 => case.attr("axes", &spelt).input(x),
        _ => case.input(x).input(&Tensor::vector(spelt)),
    }
}

fn squeeze(op: &str, d: &mut Dice) -> Option<Case> {
    let mut dims = d.shape(5, 4);
    let (mut axes, mut spelt) = d.axes(dims.len());
    axes.iter().for_each(|a| dims[*a] = 1);
    let (opset, x) = version(d, &dims);
    if opset < 11 {
        spelt = axes.iter().map(|a| *a as i64).collect();
    }
    let case = if axes.is_empty() {
        axes = (0..dims.len()).filter(|a| dims[*a] == 1).collect();
        case(op, opset).input(&x)
    } else {
        with_axes(op, opset, &x, spelt)
    };
    let kept = (0..dims.len()).filter(|a| !axes.contains(a)).map(|a| dims[a]);
    Some(renamed(case, &x, &kept.collect::<Vec<_>>()))
}

fn unsqueeze(op: &str, d: &mut Dice) -> Option<Case> {
    let mut out = d.shape(5, 4);
    let (axes, mut spelt) = d.axes(out.len());
    axes.iter().for_each(|a| out[*a] = 1);
    let kept = (0..out.len()).filter(|a| !axes.contains(a)).map(|a| out[a]);
    let (opset, x) = version(d, &kept.collect::<Vec<_>>());
    if opset < 11 {
        spelt = axes.iter().map(|a| *a as i64).collect();
    }
    Some(renamed(with_axes(op, opset, &x, spelt), &x, &out))
}

fn described(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    if op == "Size" {
        let count = dims.iter().product::<usize>() as i64;
        return Some(case(op, d.pick(&[13, 1])).input(&x).same(Tensor::scalar(count)));
    }
    let rank = dims.len() as i64;
    let (start, end) = (d.coin().then(|| d.int(-7, 7)), d.coin().then(|| d.int(-7, 7)));
    let clamp = |at: i64| if at < 0 { (at + rank).max(0) } else { at.min(rank) };
    let (first, last) = (clamp(start.unwrap_or(0)), clamp(end.unwrap_or(rank)));
    let sizes: Vec<usize> =
        (0..dims.len()).filter(|a| (first..last).contains(&(*a as i64))).map(|a| dims[a]).collect();
    let case = case(op, 15).attr_if(start.is_some(), "start", start.unwrap_or(0)).attr_if(
        end.is_some(),
        "end",
        end.unwrap_or(0),
    );
    Some(case.input(&x).same(list(&sizes)))
}

fn blocks(op: &str, d: &mut Dice) -> Option<Case> {
    let (n, c, h, w) = (d.size(2), d.size(3), d.size(3), d.size(3));
    let b = 1 + d.below(3);
    let opset = d.pick(&[13, 1, 11]);
    let dtype = d.pick(&ANY);
    let deep = [n, c * b * b, h, w];
    let wide = [n, c, h * b, w * b];
    // Where an element of the wide image stands in the deep one.
    let crd = op == "DepthToSpace" && opset >= 11 && d.coin();
    let deepened = |o: &[usize]| {
        let (y, x) = (o[2] % b, o[3] % b);
        let channel = if crd { (o[1] * b + y) * b + x } else { (y * b + x) * c + o[1] };
        vec![o[0], channel, o[2] / b, o[3] / b]
    };
    let case = case(op, opset).attr("blocksize", b as i64);
    if op == "DepthToSpace" {
        let x = d.bits(dtype, &deep);
        let y = moved(&x, &wide, deepened);
        let word = if crd { "CRD" } else { "DCR" };
        return Some(
            case.attr_if(crd || (opset >= 11 && d.coin()), "mode", word).input(&x).same(y),
        );
    }
    let x = d.bits(dtype, &wide);
    let from = codes(&x);
    let mut y = vec![0; from.v.len()];
    for o in indices(&wide) {
        y[flat(&deep, &deepened(&o))] = from.at(&o);
    }
    Some(case.input(&x).same(from_codes(dtype, &deep, &y)))
}

fn trilu(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let dims = d.dims(rank, 5);
    let (upper, k) = (d.coin(), d.coin().then(|| d.int(-6, 6)));
    let dtype = d.pick(&ANY[..5]);
    let x = d.bits(dtype, &dims);
    let y = moved_or(&x, &dims, 0, |o| {
        let distance = o[rank - 1] as i64 - o[rank - 2] as i64;
        let k = k.unwrap_or(0);
        let keep = if upper { distance >= k } else { distance <= k };
        o.iter().map(|i| if keep { *i as i64 } else { -1 }).collect()
    });
    let k = k.map(Tensor::scalar);
    let case = case(op, 14).attr_if(!upper || d.coin(), "upper", upper).input(&x);
    Some(case.maybe(k.as_ref()).same(y))
}

fn reverse_sequence(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let dims = d.dims(rank, 4);
    let batch = d.below(2);
    let time = 1 - batch;
    let lens: Vec<usize> = (0..dims[batch]).map(|_| d.below(dims[time] + 1)).collect();
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let y = moved(&x, &dims, |o| {
        let (n, t) = (lens[o[batch]], o[time]);
        put(o, time, if t < n { n - 1 - t } else { t })
    });
    let case = case(op, 10).attr_if(batch != 1 || d.coin(), "batch_axis", batch as i64).attr_if(
        time != 0 || d.coin(),
        "time_axis",
        time as i64,
    );
    Some(case.input(&x).input(&list(&lens)).same(y))
}

fn constant_of_shape(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let dtype = d.pick(&[Float, Int64, Bool, Float16, Uint8, Double, Int32]);
    let value = d.coin().then(|| d.bits(dtype, &[1]));
    let shape = list(&dims);
    let case = case(op, 9).input(&shape);
    let count = dims.iter().product();
    Some(match value {
        None => case.same(Tensor::from_vec(dims, vec![0f32; count])),
        Some(v) => {
            let code = codes(&v).v[0];
            case.attr("value", &v).same(from_codes(dtype, &dims, &vec![code; count]))
        }
    })
}

fn eye_like(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.dims(2, 6);
    let types = [Float, Int64, Double, Int32, Uint8, Float16];
    let (own, other) = (d.pick(&types), d.coin().then(|| d.pick(&types)));
    let k = d.int(-6, 6);
    let x = d.bits(own, &dims);
    let dtype = other.unwrap_or(own);
    let y = Nd::fill(&dims, |o| f64::from(o[1] as i64 - o[0] as i64 == k));
    let case = case(op, 9).attr_if(k != 0 || d.coin(), "k", k).attr_if(
        other.is_some(),
        "dtype",
        i64::from(dtype.number()),
    );
    Some(case.input(&x).same(from_reals(dtype, &dims, y.v)))
}

fn range(op: &str, d: &mut Dice) -> Option<Case> {
    let dtype = d.pick(&[Int64, Int32, Int16, Float, Double]);
    let whole = dtype.is_integer();
    let unit = if whole { 1.0 } else { 0.25 };
    let (start, limit) = (d.int(-20, 20) as f64 * unit, d.int(-20, 20) as f64 * unit);
    let step = d.pick(&[1.0, 2.0, 3.0, -1.0, -2.0]) * unit;
    let (mut y, mut at) = (vec![], start);
    while if step > 0.0 { at < limit } else { at > limit } {
        y.push(at);
        at += step;
    }
    let scalar = |v: f64| from_reals(dtype, &[], vec![v]);
    let case = case(op, 11).input(&scalar(start)).input(&scalar(limit)).input(&scalar(step));
    Some(case.same(from_reals(dtype, &[y.len()], y)))
}
