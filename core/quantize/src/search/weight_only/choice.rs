//! Choices that follow from what an operator computes, such as which experts a token goes to. A wrong choice is not a
//! little off, and what makes it is small.

use onnxd_ir::{Graph, NodeId};

/// Outputs of an operator that makes a choice at most: more are words, not experts.
const OUTPUTS_MAX: usize = 1024;

/// Nodes that are looked at.
const NODES_MAX: usize = 64;

/// Operators between an operator with weights and the choice.
const BETWEEN: [&str; 16] = [
    "Add", "Cast", "Div", "Flatten", "Identity", "Log", "LogSoftmax", "Mul", "ReduceSum",
    "Reshape", "Sigmoid", "Softmax", "Squeeze", "Sub", "Transpose", "Unsqueeze",
];

/// The operator that chooses by what node `id` computes, which has `outputs` outputs; `None` where nothing does.
pub(crate) fn made_of(g: &Graph, id: NodeId, outputs: usize) -> Option<String> {
    if outputs > OUTPUTS_MAX || g[id].is("Gather") {
        return None;
    }
    let mut open: Vec<NodeId> = vec![id];
    let mut seen = open.clone();
    while let Some(at) = open.pop() {
        for reader in g[at].outputs.iter().flatten().flat_map(|v| g.readers(*v)) {
            if g[*reader].is("TopK") {
                return Some(g[*reader].op.clone());
            }
            let goes_on = BETWEEN.iter().any(|op| g[*reader].is(op));
            if goes_on && !seen.contains(reader) && seen.len() < NODES_MAX {
                seen.push(*reader);
                open.push(*reader);
            }
        }
    }
    None
}
