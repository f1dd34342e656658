//! One node on its own, for constant folding.

use crate::call::{Call, Scope};
use crate::fault::{Fault, layer_of};
use crate::item::{Item, tensors};
use crate::table;
use onnxd_diagnostics::Diagnostic;
use onnxd_ir::{Graph, Node, Tensor};

/// Operators whose values are meant to differ each time, although ours repeat.
const RANDOM: &[&str] = &[
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
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
    let row = table::find(node, opset);
    let missing = || Fault::unsupported(format!("opset {opset} has no kernel"));
    let scope = Scope::new();
    let (scope, steps, winograd) = (&scope, &[], false);
    let call = Call { node, opset, inputs, scope, bytes_max, steps, winograd };
    let given: Vec<Option<Item>> = inputs.iter().cloned().map(|x| x.map(Item::Tensor)).collect();
    let refuse = |_: &_, _| Err(Fault::unsupported("a node with sub-graphs is not folded"));
    let outputs = row.ok_or_else(missing).and_then(|row| row.run(&call, &given, &mut { refuse }));
    let outputs = outputs.and_then(tensors).and_then(|outputs| {
        let total: usize = outputs.iter().map(Tensor::byte_len).sum();
        if total > bytes_max {
            return Err(Fault::memory(format!("the outputs exceed {bytes_max} bytes")));
        }
        Ok(outputs)
    });
    outputs.map_err(|fault| fault.at(node, layer_of(node, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::Attr;

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
