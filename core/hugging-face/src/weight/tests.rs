use super::*;
use crate::checkpoint::Checkpoint;
use onnxd_plugin_sdk::build::GraphBuilder;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Opsets, ValueType, VerifyLevel, verify};
use onnxd_plugin_sdk::lower;
use onnxd_plugin_sdk::testing::run;
use std::collections::HashMap;

/// Numbers without a pattern.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn bytes(count: usize, seed: u32) -> Vec<u8> {
    numbers(count, seed).iter().map(|x| ((x + 0.5) * 256.0) as u8).collect()
}

fn floats(dims: &[usize], seed: u32) -> Tensor {
    Tensor::from_vec(dims, numbers(dims.iter().product(), seed))
}

/// The number that a code stands for.
fn value(dtype: DataType, code: u8) -> f64 {
    match dtype {
        DataType::Int8 => f64::from(code as i8),
        DataType::Uint8 => f64::from(code),
        DataType::Uint4 => f64::from(code & 15),
        DataType::Int4 => f64::from(((code & 15) ^ 8) as i8 - 8),
        DataType::Float8E4M3FN => e4m3(code),
        other => panic!("{other}"),
    }
}

/// A sign, 4 bits of exponent, 3 of a fraction.
pub(crate) fn e4m3(code: u8) -> f64 {
    let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7) / 8.0);
    let value = match exponent {
        0 => fraction * 2f64.powi(-6),
        _ => (1.0 + fraction) * 2f64.powi(exponent - 7),
    };
    if code > 127 { -value } else { value }
}

/// The real numbers of blocks, one by one: [outputs, inputs] of each expert.
pub(crate) fn plainly(w: &Blocks) -> Vec<f64> {
    let dims = w.codes.dims();
    let inputs = *dims.last().unwrap();
    let blocks = inputs.div_ceil(w.block);
    let (codes, scales) = (w.codes.bytes(), w.scales.as_slice::<f32>().unwrap());
    let zeros = w.zero_points.as_ref().map(Tensor::bytes);
    let offsets = w.offsets.as_ref().map(|t| t.as_slice::<f32>().unwrap().into_owned());
    let one = |i: usize| {
        let block = i / inputs * blocks + i % inputs / w.block;
        let zero = zeros.as_ref().map_or(0.0, |zeros| value(w.dtype, zeros[block]));
        let offset = offsets.as_ref().map_or(0.0, |offsets| f64::from(offsets[block]));
        (value(w.dtype, codes[i]) - zero) * f64::from(scales[block]) + offset
    };
    let all: Vec<f64> = (0..w.codes.len()).map(one).collect();
    let Some(order) = &w.order else { return all };
    let order = order.to_i64s().unwrap();
    let mut put_back = all.clone();
    for (i, x) in all.iter().enumerate() {
        let expert = i / inputs / dims[dims.len() - 2];
        let place = order[(expert * inputs + i % inputs) % order.len()] as usize;
        put_back[i / inputs * inputs + place] = *x;
    }
    put_back
}

fn blocks(dtype: DataType, dims: &[usize], block: usize) -> Blocks {
    let codes = Tensor::from_vec(dims, bytes(dims.iter().product(), 3));
    let codes = if dtype == DataType::Int8 { codes.cast(dtype).unwrap() } else { codes };
    let codes = if dtype.bits() == 4 {
        let low = Tensor::vector((0..=255u8).map(|code| code & 15).collect::<Vec<_>>());
        codes.looked_up(&low).unwrap()
    } else {
        codes
    };
    let mut parts = dims.to_vec();
    *parts.last_mut().unwrap() = dims.last().unwrap().div_ceil(block);
    let scales = floats(&parts, 5);
    Blocks { codes, dtype, block, scales, zero_points: None, offsets: None, order: None }
}

fn with_zeros(w: Blocks) -> Blocks {
    let dims = w.scales.dims();
    let zeros = bytes(w.scales.len(), 7).into_iter().map(|z| z & 15).collect();
    Blocks { zero_points: Some(Tensor::from_vec(dims, zeros)), ..w }
}

/// The model of `x W^T`.
fn model(weight: &Weight, x: &Tensor) -> Model {
    let opsets = Opsets::from([(String::new(), 21)]);
    let b = GraphBuilder::new(Graph::new("main"), opsets).with_node_names();
    let checkpoint = Checkpoint::of(HashMap::new());
    let dims: Vec<Dim> = x.dims().iter().map(|size| Dim::Known(*size as i64)).collect();
    let input = b.input("x", ValueType::tensor(DataType::Float, dims));
    let y = Layers { b: &b, w: &checkpoint }.product(input, "w", weight).unwrap();
    b.output(y, "y").unwrap();
    lower::model(b.finish(), 21)
}

