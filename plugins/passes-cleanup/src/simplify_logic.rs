//! Removes Where and Not as far as it is known what they give.
//!
//! Comparisons with numbers that are never negative, such as indices, are known. A negated comparison is the opposite
//! one unless NaN may be compared.
//!
//! ```onnx
//! before (float[N,4] x, int64[N] z, bool[N] b) => (int64[N] y)
//! <int64 zero = {0}, int64 two = {2}>
//! {
//!   i = ArgMax<axis = 1, keepdims = 0>(x)
//!   below = Less(i, zero)
//!   odd = And(below, b)
//!   next = Add(i, two)
//!   k = Where(odd, next, i)
//!   n = Not(b)
//!   y = Where(n, k, z)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,4] x, int64[N] z, bool[N] b) => (int64[N] y)
//! {
//!   i = ArgMax<axis = 1, keepdims = 0>(x)
//!   y = Where(b, z, i)
//! }
//! ```

use crate::known::ValueSearch;
use onnxd_plugin_sdk::ir::{Facts, Node, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The first operator set with GreaterOrEqual and LessOrEqual.
const OPSET_OR_EQUAL: i64 = 12;

const OPPOSITES: [(&str, &str); 2] = [("Less", "GreaterOrEqual"), ("Greater", "LessOrEqual")];

pub(crate) fn simplify_logic(cx: &mut Rewriter, id: NodeId, facts: &Facts) -> Rewrite {
    let node = &cx.graph[id];
    match (node.op.as_str(), &node.inputs[..], node.output(0)) {
        _ if !node.is_standard() => Skip::unlike(),
        ("Not", &[Some(of)], Some(out)) => negation(cx, of, out),
        ("Where", &[Some(c), Some(a), Some(b)], Some(out)) => choice(cx, [c, a, b], out, facts),
        _ => Skip::unlike(),
    }
}

fn negation(cx: &mut Rewriter, of: ValueId, out: ValueId) -> Rewrite {
    let Some(inner) = cx.graph.producer(of).map(|id| &cx.graph[id]) else { return Skip::unlike() };
    if let (true, Some(x)) = (inner.is("Not"), inner.input(0)) {
        return cx.bypass(out, x);
    }
    let opposite = OPPOSITES.iter().find_map(|(a, b)| match inner {
        node if node.is(a) => Some(*b),
        node if node.is(b) => Some(*a),
        _ => None,
    });
    let (Some(opposite), &[Some(a), Some(b)]) = (opposite, &inner.inputs[..]) else {
        return Skip::unlike();
    };
    if !cx.dtype(a)?.is_integer() {
        return Skip::because("NaN is neither less nor greater");
    }
    if cx.opset < OPSET_OR_EQUAL {
        return Skip::because(format!("opset {} has no {opposite}", cx.opset));
    }
    cx.read_once(of)?;
    cx.replace_by(out, Node::new(opposite, [a, b], [out]))
}

fn choice(cx: &mut Rewriter, [c, a, b]: [ValueId; 3], out: ValueId, facts: &Facts) -> Rewrite {
    let chosen = match ValueSearch::new(cx).truth(c) {
        _ if a == b => Some(a),
        Some(truth) => Some(if truth { a } else { b }),
        None => None,
    };
    if let Some(chosen) = chosen {
        let (Some(from), Some(to)) = (facts.shape(chosen), facts.shape(out)) else {
            return Skip::because(format!("the shape of {} is not known", cx.name(out)));
        };
        if from.len() == to.len() && from.iter().zip(to).all(|(a, b)| a.same(b)) {
            return cx.bypass(out, chosen);
        }
        return Skip::because(format!("Where broadcasts {}", cx.name(chosen)));
    }
    let Some(not) = cx.graph.producer(c).map(|id| &cx.graph[id]).filter(|node| node.is("Not"))
    else {
        return Skip::unlike();
    };
    let Some(d) = not.input(0) else { return Skip::unlike() };
    cx.replace_by(out, Node::new("Where", [d, b, a], [out]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };
    use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};

    fn pass() -> Box<dyn Pass> {
        rule_on_facts("simplify-logic", simplify_logic)
    }

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("simplify_logic.rs"), pass().as_ref());
    }

    fn graph(nodes: &str) -> String {
        format!(
            "g (float[N,4] x, int64[N] z, bool[N] b) => (int64[N] y)
             <bool[1] yes = {{1}}, bool[1] no = {{0}}, int64 zero = {{0}}, int64 two = {{2}}>
             {{ {nodes} }}"
        )
    }

    #[test]
    fn what_is_known() {
        for (left, nodes) in [
            (1, "a = Not(b) c = Not(a) y = Where(c, z, zero)"),
            (1, "a = Not(b) y = Where(a, z, zero)"),
            (2, "a = Less(z, zero) c = Not(a) y = Cast<to = 7>(c)"),
            (2, "a = LessOrEqual(z, zero) c = Not(a) y = Cast<to = 7>(c)"),
            (1, "a = Where(b, z, z) y = Neg(a)"),
            (1, "a = Where(yes, z, zero) y = Neg(a)"),
            (1, "c = Or(b, yes) a = Where(c, z, zero) y = Neg(a)"),
            // As exporters write the quotient that is rounded down.
            (
                3,
                "i = ArgMax<axis = 1, keepdims = 0>(x) q = Div(i, two) l = Less(i, zero) e = Xor(l, no)
                 m = Mod(i, two) f = Equal(m, zero) g = Not(f) h = And(e, g) s = Sub(q, two)
                 w = Where(h, s, q) y = Neg(w)",
            ),
        ] {
            let model = check_pass_same(pass().as_ref(), &graph(nodes));
            assert_eq!(model.graph.node_count(), left, "{nodes}");
        }
    }

    #[test]
    fn left_alone() {
        for (reason, nodes) in [
            ("Where broadcasts `zero`", "y = Where(no, z, zero)"),
            (
                "NaN is neither less nor greater",
                "m = ReduceMax<axes = [1], keepdims = 0>(x) f = CastLike(two, m)
              a = Less(m, f) c = Not(a) y = Cast<to = 7>(c)",
            ),
            (
                "`a` is read 2 times",
                "a = Less(z, zero) c = Not(a) d = Xor(a, c) y = Cast<to = 7>(d)",
            ),
            ("", "a = Less(z, zero) y = Where(a, zero, z)"),
            ("", "a = Equal(z, zero) c = Not(a) y = Cast<to = 7>(c)"),
        ] {
            check_pass_skip(pass().as_ref(), reason, &graph(nodes));
        }
        check_pass_skip(
            pass().as_ref(),
            "opset 11 has no GreaterOrEqual",
            "<ir_version: 7, opset_import: [\"\" : 11]> g (int64[2] x, int64[2] z) => (bool[2] y)
             { a = Less(x, z) y = Not(a) }",
        );
    }
}
