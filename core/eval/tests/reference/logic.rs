//! Comparison, logic and selection.

use crate::case::{Case, FLOATS, INTEGERS, case};
use crate::dice::Dice;
use crate::math::{operand, operands, wild, zip};
use crate::nd::{Nd, broadcast, codes, from_codes, reals, whole};
use onnxd_ir::{DataType, Tensor};

properties! {
    compare: "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual";
    equal_bits: "Equal";
    boolean: "And", "Or", "Xor";
    not: "Not";
    strange: "IsInf", "IsNaN";
    where_: "Where";
}

fn truth(y: &Nd<bool>) -> Tensor {
    let bits: Vec<u8> = y.v.iter().map(|b| u8::from(*b)).collect();
    Tensor::from_vec_as(DataType::Bool, y.dims.clone(), bits)
}

fn holds<T: PartialOrd + Copy>(op: &str, x: T, y: T) -> bool {
    match op {
        "Equal" => x == y,
        "Greater" => x > y,
        "GreaterOrEqual" => x >= y,
        "Less" => x < y,
        _ => x <= y,
    }
}

fn compare(op: &str, d: &mut Dice) -> Option<Case> {
    let [da, db] = operands(d);
    let opset = if op.ends_with("OrEqual") { d.pick(&[16, 12]) } else { d.pick(&[13, 9, 11]) };
    let integers =
        if op == "Equal" && opset < 11 { &[DataType::Int32, DataType::Int64] } else { INTEGERS };
    let case = case(op, opset);
    if d.coin() || (op == "Equal" && opset < 11) {
        let dtype = d.pick(integers);
        let few = d.coin();
        let mut any =
            |n: &[usize]| if few { d.within(dtype, n, 0.0, 2.0) } else { d.bits(dtype, n) };
        let (a, b) = (any(&da), any(&db));
        let y = zip(&whole(&a), &whole(&b), |x, y| holds(op, x, y));
        return Some(case.input(&a).input(&b).same(truth(&y)));
    }
    let dtype = d.pick(if opset < 13 { &FLOATS[..3] } else { FLOATS });
    let (a, b) = (wild(d, dtype, &da), wild(d, dtype, &db));
    let y = zip(&reals(&a), &reals(&b), |x, y| holds(op, x, y));
    Some(case.input(&a).input(&b).same(truth(&y)))
}

fn equal_bits(op: &str, d: &mut Dice) -> Option<Case> {
    let [da, db] = operands(d);
    let dtype = d.pick(&[DataType::Bool, DataType::String]);
    let mut few = |dims: &[usize]| {
        let n = dims.iter().product();
        let list: Vec<u128> = (0..n).map(|_| u128::from(d.noise() % 2)).collect();
        from_codes(dtype, dims, &list)
    };
    let (a, b) = (few(&da), few(&db));
    let y = zip(&codes(&a), &codes(&b), |x, y| x == y);
    Some(case(op, 19).input(&a).input(&b).same(truth(&y)))
}

fn boolean(op: &str, d: &mut Dice) -> Option<Case> {
    let [da, db] = operands(d);
    let (a, b) = (d.bits(DataType::Bool, &da), d.bits(DataType::Bool, &db));
    let y = zip(&codes(&a), &codes(&b), |x, y| match op {
        "And" => x == 1 && y == 1,
        "Or" => x == 1 || y == 1,
        _ => x != y,
    });
    Some(case(op, 7).input(&a).input(&b).same(truth(&y)))
}

fn not(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let x = d.bits(DataType::Bool, &dims);
    let y = Nd { v: codes(&x).v.iter().map(|c| *c == 0).collect(), dims };
    Some(case(op, 1).input(&x).same(truth(&y)))
}

fn strange(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(5, 4);
    let dtype = d.pick(FLOATS);
    let x = wild(d, dtype, &dims);
    let (negative, positive) = (d.coin(), d.coin());
    let values = reals(&x).v;
    let y = values.iter().map(|v| match op {
        "IsNaN" => v.is_nan(),
        _ => v.is_infinite() && if *v > 0.0 { positive } else { negative },
    });
    let y = Nd { v: y.collect(), dims };
    let inf = op == "IsInf";
    let case = case(op, 20)
        .attr_if(inf && (!negative || d.coin()), "detect_negative", negative)
        .attr_if(inf && (!positive || d.coin()), "detect_positive", positive);
    Some(case.input(&x).same(truth(&y)))
}

fn where_(op: &str, d: &mut Dice) -> Option<Case> {
    let out = d.shape(4, 4);
    let [dc, da, db] = [operand(d, &out), operand(d, &out), operand(d, &out)];
    let dtype = d.pick(&crate::shape::ANY);
    let condition = d.bits(DataType::Bool, &dc);
    let (a, b) = (d.bits(dtype, &da), d.bits(dtype, &db));
    let (c, x, z) = (codes(&condition), codes(&a), codes(&b));
    let y = Nd::fill(&broadcast(&[&dc, &da, &db]), |o| {
        if c.spread(o) == 1 { x.spread(o) } else { z.spread(o) }
    });
    let case = case(op, d.pick(&[16, 9])).input(&condition).input(&a).input(&b);
    Some(case.same(from_codes(dtype, &y.dims, &y.v)))
}
