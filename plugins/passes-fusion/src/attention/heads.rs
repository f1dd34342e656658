//! The heads that Attention reads: repeated ones, and those that were moved apart for it.

use super::form::{are_heads, joined, words_first};
use crate::parts::{PatternNodes, dims, unlike};
use onnxd_plugin_sdk::ir::ops::{Reshape, Transpose};
use onnxd_plugin_sdk::ir::{At, Attr, Dim, Node, Op, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Attention over heads that lie apart, without a cache.
pub(crate) struct Apart {
    node: Node,
    inputs: [ValueId; 3],
}

impl Op for Apart {
    const NAME: &'static str = "Attention";
    const ATTRIBUTES: &'static [&'static str] = &[];

    fn view(node: &Node) -> Option<Self> {
        let [q, k, v] = [0, 1, 2].map(|slot| node.input(slot));
        let plain = node.is(Self::NAME)
            && (4..node.inputs.len()).all(|slot| node.input(slot).is_none())
            && node.outputs.iter().flatten().count() == 1
            && node.attr("q_num_heads").is_none()
            && node.attr("kv_num_heads").is_none();
        let inputs = [q?, k?, v?];
        plain.then(|| Apart { node: node.clone(), inputs })
    }

    fn into_node(self, out: ValueId) -> Node {
        Node { outputs: vec![Some(out)], ..self.node }
    }
}

impl Apart {
    /// The node on other inputs.
    fn on(&self, [q, k, v]: [ValueId; 3]) -> Node {
        let mut node = self.node.clone();
        node.inputs[..3].copy_from_slice(&[Some(q), Some(k), Some(v)]);
        node
    }
}

/// Keys and values that are repeated for each of a group of queries: the operator does that itself.
pub(crate) fn repeated(cx: &mut Rewriter, at: At<Apart>) -> Rewrite {
    let [q, k, v] = at.inputs;
    let ((key, key_times), (value, value_times)) = (single(cx, k)?, single(cx, v)?);
    if key_times != value_times || cx.rank(q)? != 4 {
        return Skip::because("keys and values are not repeated alike");
    }
    let node = at.on([q, key, value]);
    cx.replace_by(at.out, node)
}

/// What `v = Reshape(Expand(Unsqueeze(x)))` has several times for each head, and how often.
fn single(cx: &Rewriter, v: ValueId) -> Result<(ValueId, i64), Skip> {
    let parts = PatternNodes::from_root(cx, v);
    let wide = parts.node("Reshape", v)?.input(0).ok_or_else(unlike)?;
    let apart = parts.node("Expand", wide)?.input(0).ok_or_else(unlike)?;
    let axis = parts.node("Unsqueeze", apart)?;
    let x = axis.input(0).ok_or_else(unlike)?;
    let (x_dims, wide, all) = (dims(cx, x)?, dims(cx, wide)?, dims(cx, v)?);
    let ([b, h, s, d], [b_wide, h_wide, times, s_wide, d_wide]) = (&x_dims[..], &wide[..]) else {
        return Skip::unlike();
    };
    if !axis.input(1).is_some_and(|axes| cx.integers(axes).is_ok_and(|a| a == [2] || a == [-3])) {
        return Skip::unlike();
    }
    let expanded = [(b, b_wide), (h, h_wide), (s, s_wide), (d, d_wide)];
    let positive = times.known().filter(|n| *n > 0);
    let known = h.known().zip(positive).and_then(|(h, n)| Some((n, h.checked_mul(n)?)));
    let (Some((n, heads)), true) = (known, expanded.iter().all(|(a, b)| a.same(b))) else {
        return Skip::because(format!("how often {} repeats heads is not known", cx.name(v)));
    };
    let joined = [b.clone(), Dim::Known(heads), s.clone(), d.clone()];
    match all.len() == 4 && all.iter().zip(&joined).all(|(a, b)| a.same(b)) {
        true => Ok((x, n)),
        false => Skip::because(format!("{} does not repeat each head", cx.name(v))),
    }
}

