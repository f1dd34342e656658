//! Matrix products as sums over the shared axis.

use crate::case::{Case, FLOATS, case};
use crate::dice::Dice;
use crate::math::operand;
use crate::nd::{Nd, broadcast, from_whole, reals, whole};
use onnxd_ir::DataType;

properties! {
    matmul: "MatMul";
    matmul_integer: "MatMulInteger";
    gemm: "Gemm";
}

/// Shapes of two factors and of their product; `k` is the shared size.
pub struct Factors {
    pub a: Vec<usize>,
    pub b: Vec<usize>,
    pub y: Vec<usize>,
    k: usize,
}

impl Factors {
    pub fn random(d: &mut Dice) -> Factors {
        let most = d.pick(&[3, 9, 20]);
        let (m, k, n) = (d.size(most), d.size(most), d.size(most));
        let batch = d.shape(3, 3);
        let (mut a, mut b) = (operand(d, &batch), operand(d, &batch));
        let (row, column) = (d.once_in(4), d.once_in(4));
        if row {
            a = vec![];
        }
        if column {
            b = vec![];
        }
        let mut y = broadcast(&[&a, &b]);
        if !row {
            a.push(m);
            y.push(m);
        }
        a.push(k);
        b.push(k);
        if !column {
            b.push(n);
            y.push(n);
        }
        Factors { a, b, y, k }
    }

    /// Indices into both factors of all products that make up an element.
    pub fn terms(&self, o: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let (row, column) = (self.a.len() == 1, self.b.len() == 1);
        let batch = &o[..o.len() - usize::from(!row) - usize::from(!column)];
        let i = (!row).then(|| o[batch.len()]);
        let j = (!column).then(|| o[o.len() - 1]);
        let lead = |dims: &[usize], rest: usize| {
            let sizes = &dims[..dims.len() - rest];
            let index = &batch[batch.len() - sizes.len()..];
            let own = index.iter().zip(sizes).map(|(i, n)| if *n == 1 { 0 } else { *i });
            own.collect::<Vec<usize>>()
        };
        let left = i.map_or(vec![], |i| [lead(&self.a, 2), vec![i]].concat());
        let right = if column { vec![] } else { lead(&self.b, 2) };
        let term = |k: usize| {
            let tail = j.map_or(vec![k], |j| vec![k, j]);
            ([&left[..], &[k]].concat(), [&right[..], &tail].concat())
        };
        (0..self.k).map(term).collect()
    }
}

const WIDE: [DataType; 4] = [DataType::Int32, DataType::Int64, DataType::Uint32, DataType::Uint64];

fn matmul(op: &str, d: &mut Dice) -> Option<Case> {
    let f = Factors::random(d);
    let opset = d.pick(&[1, 9, 13]);
    let case = case(op, opset);
    if opset >= 9 && d.once_in(3) {
        let dtype = d.pick(&WIDE);
        let (a, b) = (d.bits(dtype, &f.a), d.bits(dtype, &f.b));
        let (x, z) = (whole(&a), whole(&b));
        let y = Nd::fill(&f.y, |o| {
            f.terms(o)
                .iter()
                .fold(0, |n: i128, (i, j)| n.wrapping_add(x.at(i).wrapping_mul(z.at(j))))
        });
        return Some(case.input(&a).input(&b).same(from_whole(dtype, &y)));
    }
    let dtype = if opset < 13 { d.pick(&FLOATS[..3]) } else { d.pick(FLOATS) };
    let (a, b) = (d.tensor(dtype, &f.a), d.tensor(dtype, &f.b));
    let (x, z) = (reals(&a), reals(&b));
    let y = Nd::fill(&f.y, |o| f.terms(o).iter().map(|(i, j)| x.at(i) * z.at(j)).sum());
    let sums = Nd::fill(&f.y, |o| f.terms(o).iter().map(|(i, j)| (x.at(i) * z.at(j)).abs()).sum());
    Some(case.input(&a).input(&b).near(dtype, y, &sums.v))
}

/// Zero points of the rows of the first factor or the columns of the second one.
fn zero_points(d: &mut Dice, dtype: DataType, dims: &[usize], axis: usize) -> onnxd_ir::Tensor {
    let sizes = match d.below(3) {
        _ if dims.len() < 2 => vec![],
        0 => vec![],
        1 if dims.len() == 2 && dims[axis] > 0 => vec![dims[axis]],
        _ if axis + 1 == dims.len() => crate::nd::put(dims, axis - 1, 1),
        _ => crate::nd::put(dims, axis + 1, 1),
    };
    d.bits(dtype, &sizes)
}

