//! Makes ONNX Runtime's MultiHeadAttention of attention with the heads moved apart before and together after.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
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
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! after (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v, float[1,1,3,5] m) => (float[2,3,4] y)
//! {
//!   y = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.5>(q, k, v, "", "", m)
//! }
//! ```

use super::{DOMAIN, TYPES};
use crate::attention::form::multi_head;
use onnxd_plugin_sdk::build::Operand;
use onnxd_plugin_sdk::ir::At;
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    super::pass("fuse-microsoft-attention", vec![rule("attention", fuse)])
}

fn fuse(cx: &mut Rewriter, back: At<Reshape>) -> Rewrite {
    let found = multi_head(cx, &back, TYPES)?;
    let bias = found.bias.map_or(Operand::Absent, Operand::from);
    let [q, k, v] = [found.q, found.k, found.v].map(Operand::from);
    cx.rebuild(back.out, |b| {
        let inputs = [q, k, v, Operand::Absent, Operand::Absent, bias];
        let call = b.op(DOMAIN, "MultiHeadAttention", inputs);
        call.set("num_heads", found.heads).set("scale", found.scale).one()
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
        check_doc_example_of(include_str!("attention.rs"), pass().as_ref());
    }

    const SYMBOLIC: &str = "g (float[B,S,4] q, float[B,T,4] k, float[B,T,4] v) => (float[B,S,4] y)
        <int64[4] apart = {0, 0, 2, 2}, int64[3] together = {0, 0, 4}, float root = {0.8408964}>
        { qs = Reshape(q, apart) qh = Transpose<perm = [0, 2, 1, 3]>(qs) qx = Mul(qh, root)
          ks = Reshape(k, apart) kh = Transpose<perm = [0, 2, 1, 3]>(ks) kt = Transpose<perm = [0, 1, 3, 2]>(kh)
          kx = Mul(kt, root) vs = Reshape(v, apart) vh = Transpose<perm = [0, 2, 1, 3]>(vs)
          p = MatMul(qx, kx) w = Softmax<axis = -1>(p) h = MatMul(w, vh)
          m = Transpose<perm = [0, 2, 1, 3]>(h) y = Reshape(m, together) }";

    #[test]
    fn symbolic_sizes_and_a_scale_on_both_sides() {
        assert_eq!(check_pass_same(pass().as_ref(), SYMBOLIC).graph.node_count(), 1);
    }

    #[test]
    fn keys_and_values_with_heads_apart() {
        let graph = SYMBOLIC
            .replace(
                "kt = Transpose<perm = [0, 1, 3, 2]>(kh)",
                "kn = Neg(kh) vn = Abs(vh) kt = Transpose<perm = [0, 1, 3, 2]>(kn)",
            )
            .replace("MatMul(w, vh)", "MatMul(w, vn)");
        assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 7);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        check(&SYMBOLIC.replace("] y)", "] y, float[B,2,S,T] w)"), "`w` is read elsewhere, too");
        check(&SYMBOLIC.replace("float", "double"), "`qh` is of type double");
        let masked = SYMBOLIC.replace("v) =>", "v, float[B,1,1,T] mask) =>");
        let masked = masked
            .replace("w = Softmax<axis = -1>(p)", "a = Add(p, mask) w = Softmax<axis = -1>(a)");
        check(&masked, "the bias does not have a value for each query and key");
    }
}