/// Heads that are moved apart before and together after: the operator does that itself.
pub(crate) fn together(cx: &mut Rewriter, at: At<Apart>) -> Rewrite {
    let moved = cx.sole_reader::<Transpose>(at.out).map_err(|_| unlike())?;
    let back = cx.sole_reader::<Reshape>(moved.out).map_err(|_| unlike())?;
    if moved.perm != [0, 2, 1, 3] || back.data != moved.out {
        return Skip::unlike();
    }
    let parts = PatternNodes::from_root(cx, at.out);
    let flat = |v: ValueId| joined(cx, &parts, words_first(&parts, v)?);
    let [q, k, v] = at.inputs;
    let inputs = [flat(q)?, flat(k)?, flat(v)?];
    if !are_heads(&dims(cx, back.out)?, &dims(cx, moved.out)?) {
        return Skip::because("the heads are not put together as they were taken apart");
    }
    let heads = |v| dims(cx, v).map(|d| d.get(1).and_then(Dim::known).filter(|n| *n > 0));
    let (Some(queries), Some(keys)) = (heads(q)?, heads(k)?) else { return Skip::unlike() };
    let mut node = at.on(inputs);
    for (name, count) in [("kv_num_heads", keys), ("q_num_heads", queries)] {
        node = node.with(name, Attr::Int(count));
    }
    node.outputs = vec![Some(back.out)];
    cx.replace_by(back.out, node)
}

#[cfg(test)]
mod tests {
    use crate::attention::pass;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    const GROUPED: &str = "<ir_version: 11, opset_import: [\"\" : 23]>
        g (float[B,S,8] q, float[B,T,4] k, float[B,T,6] v, float[B,1,S,T] m) => (float[B,S,12] y)
        <int64[4] by_q = {0, 0, 4, 2}, int64[4] by_kv = {0, 0, 2, -1}, int64[1] two = {2},
         int64[5] twice = {1, 1, 2, 1, 1}, int64[4] k4 = {0, 4, -1, 2}, int64[4] v4 = {0, 4, -1, 3},
         int64[3] all = {0, 0, 12}>
        { qs = Reshape(q, by_q) ks = Reshape(k, by_kv) vs = Reshape(v, by_kv)
          qh = Transpose<perm = [0, 2, 1, 3]>(qs) kh = Transpose<perm = [0, 2, 1, 3]>(ks)
          vh = Transpose<perm = [0, 2, 1, 3]>(vs) ku = Unsqueeze(kh, two) vu = Unsqueeze(vh, two)
          ke = Expand(ku, twice) ve = Expand(vu, twice) kr = Reshape(ke, k4) vr = Reshape(ve, v4)
          a = Attention<scale = 0.5>(qh, kr, vr, m) t = Transpose<perm = [0, 2, 1, 3]>(a) y = Reshape(t, all) }";

    #[test]
    fn repeated_heads_moved_apart() {
        assert_eq!(check_pass_same(pass().as_ref(), GROUPED).graph.node_count(), 1);
    }

    #[test]
    fn of_parts_and_repeated() {
        let parts = GROUPED.replace(
            "a = Attention<scale = 0.5>(qh, kr, vr, m)",
            "kt = Transpose<perm = [0, 1, 3, 2]>(kr) p = MatMul(qh, kt) pm = Add(p, m)
             w = Softmax(pm) a = MatMul(w, vr)",
        );
        assert_eq!(check_pass_same(pass().as_ref(), &parts).graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let (apart, other) = ("a) y = Reshape(t", "b) b = Neg(a) y = Reshape(t");
        // Which head a query reads would differ.
        let turned = GROUPED.replace("two = {2}", "two = {1}").replace("{1, 1, 2,", "{1, 2, 1,");
        check(&turned.replace(apart, other), "");
        let first = GROUPED.replace("vr, m)", "v3, m) v3 = Neg(vr)").replace(apart, other);
        check(&first, "");
        let present = GROUPED.replace("a = Attention", "a, pk = Attention").replace(apart, other);
        check(&present.replace("] y)", "] y, float[B,4,T,2] pk)"), "");
    }
}
