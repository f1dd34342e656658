//! Classical machine learning, row by row as its formulas say.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{Nd, codes, from_codes, from_reals, int64, reals};
use bytes::Bytes;
use onnxd_ir::{DataType, Tensor};

properties! {
    array_feature_extractor: "ai.onnx.ml.ArrayFeatureExtractor";
    binarizer: "ai.onnx.ml.Binarizer";
    feature_vectorizer: "ai.onnx.ml.FeatureVectorizer";
    imputer: "ai.onnx.ml.Imputer";
    label_encoder: "ai.onnx.ml.LabelEncoder";
    linear_classifier: "ai.onnx.ml.LinearClassifier";
    linear_regressor: "ai.onnx.ml.LinearRegressor";
    normalizer: "ai.onnx.ml.Normalizer";
    one_hot_encoder: "ai.onnx.ml.OneHotEncoder";
    scaler: "ai.onnx.ml.Scaler";
    svm_classifier: "ai.onnx.ml.SVMClassifier";
    svm_regressor: "ai.onnx.ml.SVMRegressor";
    words_and_numbers: "ai.onnx.ml.CategoryMapper";
}

use DataType::*;

const NUMBERS: [DataType; 4] = [Float, Double, Int64, Int32];

/// A table of features, its rows and columns.
pub fn table(d: &mut Dice, dtypes: &[DataType]) -> (Tensor, usize, usize) {
    let (rows, columns) = (1 + d.below(4), 1 + d.below(4));
    let dtype = d.pick(dtypes);
    (d.within(dtype, &[rows, columns], -4.0, 4.0), rows, columns)
}

/// Multiples of 1/8 up to 1 on either side.
pub fn weights(d: &mut Dice, count: usize) -> Vec<f32> {
    d.whole(count, -8, 8).iter().map(|v| *v as f32 / 8.0).collect()
}

fn array_feature_extractor(op: &str, d: &mut Dice) -> Option<Case> {
    let (rows, columns) = (1 + d.below(3), 1 + d.below(4));
    let dtype = d.pick(&[Float, Double, Int64, Int32, String]);
    let x = d.bits(dtype, &[rows, columns]);
    let count = 1 + d.below(4);
    let picked = d.whole(count, 0, columns as i64 - 1);
    let all = codes(&x);
    let y: Vec<u128> = (0..rows)
        .flat_map(|i| picked.iter().map(move |j| (i, *j as usize)))
        .map(|(i, j)| all.at(&[i, j]))
        .collect();
    let y = from_codes(dtype, &[rows, count], &y);
    Some(case(op, 1).input(&x).input(&int64(&[count], &picked)).same(y))
}

fn binarizer(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &[Float, Double]);
    let threshold = weights(d, 1)[0];
    let above = |v: &f64| f64::from(u8::from(*v > f64::from(threshold)));
    let y = reals(&x).v.iter().map(above).collect();
    let y = from_reals(x.dtype(), &[rows, columns], y);
    Some(
        case(op, 1).attr_if(threshold != 0.0 || d.coin(), "threshold", threshold).input(&x).same(y),
    )
}

fn feature_vectorizer(op: &str, d: &mut Dice) -> Option<Case> {
    let (rows, count) = (1 + d.below(3), 1 + d.below(3));
    let dtype = d.pick(&NUMBERS);
    let widths: Vec<usize> = (0..count).map(|_| 1 + d.below(3)).collect();
    let inputs: Vec<Tensor> = (0..count)
        .map(|_| {
            let columns = 1 + d.below(3);
            d.within(dtype, &[rows, columns], -4.0, 4.0)
        })
        .collect();
    let cell = |i: usize, x: &Tensor, j: usize| reals(x).get(&[i as i64, j as i64]).unwrap_or(0.0);
    let row = |i: usize| -> Vec<f64> {
        let parts = inputs.iter().zip(&widths);
        parts.flat_map(|(x, w)| (0..*w).map(move |j| cell(i, x, j))).collect()
    };
    let y: Vec<f64> = (0..rows).flat_map(row).collect();
    let made = case(op, 1).attr("inputdimensions", &widths);
    let made = inputs.iter().fold(made, Case::input);
    Some(made.same(from_reals(Float, &[rows, widths.iter().sum()], y)))
}

