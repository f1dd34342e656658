//! Lets Gemm transpose the matrices that it multiplies. MatMul of a transposed matrix becomes Gemm.
//!
//! ```onnx
//! before (float[3,N] x, float[3,2] z) => (float[N,2] y)
//! {
//!   t = Transpose<perm = [1, 0]>(x)
//!   y = MatMul(t, z)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[3,N] x, float[3,2] z) => (float[N,2] y)
//! {
//!   y = Gemm<transA = 1>(x, z)
//! }
//! ```

use crate::parts::{needs, of_type};
use onnxd_plugin_sdk::ir::ops::{Gemm, MatMul, Transpose};
use onnxd_plugin_sdk::ir::{At, DataType, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

/// The first operator set in which Gemm needs no third operand.
const OPSET_MIN: i64 = 11;

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-transpose",
        vec![rule("product", transposed_product), rule("gemm", transposed_operand)],
    )
}

fn transposed_product(cx: &mut Rewriter, product: At<MatMul>) -> Rewrite {
    let gemm = transposing(cx, Gemm::new(product.a, product.b))?;
    for v in [product.a, product.b] {
        if cx.rank(v)? != 2 {
            return Skip::because("MatMul is not of matrices");
        }
    }
    needs(cx, "Gemm without a bias", OPSET_MIN)?;
    // What runtimes have on processors.
    of_type(cx, product.a, &[DataType::Float, DataType::Double])?;
    cx.replace(product.out, gemm)
}

fn transposed_operand(cx: &mut Rewriter, gemm: At<Gemm>) -> Rewrite {
    let transposing = transposing(cx, gemm.op.clone())?;
    cx.replace(gemm.out, transposing)
}

/// The same Gemm without a Transpose in front, if there is one.
fn transposing(cx: &Rewriter, gemm: Gemm) -> Result<Gemm, Skip> {
    let source = |v: ValueId| cx.producer::<Transpose>(v).ok();
    let toggled = |flag: i64| i64::from(flag == 0);
    match (source(gemm.a), source(gemm.b)) {
        (Some(a), _) => {
            swaps(cx, &a)?;
            Ok(Gemm { a: a.data, transA: toggled(gemm.transA), ..gemm })
        }
        (_, Some(b)) => {
            swaps(cx, &b)?;
            Ok(Gemm { b: b.data, transB: toggled(gemm.transB), ..gemm })
        }
        _ => Skip::unlike(),
    }
}

/// A Transpose of a matrix that nothing else reads.
fn swaps(cx: &Rewriter, transpose: &At<Transpose>) -> Rewrite {
    cx.read_once(transpose.out)?;
    match transpose.perm[..] {
        [] | [1, 0] => Ok(()),
        _ => Skip::unlike(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("fuse_transpose.rs"), pass().as_ref());
    }

    #[test]
    fn both_operands() {
        let graph = "g (float[3,4] x, float[2,3] z) => (float[4,2] y)
             { s = Transpose(x) t = Transpose(z) y = MatMul(s, t) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
        let graph = "g (float[4,3] x, float[3,2] z, float[2] c) => (float[4,2] y)
             { s = Transpose(x) t = Transpose(z)
               y = Gemm<transA = 1, transB = 1, alpha = 0.5, beta = 2.0>(s, t, c) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
    }

    #[test]
    fn left_alone() {
        let skips = |reason: &str, graph: &str| check_pass_skip(pass().as_ref(), reason, graph);
        skips(
            "`t` is read 2 times",
            "g (float[2,2] x) => (float[2,2] y) { t = Transpose(x) p = MatMul(x, t) y = Add(p, t) }",
        );
        skips(
            "MatMul is not of matrices",
            "g (float[2,3] x, float[4,2,3] z) => (float[4,2,2] y) { t = Transpose(x) y = MatMul(z, t) }",
        );
        skips(
            "`t` is of type int32",
            "g (int32[2,3] x) => (int32[3,3] y) { t = Transpose(x) y = MatMul(t, x) }",
        );
        skips(
            "",
            "g (float[2,3] x) => (float[2,2] y)
             { t = Transpose<perm = [0, 1]>(x) u = Transpose(x) w = Relu(u) y = MatMul(t, w) }",
        );
        skips(
            "opset 10 has no Gemm without a bias, which came with 11",
            "<ir_version: 8, opset_import: [\"\" : 10]> g (float[2,3] x) => (float[3,3] y)
             { t = Transpose(x) y = MatMul(t, x) }",
        );
    }
}
