//! Matrix products.

use super::create::scalar;
use super::shape::unsqueezed;
use super::{Lower, RowContext, dtype_of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "MatMul" => |b, a: MatMul| product(b, [a.a, a.b], [a.transpose_a, a.transpose_b]);
        "BatchMatMul" | "BatchMatMulV2" => |b, x: Var, y: Var, adj_x: bool, adj_y: bool| {
            product(b, [x, y], [adj_x, adj_y])
        };
        "BatchMatMulV3" => |b, x: Var, y: Var, tout: ElementType, adj_x: bool, adj_y: bool| {
            let to = tout.0;
            product(b, [b.cast(x, to)?, b.cast(y, to)?], [adj_x, adj_y])
        };
        "Einsum" => einsum(inputs, equation);
    }
}

arguments! {
    /// `MatMul`
    struct MatMul { a: Var, b: Var, transpose_a: bool, transpose_b: bool }
}

/// The product of two matrices, or of stacks of them, each transposed or not.
pub(crate) fn product(b: &GraphBuilder, [x, y]: [Var; 2], turned: [bool; 2]) -> Lowered<Var> {
    let matrices = b.rank_of(x) == Some(2) && b.rank_of(y) == Some(2);
    // Gemm turns what is computed; a constant is turned at once.
    let computed = |v: Var| b.constant_of(v).is_none();
    let worth = (turned[0] && computed(x)) || (turned[1] && computed(y));
    if matrices && worth && dtype_of(b, x)?.is_float() {
        let call = b.gemm(x, y);
        return call.trans_a(turned[0].then_some(1)).trans_b(turned[1].then_some(1)).one();
    }
    let side = |v: Var, turned: bool| match turned {
        true => swapped(b, v),
        false => Ok(v),
    };
    b.mat_mul(side(x, turned[0])?, side(y, turned[1])?)
}

/// `x` with its last two axes in the other order.
pub(crate) fn swapped(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let mut perm: Vec<i64> = (0..n).collect();
    if n >= 2 {
        perm.swap(n as usize - 2, n as usize - 1);
    }
    b.transpose(x).perm(perm).one()
}

fn einsum(b: &Lower, inputs: Vec<Var>, equation: String) -> Lowered<Var> {
    summed(b, inputs, &equation)
}

/// Einstein's sum. In TensorFlow, a letter may stand twice in the result: elsewhere than on that diagonal is zero.
pub(crate) fn summed(b: &GraphBuilder, inputs: Vec<Var>, equation: &str) -> Lowered<Var> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (terms, result) = equation.split_once("->").unwrap_or((&equation, ""));
    let mut single = String::new();
    for c in result.chars() {
        if c == '.' || !single.contains(c) {
            single.push(c);
        }
    }
    let inputs = aligned(b, inputs, terms)?;
    if single == result {
        return b.einsum(inputs).equation(equation.as_str()).one();
    }
    let y = b.einsum(inputs).equation(format!("{terms}->{single}")).one()?;
    on_diagonals(b, y, &single, result)
}

/// Inputs of which `...` stands for as many axes of each: in front of those that an input has are axes of size 1. ONNX
/// Runtime ends the process where the numbers differ.
pub(crate) fn aligned(b: &GraphBuilder, inputs: Vec<Var>, terms: &str) -> Lowered<Vec<Var>> {
    // Where `...` is, and for how many axes it stands.
    let elided = |(x, term): (&Var, &str)| {
        let at = term.find("...")?;
        Some((at, (b.rank_of(*x)? + 3).checked_sub(term.len())?))
    };
    let all: Vec<Option<(usize, usize)>> =
        inputs.iter().zip(terms.split(',')).map(elided).collect();
    let most = all.iter().flatten().map(|(_, count)| *count).max().unwrap_or(0);
    let alike = |(x, found): (Var, Option<(usize, usize)>)| match found {
        Some((at, count)) if count < most => {
            unsqueezed(b, x, &(at..at + most - count).map(|axis| axis as i64).collect::<Vec<_>>())
        }
        _ => Ok(x),
    };
    inputs.into_iter().zip(all).map(alike).collect()
}

/// `x`, whose axes have the letters of `single`, with an axis for each letter of `result`.
fn on_diagonals(b: &GraphBuilder, x: Var, single: &str, result: &str) -> Lowered<Var> {
    let letters = single.chars().filter(|c| *c != '.').count();
    let open = vec![None; rank(b, x)?.saturating_sub(letters)];
    let axes = |c: char| if c == '.' { open.clone() } else { vec![Some(c)] };
    let all: Vec<Option<char>> = result.replace("...", ".").chars().flat_map(axes).collect();
    let again = |(at, c): (usize, &Option<char>)| {
        let first = all.iter().position(|other| c.is_some() && other == c)?;
        (first < at).then_some((first, at))
    };
    let pairs: Vec<(usize, usize)> = all.iter().enumerate().filter_map(again).collect();
    let new: Vec<i64> = pairs.iter().map(|(_, at)| *at as i64).collect();
    let zero = b.constant(scalar(0, dtype_of(b, x)?));
    pairs.into_iter().try_fold(unsqueezed(b, x, &new)?, |x, (first, at)| {
        let size = b.shape(x).start(first as i64).end(first as i64 + 1).one()?;
        let places = b.range(0, b.squeeze(size).axes([0]).one()?, 1).one()?;
        let along = |axis: usize| {
            unsqueezed(b, places, &(1..(all.len() - axis) as i64).collect::<Vec<_>>())
        };
        b.where_(b.equal(along(first)?, along(at)?)?, x, zero)
    })
}