fn imputer(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let each = d.coin();
    let count = if each { columns } else { 1 };
    let gone = d.int(-1, 1);
    let filled = d.whole(count, -9, 9);
    let fill = |(i, v): (usize, &f64)| match *v == gone as f64 {
        true => filled[if each { i % columns } else { 0 }] as f64,
        false => *v,
    };
    let y = reals(&x).v.iter().enumerate().map(fill).collect();
    let y = from_reals(x.dtype(), &[rows, columns], y);
    let floats: Vec<f32> = filled.iter().map(|v| *v as f32).collect();
    let made = match x.dtype().is_float() {
        true => case(op, 1)
            .attr("imputed_value_floats", &floats)
            .attr("replaced_value_float", gone as f32),
        false => {
            case(op, 1).attr("imputed_value_int64s", &filled).attr("replaced_value_int64", gone)
        }
    };
    Some(made.input(&x).same(y))
}

/// Distinct keys, values of another kind, and what else is given.
fn label_encoder(op: &str, d: &mut Dice) -> Option<Case> {
    let keys: Vec<i64> = d.order(6)[..1 + d.below(5)].iter().map(|k| *k as i64).collect();
    let values = d.whole(keys.len(), -9, 9);
    let given = d.whole(5, 0, 6);
    let default = d.coin().then(|| d.int(-9, 9));
    let other = default.map_or(-0.0, |v| v as f32);
    let found = |x: &i64| keys.iter().position(|k| k == x).map_or(other, |i| values[i] as f32);
    let y = Tensor::vector(given.iter().map(found).collect());
    let made = case(op, d.pick(&[2, 4]));
    let floats: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    let made = match default {
        Some(v) => made.attr("default_float", v as f32),
        None => made,
    };
    Some(
        made.attr("keys_int64s", &keys)
            .attr("values_floats", &floats)
            .input(&int64(&[5], &given))
            .same(y),
    )
}

fn words_and_numbers(op: &str, d: &mut Dice) -> Option<Case> {
    let numbers: Vec<i64> = d.order(6)[..1 + d.below(5)].iter().map(|k| *k as i64).collect();
    let all = ["a", "b", "", "é", "A", "z"];
    let words: Vec<&str> = all[..numbers.len()].to_vec();
    let made = case(op, 1).attr("cats_int64s", &numbers).attr("cats_strings", &words);
    let text = |list: Vec<&str>| {
        let list: Vec<Bytes> = list.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
        Tensor::strings(vec![list.len()], list).unwrap()
    };
    let given = d.whole(4, 0, 5);
    if d.coin() {
        let word = |x: &i64| numbers.iter().position(|k| k == x).map_or("_Unused", |i| words[i]);
        let y = text(given.iter().map(word).collect());
        return Some(made.input(&int64(&[4], &given)).same(y));
    }
    let x: Vec<&str> = given.iter().map(|i| all[*i as usize]).collect();
    let number = |x: &&str| words.iter().position(|k| k == x).map_or(-1, |i| numbers[i]);
    let y = int64(&[4], &x.iter().map(number).collect::<Vec<_>>());
    Some(made.input(&text(x)).same(y))
}

/// `x` times the rows of `w`, plus `b`: the scores of each row, and the magnitudes that they sum.
fn scores(x: &Tensor, w: &[f32], b: &[f32]) -> (Vec<Vec<f64>>, f64) {
    let xs = reals(x);
    let (rows, columns) = (xs.dims[0], xs.dims[1]);
    let one = |i: usize, t: usize| {
        let products = (0..columns).map(|j| xs.at(&[i, j]) * f64::from(w[t * columns + j]));
        products.sum::<f64>() + f64::from(b[t])
    };
    let all = (0..rows).map(|i| (0..b.len()).map(|t| one(i, t)).collect()).collect();
    (all, 8.0 * columns as f64)
}

fn flat(rows: &[Vec<f64>]) -> Nd {
    Nd { dims: vec![rows.len(), rows[0].len()], v: rows.concat() }
}

/// Where the first of the largest stands.
pub fn best(row: &[f64]) -> usize {
    (0..row.len()).find(|i| row.iter().all(|v| *v <= row[*i])).unwrap()
}

fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// A transform of the scores of a row, and its name.
fn transformed(d: &mut Dice, row: &[Vec<f64>]) -> (&'static str, Vec<Vec<f64>>) {
    let name = d.pick(&["NONE", "LOGISTIC", "SOFTMAX"]);
    let one = |row: &Vec<f64>| -> Vec<f64> {
        let sum: f64 = row.iter().map(|v| v.exp()).sum();
        let f = |v: &f64| match name {
            "LOGISTIC" => sigmoid(*v),
            "SOFTMAX" => v.exp() / sum,
            _ => *v,
        };
        row.iter().map(f).collect()
    };
    (name, row.iter().map(one).collect())
}

fn linear_classifier(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let classes = 2 + d.below(3);
    let (w, b) = (weights(d, classes * columns), weights(d, classes));
    let labels: Vec<i64> = (0..classes as i64).map(|i| 10 - i).collect();
    let (raw, sum) = scores(&x, &w, &b);
    let y = int64(&[rows], &raw.iter().map(|row| labels[best(row)]).collect::<Vec<_>>());
    let (name, z) = transformed(d, &raw);
    let made = case(op, 1).attr("coefficients", &w).attr("intercepts", &b);
    let made = made.attr("classlabels_ints", &labels).attr("post_transform", name).input(&x);
    Some(made.same(y).near(Float, flat(&z), &vec![sum; rows * classes]))
}

fn linear_regressor(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let targets = 1 + d.below(3);
    let (w, b) = (weights(d, targets * columns), weights(d, targets));
    let (y, sum) = scores(&x, &w, &b);
    let made = case(op, 1).attr("coefficients", &w).attr("intercepts", &b);
    let made = made.attr_if(targets > 1 || d.coin(), "targets", targets as i64).input(&x);
    Some(made.near(Float, flat(&y), &vec![sum; rows * targets]))
}

fn normalizer(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let name = d.pick(&["MAX", "L1", "L2"]);
    let norm = |row: &[f64]| match name {
        "L1" => row.iter().map(|v| v.abs()).sum::<f64>(),
        "L2" => row.iter().map(|v| v * v).sum::<f64>().sqrt(),
        _ => row.iter().copied().reduce(f64::max).unwrap(),
    };
    let over = |row: &[f64]| -> Vec<f64> {
        let by = norm(row);
        row.iter().map(|v| if by == 0.0 { *v } else { v / by }).collect()
    };
    let y = reals(&x).v.chunks(columns).flat_map(over).collect();
    let made = case(op, 1).attr_if(name != "MAX" || d.coin(), "norm", name).input(&x);
    Some(made.rounded(Float, Nd { dims: vec![rows, columns], v: y }))
}

fn one_hot_encoder(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let kinds: Vec<i64> = d.order(7)[..1 + d.below(6)].iter().map(|k| *k as i64 - 3).collect();
    // Of fractions, the whole part counts.
    let spread = |v: &f64| -> Vec<f64> {
        kinds.iter().map(|k| f64::from(u8::from(v.trunc() == *k as f64))).collect()
    };
    let y = reals(&x).v.iter().flat_map(spread).collect();
    let y = from_reals(Float, &[rows, columns, kinds.len()], y);
    Some(case(op, 1).attr("cats_int64s", &kinds).input(&x).same(y))
}

fn scaler(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let each = d.coin();
    let count = if each { columns } else { 1 };
    let (offset, scale) = (weights(d, count), weights(d, count));
    let at = |list: &[f32], i: usize| f64::from(list[if each { i % columns } else { 0 }]);
    let cells = reals(&x).v.into_iter().enumerate();
    let y = cells.map(|(i, v)| (v - at(&offset, i)) * at(&scale, i)).collect();
    let made = case(op, 1).attr("offset", &offset).attr("scale", &scale).input(&x);
    Some(made.rounded(Float, Nd { dims: vec![rows, columns], v: y }))
}

/// The kernel of a row and a vector, and its name.
fn kernel(name: &str, a: &[f64], b: &[f64]) -> f64 {
    let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    let distance: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
    match name {
        "POLY" => (0.25 * product + 0.5).powi(2),
        "RBF" => (-0.25 * distance).exp(),
        "SIGMOID" => (0.25 * product + 0.5).tanh(),
        _ => product,
    }
}

