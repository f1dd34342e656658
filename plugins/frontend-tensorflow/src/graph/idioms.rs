//! Formulas of several nodes that are one operator, where what a node becomes alone would hide it.

use super::node;
use super::nodes::Nodes;
use crate::wire::proto::NodeDef;
use crate::wire::tensor::tensor_of;
use std::f64::consts::FRAC_1_SQRT_2;

/// Nodes that multiply by a number, one behind the other.
const FACTORS_MAX: usize = 8;
const TOLERANCE: f64 = 1e-6;

/// The `x` of `0.5 * x * erfc(-x / sqrt(2))`, which is how Keras writes GELU.
pub(crate) fn gelu<'a>(body: &Nodes<'a>, product: &'a NodeDef) -> Option<&'a str> {
    let [a, b] = product.input.as_slice() else { return None };
    if product.op != "Mul" {
        return None;
    }
    let found = |half: &'a str, curve: &'a str| {
        let curve = body.read(curve).filter(|node| node.op == "Erfc")?;
        let (inner, x) = scaled(body, curve.input.first()?);
        let (outer, same) = scaled(body, half);
        let near = |found: f64, wanted: f64| (found - wanted).abs() < TOLERANCE;
        (x == same && near(inner, -FRAC_1_SQRT_2) && near(outer, 0.5)).then_some(x)
    };
    found(a, b).or_else(|| found(b, a))
}

/// `text` as a number times a tensor.
fn scaled<'a>(body: &Nodes<'a>, text: &'a str) -> (f64, &'a str) {
    let (mut factor, mut text) = (1.0, text);
    for _ in 0..FACTORS_MAX {
        let Some(node) = body.read(text) else { break };
        let number = |at: usize| node.input.get(at).and_then(|text| number(body, text));
        let (by, next) = match node.op.as_str() {
            "Identity" => (1.0, 0),
            "Neg" => (-1.0, 0),
            "Mul" => match (number(0), number(1)) {
                (Some(c), _) => (c, 1),
                (_, Some(c)) => (c, 0),
                _ => break,
            },
            "RealDiv" | "Div" => match number(1) {
                Some(c) => (1.0 / c, 0),
                None => break,
            },
            _ => break,
        };
        let Some(input) = node.input.get(next) else { break };
        (factor, text) = (factor * by, input);
    }
    (factor, text)
}

/// The value of a constant without axes.
fn number(body: &Nodes<'_>, text: &str) -> Option<f64> {
    let node = body.read(text).filter(|node| node.op == "Const")?;
    let proto = node::constant(node)?;
    let is_scalar = proto.tensor_shape.as_ref().is_none_or(|shape| shape.dim.is_empty());
    let tensor = tensor_of(proto).ok().filter(|_| is_scalar)?;
    tensor.to_reals()?.values.first().copied()
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{FLOAT, graph, import, node, placeholder};
    use crate::wire::proto::{Attr, NodeDef, TensorProto};

    fn number(name: &str, value: f32) -> NodeDef {
        let value = TensorProto { dtype: FLOAT, float_val: vec![value], ..TensorProto::default() };
        node(name, "Const", &[]).attr("value", Attr::Tensor(value))
    }

    /// Whether the product of `halved / 2` and the complement is more than GELU.
    fn is_spelled_out(root: f32, halved: &str) -> bool {
        let nodes = vec![
            placeholder("x", &[2, 3]),
            placeholder("z", &[2, 3]),
            number("half", 0.5),
            number("root", root),
            node("h", "Mul", &["half", halved]),
            node("n", "Neg", &["x"]),
            node("m", "Mul", &["n", "root"]),
            node("e", "Erfc", &["m"]),
            node("y", "Mul", &["e", "h"]),
        ];
        let model = import(&graph(nodes, vec![])).unwrap().model;
        let mut open = model.graph.outputs().to_vec();
        let mut seen = std::collections::HashSet::new();
        while let Some(value) = open.pop() {
            let id = model.graph.producer(value).filter(|id| seen.insert(*id));
            open.extend(id.into_iter().flat_map(|id| model.graph[id].reads()));
        }
        seen.iter().any(|id| model.graph[*id].op == "Neg")
    }

    #[test]
    fn gelu_by_the_complement_of_the_error_function() {
        assert!(!is_spelled_out(std::f32::consts::FRAC_1_SQRT_2, "x"));
        assert!(is_spelled_out(0.7, "x"));
        assert!(is_spelled_out(std::f32::consts::FRAC_1_SQRT_2, "z"));
    }
}
