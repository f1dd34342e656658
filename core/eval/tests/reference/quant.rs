//! Quantization: exact where the scales are powers of two, within rounding elsewhere.

use crate::case::{Case, case};
use crate::conv::{ConvSizes, Window, for_each_product};
use crate::dice::Dice;
use crate::linear::{Factors, per_slice, slice_at};
use crate::nd::{Nd, flat, from_reals, from_whole, put, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    quantize: "QuantizeLinear";
    dequantize: "DequantizeLinear";
    dynamic: "DynamicQuantizeLinear";
    qlinear_conv: "QLinearConv";
    qlinear_matmul: "QLinearMatMul";
}

use DataType::*;

/// Types that a version quantizes to.
fn types(opset: i64) -> &'static [DataType] {
    match opset {
        25.. => &[Uint8, Int8, Uint16, Int16, Uint4, Int4, Uint2, Int2],
        21.. => &[Uint8, Int8, Uint16, Int16, Uint4, Int4],
        _ => &[Uint8, Int8],
    }
}

/// Smallest and largest value of an integer type.
fn limits(dtype: DataType) -> (f64, f64) {
    let count = 2f64.powi(dtype.bits() as i32);
    match dtype {
        Uint2 | Uint4 | Uint8 | Uint16 => (0.0, count - 1.0),
        _ => (-count / 2.0, count / 2.0 - 1.0),
    }
}

/// Scales and zero points along some granularity.
struct Steps {
    /// The shape of both.
    dims: Vec<usize>,
    axis: usize,
    spelt: i64,
    block: usize,
}

impl Steps {
    fn random(d: &mut Dice, opset: i64, x: &[usize]) -> Steps {
        let whole = Steps { dims: vec![], axis: 0, spelt: 1, block: 0 };
        if x.is_empty() || opset < 13 || d.once_in(3) {
            return whole;
        }
        let (axis, spelt) = d.axis(x.len());
        if opset < 21 || d.coin() {
            return Steps { dims: vec![x[axis]], axis, spelt, ..whole };
        }
        let block = 1 + d.below(3);
        Steps { dims: put(x, axis, x[axis].div_ceil(block)), axis, spelt, block }
    }

    /// The parameter that belongs to an element.
    fn at<T: Copy>(&self, parameter: &Nd<T>, index: &[usize]) -> T {
        match self.block {
            _ if self.dims.is_empty() => parameter.v[0],
            0 => parameter.v[index[self.axis]],
            block => parameter.at(&put(index, self.axis, index[self.axis] / block)),
        }
    }

    fn attrs(&self, d: &mut Dice, case: Case) -> Case {
        let needed = !self.dims.is_empty() && self.spelt != 1 || self.block > 0;
        case.attr_if(needed || (!self.dims.is_empty() && d.coin()), "axis", self.spelt).attr_if(
            self.block > 0,
            "block_size",
            self.block as i64,
        )
    }
}

/// Positive scales: powers of two, or anything.
fn scales(d: &mut Dice, dtype: DataType, dims: &[usize], exact: bool) -> Tensor {
    let n: usize = dims.iter().product();
    let v = (0..n).map(|_| {
        let power = 2f64.powi((d.noise() % 7) as i32 - 4);
        if exact { power } else { power * (1.0 + (d.noise() % 1000) as f64 / 1000.0) }
    });
    from_reals(dtype, dims, v.collect())
}

