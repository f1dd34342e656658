//! One node on its own, for constant folding.

use crate::call::{FunctionAttributes, KernelCall};
use crate::fault::{Fault, layer_of};
use crate::item::{RunValue, tensors};
use crate::table;
use onnxd_diagnostics::{Diagnostic, refuse};
use onnxd_ir::{Graph, Node, Tensor};

/// Operators whose values are meant to differ each time, although ours repeat.
const RANDOM: &[&str] = &[
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
];

/// Whether equal inputs give equal outputs, so that the node may be folded. Dropout counts as
/// random where it may be told to train; nothing is known of operators outside of the standard that
/// have no kernel.
pub fn is_deterministic(node: &Node) -> bool {
    let may_train = node.op == "Dropout" && node.input(2).is_some();
    let random = may_train || RANDOM.contains(&node.op.as_str());
    let known = if node.is_standard() { !random } else { table::knows(node) };
    let all_are = |graph: &Graph| graph.nodes().all(|(_, node)| is_deterministic(node));
    known && node.subgraphs().all(all_are)
}

/// Computes one node without sub-graphs; `opset` is the version of the node's domain.
/// Outputs larger than `bytes_max` bytes are refused before they are made.
///
/// # Errors
/// The node has no kernel (`N0506`), its result is too large (`N0305`), or it breaks the standard
/// (`N0502`).
pub fn eval_node(
    node: &Node,
    opset: i64,
    inputs: &[Option<Tensor>],
    bytes_max: usize,
) -> Result<Vec<Tensor>, Diagnostic> {
    computed(node, opset, inputs, (bytes_max, false))
}

/// As [`eval_node`]; large results of `Transpose`, `Slice`, `Split`, `Concat` and `Cast` are derived from the operands,
/// and not held.
///
/// # Errors
/// As [`eval_node`].
pub fn derive_node(
    node: &Node,
    opset: i64,
    inputs: &[Option<Tensor>],
    bytes_max: usize,
) -> Result<Vec<Tensor>, Diagnostic> {
    computed(node, opset, inputs, (bytes_max, true))
}

fn computed(
    node: &Node,
    opset: i64,
    inputs: &[Option<Tensor>],
    (bytes_max, derives): (usize, bool),
) -> Result<Vec<Tensor>, Diagnostic> {
    let row = table::find(node, opset);
    let missing = || Fault::unsupported(format!("opset {opset} has no kernel"));
    let scope = FunctionAttributes::new();
    let (scope, steps, winograd) = (&scope, &[], false);
    let call = KernelCall { node, opset, inputs, scope, bytes_max, steps, winograd, derives };
    let given: Vec<Option<RunValue>> =
        inputs.iter().cloned().map(|x| x.map(RunValue::Tensor)).collect();
    let refuse = |_: &_, _| Err(Fault::unsupported("a node with sub-graphs is not folded"));
    let outputs = row.ok_or_else(missing).and_then(|row| row.run(&call, &given, &mut { refuse }));
    let outputs = outputs.and_then(tensors).and_then(|outputs| {
        let total: usize = outputs.iter().map(Tensor::byte_len).sum();
        refuse!(total > bytes_max => Fault::memory(format!("the outputs exceed {bytes_max} bytes")));
        Ok(outputs)
    });
    outputs.map_err(|fault| fault.at(node, layer_of(node, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::{Attr, DataType};

    #[test]
    fn large_results_are_refused_before_they_are_made() {
        let mut g = Graph::new("g");
        let [x, y] = ["x", "y"].map(|n| g.add_value(n, None));
        let node = Node::new("ConstantOfShape", [x], [y]);
        for (shape, code) in [(vec![1i64 << 40], "N0305"), (vec![i64::MAX; 3], "N0305")] {
            let found = eval_node(&node, 17, &[Some(Tensor::vector(shape))], 1 << 20);
            assert_eq!(found.unwrap_err().code, code);
        }
        let negative = eval_node(&node, 17, &[Some(Tensor::vector(vec![-1i64]))], 1 << 20);
        assert_eq!(negative.unwrap_err().code, "N0502");
        let small = eval_node(&node, 17, &[Some(Tensor::vector(vec![2i64, 3]))], 1 << 20).unwrap();
        assert_eq!(small[0].dims(), [2, 3]);
    }

    #[test]
    fn large_results_of_layout_operators_are_derived() {
        let mut g = Graph::new("g");
        let [x, y, z] = ["x", "y", "z"].map(|n| g.add_value(n, None));
        let counted = |n: usize| Tensor::from_vec([n, 50], (0..n * 50).map(|i| i as f32).collect());
        let ints = |list: &[i64]| Some(Tensor::vector(list.to_vec()));
        let node = |op: &str| Node::new(op, [x], [y]);
        let double = Attr::Int(i64::from(DataType::Double.number()));
        for (node, more) in [
            (node("Transpose"), vec![]),
            (node("Cast").with("to", double), vec![]),
            (node("Concat").with("axis", Attr::Int(1)), vec![Some(counted(900))]),
            (node("Slice"), vec![ints(&[40]), ints(&[-51]), ints(&[1]), ints(&[-1])]),
            (Node::new("Split", [x], [y, z]), vec![]),
        ] {
            for (n, large) in [(20, false), (900, true)] {
                let inputs: Vec<_> =
                    std::iter::once(Some(counted(n))).chain(more.clone()).collect();
                let inputs = if node.op == "Concat" { vec![inputs[0].clone(); 2] } else { inputs };
                let [derived, held] =
                    [derive_node, eval_node].map(|eval| eval(&node, 17, &inputs, 1 << 20).unwrap());
                assert_eq!(derived, held, "{}", node.op);
                let lazy = derived.iter().any(|t| t.derivation().is_some());
                // Both halves of what is split lie in the operand.
                let wanted = large && node.op != "Split";
                assert_eq!(lazy, wanted, "{}", node.op);
                assert!(held.iter().all(|t| t.derivation().is_none()));
            }
        }
    }

    #[test]
    fn random_operators_are_known() {
        assert!(is_deterministic(&Node::new("Relu", [], [])));
        for row in crate::random::ROWS {
            assert!(!is_deterministic(&Node::new(row.op, [], [])), "{} may be folded", row.op);
        }
        let mut branch = Graph::new("branch");
        branch.add_node(Node::new("RandomNormal", [], []));
        let choice = Node::new("If", [], []).with("then_branch", Attr::Graph(Box::new(branch)));
        assert!(!is_deterministic(&choice));
    }
}
