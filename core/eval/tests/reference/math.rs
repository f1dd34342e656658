//! Functions of single elements and of elements that broadcasting brings together.

use crate::case::{Case, FLOATS, INTEGERS, case};
use crate::dice::{Dice, is_unsigned};
use crate::nd::{Nd, broadcast, from_codes, from_reals, from_whole, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    arithmetic: "Add", "Sub", "Mul", "Div", "Mod";
    pow: "Pow";
    bits: "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift";
    bitwise_not: "BitwiseNot";
    variadic: "Max", "Min", "Sum", "Mean";
    unary: "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf",
        "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan";
    whole_unary: "Abs", "Neg", "Sign";
}

/// The shape of an operand that broadcasts to `out`.
pub fn operand(d: &mut Dice, out: &[usize]) -> Vec<usize> {
    let skipped = d.below(3).min(out.len());
    out[skipped..].iter().map(|n| if d.once_in(4) { 1 } else { *n }).collect()
}

/// Two operands' shapes; now and then equal ones.
pub fn operands(d: &mut Dice) -> [Vec<usize>; 2] {
    let out = d.shape(5, 4);
    if d.coin() { [operand(d, &out), operand(d, &out)] } else { [out.clone(), out] }
}

/// Element by element over two arrays that broadcast.
pub fn zip<T: Copy, R: Copy>(a: &Nd<T>, b: &Nd<T>, f: impl Fn(T, T) -> R) -> Nd<R> {
    Nd::fill(&broadcast(&[&a.dims, &b.dims]), |o| f(a.spread(o), b.spread(o)))
}

pub fn map(x: &Nd, f: impl Fn(f64) -> f64) -> Nd {
    Nd { dims: x.dims.clone(), v: x.v.iter().map(|v| f(*v)).collect() }
}

/// Floats among which are infinities, NaN and both zeros.
pub fn wild(d: &mut Dice, dtype: DataType, dims: &[usize]) -> Tensor {
    let mut v = reals(&d.tensor(dtype, dims)).v;
    if d.coin() {
        for x in &mut v {
            let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 96.0, -96.0];
            if let Some(s) = strange.get(d.noise() as usize % 16) {
                *x = *s;
            }
        }
    }
    from_reals(dtype, dims, v)
}

/// The operands of an operator; before opset 7 the second lies along axes of the first.
fn given(d: &mut Dice, op: &str, opset: i64) -> (Case, [Vec<usize>; 2], Vec<usize>) {
    let case = case(op, opset);
    if opset >= 7 {
        let [a, b] = operands(d);
        let seen = b.clone();
        return (case, [a, b], seen);
    }
    let a = d.shape(4, 4);
    if !d.coin() {
        return (case, [a.clone(), a.clone()], a);
    }
    let axis = d.below(a.len() + 1);
    let count = d.below(a.len() - axis + 1);
    let b = a[axis..axis + count].to_vec();
    let seen = [&b[..], &vec![1; a.len() - axis - count]].concat();
    let suffix = axis + count == a.len();
    let case = case.attr("broadcast", true);
    let case = case.attr_if((!suffix || d.coin()) && axis < a.len(), "axis", axis as i64);
    (case, [a, b], seen)
}