fn quantize(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[25, 10, 13, 19, 21, 23]);
    let dims = d.shape(4, 5);
    let steps = Steps::random(d, opset, &dims);
    let exact = d.coin();
    let kind = if exact && opset >= 19 { d.pick(&[Float, Float16, Bfloat16]) } else { Float };
    let integer = opset < 19 && d.once_in(5);
    let x = if integer { d.within(Int32, &dims, -300.0, 300.0) } else { d.tensor(kind, &dims) };
    let scale = scales(d, kind, &steps.dims, exact);
    let to = d.pick(types(opset));
    let zero = (to != Uint8 || d.coin()).then(|| d.bits(to, &steps.dims));
    let named = opset >= 21 && zero.is_some() && d.coin();
    let zeros = zero.as_ref().map_or(Nd::fill(&steps.dims, |_| 0), whole);
    let (xs, ss, (low, high)) = (reals(&x), reals(&scale), limits(to));
    let real = Nd::fill(&dims, |o| xs.at(o) / steps.at(&ss, o));
    let shift = Nd::fill(&dims, |o| steps.at(&zeros, o) as f64);
    let zero_given = !named || d.coin() || zeros.v.iter().any(|z| *z != 0);
    let case = steps.attrs(d, case(op, opset)).attr_if(named, "output_dtype", to.number() as i64);
    let case = case.input(&x).input(&scale).maybe(zero.as_ref().filter(|_| zero_given));
    if exact {
        let v = real.v.iter().zip(&shift.v);
        let v = v.map(|(r, z)| (r.round_ties_even() + z).clamp(low, high) as i128).collect();
        return Some(case.same(from_whole(to, &Nd { dims, v })));
    }
    let v = real.v.iter().zip(&shift.v).map(|(r, z)| (r + z).clamp(low, high)).collect();
    Some(case.nearest(to, Nd { dims, v }))
}

fn dequantize(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = d.pick(&[25, 10, 13, 19, 21, 23]);
    let dims = d.shape(4, 5);
    let steps = Steps::random(d, opset, &dims);
    let from = if d.once_in(5) { Int32 } else { d.pick(types(opset)) };
    let kind = if opset >= 19 { d.pick(&[Float, Float16, Bfloat16]) } else { Float };
    let x = if from == Int32 { d.tensor(from, &dims) } else { d.bits(from, &dims) };
    let any = d.coin();
    let scale = scales(d, kind, &steps.dims, any);
    let zero = (from != Int32 && d.coin()).then(|| d.bits(from, &steps.dims));
    let zeros = zero.as_ref().map_or(Nd::fill(&steps.dims, |_| 0), whole);
    let (xs, ss) = (whole(&x), reals(&scale));
    let y = Nd::fill(&dims, |o| (xs.at(o) - steps.at(&zeros, o)) as f64 * steps.at(&ss, o));
    let case = steps.attrs(d, case(op, opset)).input(&x).input(&scale).maybe(zero.as_ref());
    Some(case.rounded(kind, y))
}

