//! Turns the addition of a constant per channel into the bias of the operator before it.
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

use onnxd_plugin_sdk::ir::ops::{Add, Conv, Gemm, MatMul};
use onnxd_plugin_sdk::ir::{At, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The first operator set in which Gemm's `C` is broadcast without an attribute.
const GEMM_BROADCASTS: i64 = 7;

pub(crate) fn fuse_bias(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
    let (data, addend) = match cx.graph.constant(add.b) {
        Some(_) => (add.a, add.b),
        None => (add.b, add.a),
    };
    let constant = cx.reals(addend)?;
    let conv = cx.sole_producer::<Conv>(data);
    if conv.is_err() && cx.opset < GEMM_BROADCASTS {
        return Skip::because(format!("Gemm takes no bias per channel in opset {}", cx.opset));
    }
    if let Ok(conv) = conv {
        let w = cx.ranked(conv.w, 3)?;
        let bias = per_channel(&constant, w.dims()[0], w.rank(), 1)?;
        let bias = with_old(cx, bias, conv.b)?;
        let b = cx.derive_reals(addend, "bias", &bias, addend)?;
        return cx.replace(add.out, Conv { b: Some(b), ..conv.op });
    }
    if let Ok(fc) = cx.sole_producer::<Gemm>(data) {
        if fc.c.is_some() && fc.beta != 1.0 {
            return Skip::because(format!("Gemm has beta = {}", fc.beta));
        }
        let w = cx.ranked(fc.b, 2)?;
        let bias = per_channel(&constant, w.dims()[usize::from(fc.transB == 0)], 2, 1)?;
        let bias = with_old(cx, bias, fc.c)?;
        let c = cx.derive_reals(addend, "bias", &bias, addend)?;
        return cx.replace(add.out, Gemm { c: Some(c), beta: 1.0, ..fc.op });
    }
    if let Ok(product) = cx.sole_producer::<MatMul>(data) {
        let w = cx.constant(product.b)?;
        if w.rank() != 2 || cx.rank(product.a)? != 2 {
            return Skip::because("MatMul is not of matrices");
        }
        let bias = per_channel(&constant, w.dims()[1], 2, 1)?;
        let c = cx.derive_reals(addend, "bias", &bias, addend)?;
        return cx.replace(add.out, Gemm { c: Some(c), ..Gemm::new(product.a, product.b) });
    }
    let name = cx.name(data);
    Skip::because(format!("{name} is not the result of Conv, Gemm or MatMul, read once"))
}

/// The addend as `[channels]`, if it broadcasts along every axis but `axis` of a result with `rank` axes.
pub(crate) fn per_channel(
    addend: &Reals,
    channels: usize,
    rank: usize,
    axis: usize,
) -> Result<Reals, Skip> {
    let dims = &addend.dims;
    let offset = rank.checked_sub(dims.len());
    let only_channels = offset.is_some_and(|offset| {
        dims.iter().enumerate().all(|(i, d)| *d == 1 || (i + offset == axis && *d == channels))
    });
    match only_channels {
        true if addend.values.len() == channels => {
            Ok(Reals { dims: vec![channels], values: addend.values.clone() })
        }
        true if addend.values.len() == 1 => Ok(Reals::full(&[channels], addend.values[0])),
        _ => Skip::because(format!("the addend {dims:?} is not one value per channel")),
    }
}

fn with_old(cx: &Rewriter, bias: Reals, old: Option<ValueId>) -> Result<Reals, Skip> {
    let Some(old) = old else { return Ok(bias) };
    let old = cx.reals(old)?;
    match old.zip(&bias, |a, b| a + b) {
        Some(sum) if sum.dims == bias.dims => Ok(sum),
        _ => Skip::because(format!("the old bias has shape {:?}", old.dims)),
    }
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
    fn an_addend_along_the_width_is_left_alone() {
        check_skip(
            fuse_bias,
            "the addend [4] is not one value per channel",
            "g (float[1,1,4,4] x) => (float[1,4,4,4] y)
             <float[4,1,1,1] w = {2.0, 3.0, 4.0, 5.0}, float[4] c = {4.0, 5.0, 6.0, 7.0}>
             {
               z = Conv(x, w)
               y = Add(z, c)
             }",
        );
    }
}
