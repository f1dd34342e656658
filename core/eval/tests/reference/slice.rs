//! Cutting out and padding.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{codes, from_reals, int64};
use crate::shape::{ANY, list, moved, moved_or};
use onnxd_ir::{DataType, Tensor};

properties! {
    slice: "Slice";
    pad: "Pad";
    center_crop_pad: "CenterCropPad";
}

use DataType::*;

fn slice(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 6);
    let opset = d.pick(&[13, 1, 10, 11]);
    let (mut axes, mut spelt) = d.axes(dims.len());
    let named = d.coin();
    if !named {
        axes = (0..axes.len()).collect();
    }
    if opset < 10 {
        spelt = axes.iter().map(|a| *a as i64).collect();
    }
    let stepped = opset >= 10 && d.coin();
    let (mut starts, mut ends, mut steps) = (vec![], vec![], vec![]);
    let mut tables: Vec<Vec<usize>> = dims.iter().map(|n| (0..*n).collect()).collect();
    for axis in &axes {
        let n = dims[*axis] as i64;
        let bound = |d: &mut Dice| match d.below(8) {
            6 => i64::MAX,
            7 => i64::MIN,
            _ => d.int(-8, 8),
        };
        let (start, end) = (bound(d), bound(d));
        let step = if stepped { d.pick(&[1, 2, 3, -1, -2, -3]) } else { 1 };
        let wrap = |at: i64| if at < 0 { i128::from(at) + i128::from(n) } else { at.into() };
        // As Python does: clamped to where an element, or the end of the walk, can be.
        let (low, high) = if step > 0 { (0, n.into()) } else { (-1, i128::from(n) - 1) };
        let (mut at, stop) = (wrap(start).clamp(low, high), wrap(end).clamp(low, high));
        let mut table = vec![];
        while if step > 0 { at < stop } else { at > stop } {
            table.push(at as usize);
            at += i128::from(step);
        }
        tables[*axis] = table;
        starts.push(start);
        ends.push(end);
        steps.push(step);
    }
    let dtype = d.pick(&ANY);
    let x = d.bits(dtype, &dims);
    let out: Vec<usize> = tables.iter().map(Vec::len).collect();
    let y = moved(&x, &out, |o| o.iter().zip(&tables).map(|(i, t)| t[*i]).collect());
    if opset < 10 {
        let case = case(op, opset).attr("starts", &starts).attr("ends", &ends);
        return Some(case.attr_if(named, "axes", &spelt).input(&x).same(y));
    }
    let narrow = d.coin() && starts.iter().chain(&ends).all(|v| (-100..100).contains(v));
    let tensor = |v: &Vec<i64>| match narrow {
        true => Tensor::vector(v.iter().map(|n| *n as i32).collect()),
        false => Tensor::vector(v.clone()),
    };
    let case = case(op, opset).input(&x).input(&tensor(&starts)).input(&tensor(&ends));
    let axes = named.then(|| tensor(&spelt));
    let steps = stepped.then(|| tensor(&steps));
    Some(case.maybe(axes.as_ref()).maybe(steps.as_ref()).same(y))
}

/// Where a walker who turns around at both ends of `n` elements is after `i` steps to the right of
/// the first one (to its left if negative).
fn bounced(i: i64, n: i64) -> i64 {
    let (mut at, mut step) = (0, i.signum());
    for _ in 0..i.abs() {
        if !(0..n).contains(&(at + step)) {
            step = -step;
        }
        at += step;
    }
    at
}

fn pad(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 4);
    let opset = d.pick(&[19, 2, 11, 13, 18]);
    let mut modes = vec!["constant", "reflect", "edge"];
    if opset >= 19 {
        modes.push("wrap");
    }
    let mode = d.pick(&modes);
    let constant = mode == "constant";
    let some = opset >= 18 && d.coin();
    let (axes, spelt) = if some { d.axes(rank) } else { ((0..rank).collect(), vec![]) };
    let dtype = match opset {
        ..11 => d.pick(&[Float, Double, Float16]),
        _ => d.pick(&[Float, Int64, Uint8, Bool, Float16, Double, Int16, Int8, Uint32]),
    };
    let mut pads = vec![0; 2 * axes.len()];
    let (mut before, mut out) = (vec![0; rank], dims.clone());
    for (i, axis) in axes.iter().enumerate() {
        let n = dims[*axis] as i64;
        // What is repeated behind a cut is not settled.
        let low = if constant { -n } else { 0 };
        let (begin, end) = (d.int(low.max(-2), 5), d.int(low.max(-2), 5));
        let size = n + begin + end;
        if size < 0 || (!constant && n == 0) || (mode == "reflect" && n < 2) {
            return None;
        }
        (pads[i], pads[i + axes.len()]) = (begin, end);
        (before[*axis], out[*axis]) = (begin, size as usize);
    }
    let x = d.bits(dtype, &dims);
    let fill = (opset >= 11 && constant && d.coin()).then(|| d.bits(dtype, &[]));
    let value = opset < 11 && constant && d.coin();
    let blank = match &fill {
        Some(fill) => codes(fill).v[0],
        None if value => codes(&from_reals(dtype, &[], vec![1.5])).v[0],
        None => 0,
    };
    let y = moved_or(&x, &out, blank, |o| {
        let source = |a: usize| {
            let (i, n) = (o[a] as i64 - before[a], dims[a] as i64);
            match mode {
                "edge" => i.max(0).min(n - 1),
                "wrap" => ((i % n) + n) % n,
                "reflect" => bounced(i, n),
                _ => i,
            }
        };
        (0..rank).map(source).collect()
    });
    let case = case(op, opset).attr_if(!constant || d.coin(), "mode", mode).input(&x);
    if opset < 11 {
        return Some(case.attr("pads", &pads).attr_if(value, "value", 1.5f32).same(y));
    }
    let axes = some.then(|| Tensor::vector(spelt));
    let count = pads.len();
    Some(case.input(&int64(&[count], &pads)).maybe(fill.as_ref()).maybe(axes.as_ref()).same(y))
}

fn center_crop_pad(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 1 + d.below(4);
    let dims = d.dims(rank, 6);
    let named = d.coin();
    let (axes, spelt) = if named { d.axes(rank) } else { ((0..rank).collect(), vec![]) };
    if axes.is_empty() {
        return None;
    }
    let sizes: Vec<usize> = axes.iter().map(|_| d.size(7)).collect();
    let mut out = dims.clone();
    axes.iter().zip(&sizes).for_each(|(a, n)| out[*a] = *n);
    let dtype = d.pick(&ANY[..5]);
    let x = d.bits(dtype, &dims);
    // The smaller one lies in the middle of the larger one, an odd rest behind it.
    let y = moved_or(&x, &out, 0, |o| {
        let source = |a: usize| {
            let (n, size) = (dims[a] as i64, out[a] as i64);
            o[a] as i64 + if size <= n { (n - size) / 2 } else { -((size - n) / 2) }
        };
        (0..rank).map(source).collect()
    });
    let case = case(op, 18).attr_if(named, "axes", &spelt).input(&x).input(&list(&sizes));
    Some(case.same(y))
}