fn dynamic(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 5);
    let x = d.tensor(Float, &dims);
    let values = x.as_slice::<f32>().unwrap().into_owned();
    let low = values.iter().copied().fold(0f32, f32::min);
    let high = values.iter().copied().fold(0f32, f32::max);
    if low == high {
        return None;
    }
    let scale = (high - low) / 255.0;
    let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
    let y = values.iter().map(|v| ((v / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8);
    let y = Tensor::from_vec(dims, y.collect());
    let case = case(op, 11).input(&x).same(y);
    Some(case.same(Tensor::scalar(scale)).same(Tensor::scalar(zero as u8)))
}

/// Sums scaled and shifted, before they are rounded.
fn requantized(sums: &Nd, factor: impl Fn(&[usize]) -> f64, to: DataType, zero: &Tensor) -> Nd {
    let (shift, (low, high)) = (whole(zero).v[0] as f64, limits(to));
    Nd::fill(&sums.dims, |o| (sums.at(o) * factor(o) + shift).clamp(low, high))
}

/// A scale whose product with others leaves results of about the size of a byte.
fn fine(d: &mut Dice, dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    let v = (0..n).map(|_| 0.02 * (1.0 + (d.noise() % 1000) as f64 / 1000.0)).collect();
    from_reals(Float, dims, v)
}

fn qlinear_conv(op: &str, d: &mut Dice) -> Option<Case> {
    let s = ConvSizes::random(d);
    let w = Window::random(d, s.spatial.len());
    let (out, begins) = w.sizes(&s.spatial)?;
    let filters = s.group * s.outs;
    let types = [Uint8, Int8];
    let (tx, tw, ty) = (d.pick(&types), d.pick(&types), d.pick(&types));
    let (x, weights) = (d.bits(tx, &s.x()), d.bits(tw, &s.w(&w.kernel)));
    let per: Vec<usize> = if d.coin() { vec![filters] } else { vec![] };
    let (sx, sw, sy) = (fine(d, &[]), fine(d, &per), fine(d, &[]));
    let (zx, zw, zy) = (d.bits(tx, &[]), d.bits(tw, &per), d.bits(ty, &[]));
    let bias = d.coin().then(|| d.within(Int32, &[filters], -3000.0, 3000.0));
    let (xs, ws, zws) = (whole(&x), whole(&weights), whole(&zw));
    let bs = bias.as_ref().map(whole);
    let dims = [&[s.batch, filters], &out[..]].concat();
    let mut sums = Nd::fill(&dims, |o| bs.as_ref().map_or(0.0, |b| b.v[o[1]] as f64));
    let zero = whole(&zx).v[0];
    for_each_product(&s, &w, &out, &begins, |o, x, k| {
        let x = x.map_or(0, |x| xs.get(&x).unwrap() - zero);
        let zero = zws.v[if per.is_empty() { 0 } else { o[1] }];
        sums.v[flat(&dims, o)] += (x * (ws.at(&k) - zero)) as f64;
    });
    let (xv, wv, yv) = (reals(&sx).v, reals(&sw).v, reals(&sy).v);
    let gain = |o: &[usize]| xv[0] * wv[if per.is_empty() { 0 } else { o[1] }] / yv[0];
    let y = requantized(&sums, gain, ty, &zy);
    let case = w.attrs(d, case(op, 10), true).attr_if(d.coin(), "kernel_shape", &w.kernel);
    let case = case.attr_if(s.group > 1 || d.coin(), "group", s.group as i64);
    let case = case.input(&x).input(&sx).input(&zx).input(&weights).input(&sw).input(&zw);
    Some(case.input(&sy).input(&zy).maybe(bias.as_ref()).nearest(ty, y))
}

fn qlinear_matmul(op: &str, d: &mut Dice) -> Option<Case> {
    let f = Factors::random(d);
    let opset = d.pick(&[21, 10]);
    let types = [Uint8, Int8];
    let (ta, tb, ty) = (d.pick(&types), d.pick(&types), d.pick(&types));
    let kind = if opset >= 21 { d.pick(&[Float, Float16, Bfloat16]) } else { Float };
    let (a, b) = (d.bits(ta, &f.a), d.bits(tb, &f.b));
    let (row, column) = (f.a.len().saturating_sub(2), f.b.len() - 1);
    let (da, db) = (per_slice(d, &f.a, row), per_slice(d, &f.b, column));
    let narrow = |x: Tensor| from_reals(kind, x.dims(), reals(&x).v);
    let (sa, sb, sy) = (narrow(fine(d, &da)), narrow(fine(d, &db)), narrow(fine(d, &[])));
    let (za, zb, zy) = (d.bits(ta, &da), d.bits(tb, &db), d.bits(ty, &[]));
    let (xa, xb, zas, zbs) = (whole(&a), whole(&b), whole(&za), whole(&zb));
    let (va, vb, vy) = (reals(&sa), reals(&sb), reals(&sy).v[0]);
    let y = Nd::fill(&f.y, |o| {
        let term = |(i, j): &(Vec<usize>, Vec<usize>)| {
            let left = xa.at(i) - slice_at(&zas, i, row);
            let scale = slice_at(&va, i, row) * slice_at(&vb, j, column) / vy;
            (left * (xb.at(j) - slice_at(&zbs, j, column))) as f64 * scale
        };
        f.terms(o).iter().map(term).sum()
    });
    let y = requantized(&y, |_| 1.0, ty, &zy);
    let case = case(op, opset).input(&a).input(&sa).input(&za).input(&b).input(&sb).input(&zb);
    Some(case.input(&sy).input(&zy).nearest(ty, y))
}
