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
use crate::attention::{Key, are_heads, attention, joined, words_first};
use crate::parts::{Parts, dims, of_type};
use onnxd_plugin_sdk::build::Operand;
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, Dim, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    super::pass("fuse-microsoft-attention", vec![rule("attention", multi_head)])
}

fn multi_head(cx: &mut Rewriter, back: At<Reshape>) -> Rewrite {
    let parts = Parts::of(cx, back.out);
    parts.node("Reshape", back.out)?;
    let moved = back.data;
    let heads = words_first(&parts, moved)?;
    let found = attention(cx, &parts, heads)?;
    let query = words_first(&parts, found.query)?;
    let value = words_first(&parts, found.value)?;
    let key = match found.key {
        Key::Heads(key) => words_first(&parts, key)?,
        Key::Words(key) => key,
    };
    let sizes = dims(cx, query)?;
    let [q, k, v] = [query, key, value].map(|v| joined(cx, &parts, v));
    let (q, k, v) = (q?, k?, v?);
    parts.closed()?;
    if found.scale == 0.0 {
        return Skip::because("a scale of 0 stands for the default");
    }
    of_type(cx, q, TYPES)?;
    let Some(num_heads) = sizes.get(2).and_then(Dim::known) else { return Skip::unlike() };
    if !are_heads(&dims(cx, back.out)?, &dims(cx, moved)?) || !heads_agree(cx, [query, key, value])?
    {
        return Skip::because("the heads are not put together as they were taken apart");
    }
    if let Some(bias) = found.bias {
        is_full(cx, bias, query, key)?;
    }
    let operand = |v: Option<ValueId>| v.map_or(Operand::Absent, Operand::from);
    let inputs: [Operand; 6] =
        [q.into(), k.into(), v.into(), Operand::Absent, Operand::Absent, operand(found.bias)];
    cx.rebuild(back.out, |b| {
        let call = b.op(DOMAIN, "MultiHeadAttention", inputs);
        call.set("num_heads", num_heads).set("scale", found.scale).one()
    })
}

/// Whether batch, heads and words fit; queries and keys have elements of one size.
fn heads_agree(cx: &Rewriter, [q, k, v]: [ValueId; 3]) -> Result<bool, Skip> {
    let (q, k, v) = (dims(cx, q)?, dims(cx, k)?, dims(cx, v)?);
    let same = |a: &[Dim], b: &[Dim], at: &[usize]| at.iter().all(|i| a[*i].same(&b[*i]));
    Ok(same(&q, &k, &[0, 2, 3]) && same(&k, &v, &[0, 1, 2]))
}

/// The kernels repeat a bias along the axes of batch and heads only.
fn is_full(cx: &Rewriter, bias: ValueId, query: ValueId, key: ValueId) -> Rewrite {
    let (bias, q, k) = (dims(cx, bias)?, dims(cx, query)?, dims(cx, key)?);
    let [batch, heads, queries, keys] = &bias[..] else {
        return Skip::because("the bias does not have four axes");
    };
    let one_or = |d: &Dim, size: &Dim| d.known() == Some(1) || d.same(size);
    match one_or(batch, &q[0]) && one_or(heads, &q[2]) && queries.same(&q[1]) && keys.same(&k[1]) {
        true => Ok(()),
        false => Skip::because("the bias does not have a value for each query and key"),
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
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        check(&SYMBOLIC.replace("] y)", "] y, float[B,2,S,T] w)"), "`w` is read elsewhere, too");
        check(&SYMBOLIC.replace("float", "double"), "`q` is of type double");
        let masked = SYMBOLIC.replace("v) =>", "v, float[B,1,1,T] mask) =>");
        let masked = masked
            .replace("w = Softmax<axis = -1>(p)", "a = Add(p, mask) w = Softmax<axis = -1>(a)");
        check(&masked, "the bias does not have a value for each query and key");
    }
}