/// Compares `x W^T` with a plain sum.
pub(crate) fn check(weight: &Weight, plain: &[f64], [outputs, inputs]: [usize; 2]) {
    let x = floats(&[2, inputs], 11);
    let model = model(weight, &x);
    let found = verify(&model, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}");
    let y = run(&model, vec![("x", x.clone())]).unwrap().remove(0).1;
    let (x, y) = (x.as_slice::<f32>().unwrap(), y.as_slice::<f32>().unwrap().into_owned());
    assert_eq!(y.len(), plain.len() / inputs * 2);
    for (i, y) in y.iter().enumerate() {
        let (expert, row, output) = (i / outputs / 2, i / outputs % 2, i % outputs);
        let weights = &plain[(expert * outputs + output) * inputs..][..inputs];
        let terms = weights.iter().zip(&x[row * inputs..]).map(|(w, x)| w * f64::from(*x));
        let (sum, most) =
            terms.fold((0.0, 0.0), |(sum, most): (f64, f64), t| (sum + t, most + t.abs()));
        assert!((f64::from(*y) - sum).abs() <= 1e-6 * most.max(1.0), "{i}: {y} {sum}");
    }
}

#[test]
fn each_type_means_what_its_formula_says() {
    for dtype in [DataType::Int4, DataType::Uint4, DataType::Int8, DataType::Uint8] {
        // The last block may be short, and the codes may end within a byte.
        for (dims, block) in [([3, 32], 16), ([5, 7], 4), ([1, 9], 9), ([7, 5], 64)] {
            let plain = blocks(dtype, &dims, block);
            check(&plain.clone().into(), &plainly(&plain), dims);
            if !matches!(dtype, DataType::Int4 | DataType::Int8) {
                let zeros = with_zeros(plain);
                check(&zeros.clone().into(), &plainly(&zeros), dims);
            }
        }
    }
}

#[test]
fn offsets_and_orders_count() {
    let w = blocks(DataType::Uint4, &[3, 12], 4);
    let w = Blocks { offsets: Some(floats(&[3, 3], 13)), ..w };
    check(&w.clone().into(), &plainly(&w), [3, 12]);
    let order = Some(Tensor::vector(vec![3i64, 1, 0, 7, 11, 2, 5, 4, 6, 10, 9, 8]));
    let w = Blocks { order, ..with_zeros(w) };
    check(&w.clone().into(), &plainly(&w), [3, 12]);
}

#[test]
fn outputs_are_cut_with_what_belongs_to_them() {
    let w = with_zeros(blocks(DataType::Uint4, &[6, 10], 4));
    let w = Weight::from(w);
    let cut = w.cut(|t| t.sliced(&[(1, 3, 2), (0, t.dims()[1], 1)])).unwrap();
    let Weight::Blocks(blocks) = &cut else { panic!() };
    check(&cut, &plainly(blocks), [3, 10]);
    let Weight::Blocks(all) = &w else { panic!() };
    assert_eq!(plainly(blocks)[10..20], plainly(all)[30..40]);
}

#[test]
fn experts_of_one_form_are_one_weight() {
    let one = |block| with_zeros(blocks(DataType::Uint4, &[3, 10], block));
    let all = [Weight::from(one(4)), Weight::from(one(4))];
    let stacked = Weight::stacked(&all).unwrap().unwrap();
    let Weight::Blocks(both) = &stacked else { panic!() };
    assert_eq!(both.codes.dims(), [2, 3, 10]);
    assert_eq!(plainly(both), [plainly(&one(4)), plainly(&one(4))].concat());
    check(&stacked, &plainly(both), [3, 10]);
    let float = Weight::Float(floats(&[3, 10], 3));
    let real = Weight::stacked(&[float.clone(), float.clone()]).unwrap().unwrap();
    let numbers: Vec<f64> = numbers(30, 3).into_iter().map(f64::from).collect();
    check(&real, &[numbers.clone(), numbers].concat(), [3, 10]);
    let plain = Weight::from(blocks(DataType::Uint4, &[3, 10], 4));
    for other in [float.clone(), Weight::from(one(5)), plain] {
        assert!(Weight::stacked(&[all[0].clone(), other]).unwrap().is_none());
    }
    assert!(Weight::stacked(&[float, all[0].clone()]).unwrap().is_none());
}

#[test]
fn experts_have_inputs_in_orders_of_their_own() {
    let one = |order: Option<Vec<i64>>| {
        let order = order.map(Tensor::vector);
        Weight::from(Blocks { order, ..with_zeros(blocks(DataType::Uint4, &[3, 6], 2)) })
    };
    let all = [one(Some(vec![5, 2, 0, 1, 3, 4])), one(None), one(Some(vec![1, 0, 3, 2, 5, 4]))];
    let stacked = Weight::stacked(&all).unwrap().unwrap();
    let Weight::Blocks(w) = &stacked else { panic!() };
    let plain = plainly(w);
    check(&stacked, &plain, [3, 6]);
    // Inputs that are those of each expert.
    let x = floats(&[3, 2, 6], 17);
    let y = run(&model(&stacked, &x), vec![("x", x.clone())]).unwrap().remove(0).1;
    let (x, y) = (x.as_slice::<f32>().unwrap(), y.as_slice::<f32>().unwrap().into_owned());
    for (i, y) in y.iter().enumerate() {
        let (expert, row, output) = (i / 6, i / 3 % 2, i % 3);
        let weights = &plain[(expert * 3 + output) * 6..][..6];
        let terms = weights.iter().zip(&x[(expert * 2 + row) * 6..]);
        let sum: f64 = terms.map(|(w, x)| w * f64::from(*x)).sum();
        assert!((f64::from(*y) - sum).abs() < 1e-5, "{i}: {y} {sum}");
    }
}
