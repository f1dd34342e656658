//! Makes ONNX Runtime's FusedMatMul of MatMul with transposed factors or a scaled product.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! before (float[2,3,4] a, float[2,5,4] b) => (float[2,3,5] y)
//! <float half = {0.5}>
//! {
//!   t = Transpose<perm = [0, 2, 1]>(b)
//!   p = MatMul(a, t)
//!   y = Mul(p, half)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! after (float[2,3,4] a, float[2,5,4] b) => (float[2,3,5] y)
//! {
//!   y = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(a, b)
//! }
//! ```

use super::DOMAIN;
use crate::parts::{PatternNodes, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Div, MatMul, Mul, Transpose};
use onnxd_plugin_sdk::ir::{At, DataType, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    super::pass(
        "fuse-microsoft-matmul",
        vec![
            rule("multiplied", |cx, at: At<Mul>| scaled(cx, at.out)),
            rule("divided", |cx, at: At<Div>| scaled(cx, at.out)),
            rule("product", |cx, at: At<MatMul>| {
                let whole = at.out;
                let product = Product::from_matmul(cx, &at);
                if !product.transposed[0] && !product.transposed[1] {
                    return Skip::unlike();
                }
                fused(cx, whole, &product, 1.0)
            }),
        ],
    )
}

struct Product {
    factors: [ValueId; 2],
    transposed: [bool; 2],
}

impl Product {
    fn from_matmul(cx: &Rewriter, at: &MatMul) -> Product {
        let sides = [at.a, at.b].map(|v| turned(cx, v).map_or((v, false), |x| (x, true)));
        Product { factors: sides.map(|side| side.0), transposed: sides.map(|side| side.1) }
    }
}

/// `x`, if `v` is `x` with its last two axes exchanged.
fn turned(cx: &Rewriter, v: ValueId) -> Option<ValueId> {
    let transpose = cx.sole_producer::<Transpose>(v).ok()?;
    let rank = cx.rank(transpose.data).ok().filter(|rank| *rank >= 2)?;
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(rank - 2, rank - 1);
    let reversed = transpose.perm.is_empty() && rank == 2;
    (transpose.perm == perm || reversed).then_some(transpose.data)
}

/// A product that is multiplied with a number afterwards.
fn scaled(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let whole = parts.product(out);
    let [(1.0, product)] = whole.items[..] else { return Skip::unlike() };
    let at = cx.producer::<MatMul>(product).map_err(|_| unlike())?;
    parts.node("MatMul", product)?;
    parts.closed()?;
    fused(cx, out, &Product::from_matmul(cx, &at), whole.number)
}

fn fused(cx: &mut Rewriter, out: ValueId, product: &Product, alpha: f64) -> Rewrite {
    let Product { factors, transposed } = product;
    of_type(cx, out, &[DataType::Float])?;
    if cx.rank(factors[0])? < 2 || cx.rank(factors[1])? < 2 {
        return Skip::because("a factor is a vector");
    }
    cx.rebuild(out, |b| {
        let call = b.op(DOMAIN, "FusedMatMul", *factors).set("alpha", alpha);
        call.set("transA", transposed[0]).set("transB", transposed[1]).one()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("matmul.rs"), pass().as_ref());
    }

    #[test]
    fn both_factors_and_no_number() {
        let graph = "g (float[4,3] a, float[2,5,4] b) => (float[2,3,5] y)
            { s = Transpose(a) t = Transpose<perm = [0, 2, 1]>(b) y = MatMul(s, t) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let graph = "g (float[2,3,4] a, float[2,5,4] b) => (float[2,3,5] y)
            { t = Transpose<perm = [0, 2, 1]>(b) y = MatMul(a, t) }";
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        check(&graph.replace("] y)", "] y, float[2,4,5] t)"), "");
        check(&graph.replace("float", "double"), "`y` is of type double");
        let other = graph.replace("[0, 2, 1]", "[1, 2, 0]").replace("[2,5,4] b", "[4,2,5] b");
        check(&other.replace("[2,3,5]", "[2,3,4]").replace("[2,3,4] a", "[2,3,5] a"), "");
    }
}