fn arithmetic(op: &str, d: &mut Dice) -> Option<Case> {
    let opset = if op == "Mod" { d.pick(&[10, 13]) } else { d.pick(&[14, 6, 7, 13]) };
    let (mut case, [da, db], seen) = given(d, op, opset);
    let integers = match opset {
        _ if op == "Mod" => INTEGERS,
        14.. => INTEGERS,
        _ => &[DataType::Int32, DataType::Int64, DataType::Uint32, DataType::Uint64],
    };
    if d.coin() {
        let dtype = d.pick(integers);
        let small = d.coin();
        let mut any =
            |dims: &[usize]| if small { d.tensor(dtype, dims) } else { d.bits(dtype, dims) };
        let (a, mut b) = (any(&da), any(&db));
        if matches!(op, "Div" | "Mod") {
            let divisors = whole(&b).v.iter().map(|v| if *v == 0 { 1 } else { *v }).collect();
            b = from_whole(dtype, &Nd { dims: db, v: divisors });
        }
        let fmod = op == "Mod" && d.coin();
        let y = zip(&whole(&a), &Nd { dims: seen, v: whole(&b).v }, |x, y| match op {
            "Add" => x + y,
            "Sub" => x - y,
            "Mul" => x.wrapping_mul(y),
            "Div" => x / y,
            _ if fmod => x % y,
            _ => x - y * floor_div(x, y),
        });
        case = case.attr_if(fmod, "fmod", true);
        return Some(case.input(&a).input(&b).same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let (a, b) = (wild(d, dtype, &da), wild(d, dtype, &db));
    let y = zip(&reals(&a), &Nd { dims: seen, v: reals(&b).v }, |x, y| match op {
        "Add" => x + y,
        "Sub" => x - y,
        "Mul" => x * y,
        "Div" => x / y,
        _ => x % y,
    });
    case = case.attr_if(op == "Mod", "fmod", true);
    Some(case.input(&a).input(&b).rounded(dtype, y))
}

fn floor_div(x: i128, y: i128) -> i128 {
    let q = x / y;
    if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
}

fn pow(op: &str, d: &mut Dice) -> Option<Case> {
    let [da, db] = operands(d);
    let opset = d.pick(&[15, 7, 12, 13]);
    let case = case(op, opset);
    let base = d.pick(&[DataType::Float, DataType::Double, DataType::Int32, DataType::Int64]);
    if opset >= 12 && base.is_integer() {
        let exponent = d.pick(INTEGERS);
        let (a, b) = (d.tensor(base, &da), d.within(exponent, &db, 0.0, 12.0));
        let power = |x: i128, n: i128| (0..n).fold(1, |y: i128, _| y.wrapping_mul(x));
        let y = zip(&whole(&a), &whole(&b), power);
        return Some(case.input(&a).input(&b).same(from_whole(base, &y)));
    }
    let base = d.pick(FLOATS);
    let exponent = if opset >= 12 && d.coin() { d.pick(INTEGERS) } else { base };
    let a = d.tensor(base, &da);
    let b = d.within(exponent, &db, if is_unsigned(exponent) { 0.0 } else { -3.0 }, 3.0);
    let y = zip(&reals(&a), &reals(&b), f64::powf);
    Some(case.input(&a).input(&b).rounded(base, y))
}

fn bits(op: &str, d: &mut Dice) -> Option<Case> {
    let [da, db] = operands(d);
    if op != "BitShift" {
        let dtype = d.pick(INTEGERS);
        let (a, b) = (d.bits(dtype, &da), d.bits(dtype, &db));
        let y = zip(&whole(&a), &whole(&b), |x, y| match op {
            "BitwiseAnd" => x & y,
            "BitwiseOr" => x | y,
            _ => x ^ y,
        });
        return Some(case(op, 18).input(&a).input(&b).same(from_whole(dtype, &y)));
    }
    use DataType::*;
    let dtype = d.pick(&[Uint8, Uint16, Uint32, Uint64]);
    let direction = d.pick(&["LEFT", "RIGHT"]);
    let most = dtype.bits() as f64 - 1.0;
    let (a, b) = (d.bits(dtype, &da), d.within(dtype, &db, 0.0, most));
    let shift = |x: i128, n: i128| if direction == "LEFT" { x << n } else { x >> n };
    let y = zip(&whole(&a), &whole(&b), shift);
    let case = case(op, 11).attr("direction", direction);
    Some(case.input(&a).input(&b).same(from_whole(dtype, &y)))
}

fn bitwise_not(op: &str, d: &mut Dice) -> Option<Case> {
    let (dtype, dims) = (d.pick(INTEGERS), d.shape(5, 4));
    let x = d.bits(dtype, &dims);
    let codes: Vec<u128> = crate::nd::codes(&x).v.iter().map(|c| !c).collect();
    Some(case(op, 18).input(&x).same(from_codes(dtype, &dims, &codes)))
}

fn variadic(op: &str, d: &mut Dice) -> Option<Case> {
    let out = d.shape(4, 4);
    let count = 1 + d.below(4);
    let opset = d.pick(&[13, 8, 12]);
    let mut dims: Vec<Vec<usize>> = (0..count).map(|_| operand(d, &out)).collect();
    if d.coin() {
        dims = vec![out; count];
    }
    let shapes: Vec<&[usize]> = dims.iter().map(Vec::as_slice).collect();
    let all = broadcast(&shapes);
    let mut case = case(op, opset);
    if matches!(op, "Max" | "Min") && opset >= 12 && d.coin() {
        let dtype = d.pick(INTEGERS);
        let xs: Vec<Tensor> = dims.iter().map(|n| d.bits(dtype, n)).collect();
        let wholes: Vec<Nd<i128>> = xs.iter().map(whole).collect();
        let y = Nd::fill(&all, |o| {
            let elements = wholes.iter().map(|x| x.spread(o));
            if op == "Max" { elements.max().unwrap() } else { elements.min().unwrap() }
        });
        case = xs.iter().fold(case, Case::input);
        return Some(case.same(from_whole(dtype, &y)));
    }
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let xs: Vec<Tensor> = dims.iter().map(|n| wild(d, dtype, n)).collect();
    let values: Vec<Nd> = xs.iter().map(reals).collect();
    let y = Nd::fill(&all, |o| {
        let elements: Vec<f64> = values.iter().map(|x| x.spread(o)).collect();
        let nan = elements.iter().any(|v| v.is_nan());
        match op {
            "Max" | "Min" if nan => f64::NAN,
            "Max" => elements.into_iter().fold(f64::NEG_INFINITY, f64::max),
            "Min" => elements.into_iter().fold(f64::INFINITY, f64::min),
            "Sum" => elements.iter().sum(),
            _ => elements.iter().sum::<f64>() / count as f64,
        }
    });
    let sums = Nd::fill(&all, |o| values.iter().map(|x| x.spread(o).abs()).sum());
    case = xs.iter().fold(case, Case::input);
    Some(case.near(dtype, y, &sums.v))
}

/// The error function by a series of positive terms, 1 where it cannot be told from it.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
}

fn unary(op: &str, d: &mut Dice) -> Option<Case> {
    let f: fn(f64) -> f64 = match op {
        "Abs" => f64::abs,
        "Acos" => f64::acos,
        "Acosh" => f64::acosh,
        "Asin" => f64::asin,
        "Asinh" => f64::asinh,
        "Atan" => f64::atan,
        "Atanh" => f64::atanh,
        "Ceil" => f64::ceil,
        "Cos" => f64::cos,
        "Cosh" => f64::cosh,
        "Erf" => erf,
        "Exp" => f64::exp,
        "Floor" => f64::floor,
        "Log" => f64::ln,
        "Neg" => |x| -x,
        "Reciprocal" => |x| 1.0 / x,
        "Round" => f64::round_ties_even,
        "Sign" => |x| if x == 0.0 || x.is_nan() { x } else { x.signum() },
        "Sin" => f64::sin,
        "Sinh" => f64::sinh,
        "Sqrt" => f64::sqrt,
        "Tan" => f64::tan,
        other => panic!("no reference for {other}"),
    };
    let opset = match op {
        "Sign" | "Erf" | "Asinh" | "Acosh" | "Atanh" | "Sinh" | "Cosh" => 13,
        "Round" => 11,
        "Sin" | "Cos" | "Tan" | "Asin" | "Acos" | "Atan" => 7,
        _ => d.pick(&[13, 6]),
    };
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let (opset, dims) = (if d.coin() { 22 } else { opset }, d.shape(5, 5));
    // Half the cases keep to the interval on which all functions are defined.
    let x = if d.coin() { d.within(dtype, &dims, -1.0, 1.0) } else { wild(d, dtype, &dims) };
    let y = map(&reals(&x), f);
    let loose = matches!(op, "Erf").then(|| y.v.iter().map(|v| v.abs() * 10.0).collect::<Vec<_>>());
    let case = case(op, opset).input(&x);
    Some(match loose {
        Some(sums) => case.near(dtype, y, &sums),
        None => case.rounded(dtype, y),
    })
}

fn whole_unary(op: &str, d: &mut Dice) -> Option<Case> {
    use DataType::*;
    let types = if op == "Neg" { &[Int8, Int16, Int32, Int64] } else { INTEGERS };
    let (dtype, dims) = (d.pick(types), d.shape(5, 5));
    let x = d.bits(dtype, &dims);
    let values = whole(&x).v;
    let y = values.iter().map(|v| match op {
        "Abs" => v.abs(),
        "Neg" => -v,
        _ => v.signum(),
    });
    let y = Nd { dims, v: y.collect() };
    Some(case(op, 13).input(&x).same(from_whole(dtype, &y)))
}
