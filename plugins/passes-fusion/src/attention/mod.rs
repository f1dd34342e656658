//! Makes Attention of its parts, with the heads moved apart before and together after.
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! before (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v, float[1,1,3,5] m) => (float[2,3,4] y)
//! <int64[4] apart = {0, 0, 2, 2}, int64[3] together = {0, 0, 4}, float half = {0.5}>
//! {
//!   qs = Reshape(q, apart)
//!   qh = Transpose<perm = [0, 2, 1, 3]>(qs)
//!   ks = Reshape(k, apart)
//!   kh = Transpose<perm = [0, 2, 3, 1]>(ks)
//!   vs = Reshape(v, apart)
//!   vh = Transpose<perm = [0, 2, 1, 3]>(vs)
//!   product = MatMul(qh, kh)
//!   scaled = Mul(product, half)
//!   masked = Add(scaled, m)
//!   weights = Softmax(masked)
//!   heads = MatMul(weights, vh)
//!   moved = Transpose<perm = [0, 2, 1, 3]>(heads)
//!   y = Reshape(moved, together)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! after (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v, float[1,1,3,5] m) => (float[2,3,4] y)
//! {
//!   y = Attention<scale = 0.5, kv_num_heads = 2, q_num_heads = 2>(q, k, v, m)
//! }
//! ```

pub(crate) mod form;
mod heads;
pub(crate) mod rotary;

use crate::parts::needs;
use form::{AttentionKeys, heads_apart};
use onnxd_plugin_sdk::ir::ops::MatMul;
use onnxd_plugin_sdk::ir::{At, DataType};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-attention",
        vec![
            rule("parts", of_parts),
            rule("repeated", heads::repeated),
            rule("together", heads::together),
        ],
    )
}

fn of_parts(cx: &mut Rewriter, product: At<MatMul>) -> Rewrite {
    // Runtimes have kernels for these types only.
    let found = heads_apart(cx, product.out, &[DataType::Float, DataType::Float16])?;
    needs(cx, "Attention", 23)?;
    cx.rebuild(product.out, |b| {
        let key = match found.key {
            AttentionKeys::Heads(key) => b.var(key),
            AttentionKeys::Words(key) => b.transpose(key).perm([0, 2, 1, 3]).one()?,
        };
        let call = b.attention(found.query, key, found.value).attn_mask(found.bias);
        call.scale(found.scale).one()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_skip};

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("mod.rs"), pass().as_ref());
    }

    #[test]
    fn declined() {
        let graph = "<ir_version: 11, opset_import: [\"\" : 23]>
            g (float[B,S,4] q, float[B,T,4] k, float[B,T,4] v) => (float[B,S,4] y)
            <int64[4] apart = {0, 0, 2, 2}, int64[3] together = {0, 0, 4}>
            { qs = Reshape(q, apart) qh = Transpose<perm = [0, 2, 1, 3]>(qs)
              ks = Reshape(k, apart) kt = Transpose<perm = [0, 2, 3, 1]>(ks)
              vs = Reshape(v, apart) vh = Transpose<perm = [0, 2, 1, 3]>(vs)
              p = MatMul(qh, kt) w = Softmax(p) h = MatMul(w, vh)
              m = Transpose<perm = [0, 2, 1, 3]>(h) y = Reshape(m, together) }";
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        check(&graph.replace("23", "22"), "opset 22 has no Attention, which came with 23");
        check(&graph.replace("] y)", "] y, float[B,2,S,T] p)"), "`p` is read elsewhere, too");
        check(&graph.replace("float", "double"), "`qh` is of type double");
        check(&graph.replace("Softmax(p)", "Softmax<axis = 2>(p)"), "");
    }
}