const KERNELS: [&str; 4] = ["LINEAR", "POLY", "RBF", "SIGMOID"];

fn wide(list: &[f32]) -> Vec<f64> {
    list.iter().map(|v| f64::from(*v)).collect()
}

fn svm_regressor(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &[Float, Double]);
    let (name, count, one_class) = (d.pick(&KERNELS), 1 + d.below(4), d.once_in(4));
    let (vectors, w, rho) = (weights(d, count * columns), weights(d, count), weights(d, 1));
    let vs = wide(&vectors);
    let score = |row: &[f64]| {
        let terms =
            (0..count).map(|k| f64::from(w[k]) * kernel(name, row, &vs[k * columns..][..columns]));
        terms.sum::<f64>() + f64::from(rho[0])
    };
    let y: Vec<f64> = reals(&x).v.chunks(columns).map(score).collect();
    if one_class && y.iter().any(|v| v.abs() < 1e-3) {
        return None;
    }
    let side = |v: &f64| if one_class { if *v > 0.0 { 1.0 } else { -1.0 } } else { *v };
    let y = Nd { dims: vec![rows, 1], v: y.iter().map(side).collect() };
    let params: Vec<f32> = vec![0.25, 0.5, 2.0];
    let made = case(op, 1).attr("kernel_type", name).attr("kernel_params", &params);
    let made = made.attr("support_vectors", &vectors).attr("n_supports", count as i64);
    let made =
        made.attr("coefficients", &w).attr("rho", &rho).attr_if(one_class, "one_class", true);
    Some(made.input(&x).near(Float, y, &vec![100.0; rows]))
}

/// Every pair of classes votes; the scores are those of the pairs.
fn svm_classifier(op: &str, d: &mut Dice) -> Option<Case> {
    let (x, rows, columns) = table(d, &NUMBERS);
    let (name, classes) = (d.pick(&KERNELS), 2 + d.below(3));
    let per: Vec<usize> = (0..classes).map(|_| 1 + d.below(2)).collect();
    let owner: Vec<usize> = (0..classes).flat_map(|c| vec![c; per[c]]).collect();
    let count = owner.len();
    let (vectors, w) = (weights(d, count * columns), weights(d, (classes - 1) * count));
    let rho = weights(d, classes * (classes - 1) / 2);
    let vs = wide(&vectors);
    let pairs: Vec<(usize, usize)> =
        (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j))).collect();
    let score = |row: &[f64], p: usize| {
        let (i, j) = pairs[p];
        let term = |k: usize| {
            // A class has a coefficient against each other: those before it have its own row less one.
            let against = if owner[k] == i { Some(j - 1) } else { (owner[k] == j).then_some(i) };
            let w = against.map_or(0.0, |r| f64::from(w[r * count + k]));
            w * kernel(name, row, &vs[k * columns..][..columns])
        };
        (0..count).map(term).sum::<f64>() + f64::from(rho[p])
    };
    let (mut labels, mut all) = (vec![], vec![]);
    for row in reals(&x).v.chunks(columns) {
        let found: Vec<f64> = (0..pairs.len()).map(|p| score(row, p)).collect();
        if found.iter().any(|v| v.abs() < 1e-3) {
            return None;
        }
        let mut votes = vec![0.0; classes];
        pairs
            .iter()
            .zip(&found)
            .for_each(|((i, j), v)| votes[if *v > 0.0 { *i } else { *j }] += 1.0);
        labels.push(best(&votes) as i64);
        all.push(if classes == 2 { vec![-found[0], found[0]] } else { found });
    }
    let names: Vec<i64> = (0..classes as i64).collect();
    let params: Vec<f32> = vec![0.25, 0.5, 2.0];
    let made = case(op, 1).attr("kernel_type", name).attr("kernel_params", &params);
    let made = made.attr("support_vectors", &vectors).attr("vectors_per_class", &per);
    let made = made.attr("coefficients", &w).attr("rho", &rho).attr("classlabels_ints", &names);
    let z = flat(&all);
    let sums = vec![100.0; z.v.len()];
    Some(made.input(&x).same(int64(&[rows], &labels)).near(Float, z, &sums))
}
