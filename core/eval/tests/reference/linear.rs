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
    einsum: "Einsum";
    det: "Det";
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

/// The shape of parameters of the rows of the first factor or the columns of the second one.
pub fn per_slice(d: &mut Dice, dims: &[usize], axis: usize) -> Vec<usize> {
    match d.below(3) {
        _ if dims.len() < 2 => vec![],
        0 => vec![],
        1 if dims.len() == 2 => vec![dims[axis]],
        _ if axis + 1 == dims.len() => crate::nd::put(dims, axis - 1, 1),
        _ => crate::nd::put(dims, axis + 1, 1),
    }
}

/// The parameter of an element of a factor.
pub fn slice_at<T: Copy>(parameter: &Nd<T>, index: &[usize], axis: usize) -> T {
    match parameter.dims.len() {
        1 if index.len() == 2 => parameter.v[index[axis]],
        _ => parameter.spread(index),
    }
}

fn matmul_integer(op: &str, d: &mut Dice) -> Option<Case> {
    let f = Factors::random(d);
    let types = [DataType::Uint8, DataType::Int8];
    let (ta, tb) = (d.pick(&types), d.pick(&types));
    let (a, b) = (d.bits(ta, &f.a), d.bits(tb, &f.b));
    let (row, column) = (f.a.len().saturating_sub(2), f.b.len() - 1);
    let (da, db) = (per_slice(d, &f.a, row), per_slice(d, &f.b, column));
    let za = d.coin().then(|| d.bits(ta, &da));
    let zb = d.coin().then(|| d.bits(tb, &db));
    let (x, z) = (whole(&a), whole(&b));
    let (zx, zz) = (za.as_ref().map(whole), zb.as_ref().map(whole));
    let y = Nd::fill(&f.y, |o| {
        let term = |(i, j): &(Vec<usize>, Vec<usize>)| {
            let left = x.at(i) - zx.as_ref().map_or(0, |z| slice_at(z, i, row));
            left * (z.at(j) - zz.as_ref().map_or(0, |z| slice_at(z, j, column)))
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

/// Axes of an operand by label; those of the ellipsis are [`HIDDEN`] and more, counted from the
/// end.
const HIDDEN: usize = 8;

/// One operand or the result of an equation in letters.
fn term(labels: &[usize]) -> String {
    let mut text = String::new();
    for label in labels {
        if *label < HIDDEN {
            text.push(char::from(b"aZcbDefg"[*label]));
        } else if !text.ends_with("...") {
            text.push_str("...");
        }
    }
    text
}

fn einsum(op: &str, d: &mut Dice) -> Option<Case> {
    let mut sizes: Vec<usize> = (0..4).map(|_| d.size(3)).collect();
    sizes.resize(HIDDEN, 0);
    sizes.extend([1 + d.below(3), 1 + d.below(3)]);
    let ellipsis = d.coin();
    let mut operands: Vec<(Vec<usize>, Vec<usize>)> = vec![];
    for _ in 0..1 + d.below(3) {
        let count = d.below(4);
        let mut labels: Vec<usize> = (0..count).map(|_| d.below(4)).collect();
        let place = d.below(labels.len() + 1);
        let hidden = if ellipsis { d.below(3) } else { 0 };
        for k in 0..hidden {
            labels.insert(place, HIDDEN + k);
        }
        // Axes under the ellipsis broadcast.
        let size = |d: &mut Dice, l: usize| if l >= HIDDEN && d.once_in(4) { 1 } else { sizes[l] };
        let dims = labels.iter().map(|l| size(d, *l)).collect();
        operands.push((labels, dims));
    }
    let used = |l: &usize| operands.iter().any(|o| o.0.contains(l));
    let hidden: Vec<usize> = (HIDDEN..HIDDEN + 2).rev().filter(used).collect();
    let named: Vec<usize> = (0..4).filter(used).collect();
    let times = |l: &usize| operands.iter().flat_map(|o| &o.0).filter(|m| *m == l).count();
    let explicit = !hidden.is_empty() || d.coin();
    let mut out: Vec<usize>;
    if explicit {
        let order = d.order(named.len());
        out = order.iter().map(|i| named[*i]).filter(|_| d.coin()).collect();
        let place = d.below(out.len() + 1);
        hidden.iter().rev().for_each(|h| out.insert(place, *h));
    } else {
        out = named.iter().copied().filter(|l| times(l) == 1).collect();
        out.sort_by_key(|l| term(&[*l]));
    }
    // What the ellipsis of the result stands for is the most that any operand has.
    let all: Vec<usize> = [hidden, named].concat();
    let full = |l: &usize| {
        let own = operands.iter().flat_map(|o| o.0.iter().zip(&o.1)).filter(|e| e.0 == l);
        own.map(|e| *e.1).fold(1, |a, b| if a == 1 { b } else { a })
    };
    let summed: Vec<usize> = all.iter().copied().filter(|l| !out.contains(l)).collect();
    let dims: Vec<usize> = out.iter().map(full).collect();
    let inner: Vec<usize> = summed.iter().map(full).collect();
    let dtype = d.pick(&[DataType::Float, DataType::Double, DataType::Int32]);
    let xs: Vec<onnxd_ir::Tensor> =
        operands.iter().map(|o| d.within(dtype, &o.1, -3.0, 3.0)).collect();
    let values: Vec<Nd> = xs.iter().map(reals).collect();
    let product = |o: &[usize], s: &[usize]| -> f64 {
        let at = |l: &usize| match out.iter().position(|m| m == l) {
            Some(i) => o[i],
            None => s[summed.iter().position(|m| m == l).unwrap()],
        };
        let factor = |(x, labels): (&Nd, &Vec<usize>)| {
            let own: Vec<usize> = labels.iter().map(at).collect();
            x.spread(&own)
        };
        values.iter().zip(operands.iter().map(|o| &o.0)).map(factor).product()
    };
    let inside = crate::nd::indices(&inner);
    let y = Nd::fill(&dims, |o| inside.iter().map(|s| product(o, s)).sum());
    let sums = Nd::fill(&dims, |o| inside.iter().map(|s| product(o, s).abs()).sum());
    let left: Vec<String> = operands.iter().map(|o| term(&o.0)).collect();
    let mut text = left.join(if d.coin() { " , " } else { "," });
    if explicit {
        text += &format!("->{}", term(&out));
    }
    let case = xs.iter().fold(case(op, 12).attr("equation", text.as_str()), Case::input);
    if dtype == DataType::Int32 {
        let exact = Nd { dims: y.dims, v: y.v.iter().map(|v| *v as i128).collect() };
        return Some(case.same(from_whole(dtype, &exact)));
    }
    Some(case.near(dtype, y, &sums.v))
}

/// The determinant of the matrix at `lead` without the first rows and some columns, by expansion
/// along a row; and the same of magnitudes.
fn minor(x: &Nd, lead: &[usize], row: usize, columns: &[usize]) -> (f64, f64) {
    let (mut sum, mut size) = (0.0, 0.0);
    if columns.is_empty() {
        return (1.0, 1.0);
    }
    for (k, column) in columns.iter().enumerate() {
        let rest: Vec<usize> = columns.iter().copied().filter(|c| c != column).collect();
        let value = x.at(&[lead, &[row, *column]].concat());
        let (inner, magnitude) = minor(x, lead, row + 1, &rest);
        sum += value * inner * if k % 2 == 0 { 1.0 } else { -1.0 };
        size += value.abs() * magnitude;
    }
    (sum, size)
}

fn det(op: &str, d: &mut Dice) -> Option<Case> {
    let lead = d.shape(2, 3);
    let n = 1 + d.below(4);
    let opset = d.pick(&[22, 11]);
    let dtype = d.pick(if opset < 22 { &FLOATS[..3] } else { FLOATS });
    let x = d.tensor(dtype, &[&lead[..], &[n, n]].concat());
    let xs = reals(&x);
    let all: Vec<usize> = (0..n).collect();
    let y = Nd::fill(&lead, |o| minor(&xs, o, 0, &all).0);
    let sums = Nd::fill(&lead, |o| minor(&xs, o, 0, &all).1);
    Some(case(op, opset).input(&x).near(dtype, y, &sums.v))
}
