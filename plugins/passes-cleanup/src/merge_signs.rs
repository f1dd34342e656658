//! Removes signs and roundings that make no difference: of two operators that undo or repeat each other, and of a
//! negative that the next operator can take up. No bit of the result changes.
//!
//! ```onnx
//! before (float[2] x, float[2] z) => (float[2] y)
//! {
//!   n = Neg(x)
//!   a = Abs(n)
//!   b = Neg(z)
//!   y = Sub(a, b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2] x, float[2] z) => (float[2] y)
//! {
//!   a = Abs(x)
//!   y = Add(a, z)
//! }
//! ```

use onnxd_plugin_sdk::ir::{At, Node, Op, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Operators that change nothing when they are applied again.
const REPEATED: [&str; 6] = ["Abs", "Ceil", "Floor", "Relu", "Round", "Sign"];
/// The other operators that take up a negative.
const SIGNED: [&str; 5] = ["Neg", "Add", "Sub", "Mul", "Div"];

/// One of them.
#[derive(Clone)]
pub(crate) struct Signed {
    name: String,
    inputs: Vec<ValueId>,
}

impl Op for Signed {
    const NAME: &'static str = "an operator with signs";
    const ATTRIBUTES: &'static [&'static str] = &[];

    fn view(node: &Node) -> Option<Self> {
        let named = REPEATED.iter().chain(&SIGNED).any(|op| node.is(op));
        let inputs = node.inputs.iter().copied().collect::<Option<Vec<ValueId>>>()?;
        // The first versions broadcast by attributes.
        let plain = named && node.attrs.is_empty() && (1..=2).contains(&inputs.len());
        plain.then(|| Signed { name: node.op.clone(), inputs })
    }

    fn into_node(self, out: ValueId) -> Node {
        Node::new(self.name, self.inputs, [out])
    }
}

pub(crate) fn merge_signs(cx: &mut Rewriter, outer: At<Signed>) -> Rewrite {
    match outer.inputs[..] {
        [input] => alone(cx, &outer, input),
        [a, b] => beside(cx, &outer, a, b),
        _ => Skip::unlike(),
    }
}

fn alone(cx: &mut Rewriter, outer: &At<Signed>, input: ValueId) -> Rewrite {
    let Ok(inner) = cx.producer::<Signed>(input) else { return Skip::unlike() };
    match (outer.name.as_str(), inner.name.as_str()) {
        ("Neg", "Neg") => cx.bypass(outer.out, inner.inputs[0]),
        ("Abs", "Neg") => {
            cx.read_once(input)?;
            cx.replace(outer.out, Signed { inputs: inner.op.inputs, ..outer.op.clone() })
        }
        (again, first) if again == first && REPEATED.contains(&again) => {
            cx.bypass(outer.out, input)
        }
        _ => Skip::unlike(),
    }
}

fn beside(cx: &mut Rewriter, outer: &At<Signed>, a: ValueId, b: ValueId) -> Rewrite {
    let (of_a, of_b) = (negated(cx, a), negated(cx, b));
    let (op, inputs, gone) = match (outer.name.as_str(), of_a, of_b) {
        ("Add", _, Some(z)) => ("Sub", [a, z], vec![b]),
        ("Add", Some(z), _) => ("Sub", [b, z], vec![a]),
        ("Sub", _, Some(z)) => ("Add", [a, z], vec![b]),
        (op @ ("Mul" | "Div"), Some(x), Some(z)) => (op, [x, z], vec![a, b]),
        _ => return Skip::unlike(),
    };
    gone.iter().try_for_each(|v| cx.read_once(*v))?;
    cx.replace(outer.out, Signed { name: op.to_owned(), inputs: inputs.to_vec() })
}

/// What `v` is the negative of.
fn negated(cx: &Rewriter, v: ValueId) -> Option<ValueId> {
    cx.producer::<Signed>(v).ok().filter(|at| at.name == "Neg").map(|at| at.inputs[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_signs.rs"), merge_signs);
    }

    fn graph(dtype: &str, nodes: &str) -> String {
        format!("g ({dtype}[2] x, {dtype}[2] z) => ({dtype}[2] y) {{ {nodes} }}")
    }

    #[test]
    fn all_kinds() {
        for (left, nodes) in [
            (1, "a = Neg(x) b = Neg(a) y = Add(b, z)"),
            (1, "a = Neg(x) y = Add(a, z)"),
            (1, "a = Neg(x) y = Add(z, a)"),
            (2, "a = Neg(x) b = Neg(z) y = Add(a, b)"),
            (1, "a = Neg(x) b = Neg(z) y = Mul(a, b)"),
            (1, "a = Neg(x) b = Neg(z) y = Div(a, b)"),
            (1, "a = Abs(x) y = Abs(a)"),
            (2, "a = Floor(x) b = Floor(a) y = Add(b, a)"),
            (1, "a = Round(x) b = Round(a) y = Round(b)"),
            (1, "a = Sign(x) y = Sign(a)"),
        ] {
            let model = check_same(merge_signs, &graph("float", nodes));
            assert_eq!(model.graph.node_count(), left, "{nodes}");
        }
        let model = check_same(merge_signs, &graph("int64", "a = Neg(x) y = Sub(z, a)"));
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn left_alone() {
        for (reason, nodes) in [
            ("`a` is read 2 times", "a = Neg(x) b = Abs(a) y = Add(a, b)"),
            ("`a` is read 2 times", "a = Neg(x) b = Sub(z, a) y = Mul(a, b)"),
            // x - z is 0 where z - x is, and that of -0.
            ("", "a = Sub(x, z) y = Neg(a)"),
            ("", "a = Neg(x) y = Mul(a, z)"),
            ("", "a = Floor(x) y = Ceil(a)"),
            ("the graph output `y` would be `x` itself", "a = Neg(x) y = Neg(a)"),
        ] {
            check_skip(merge_signs, reason, &graph("float", nodes));
        }
    }
}
