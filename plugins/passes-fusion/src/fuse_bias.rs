//! Turns the addition of a constant per channel into the bias of the operator before it, or before a Transpose of that.
//!
//! ```onnx
//! before (float[1,1,4,4] x) => (float[1,2,4,4] y)
//! <float[2,1,1,1] w = {2.0, 3.0}, float[2,1,1] c = {4.0, 5.0}>
//! {
//!   z = Conv(x, w)
//!   y = Add(z, c)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,1,4,4] x) => (float[1,2,4,4] y)
//! <float[2,1,1,1] w = {2.0, 3.0}, float[2] c_bias = {4.0, 5.0}>
//! {
//!   y = Conv(x, w, c_bias)
//! }
//! ```

use crate::arithmetic::{Applied, Arithmetic, ArithmeticOp, per_channel};
use onnxd_plugin_sdk::ir::ops::{Conv, ConvTranspose, Gemm, MatMul, Transpose};
use onnxd_plugin_sdk::ir::{At, Node, Op, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The first operator set in which Gemm's `C` is broadcast without an attribute.
const GEMM_BROADCASTS: i64 = 7;

pub(crate) fn fuse_bias(cx: &mut Rewriter, add: At<Arithmetic>) -> Rewrite {
    let Applied { x, constant, by } = Applied::addend(cx, &add)?;
    if let Some(mut conv) = biased(cx, x, (constant, &by), 1)? {
        conv.outputs = vec![Some(add.out)];
        return cx.replace_by(add.out, conv);
    }
    if let Ok(turned) = cx.sole_producer::<Transpose>(x)
        && let Some(axis) = turned.perm.iter().position(|axis| *axis == 1)
        && let Some(mut conv) = biased(cx, turned.data, (constant, &by), axis)?
    {
        let name = cx.graph.derived_name(turned.data, "biased");
        let ty = cx.graph[turned.data].ty.clone();
        let data = cx.graph.add_value(&name, ty);
        conv.outputs = vec![Some(data)];
        conv.name = String::new();
        cx.graph.add_node(conv);
        return cx.replace(add.out, Transpose { data, ..turned.op });
    }
    if let Ok(sum) = cx.sole_producer::<Arithmetic>(x) {
        return merge_addends(cx, add.out, (constant, &by), &sum);
    }
    if cx.opset < GEMM_BROADCASTS {
        return Skip::because(format!("Gemm takes no bias per channel in opset {}", cx.opset));
    }
    if let Ok(fc) = cx.sole_producer::<Gemm>(x) {
        if fc.c.is_some() && fc.beta != 1.0 {
            return Skip::because(format!("Gemm has beta = {}", fc.beta));
        }
        let w = cx.ranked(fc.b, 2)?;
        let bias = per_channel(&by, w.dims()[usize::from(fc.transB == 0)], 2, 1)?;
        let c = with_old(cx, constant, bias, fc.c)?;
        return cx.replace(add.out, Gemm { c: Some(c), beta: 1.0, ..fc.op });
    }
    if let Ok(product) = cx.sole_producer::<MatMul>(x) {
        let w = cx.constant(product.b)?;
        if w.rank() != 2 || cx.rank(product.a)? != 2 {
            return Skip::because("MatMul is not of matrices");
        }
        let bias = per_channel(&by, w.dims()[1], 2, 1)?;
        let c = with_old(cx, constant, bias, None)?;
        return cx.replace(add.out, Gemm { c: Some(c), ..Gemm::new(product.a, product.b) });
    }
    let name = cx.name(x);
    Skip::because(format!("{name} is not the result of Conv, Gemm or MatMul, read once"))
}

/// The convolution that computes `v`, with the addend `by` in its bias: one number for each coordinate of an axis along
/// which the channels lie where it is added.
fn biased(
    cx: &mut Rewriter,
    v: ValueId,
    (constant, by): (ValueId, &Reals),
    axis: usize,
) -> Result<Option<Node>, Skip> {
    if let Ok(conv) = cx.sole_producer::<Conv>(v) {
        let w = cx.ranked(conv.w, 3)?;
        let bias = per_channel(by, w.dims()[0], w.rank(), axis)?;
        let b = with_old(cx, constant, bias, conv.b)?;
        return Ok(Some(Conv { b: Some(b), ..conv.op }.into_node(v)));
    }
    if let Ok(conv) = cx.sole_producer::<ConvTranspose>(v) {
        let w = cx.ranked(conv.w, 3)?;
        let channels = usize::try_from(conv.group).unwrap_or(0) * w.dims()[1];
        let bias = per_channel(by, channels, w.rank(), axis)?;
        let b = with_old(cx, constant, bias, conv.b)?;
        return Ok(Some(ConvTranspose { b: Some(b), ..conv.op }.into_node(v)));
    }
    Ok(None)
}

/// `(x + c) + d` as `x + (c + d)`, unless the sums round otherwise: `(x + 1e10) - 1e10` does on purpose.
fn merge_addends(
    cx: &mut Rewriter,
    out: ValueId,
    (constant, by): (ValueId, &Reals),
    sum: &At<Arithmetic>,
) -> Rewrite {
    let first = Applied::addend(cx, sum)?;
    let Some(total) = first.by.zip(by, |c, d| c + d) else {
        return Skip::because("the addends differ in shape");
    };
    if total.values.len() > first.by.values.len().max(by.values.len()) {
        return Skip::because("one addend for both would be larger");
    }
    let larger = first.by.zip(by, |c, d| c.abs().max(d.abs())).expect("they broadcast");
    if total.values.iter().zip(&larger.values).any(|(total, larger)| total.abs() < larger / 2.0) {
        return Skip::because("the addends cancel each other out");
    }
    let b = cx.derive_reals(constant, "merged", &total, constant)?;
    cx.replace(out, Arithmetic { kind: ArithmeticOp::Add, a: first.x, b })
}

/// The bias `by` named after `constant`, with the old bias worked in.
fn with_old(
    cx: &mut Rewriter,
    constant: ValueId,
    by: Reals,
    old: Option<ValueId>,
) -> Result<ValueId, Skip> {
    let mut bias = by;
    if let Some(old) = old {
        let old = cx.reals(old)?;
        bias = match old.zip(&bias, |a, b| a + b) {
            Some(sum) if sum.dims == bias.dims => sum,
            _ => return Skip::because(format!("the old bias has shape {:?}", old.dims)),
        };
    }
    cx.derive_reals(constant, "bias", &bias, constant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("fuse_bias.rs"), fuse_bias);
    }

    #[test]
    fn matrix_product_becomes_gemm() {
        check_same(
            fuse_bias,
            "g (float[4,2] x) => (float[4,3] y)
             <float[2,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float[3] c = {0.1, 0.2, 0.3}>
             {
               z = MatMul(x, w)
               y = Add(c, z)
             }",
        );
    }

    #[test]
    fn a_difference_after_a_transposed_convolution_with_groups() {
        check_same(
            fuse_bias,
            "g (float[1,2,3,3] x) => (float[1,4,3,3] y)
             <float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}, float[4] b = {0.5, 1.0, 1.5, 2.0},
              float[4,1,1] c = {1.0, 2.0, 3.0, 4.0}>
             {
               z = ConvTranspose<group = 2>(x, w, b)
               y = Sub(z, c)
             }",
        );
    }

    #[test]
    fn channels_that_a_transpose_moved() {
        let model = check_same(
            fuse_bias,
            "g (float[1,2,3,3] x) => (float[1,3,3,2] y, float[1,3,3,4] z)
             <float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}, float[2,4,1,1] v = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0},
              float[2] b = {0.5, 1.0}, float[2] c = {1.0, 2.0}, float[4] d = {1.0, 2.0, 3.0, 4.0}>
             {
               a = Conv(x, w, b)
               t = Transpose<perm = [0, 2, 3, 1]>(a)
               y = Add(t, c)
               e = ConvTranspose(x, v)
               u = Transpose<perm = [0, 2, 3, 1]>(e)
               z = Sub(u, d)
             }",
        );
        assert_eq!(model.graph.node_count(), 4);
    }

    #[test]
    fn a_transpose_that_others_read_keeps_its_values() {
        check_skip(
            fuse_bias,
            "`t` is not the result of Conv, Gemm or MatMul, read once",
            "g (float[1,2,3,3] x) => (float[1,3,3,2] y, float[1,3,3,2] t)
             <float[2,2,1,1] w = {1.0, 2.0, 3.0, 4.0}, float[2] c = {1.0, 2.0}>
             { a = Conv(x, w) t = Transpose<perm = [0, 2, 3, 1]>(a) y = Add(t, c) }",
        );
    }

    #[test]
    fn addends_are_merged() {
        let model = check_same(
            fuse_bias,
            "g (float[2,3] x) => (float[2,3] y) <float[3] c = {1.0, 2.0, 3.0}, float d = {-4.5}>
             { a = Add(x, c) b = Sub(a, d) y = Add(b, c) }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn addends_that_round_on_purpose_stay() {
        check_skip(
            fuse_bias,
            "the addends cancel each other out",
            "g (float[3] x) => (float[3] y) <float c = {12582912.0}>
             { a = Add(x, c) y = Sub(a, c) }",
        );
    }

    #[test]
    fn an_addend_along_the_width_is_left_alone() {
        check_skip(
            fuse_bias,
            "the constant [4] is not one value per channel",
            "g (float[1,1,4,4] x) => (float[1,4,4,4] y)
             <float[4,1,1,1] w = {2.0, 3.0, 4.0, 5.0}, float[4] c = {4.0, 5.0, 6.0, 7.0}>
             {
               z = Conv(x, w)
               y = Add(z, c)
             }",
        );
    }
}
