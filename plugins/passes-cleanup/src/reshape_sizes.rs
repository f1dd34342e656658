//! Operators that give values another shape, and the sizes that a Reshape asks for where shapes are known in part.

use onnxd_plugin_sdk::ir::{Dim, Node};

/// Whether the node gives its first input another shape, and does no more.
pub(crate) fn only_reshapes(node: &Node) -> bool {
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze"].iter().any(|op| node.is(op))
}

/// The shape `to` for a Reshape of the shape `from`: numbers, 0 where the size is that of `from`, and one -1. With -1,
/// runtimes refuse other sizes of 0, so there are none, or the -1 is at `inferred`, which a Reshape leaves open now.
pub(crate) fn asked_sizes(from: &[Dim], to: &[Dim], inferred: Option<usize>) -> Option<Vec<i64>> {
    let size = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Known(n) if *n > 0 => *n,
        dim if from.get(axis).is_some_and(|same| same.same(dim)) => 0,
        _ => -1,
    };
    let sizes: Vec<i64> = to.iter().enumerate().map(size).collect();
    let open: Vec<usize> = (0..sizes.len()).filter(|axis| sizes[*axis] == -1).collect();
    match open[..] {
        [] => Some(sizes),
        [open] => (inferred == Some(open) || !sizes.contains(&0)).then_some(sizes),
        _ => None,
    }
}