/// The zero point of an element.
fn zero_at(zero: Option<&Nd<i128>>, index: &[usize], axis: usize) -> i128 {
    match zero {
        None => 0,
        Some(z) if z.dims.len() == 1 && index.len() == 2 => z.v[index[axis]],
        Some(z) => z.spread(index),
    }
}

fn matmul_integer(op: &str, d: &mut Dice) -> Option<Case> {
    let f = Factors::random(d);
    let types = [DataType::Uint8, DataType::Int8];
    let (ta, tb) = (d.pick(&types), d.pick(&types));
    let (a, b) = (d.bits(ta, &f.a), d.bits(tb, &f.b));
    let (row, column) = (f.a.len().saturating_sub(2), f.b.len() - 1);
    let za = d.coin().then(|| zero_points(d, ta, &f.a, row));
    let zb = d.coin().then(|| zero_points(d, tb, &f.b, column));
    let (x, z) = (whole(&a), whole(&b));
    let (zx, zz) = (za.as_ref().map(whole), zb.as_ref().map(whole));
    let y = Nd::fill(&f.y, |o| {
        let term = |(i, j): &(Vec<usize>, Vec<usize>)| {
            let left = x.at(i) - zero_at(zx.as_ref(), i, row);
            left * (z.at(j) - zero_at(zz.as_ref(), j, column))
        };
        f.terms(o).iter().map(term).sum()
    });
    let case = case(op, 10).input(&a).input(&b).maybe(za.as_ref()).maybe(zb.as_ref());
    Some(case.same(from_whole(DataType::Int32, &y)))
}

fn gemm(op: &str, d: &mut Dice) -> Option<Case> {
    let most = d.pick(&[3, 9, 20]);
    let (m, k, n) = (d.size(most), d.size(most), d.size(most));
    let (flip_a, flip_b) = (d.coin(), d.coin());
    let opset = d.pick(&[7, 9, 11, 13]);
    let integer = opset >= 9 && d.once_in(4);
    let dtype = if integer { d.pick(&WIDE) } else { d.pick(FLOATS) };
    let factor = |d: &mut Dice| if integer { 1.0 } else { d.pick(&[1.0, 0.0, -0.5, 2.25]) };
    let (alpha, beta): (f64, f64) = (factor(d), factor(d));
    let a = d.tensor(dtype, &if flip_a { [k, m] } else { [m, k] });
    let b = d.tensor(dtype, &if flip_b { [n, k] } else { [k, n] });
    let shapes = [vec![], vec![n], vec![1], vec![m, n], vec![1, n], vec![m, 1], vec![1, 1]];
    let c = (opset < 11 || d.coin()).then(|| {
        let dims = d.pick(&shapes);
        d.tensor(dtype, &dims)
    });
    let (x, z, w) = (reals(&a), reals(&b), c.as_ref().map(reals));
    let term = |o: &[usize], i: usize| {
        let left = if flip_a { [i, o[0]] } else { [o[0], i] };
        let right = if flip_b { [o[1], i] } else { [i, o[1]] };
        alpha * x.at(&left) * z.at(&right)
    };
    let added = |o: &[usize]| w.as_ref().map_or(0.0, |c| beta * c.spread(o));
    let y = Nd::fill(&[m, n], |o| (0..k).map(|i| term(o, i)).sum::<f64>() + added(o));
    let sums =
        Nd::fill(&[m, n], |o| (0..k).map(|i| term(o, i).abs()).sum::<f64>() + added(o).abs());
    let case = case(op, opset)
        .attr_if(flip_a || d.coin(), "transA", flip_a)
        .attr_if(flip_b || d.coin(), "transB", flip_b)
        .attr_if(alpha != 1.0 || d.coin(), "alpha", alpha as f32)
        .attr_if(beta != 1.0 || d.coin(), "beta", beta as f32);
    let case = case.input(&a).input(&b).maybe(c.as_ref());
    if integer {
        let exact = Nd { dims: y.dims, v: y.v.iter().map(|v| *v as i128).collect() };
        return Some(case.same(from_whole(dtype, &exact)));
    }
    Some(case.near(dtype, y, &sums.v))
}
