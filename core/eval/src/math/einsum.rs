//! Einsum and determinants.

use crate::call::{KernelCall, one};
use crate::dims::{for_each_index, strides};
use crate::fault::{Fault, Outcome};
use crate::num::{Num, float, numeric};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;
use std::collections::BTreeMap;

/// An axis in the equation: a letter, or an axis under the ellipsis counted from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EinsumAxis {
    Ellipsis(usize),
    Letter(u8),
}

/// The equation for inputs of known ranks.
struct Equation {
    inputs: Vec<Vec<EinsumAxis>>,
    output: Vec<EinsumAxis>,
}

fn malformed(text: &str) -> Fault {
    Fault::invalid(format!("equation `{}` does not fit the inputs", onnxd_diagnostics::shown(text)))
}

/// One operand's axes; the ellipsis stands for as many as the rank leaves.
fn term(text: &str, rank: Option<usize>, ellipsis: usize) -> Option<Vec<EinsumAxis>> {
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let letters = |s: &str| -> Option<Vec<EinsumAxis>> {
        s.bytes().map(|b| b.is_ascii_alphabetic().then_some(EinsumAxis::Letter(b))).collect()
    };
    let (head, tail) = (letters(before)?, letters(after.unwrap_or(""))?);
    let named = head.len() + tail.len();
    let hidden = match (after, rank) {
        (None, _) => 0,
        (Some(_), Some(rank)) => rank.checked_sub(named)?,
        (Some(_), None) => ellipsis,
    };
    if rank.is_some_and(|r| r != named + hidden) {
        return None;
    }
    let middle = (0..hidden).rev().map(EinsumAxis::Ellipsis);
    Some(head.into_iter().chain(middle).chain(tail).collect())
}

fn parse(text: &str, ranks: &[usize]) -> Option<Equation> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match compact.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (compact.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != ranks.len() {
        return None;
    }
    let inputs: Vec<Vec<EinsumAxis>> =
        terms.iter().zip(ranks).map(|(t, r)| term(t, Some(*r), 0)).collect::<Option<_>>()?;
    let all: Vec<EinsumAxis> = inputs.iter().flatten().copied().collect();
    let is_hidden = |a: &&EinsumAxis| matches!(a, EinsumAxis::Ellipsis(_));
    let ellipsis =
        inputs.iter().map(|i| i.iter().filter(is_hidden).count()).max().unwrap_or_default();
    let output = match right {
        Some(right) => term(right, None, ellipsis)?,
        None => {
            // Without a right side: the ellipsis, then every letter that occurs once, in
            // alphabetical order.
            let once = |a: &EinsumAxis| all.iter().filter(|b| *b == a).count() == 1;
            let mut letters: Vec<EinsumAxis> = all
                .iter()
                .copied()
                .filter(|a| matches!(a, EinsumAxis::Letter(_)) && once(a))
                .collect();
            letters.sort_unstable();
            (0..ellipsis).rev().map(EinsumAxis::Ellipsis).chain(letters).collect()
        }
    };
    output.iter().all(|a| all.contains(a)).then_some(Equation { inputs, output })
}

pub(super) fn einsum(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let text = call.string("equation", "")?;
    let all = call.all()?;
    let ranks: Vec<usize> = all.iter().map(|x| x.rank()).collect();
    let equation = parse(text, &ranks).ok_or_else(|| malformed(text))?;
    let mut sizes: BTreeMap<EinsumAxis, usize> = BTreeMap::new();
    for (x, axes) in all.iter().zip(&equation.inputs) {
        for (axis, size) in axes.iter().zip(x.dims()) {
            let known = sizes.entry(*axis).or_insert(*size);
            match (*known, *size) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *known = b,
                _ => return Err(malformed(text)),
            }
        }
    }
    numeric!(all[0].dtype(), T => one(contracted::<T>(call, &all, &equation, &sizes)?))
}

/// Sums the product of the operands over all axes that the output lacks.
fn contracted<T: Num>(
    call: &KernelCall,
    all: &[&Tensor],
    equation: &Equation,
    sizes: &BTreeMap<EinsumAxis, usize>,
) -> Outcome<Tensor> {
    let summed: Vec<EinsumAxis> =
        sizes.keys().copied().filter(|a| !equation.output.contains(a)).collect();
    let order = [equation.output.clone(), summed].concat();
    let steps: Vec<Vec<usize>> = all
        .iter()
        .zip(&equation.inputs)
        .map(|(x, axes)| {
            let own = strides(x.dims());
            let step = |axis: &EinsumAxis| {
                let places = axes.iter().enumerate().filter(|(_, a)| *a == axis);
                places.map(|(i, _)| if x.dims()[i] == 1 { 0 } else { own[i] }).sum()
            };
            order.iter().map(step).collect()
        })
        .collect();
    let loaded = all.iter().map(|x| crate::num::slice::<T>(x)).collect::<Outcome<Vec<_>>>()?;
    let full: Vec<usize> = order.iter().map(|a| sizes[a]).collect();
    let (outer, inner) = full.split_at(equation.output.len());
    let mut out = Vec::with_capacity(call.room(T::DTYPE, outer)?);
    for_each_index(outer, |i| {
        let mut sum = T::default();
        for_each_index(inner, |j| {
            let at = |steps: &Vec<usize>| -> usize {
                i.iter().chain(j).zip(steps).map(|(i, s)| i * s).sum()
            };
            let factors = loaded.iter().zip(&steps).map(|(x, s)| x[at(s)]);
            sum = sum.plus(factors.fold(T::ONE, T::times));
        });
        out.push(sum);
    });
    Ok(Tensor::from_vec(outer, out))
}

/// Determinants of the innermost matrices, by elimination with row pivoting.
pub(super) fn det(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let [batch @ .., rows, columns] = x.dims() else {
        return Err(Fault::invalid(format!("{x:?} is not a matrix")));
    };
    refuse!(rows != columns => "{x:?} is not a square matrix");
    let count: usize = batch.iter().product();
    float!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let area = rows * rows;
        let matrix = |i: usize| values[i * area..(i + 1) * area].iter().map(|v| v.to_f64());
        let dets = (0..count).map(|i| T::from_f64(determinant(matrix(i).collect(), *rows)));
        one(Tensor::from_vec(batch, dets.collect()))
    })
}

fn determinant(mut m: Vec<f64>, n: usize) -> f64 {
    let mut product = 1.0;
    for c in 0..n {
        let pivot = (c..n).max_by(|a, b| m[a * n + c].abs().total_cmp(&m[b * n + c].abs()));
        let pivot = pivot.unwrap_or(c);
        if m[pivot * n + c] == 0.0 {
            return 0.0;
        }
        if pivot != c {
            (0..n).for_each(|j| m.swap(pivot * n + j, c * n + j));
            product = -product;
        }
        product *= m[c * n + c];
        for r in c + 1..n {
            let factor = m[r * n + c] / m[c * n + c];
            (c..n).for_each(|j| m[r * n + j] -= factor * m[c * n + j]);
        }
    }
    product
}
