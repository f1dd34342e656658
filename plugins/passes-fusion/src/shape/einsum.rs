//! Turns Einsum into MatMul where it is one.
//!
//! ```onnx
//! before (float[2,3,4] a, float[2,4,5] b) => (float[2,3,5] y)
//! {
//!   y = Einsum<equation = "nij,njk->nik">(a, b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3,4] a, float[2,4,5] b) => (float[2,3,5] y)
//! {
//!   y = MatMul(a, b)
//! }
//! ```

use crate::parts::{FLOATS, dims, of_type};
use onnxd_plugin_sdk::ir::ops::{Einsum, MatMul};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_einsum(cx: &mut Rewriter, einsum: At<Einsum>) -> Rewrite {
    let [a, b] = einsum.inputs[..] else {
        return Skip::because("it is not of two operands");
    };
    let equation: String = einsum.equation.chars().filter(|c| *c != ' ').collect();
    let parts: Vec<&str> = equation.split([',', '>']).collect();
    let [left, right, result] = parts[..] else {
        return Skip::because("its result is not told");
    };
    let (left, right, result): (Vec<char>, Vec<char>, Vec<char>) = (
        left.chars().collect(),
        right.trim_end_matches('-').chars().collect(),
        result.chars().collect(),
    );
    let (first, second) =
        match (is_product(&left, &right, &result), is_product(&right, &left, &result)) {
            (true, _) => (a, b),
            (_, true) => (b, a),
            _ => return Skip::because(format!("{} is no product of matrices", einsum.equation)),
        };
    of_type(cx, a, FLOATS)?;
    inner_sizes_agree(cx, first, second)?;
    cx.replace(einsum.out, MatMul::new(first, second))
}

/// `...ij,...jk->...ik`
fn is_product(left: &[char], right: &[char], result: &[char]) -> bool {
    let ([batch_l @ .., i, j], [batch_r @ .., j_r, k], [batch @ .., i_y, k_y]) =
        (left, right, result)
    else {
        return false;
    };
    let all: Vec<char> = batch.iter().chain([i, j, k]).copied().collect();
    let is_new = |(n, c): (usize, &char)| c.is_alphabetic() && !all[..n].contains(c);
    let distinct = all.iter().enumerate().all(is_new);
    batch == batch_l && batch == batch_r && j == j_r && i == i_y && k == k_y && distinct
}

/// Einsum takes a size of 1 for any other, MatMul only before the last two axes.
fn inner_sizes_agree(cx: &Rewriter, first: ValueId, second: ValueId) -> Rewrite {
    let (first, second) = (dims(cx, first)?, dims(cx, second)?);
    match (first.last(), second.len().checked_sub(2).map(|at| &second[at])) {
        (Some(a), Some(b)) if a.same(b) => Ok(()),
        _ => Skip::because("the sizes that are summed along may differ"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("einsum.rs"), fuse_einsum);
    }

    #[test]
    fn operands_in_the_other_order() {
        check_same(
            fuse_einsum,
            "g (float[2,4,5] b, float[2,3,4] a) => (float[2,3,5] y)
             { y = Einsum<equation = \"njk, nij -> nik\">(b, a) }",
        );
    }

    #[test]
    fn declined() {
        for (equation, why) in [
            ("nij,nkj->nik", "nij,nkj->nik is no product of matrices"),
            ("nij,njj->nij", "nij,njj->nij is no product of matrices"),
            ("nij,njk", "its result is not told"),
            ("nij,njk->nki", "nij,njk->nki is no product of matrices"),
        ] {
            let graph = format!(
                "g (float[4,4,4] a, float[4,4,4] b) => (float[4,4,4] y)
                 {{ y = Einsum<equation = \"{equation}\">(a, b) }}"
            );
            check_skip(fuse_einsum, why, &graph);
        }
        let unknown = "g (float[2,3,J] a, float[2,K,5] b) => (float[2,3,5] y)
             { y = Einsum<equation = \"nij,njk->nik\">(a, b) }";
        check_skip(fuse_einsum, "the sizes that are summed along may differ", unknown);
    }
}
