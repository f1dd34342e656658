//! Makes one Transpose of two, or none.
//!
//! ```onnx
//! before (float[2,3,4] x) => (float[3,2,4] y)
//! {
//!   a = Transpose<perm = [1, 2, 0]>(x)
//!   y = Transpose<perm = [0, 2, 1]>(a)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3,4] x) => (float[3,2,4] y)
//! {
//!   y = Transpose<perm = [1, 0, 2]>(x)
//! }
//! ```

use onnxd_plugin_sdk::ir::At;
use onnxd_plugin_sdk::ir::ops::Transpose;
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_transposes(cx: &mut Rewriter, outer: At<Transpose>) -> Rewrite {
    let Ok(inner) = cx.producer::<Transpose>(outer.data) else { return Skip::unlike() };
    let (first, then) = (perm(cx, &inner)?, perm(cx, &outer)?);
    let both: Option<Vec<i64>> =
        then.iter().map(|axis| first.get(*axis as usize).copied()).collect();
    let Some(both) = both else { return Skip::unlike() };
    if both.is_sorted() {
        return cx.bypass(outer.out, inner.data);
    }
    cx.read_once(inner.out)?;
    cx.replace(outer.out, Transpose { data: inner.data, perm: both })
}

/// The axes that come first, second, ...; without `perm` all are reversed.
fn perm(cx: &Rewriter, at: &At<Transpose>) -> Result<Vec<i64>, Skip> {
    match at.perm.is_empty() {
        true => Ok((0..cx.rank(at.data)? as i64).rev().collect()),
        false => Ok(at.perm.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_transposes.rs"), merge_transposes);
    }

    #[test]
    fn two_that_cancel_go_also_where_others_read_the_first() {
        let model = check_same(
            merge_transposes,
            "g (float[2,3,4] x) => (float[2,3,4] y, float[4,3,2] z)
             {
               a = Transpose(x)
               b = Transpose<perm = [2, 1, 0]>(a)
               y = Relu(b)
               z = Relu(a)
             }",
        );
        assert_eq!(model.graph.node_count(), 3);
    }

    #[test]
    fn one_that_is_read_twice_saves_nothing() {
        check_skip(
            merge_transposes,
            "`a` is read 2 times",
            "g (float[2,3,4] x) => (float[3,2,4] y, float[3,4,2] z)
             {
               a = Transpose<perm = [1, 2, 0]>(x)
               y = Transpose<perm = [0, 2, 1]>(a)
               z = Relu(a)
             }",
        );
    }
}
